package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
)

// Flags of the model test. A seed that failed is tried again by -model.seed; -model.for makes it long.
var (
	modelSeed = flag.Uint64("model.seed", 1, "seed of the model test; 0: another one each time")
	modelFor  = flag.Duration("model.for", 25*time.Second, "how long the model test pulls levers")
)

const (
	mostDrifts   = 3
	betweenKills = 15 * time.Second
)

// model is what an operator expects of one service, and what may be in its cluster.
type model struct {
	pushed  []string // commits, the newest last; the content of each is its place
	pin     int      // place of the pinned one; -1: none
	untilNx bool     // the pin ends with the next push
	mode    string   // of the lever, or else of the file
	file    string   // mode that the file says
	frozen  bool
	applied int // place of what is in the cluster
}

// wanted is the place of what the hub hands out.
func (m *model) wanted() int {
	if m.pin >= 0 {
		return m.pin
	}
	return len(m.pushed) - 1
}

// settle is what comes of a change: a sync lets the manual mode through, an override a freeze, too.
func (m *model) settle(sync, override bool) {
	open := m.mode == "auto" || m.mode == "manual" && sync
	if open && (!m.frozen || override) {
		m.applied = m.wanted()
	}
}

func (m *model) String() string {
	return fmt.Sprintf("commits %d, pin %d (until the next %t), mode %s (file %s), frozen %t; in the cluster %d", len(m.pushed), m.pin, m.untilNx, m.mode, m.file, m.frozen, m.applied)
}

// trying is the model beside the product.
type trying struct {
	*model

	t     *testing.T
	ctx   context.Context
	stack *stack.Stack
	repo  *stack.Repository
	rand  *rand.Rand
	done  []string
	// drifts and killed bound what an agent answers with patience: a fight over an object, and a program that dies again and again.
	drifts int
	killed time.Time
}

// TestTheClusterHasWhatLeversAllow pulls levers, applies files, pushes, and kills agent and hub in a random order. After each step the cluster
// has what the model says, and on the way there it has nothing but that and what it had before.
func TestTheClusterHasWhatLeversAllow(t *testing.T) {
	t.Parallel()
	bins, err := stack.FindBinaries(t.Context(), "..")
	if err != nil {
		t.Fatal(err)
	}
	seed := *modelSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d: go test ./e2e -run %s -model.seed %d -model.for %s", seed, t.Name(), seed, *modelFor)
	ctx, cancel := context.WithTimeout(t.Context(), *modelFor+2*patience)
	defer cancel()
	s, err := stack.Up(ctx, bins, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	r := &trying{model: &model{pin: -1, mode: "auto", file: "auto"}, t: t, ctx: ctx, stack: s, rand: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // a seed makes it the same again
	if r.repo, err = s.Clone(ctx); err != nil {
		t.Fatal(err)
	}
	r.push()
	r.apply("auto")
	r.await()
	for end := time.Now().Add(*modelFor); time.Now().Before(end) && !t.Failed(); {
		r.step()
	}
	t.Logf("%d steps: %s", len(r.done), strings.Join(r.done, "; "))
}

// step does one thing at random, and looks what came of it.
func (r *trying) step() {
	before := r.applied
	steps := []struct {
		name string
		fits bool
		do   func()
	}{
		{"push", true, func() { r.push(); r.settle(false, false) }},
		{"hold", true, func() { r.lever("hold", "hold"); r.settle(false, false) }},
		{"hold --mode manual", true, func() { r.lever("manual", "hold", "--mode", "manual"); r.settle(false, false) }},
		{"suspend", true, func() { r.lever("suspend", "hold", "--mode", "suspend"); r.settle(false, false) }},
		{"resume", r.mode != "auto", func() { r.cli("resume", "service", "model"); r.mode = "auto"; r.settle(false, false) }},
		{"pin", true, func() { r.pinTo(r.rand.IntN(len(r.pushed)), false); r.settle(false, false) }},
		{"pin --until-next", r.pin < 0, func() { r.pinTo(r.applied, true); r.settle(false, false) }},
		{"release", r.pin >= 0, func() { r.cli("pin", "service", "model", "--release"); r.pin = -1; r.settle(false, false) }},
		{"apply the same", true, func() { r.apply(r.file); r.settle(false, false) }},
		{"apply another mode", r.file == r.mode, func() {
			r.apply(map[string]string{"auto": "manual", "manual": "auto"}[r.file])
			r.mode = r.file
			r.settle(false, false)
		}},
		{"freeze", !r.frozen, func() {
			r.cli("freeze", "cluster", r.cluster().Name, "--reason", "the model")
			r.frozen = true
			r.settle(false, false)
		}},
		{"unfreeze", r.frozen, func() { r.cli("unfreeze", "cluster", r.cluster().Name); r.frozen = false; r.settle(false, false) }},
		{"sync", !r.frozen, func() { r.cli("sync", "service", "model"); r.settle(true, false) }},
		{"sync while frozen", r.frozen, r.refusedSync},
		{"sync --override", r.frozen, func() { r.cli("sync", "service", "model", "--override"); r.settle(true, true) }},
		{"drift", r.mode != "suspend" && r.drifts < mostDrifts, r.drift},
		{"kill the agent", time.Since(r.killed) > betweenKills, r.killAgent},
		{"kill the hub", true, func() { r.must(r.stack.KillUp(r.ctx)) }},
	}
	one := steps[r.rand.IntN(len(steps))]
	if !one.fits {
		return
	}
	r.done = append(r.done, one.name)
	one.do()
	if r.t.Failed() {
		return
	}
	r.await(before)
}

func (r *trying) cluster() stack.Cluster { return r.stack.Clusters[0] }

func (r *trying) must(err error) {
	if err != nil {
		r.t.Helper()
		r.t.Fatalf("%v\nsteps: %s\nmodel: %s", err, strings.Join(r.done, "; "), r.model)
	}
}

func (r *trying) cli(args ...string) {
	r.t.Helper()
	_, err := r.stack.Fairlead(r.ctx, args...)
	r.must(err)
}

func (r *trying) push() {
	text := fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: model}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: model}\ndata: {place: %q}\n", strconv.Itoa(len(r.pushed)))
	commit, err := r.repo.Push(r.ctx, fmt.Sprintf("place %d", len(r.pushed)), map[string]string{"model/model.yaml": text})
	r.must(err)
	if r.pushed = append(r.pushed, commit); r.untilNx {
		r.pin, r.untilNx = -1, false
	}
}

