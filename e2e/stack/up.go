package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Up runs `fairlead up` on free ports with its data in dir, and waits until everything is up.
func Up(ctx context.Context, bins Binaries, dir string) (*Stack, error) {
	s := &Stack{Dir: dir, bins: bins, parts: map[string]*process{}}
	ready := filepath.Join(dir, "ready.json")
	up := newProcess(dir, "up", bins.path("fairlead"), "up", "--port-base", "0", "--data-dir", filepath.Join(dir, "data"),
		"--kubelocal", bins.Kubelocal, "--agent", bins.path("agent"), "--ready-file", ready, "--log-level", "debug")
	up.env = []string{"FAIRLEAD_CONFIG=" + s.ConfigFile()}
	if err := s.add(up); err != nil {
		return nil, err
	}
	if err := s.awaitReady(ctx, up, ready); err != nil {
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, up.tail()), s.Stop())
	}
	return s, nil
}

func (s *Stack) awaitReady(ctx context.Context, up *process, file string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-up.exited:
			cancel(errors.New("fairlead up ended"))
		case <-ctx.Done():
		}
	}()
	var text []byte
	err := Await(ctx, "everything is up", func(context.Context) (err error) {
		text, err = os.ReadFile(file)
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
		return fmt.Errorf("read %s: %w", file, err)
	}
	s.GitURL, s.Clusters, s.Hub, s.CAFile = ready.Git, ready.Clusters, ready.Hub, ready.CAFile
	return nil
}
