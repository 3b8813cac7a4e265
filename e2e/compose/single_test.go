package compose

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
)

var long = flag.Bool("long", false, "also the stack with two of each, as `make stacks` does")

// TestStacks brings up one stack after the other in one engine.
func TestStacks(t *testing.T) { //nolint:tparallel // the stacks have the same names
	t.Parallel()
	e := newEngine(t)
	t.Run("default", func(t *testing.T) { defaultStack(t, e) })
	if *long {
		t.Run("high availability", func(t *testing.T) { highAvailability(t, e) })
	}
}

// defaultStack is what `docker compose up` gives, from the first commit to nothing left.
func defaultStack(t *testing.T, e *engine) {
	s := e.up(t)
	t.Run("ships a commit", func(t *testing.T) {
		greeting := s.push(t)
		s.awaitApplied(t, greeting)
		if said := s.fairlead(t, "get", "services"); !strings.Contains(said, "hello") {
			t.Errorf("get services: %s", said)
		}
		if seen := s.throughTunnel(t); seen != greeting {
			t.Errorf("through the tunnel: %q, want %q", seen, greeting)
		}
	})
	t.Run("has one address for browsers", func(t *testing.T) {
		if at := s.fairlead(t, "open", "cluster", "local",
			"--print"); !strings.Contains(at, "https://localhost:7406/cluster/local") {
			t.Errorf("open leads to %q", at)
		}
	})
	t.Run("has no rights that it does not need", func(t *testing.T) { checkRights(t, s) })
	t.Run("is observed", func(t *testing.T) { isObserved(t, s) })
	t.Run("may be brought up again", func(t *testing.T) {
		s.compose(t, "up", "--detach", "--wait", "--pull", "never")
		s.awaitApplied(t, s.push(t))
	})
	t.Run("tries a step again while the hub is away", func(t *testing.T) { triesAgain(t, s) })
	t.Run("bears the death of every container", func(t *testing.T) {
		for _, services := range [][]string{
			{"redis", "postgres", "git", "kubernetes"}, // servers of others, which keep state
			{"console", "gitcache", "distributor", "tunnel", "agent"},
		} {
			s.die(t, services...)
			s.awaitApplied(t, s.push(t))
		}
		if seen := s.throughTunnel(t); seen == "" {
			t.Error("nothing is seen through the tunnel")
		}
	})
	t.Run("leaves nothing", func(t *testing.T) { s.downToNothing(t) })
}

// triesAgain has a step of the start fail, since there is no console, and waits until it has succeeded.
func triesAgain(t *testing.T, s *composed) {
	t.Helper()
	s.without(t, func() {
		s.must(t, "start", s.one(t, "apply").ID)
		s.await(t, "the step fails and is tried again", func(ctx context.Context) error {
			found, err := s.containers(ctx, "apply")
			if err == nil && found[0].RestartCount == 0 {
				err = errors.New("it was not")
			}
			return err
		})
	}, "console")
	s.await(t, "the step ends well", func(ctx context.Context) error {
		found, err := s.containers(ctx, "apply")
		if err == nil && (found[0].State.Status != "exited" || found[0].State.ExitCode != 0) {
			err = fmt.Errorf("it is %s, with exit code %d", found[0].State.Status, found[0].State.ExitCode)
		}
		return err
	})
}

// checkRights looks at what the engine was told about every container.
func checkRights(t *testing.T, s *composed) {
	t.Helper()
	found, err := s.containers(t.Context())
	if err != nil || len(found) < 10 {
		t.Fatalf("%d containers, %v", len(found), err)
	}
	for _, c := range found {
		h := c.HostConfig
		if c.Config.User != "65532:65532" || !h.ReadonlyRootfs || h.Privileged || h.PidMode != "" {
			t.Errorf("%s: user %q, read-only %v, privileged %v, pid mode %q", c.Name, c.Config.User, h.ReadonlyRootfs,
				h.Privileged, h.PidMode)
		}
		if len(h.CapAdd) > 0 || !slices.Equal(h.CapDrop, []string{"ALL"}) ||
			!slices.Contains(h.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s: capabilities +%v -%v, %v", c.Name, h.CapAdd, h.CapDrop, h.SecurityOpt)
		}
		if c.State.Running && (c.State.Health == nil || c.State.Health.Status != "healthy") {
			t.Errorf("%s: it has no health", c.Name)
		}
		if h.Memory <= 0 || h.PidsLimit <= 0 {
			t.Errorf("%s: %d bytes, %d processes at most", c.Name, h.Memory, h.PidsLimit)
		}
	}
}

// downToNothing takes the stack down and looks for what is left.
func (s *composed) downToNothing(t *testing.T) {
	t.Helper()
	s.must(t, "compose", "--profile", "*", "down", "--volumes", "--timeout", "30")
	for _, list := range [][]string{
		{"ps", "--all", "--quiet"},
		{"volume", "ls", "--quiet"},
		{"network", "ls", "--quiet", "--filter", "type=custom"},
	} {
		if left := s.must(t, list...); left != "" {
			t.Errorf("docker %v: %s", list, left)
		}
	}
}
