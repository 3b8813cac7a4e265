package fleet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"fairlead.dev/e2e/gitcache"
	"fairlead.dev/e2e/process"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/retry"
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
	// Calls counts those that were answered, by name.
	Calls map[string]int64
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
		for n := 0; retry.Sleep(ctx, applyEvery); n++ {
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

// Disturbances of a first delivery, once half of it is there.
const (
	// DisturbKill kills console and distributor, and starts them again.
	DisturbKill = "kill"
	// DisturbStarve takes half of the machine's processors away for starveFor.
	DisturbStarve = "starve"
)

const starveFor = time.Minute

// disturb does to the hub what the run is to disturb the first delivery with.
func (r *Run) disturb(ctx context.Context, m *meter) error {
	r.say("half is delivered: %s", r.cfg.Disturb)
	switch r.cfg.Disturb {
	case DisturbKill:
		for _, name := range []string{"console", "distributor"} {
			m.pause(name)
			if name == "console" {
				r.First.Written += r.hub.written()
			}
			if err := r.hub.parts[name].Kill(); err != nil {
				return err
			}
		}
		for _, name := range []string{"console", "distributor"} {
			if err := r.hub.startPart(ctx, name); err != nil {
				return err
			}
			m.resume(name, r.hub.parts[name].Pid())
		}
	case DisturbStarve:
		for range (runtime.NumCPU() + 1) / 2 {
			burner := process.New(r.cfg.Dir, "burner", r.cfg.Executable, "burn", starveFor.String())
			if err := burner.Start(); err != nil {
				return err
			}
			r.burners = append(r.burners, burner)
		}
	}
	return nil
}

// burn keeps a processor busy, before all others where it may.
func burn(ctx context.Context, text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, -20) // takes root
	for end := time.Now().Add(d); ctx.Err() == nil && time.Now().Before(end); {
		continue
	}
	return nil
}

// written is what the console's process wrote, in bytes; 0 of one elsewhere.
func (h *hub) written() int64 {
	if h.cfg.Elsewhere != nil {
		return 0
	}
	return gitcache.Written(h.parts["console"].Pid())
}

// database is the size of the files of the console's database; 0 over PostgreSQL and elsewhere.
func (h *hub) database() (size int64) {
	if h.cfg.Postgres || h.cfg.Elsewhere != nil {
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
