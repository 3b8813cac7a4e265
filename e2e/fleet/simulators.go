package fleet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"fairlead.dev/platform/subprocess"
)

// simulating is a simulator, here or in another process.
type simulating interface {
	ask(ctx context.Context, q question) (answer, error)
	// close ends it; at once when ctx has ended.
	close(ctx context.Context) error
}

// simulators are all of a run.
type simulators struct {
	list []simulating
	pids []int // of those in other processes
}

func startSimulators(ctx context.Context, cfg Config, spec Spec) (*simulators, error) {
	all := &simulators{}
	tokens := spec.Tokens
	for names := range slices.Chunk(slices.Sorted(maps.Keys(tokens)), agentsPerProcess) {
		spec.Tokens = make(map[string]string, len(names))
		for _, name := range names {
			spec.Tokens[name] = tokens[name]
		}
		if cfg.Executable == "" {
			one, err := startSimulator(ctx, spec)
			if err != nil {
				return all, err
			}
			all.list = append(all.list, one)
			continue
		}
		one, err := startRemote(ctx, cfg.Executable, spec)
		if err != nil {
			return all, err
		}
		all.list, all.pids = append(all.list, one), append(all.pids, one.process.Pid())
	}
	return all, nil
}

// ask asks all of them at once.
func (s *simulators) ask(ctx context.Context, q question) (answer, error) {
	answers := make([]answer, len(s.list))
	group, ctx := errgroup.WithContext(ctx)
	for i, one := range s.list {
		group.Go(func() (err error) {
			answers[i], err = one.ask(ctx, q)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return answer{}, err
	}
	all := answer{Stats: newStats(), Digests: map[string]string{}}
	for _, a := range answers {
		all.Stats.merge(a.Stats)
		maps.Copy(all.Digests, a.Digests)
	}
	return all, nil
}

func (s *simulators) close(ctx context.Context) error {
	var group errgroup.Group
	for _, one := range s.list {
		group.Go(func() error { return one.close(ctx) })
	}
	return group.Wait()
}

// Part runs what a run starts from its own executable, and says whether the arguments name such a part.
func Part(ctx context.Context, args []string, in io.Reader, out io.Writer) (known bool, err error) {
	switch {
	case len(args) == 1 && args[0] == "agents":
		return true, Agents(ctx, in, out)
	case len(args) == 2 && args[0] == "burn":
		return true, burn(ctx, args[1])
	case len(args) == 5 && args[0] == "floor":
		return true, serveFloor(ctx, args[1], args[2], args[3], args[4])
	}
	return false, nil
}

// remote is a simulator in a process of its own, which dies with this one.
type remote struct {
	process *subprocess.Process
	in      io.WriteCloser
	out     *bufio.Reader
	pipe    *os.File // under out
}

func startRemote(ctx context.Context, path string, spec Spec) (*remote, error) {
	cmd := exec.Command(path, "agents") //nolint:noctx // close ends it
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = theirs
	process, err := subprocess.Start(cmd)
	_ = theirs.Close() // the simulator has its own copy, so that out ends with it
	if err != nil {
		return nil, fmt.Errorf("start a simulator: %w", err)
	}
	r := &remote{process: process, in: in, out: bufio.NewReader(out), pipe: out}
	if err := writeLine(in, spec); err != nil {
		return nil, errors.Join(err, r.close(ctx))
	}
	return r, nil
}

func (r *remote) ask(ctx context.Context, q question) (a answer, err error) {
	stop := context.AfterFunc(ctx, func() { _ = r.process.Signal(syscall.SIGTERM) }) // ends the read, too
	defer stop()
	if err := writeLine(r.in, q); err != nil {
		return a, fmt.Errorf("ask a simulator: %w", err)
	}
	if err := readLine(r.out, &a); err != nil {
		return a, fmt.Errorf("a simulator has ended: %w", err)
	}
	return a, nil
}

func (r *remote) close(ctx context.Context) error {
	_ = r.in.Close() // that it is open at all is what keeps it alive
	defer func() { _ = r.pipe.Close() }()
	select {
	case <-r.process.Ended():
		return r.process.Wait()
	case <-ctx.Done():
		r.process.Kill()
		return nil
	case <-time.After(stopGrace):
		return r.process.Stop(time.Second)
	}
}
