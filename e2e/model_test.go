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
	modelFor  = flag.Duration("model.for", 35*time.Second, "how long the model test pulls levers")
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
	window  bool // the file has a deny window that is open
	rolled  bool // the pin is a rollback
	applied int  // place of what was applied completely
	// has are the places of the service's two objects: a sync of single objects brings one of them along.
	has     [2]int
	partial bool
}

// closed: a freeze or a window closes the service.
func (m *model) closed() bool { return m.frozen || m.window }

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
	if open && (!m.closed() || override) {
		m.applied, m.partial = m.wanted(), false
		m.has = [2]int{m.applied, m.applied}
	}
}

// only is what comes of a sync of one object that is let through.
func (m *model) only(object int) {
	m.has[object] = m.wanted()
	m.partial = m.partial || m.applied != m.wanted()
}

func (m *model) String() string {
	return fmt.Sprintf("commits %d, pin %d (until the next %t, rollback %t), mode %s (file %s), frozen %t, window %t; in the cluster %d, by object %v", len(m.pushed), m.pin, m.untilNx, m.rolled, m.mode, m.file, m.frozen, m.window, m.applied, m.has)
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
	// deck are the steps that are still to be done, by place, before any is done again: so that a short run sees most
	// of them.
	deck []int
	// drifts and killed bound what an agent answers with patience: a fight over an object, and a program that dies
	// again and again.
	drifts int
	killed time.Time
}

// TestTheClusterHasWhatLeversAllow pulls levers, applies files, pushes, and kills agent and hub in a random order.
// After each step the cluster has what the model says, and on the way there it has nothing but that and what it had
// before.
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
	r := &trying{
		model: &model{pin: -1, mode: "auto", file: "auto"}, t: t, ctx: ctx, stack: s,
		rand: rand.New(rand.NewPCG(seed, 0)), //nolint:gosec // a seed makes it the same again
	}
	if r.repo, err = s.Clone(ctx); err != nil {
		t.Fatal(err)
	}
	r.push()
	r.apply("auto")
	r.await(r.has)
	for end := time.Now().Add(*modelFor); time.Now().Before(end) && !t.Failed(); {
		r.step()
	}
	t.Logf("%d steps: %s", len(r.done), strings.Join(r.done, "; "))
}

// step does one thing at random, and looks what came of it.
func (r *trying) step() {
	before := r.has
	steps := []struct {
		name string
		fits bool
		do   func()
	}{
		{"push", true, func() { r.push(); r.settle(false, false) }},
		{"hold", true, func() { r.lever("hold", "hold"); r.settle(false, false) }},
		{"hold --mode manual", true, func() { r.lever("manual", "hold", "--mode", "manual"); r.settle(false, false) }},
		{"suspend", true, func() { r.lever("suspend", "hold", "--mode", "suspend"); r.settle(false, false) }},
		{
			"resume", r.mode != "auto",
			func() { r.cli("resume", "service", "model"); r.mode = "auto"; r.settle(false, false) },
		},
		{"pin", true, func() { r.pinTo(r.rand.IntN(len(r.pushed)), false); r.settle(false, false) }},
		{"pin --until-next", r.pin < 0, func() { r.pinTo(r.applied, true); r.settle(false, false) }},
		{"release", r.pin >= 0, func() {
			r.cli("pin", "service", "model", "--release")
			r.pin, r.rolled, r.untilNx = -1, false, false
			r.settle(false, false)
		}},
		{
			"rollback", r.file == "auto" && (r.mode == "auto" || r.mode == "hold"),
			func() { r.rollBack(); r.settle(false, false) },
		},
		{"apply the same", true, func() { r.apply(r.file); r.settle(false, false) }},
		{"apply another mode", r.file == r.mode && !r.rolled, func() {
			r.apply(map[string]string{"auto": "manual", "manual": "auto"}[r.file])
			r.mode = r.file
			r.settle(false, false)
		}},
		{"freeze", !r.frozen, func() {
			r.cli("freeze", "cluster", r.cluster().Name, "--reason", "the model")
			r.frozen = true
			r.settle(false, false)
		}},
		{
			"unfreeze", r.frozen,
			func() { r.cli("unfreeze", "cluster", r.cluster().Name); r.frozen = false; r.settle(false, false) },
		},
		{"open or close the window", true, func() {
			r.window = !r.window
			r.apply(r.file)
			r.settle(false, false)
		}},
		{"sync", !r.closed(), func() { r.cli("sync", "service", "model"); r.settle(true, false) }},
		{"sync while it is closed", r.closed(), r.refusedSync},
		{
			"sync --override", r.closed(),
			func() { r.cli("sync", "service", "model", "--override"); r.settle(true, true) },
		},
		{"sync --only", r.mode == "manual" || r.mode == "auto", r.syncOnly},
		{"sync --only of an object that there is not", r.mode == "manual" || r.mode == "auto", r.mistypedSync},
		{"drift", r.mode != "suspend" && r.drifts < mostDrifts, r.drift},
		{"kill the agent", time.Since(r.killed) > betweenKills, r.killAgent},
		{"kill the hub", true, func() { r.must(r.stack.KillUp(r.ctx)) }},
	}
	fits := func(i int) bool { return steps[i].fits }
	if !slices.ContainsFunc(r.deck, fits) {
		r.deck = r.rand.Perm(len(steps))
	}
	at := slices.IndexFunc(r.deck, fits)
	one := steps[r.deck[at]]
	r.deck = slices.Delete(r.deck, at, at+1)
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
	text := "apiVersion: v1\nkind: Namespace\nmetadata: {name: model}\n"
	for _, name := range objects() {
		text += fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {place: %q}\n", name,
			strconv.Itoa(len(r.pushed)))
	}
	commit, err := r.repo.Push(r.ctx, fmt.Sprintf("place %d",
		len(r.pushed)), map[string]string{"model/model.yaml": text})
	r.must(err)
	if r.pushed = append(r.pushed, commit); r.untilNx {
		r.pin, r.untilNx, r.rolled = -1, false, false
	}
}

