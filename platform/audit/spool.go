package audit

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/durable"
)

const (
	// A file is a line that names the format, the sha256 of the rest, and a RecordAuditEventsRequest.
	magic     = "fairlead audit 1\n"
	extension = ".events"
	// maxSpoolBytes is about a million events: what a replica records in a quarter of an hour of 1,000 requests
	// a second, or in weeks of an ordinary day's use, while the console is away.
	maxSpoolBytes = 256 << 20
	// maxSpoolFiles bounds the entries of the folder: five a second for six hours.
	maxSpoolFiles = 100_000
	// maxKept is how many files that wait are in memory, too: a console that takes events in gets them from there.
	maxKept = 2
)

var (
	errFull    = errors.New("the spool of audit events is full")
	errDamaged = errors.New("file of audit events is damaged")
)

// spool is the files that wait, the oldest first. Its owner guards it.
type spool struct {
	dir   string
	files []spoolFile
	bytes int64
	next  uint64
	max   int64
}

type spoolFile struct {
	name   string
	size   int64
	events []*consolev1.AuditEvent // nil: on the disk only
}

func openSpool(dir string) (*spool, error) {
	if err := durable.Sweep(dir); err != nil {
		return nil, fmt.Errorf("open spool of audit events: %w", err)
	}
	entries, err := os.ReadDir(dir) // in the order of names
	if err != nil {
		return nil, fmt.Errorf("open spool of audit events: %w", err)
	}
	s := &spool{dir: dir, max: maxSpoolBytes}
	for _, e := range entries {
		var number uint64
		if _, err := fmt.Sscanf(e.Name(), "%016x"+extension, &number); err != nil || !strings.HasSuffix(e.Name(), extension) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, fmt.Errorf("open spool of audit events: %w", err)
		}
		s.files = append(s.files, spoolFile{name: e.Name(), size: info.Size()})
		s.bytes += info.Size()
		s.next = number + 1
	}
	return s, nil
}

// reserve gives a name and room to a file of so many bytes.
func (s *spool) reserve(size int64) (string, error) {
	if s.bytes+size > s.max || len(s.files) >= maxSpoolFiles {
		return "", errFull
	}
	name := fmt.Sprintf("%016x%s", s.next, extension)
	s.next++
	return name, nil
}

func (s *spool) add(f spoolFile) {
	if len(s.files) >= maxKept {
		f.events = nil
	}
	s.files = append(s.files, f)
	s.bytes += f.size
}

// drop forgets the oldest file. It need not be for good: an event that is sent again is kept once.
func (s *spool) drop(name string) error {
	i := slices.IndexFunc(s.files, func(f spoolFile) bool { return f.name == name })
	if i >= 0 {
		s.bytes -= s.files[i].size
		s.files = slices.Delete(s.files, i, i+1)
	}
	if err := os.Remove(filepath.Join(s.dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove audit events that were sent: %w", err)
	}
	return nil
}

func encode(events []*consolev1.AuditEvent) ([]byte, error) {
	body, err := proto.Marshal(&consolev1.RecordAuditEventsRequest{Events: events})
	if err != nil {
		return nil, fmt.Errorf("encode audit events: %w", err)
	}
	sum := sha256.Sum256(body)
	return slices.Concat([]byte(magic), sum[:], body), nil
}

func decode(data []byte) ([]*consolev1.AuditEvent, error) {
	rest, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok || len(rest) < sha256.Size {
		return nil, errDamaged
	}
	sum, body := rest[:sha256.Size], rest[sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(got[:], sum) {
		return nil, errDamaged
	}
	var req consolev1.RecordAuditEventsRequest
	if err := proto.Unmarshal(body, &req); err != nil {
		return nil, errDamaged
	}
	return req.GetEvents(), nil
}