func (r *trying) apply(mode string) {
	text := fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: model}\nspec: {source: sample, path: model, cluster: %s, namespace: model, sync: {mode: %s}}\n", r.cluster().Name, mode)
	_, err := r.stack.FairleadStdin(r.ctx, text, "apply", "-f", "-")
	r.must(err)
	r.file = mode
}

func (r *trying) lever(mode string, args ...string) {
	r.cli(append(slices.Insert(slices.Clone(args), 1, "service", "model"), "--reason", "the model")...)
	r.mode = mode
}

func (r *trying) pinTo(place int, untilNext bool) {
	args := []string{"pin", "service", "model", r.pushed[place]}
	if untilNext {
		args = append(args, "--until-next")
	}
	r.cli(args...)
	r.pin, r.untilNx = place, untilNext
}

// refusedSync: while it is frozen a sync is refused, in words.
func (r *trying) refusedSync() {
	_, err := r.stack.Fairlead(r.ctx, "sync", "service", "model")
	if err == nil || !strings.Contains(err.Error(), "the freeze of cluster") {
		r.must(fmt.Errorf("a sync while it is frozen: %w", cmp.Or(err, errors.New("it was let through"))))
	}
}

// drift: what others change goes back.
func (r *trying) drift() {
	r.drifts++
	_, err := r.stack.Kubectl(r.ctx, r.cluster().Kubeconfig, "-n", "model", "patch", "configmap", "model", "--type=merge", `-p={"data":{"place":"drift"}}`)
	r.must(err)
}

// killAgent ends the agent of the cluster as kill -9 does; `fairlead up` starts it again.
func (r *trying) killAgent() {
	r.killed = time.Now()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	r.must(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		line := strings.Split(string(text), "\x00")
		if filepath.Base(line[0]) != "agent" || !strings.Contains(string(text), filepath.Join(r.stack.Dir, "data", "agents", r.cluster().Name)) {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(file, "/")[2])
		r.must(err)
		r.must(syscall.Kill(pid, syscall.SIGKILL))
		return
	}
	r.must(errors.New("no agent runs"))
}

// await waits until the cluster has what the model says and the hub knows that. On the way it may have what it had before, and nothing else.
func (r *trying) await(before ...int) {
	may := append(slices.Clone(before), r.applied)
	ctx, cancel := context.WithTimeout(r.ctx, patience)
	defer cancel()
	var wrong error
	err := process.Await(ctx, "the cluster has what it should", func(ctx context.Context) error {
		place, err := r.place(ctx)
		if err != nil || place == "drift" {
			return errors.Join(err, errors.New("drift is there"))
		}
		if got, err := strconv.Atoi(place); err != nil || !slices.Contains(may, got) {
			wrong = fmt.Errorf("the cluster has %s, and may have %v", place, may)
			return nil
		} else if got != r.applied {
			return fmt.Errorf("the cluster has %d, and should have %d", got, r.applied)
		}
		return r.told(ctx)
	})
	r.must(errors.Join(wrong, err))
}

// place is what the cluster has.
func (r *trying) place(ctx context.Context) (string, error) {
	return r.stack.Kubectl(ctx, r.cluster().Kubeconfig, "-n", "model", "get", "configmap", "model", "-o", "jsonpath={.data.place}")
}

// told fails unless the hub hands out what is wanted, and the agent has reported on exactly that.
func (r *trying) told(ctx context.Context) error {
	out, err := r.stack.Fairlead(ctx, "get", "services", "model", "-o", "json")
	if err != nil {
		return err
	}
	var s struct {
		Status struct {
			State, StateMessage string
			Hub                 struct {
				Digest   string
				Revision struct{ Commit string }
			}
			Cluster struct {
				Report struct{ Digest, Phase string }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		return err
	}
	status := s.Status
	if want := r.pushed[r.wanted()]; status.Hub.Revision.Commit != want {
		return fmt.Errorf("the hub hands out %s, not %s", status.Hub.Revision.Commit, want)
	}
	waits := r.applied != r.wanted()
	switch state := status.State; {
	case status.Cluster.Report.Digest != status.Hub.Digest:
		return errors.New("the agent has not reported yet")
	case waits && state != "held", !waits && state != "healthy":
		return fmt.Errorf("it is %s, and something waits is %t: %s", state, waits, status.StateMessage)
	}
	return nil
}
