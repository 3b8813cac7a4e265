// Package journal keeps on disk which objects were put right since the inventory in the cluster was written. An agent
// that is killed knows by it that they are as they were applied; without it, or on another disk, it applies them once
// more, to no effect.
//
// A service has a file with a line for each repair. Lines are not synced: what a power cut takes is like a disk that
// was lost.
package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/platform/durable"
	"fairlead.dev/services/agent/internal/object"
)

const suffix = ".jsonl"

// Repair is how an object was after it was put right.
type Repair struct {
	object.Key

	UID types.UID `json:"uid"`
	// Sum is of what was applied, and Owned of what was ours after it.
	Sum   object.Sum `json:"sum"`
	Owned object.Sum `json:"owned"`
	// After is how many repairs the inventory knew of.
	After uint64 `json:"after"`
}

// Journal is a folder of files. A Journal is safe for concurrent use.
type Journal struct {
	dir string

	mu sync.Mutex // guards counts, and the files
	// counts are the repairs of each service, also those that could not be written.
	counts map[string]int
}

// Open makes the folder if it is missing.
func Open(dir string) (*Journal, error) {
	if err := durable.Sweep(dir); err != nil {
		return nil, fmt.Errorf("open journal of repairs: %w", err)
	}
	return &Journal{dir: dir, counts: map[string]int{}}, nil
}

func (j *Journal) path(service string) string { return filepath.Join(j.dir, service+suffix) }

// Count is how many repairs of a service the inventory does not know of.
func (j *Journal) Count(service string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.counts[service]
}

// Add notes a repair. The repair counts even if it can't be written.
func (j *Journal) Add(service string, repair Repair) error {
	line, err := json.Marshal(repair)
	if err != nil {
		return fmt.Errorf("note a repair of %s: %w", service, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts[service]++
	file, err := os.OpenFile(j.path(service), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("note a repair of %s: %w", service, err)
	}
	_, err = file.Write(append(line, '\n'))
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("note a repair of %s: %w", service, err)
	}
	return nil
}

// Recall reads what an earlier run noted of a service whose inventory knows of so many repairs. Repairs that were noted
// after another number are forgotten: other agents have written the inventory since.
func (j *Journal) Recall(service string, after uint64) ([]Repair, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	repairs, err := j.readRepairs(service)
	if err != nil {
		return nil, err
	}
	var known []Repair
	for _, repair := range repairs {
		if repair.After == after {
			known = append(known, repair)
		}
	}
	j.counts[service] = len(known)
	return known, nil
}

// Services are those of which something was noted.
func (j *Journal) Services() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(j.dir, "*"+suffix))
	if err != nil {
		return nil, fmt.Errorf("read journal of repairs: %w", err)
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(filepath.Base(file), suffix)
	}
	return files, nil
}

// Drop forgets the first repairs, once the inventory knows of them: of as many as it says by now.
func (j *Journal) Drop(service string, count int, after uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.counts[service] -= count; j.counts[service] <= 0 {
		delete(j.counts, service)
		return durable.Remove(j.path(service))
	}
	repairs, err := j.readRepairs(service)
	if err != nil {
		return err
	}
	var left bytes.Buffer
	lines := json.NewEncoder(&left)
	for _, repair := range repairs[max(0, len(repairs)-j.counts[service]):] {
		repair.After = after
		if err := lines.Encode(repair); err != nil {
			return fmt.Errorf("note repairs of %s: %w", service, err)
		}
	}
	return durable.WriteFile(j.path(service), left.Bytes(), 0o600)
}

// Forget drops all of a service.
func (j *Journal) Forget(service string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.counts, service)
	return durable.Remove(j.path(service))
}

// readRepairs leaves out lines that make no sense: a kill, or a full disk, may have cut one.
func (j *Journal) readRepairs(service string) ([]Repair, error) {
	data, err := os.ReadFile(j.path(service))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read repairs of %s: %w", service, err)
	}
	var repairs []Repair
	for line := range bytes.Lines(data) {
		var repair Repair
		if json.Unmarshal(line, &repair) == nil && repair.Name != "" {
			repairs = append(repairs, repair)
		}
	}
	return repairs, nil
}
