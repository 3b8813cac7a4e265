package fleet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// applyEvery is between two applies of a person while everything is delivered for the first time.
const applyEvery = 250 * time.Millisecond

// First is what the first delivery cost besides CPU and time.
type First struct {
	// Written is what the console wrote by system calls, in bytes, to its files above all.
	Written int64
	// Database is the size of the console's files; 0 over PostgreSQL.
	Database int64
	// Refused counts the calls of agents that had to be made again: they were told to come later, or got no connection.
	Refused int64
	// Applies are how long a person's applies took meanwhile, and ApplyErrors are those that failed, by text.
	Applies     Times
	ApplyErrors map[string]int
}

// applying changes a cluster of its own again and again, as a person does, until the returned function ends it.
func (r *Run) applying(ctx context.Context, into *First) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	into.ApplyErrors = map[string]int{}
	wg.Go(func() {
		for n := 0; pause(ctx, applyEvery) == nil; n++ {
			begin := time.Now()
			_, err := r.hub.api.applies.Apply(ctx, &consolev1.ApplyRequest{Resources: []*consolev1.Resource{{Resource: &consolev1.Resource_Cluster{Cluster: &consolev1.Cluster{
				Metadata: &consolev1.Metadata{Name: "applied"}, Spec: &consolev1.ClusterSpec{Description: fmt.Sprint(begin.UnixNano(), n)},
			}}}}})
			switch {
			case ctx.Err() != nil:
			case err != nil:
				into.ApplyErrors[firstLine(err.Error())]++
			default:
				into.Applies.Add(time.Since(begin))
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// database is the size of the files of the console's database.
func (h *hub) database() (size int64) {
	if h.cfg.Postgres {
		return 0
	}
	_ = filepath.WalkDir(h.dir("console"), func(path string, entry fs.DirEntry, err error) error { // files that go meanwhile are not counted
		if ok, _ := filepath.Match("console.db*", filepath.Base(path)); err != nil || !ok {
			return nil //nolint:nilerr // as above
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
	return size
}
