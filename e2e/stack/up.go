package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"fairlead.dev/e2e/process"
)

// Up runs `fairlead up` on free ports with its data in dir, and with further flags, and waits until everything is up.
func Up(ctx context.Context, bins Binaries, dir string, flags ...string) (*Stack, error) {
	s := &Stack{Dir: dir, bins: bins, parts: map[string]*process.Process{}}
	args := append([]string{
		"up", "--port-base", "0", "--data-dir", filepath.Join(dir, "data"),
		"--kubelocal", bins.Kubelocal, "--agent", bins.path("agent"), "--ready-file", s.readyFile(), "--log-level", "debug",
	}, flags...)
	up := process.New(dir, "up", bins.path("fairlead"), args...)
	up.Env = []string{"FAIRLEAD_CONFIG=" + s.ConfigFile(), "USER=admin"} // whoever runs this: events and holds name the person
	if err := s.add(up); err != nil {
		return nil, err
	}
	if err := s.awaitReady(ctx, up); err != nil {
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, up.Tail()), s.Stop())
	}
	return s, nil
}

func (s *Stack) readyFile() string { return filepath.Join(s.Dir, "ready.json") }

// KillUp ends `fairlead up` as kill -9 does, starts it again on its data, and waits until
// everything is up.
func (s *Stack) KillUp(ctx context.Context) error {
	up := s.parts["up"]
	if err := errors.Join(up.Kill(), os.Remove(s.readyFile())); err != nil {
		return err
	}
	if err := up.Start(); err != nil {
		return err
	}
	return s.awaitReady(ctx, up)
}

func (s *Stack) awaitReady(ctx context.Context, up *process.Process) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-up.Exited():
			cancel(errors.New("fairlead up ended"))
		case <-ctx.Done():
		}
	}()
	var text []byte
	err := process.Await(ctx, "everything is up", func(context.Context) (err error) {
		text, err = os.ReadFile(s.readyFile())
		return err
	})
	if err != nil {
		return err
	}
	var ready struct {
		Git      string
		Clusters []Cluster
		Hub      map[string]string
		CAFile   string
	}
	if err := json.Unmarshal(text, &ready); err != nil {
		return fmt.Errorf("read %s: %w", s.readyFile(), err)
	}
	s.GitURL, s.Clusters, s.Hub, s.CAFile = ready.Git, ready.Clusters, ready.Hub, ready.CAFile
	return nil
}