// objects are the names of the service's ConfigMaps, in the order of model.has.
func objects() []string { return []string{"model", "other"} }

func (r *trying) apply(mode string) {
	windows := ""
	if r.window {
		windows = `, windows: [{name: always, action: deny, schedule: "0 0 * * *", duration: 744h}]`
	}
	text := fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: model}\nspec: {source: sample, path: model, cluster: %s, namespace: model, sync: {mode: %s%s}}\n", r.cluster().Name, mode, windows)
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
	r.rolled = r.rolled && place == r.pin // then it is the rollback that lasts for another time
	r.pin, r.untilNx = place, untilNext
}

// rollBack goes back to a deployment at random. A rollback takes the place of a hold and stays then; else it ends with
// the next push, unless it is kept.
func (r *trying) rollBack() {
	out, err := r.stack.Fairlead(r.ctx, "history", "service", "model", "-o", "json")
	r.must(err)
	type deployment struct {
		Number json.Number
		Commit struct{ Commit string }
	}
	var all struct{ Deployments []deployment }
	r.must(json.Unmarshal([]byte(out), &all))
	all.Deployments = slices.DeleteFunc(all.Deployments,
		func(d deployment) bool { return !slices.Contains(r.pushed, d.Commit.Commit) })
	if len(all.Deployments) == 0 {
		r.must(errors.New("the service has no deployments"))
	}
	to := all.Deployments[r.rand.IntN(len(all.Deployments))]
	keep := r.rand.IntN(2) == 0
	args := []string{"rollback", "service", "model", to.Number.String(), "--reason", "the model"}
	if keep {
		args = append(args, "--keep")
	}
	r.cli(args...)
	r.pin, r.rolled, r.untilNx = slices.Index(r.pushed, to.Commit.Commit), true, !keep && r.mode != "hold"
	r.mode = "auto"
}

// refusedSync: while it is closed a sync is refused, in words.
func (r *trying) refusedSync() {
	_, err := r.stack.Fairlead(r.ctx, "sync", "service", "model")
	if err == nil || r.frozen && !strings.Contains(err.Error(), "the freeze of cluster") ||
		r.window && !strings.Contains(err.Error(), `deny window "always"`) {
		r.must(fmt.Errorf("a sync while it is closed: %w", cmp.Or(err, errors.New("it was let through"))))
	}
}

// syncOnly brings one object along.
func (r *trying) syncOnly() {
	object := r.rand.IntN(len(objects()))
	args := []string{"sync", "service", "model", "--only", "ConfigMap/" + objects()[object]}
	if r.closed() {
		args = append(args, "--override")
	}
	r.cli(args...)
	r.only(object)
}

// mistypedSync is refused by the hub, or by the agent where the hub does not know better. The sync changes nothing.
func (r *trying) mistypedSync() {
	args := []string{"sync", "service", "model", "--only", "ConfigMap/modle"}
	if r.closed() {
		args = append(args, "--override")
	}
	if _, err := r.stack.Fairlead(r.ctx, args...); err != nil &&
		!strings.Contains(err.Error(), "has no object ConfigMap/modle") {
		r.must(err)
	}
}

// drift: what others change goes back.
func (r *trying) drift() {
	r.drifts++
	_, err := r.stack.Kubectl(r.ctx, r.cluster().Kubeconfig, "-n", "model", "patch", "configmap", "model",
		"--type=merge", `-p={"data":{"place":"drift"}}`)
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
			continue // the process has ended meanwhile
		}
		line := strings.Split(string(text), "\x00")
		if filepath.Base(line[0]) != "agent" ||
			!strings.Contains(string(text), filepath.Join(r.stack.Dir, "data", "agents", r.cluster().Name)) {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(file, "/")[2])
		r.must(err)
		r.must(syscall.Kill(pid, syscall.SIGKILL))
		return
	}
	r.must(errors.New("no agent runs"))
}

// await waits until the cluster has what the model says and the hub knows that. On the way each object may be as it was
// before, and nothing else.
func (r *trying) await(before [2]int) {
	ctx, cancel := context.WithTimeout(r.ctx, patience)
	defer cancel()
	var wrong error
	err := process.Await(ctx, "the cluster has what it should", func(ctx context.Context) error {
		for i, name := range objects() {
			place, err := r.place(ctx, name)
			if err != nil || place == "drift" {
				return errors.Join(err, errors.New("drift is there"))
			}
			if got, err := strconv.Atoi(place); err != nil || got != before[i] && got != r.has[i] {
				wrong = fmt.Errorf("the cluster has %s of %s, and may have %d and %d", place, name, before[i], r.has[i])
				return nil
			} else if got != r.has[i] {
				return fmt.Errorf("the cluster has %d of %s, and should have %d", got, name, r.has[i])
			}
		}
		return r.told(ctx)
	})
	r.must(errors.Join(wrong, err))
}

// place is what the cluster has of an object.
func (r *trying) place(ctx context.Context, name string) (string, error) {
	return r.stack.Kubectl(ctx, r.cluster().Kubeconfig, "-n", "model", "get", "configmap", name, "-o",
		"jsonpath={.data.place}")
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
	waits := r.partial || r.applied != r.wanted()
	switch state := status.State; {
	case status.Cluster.Report.Digest != status.Hub.Digest:
		return errors.New("the agent has not reported yet")
	case waits && state != "held", !waits && state != "healthy":
		return fmt.Errorf("it is %s, and something waits is %t: %s", state, waits, status.StateMessage)
	}
	return nil
}
