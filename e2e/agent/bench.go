package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/e2e/gitcache"
	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/retry"
)

const (
	// load is how many objects the comparisons are about.
	load = 5000
	// small is how many objects the smaller service has: those of the best published figure.
	small  = 56
	rounds = 3
	// loops is how often the agent is woken to find that nothing changed.
	loops = 20
	// edits is how many single edits are waited for.
	edits = 100
	// tick is the least CPU time that the kernel counts, in seconds.
	tick = 0.01
)

// All measures everything.
func All(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) error {
	return errors.Join(Applies(ctx, bins, dir, stdout), Memory(ctx, bins, dir, stdout), Storms(ctx, bins, dir, stdout))
}

// bench is a world that figures are taken in.
type bench struct {
	world *World

	out   io.Writer
	peers string // the program of e2e/agentbench
	proxy *Proxy // for the peers
}

func open(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) (b *bench, err error) {
	dir, err = os.MkdirTemp(dir, "agent-")
	if err != nil {
		return nil, err
	}
	b = &bench{out: stdout}
	b.world, err = Start(ctx, bins, dir)
	return b, err
}

func (b *bench) stop() error {
	if b.proxy != nil {
		b.proxy.Stop()
	}
	return b.world.Stop()
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.out, format+"\n", args...) }

// Applies measures what it costs to apply, and to find that there is nothing to apply, beside the peers.
func Applies(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) (err error) {
	b, err := open(ctx, bins, dir, stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	if b.peers, err = buildPeers(ctx, dir); err != nil {
		return err
	}
	if b.proxy, err = StartProxy(ctx, filepath.Join(b.world.dir, "peers"), b.world.Kube); err != nil {
		return err
	}
	for _, measure := range []func(context.Context) error{b.cold, b.unchanged, b.onePercent, b.small, b.drift, b.unhealthy, b.restart} {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// buildPeers builds the module of the peers, which is none of the workspace.
func buildPeers(ctx context.Context, dir string) (string, error) {
	bin := filepath.Join(dir, "agentbench")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", bin, ".")
	cmd.Dir = filepath.Join("e2e", "agentbench")
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build the peers: %w", err)
	}
	return bin, nil
}

// cost is what one pass over all objects took.
type cost struct {
	seconds  float64 // from the first thing done about them to the last
	wall     float64 // seconds, with all that is around it
	cpu      float64 // seconds, of whoever applies
	server   float64 // seconds of CPU, of the API server
	requests []Request
}

// peer has a peer apply objects once.
func (b *bench) peer(ctx context.Context, name string, objects []Object) (cost, error) {
	content, err := json.Marshal(objects)
	if err != nil {
		return cost{}, err
	}
	file := filepath.Join(b.world.dir, "objects.json")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return cost{}, err
	}
	mark, before, begin := b.proxy.Mark(), gitcache.CPU(b.world.APIServer()), time.Now()
	out, err := process.Run(ctx, nil, "", b.peers, name, b.proxy.Kubeconfig, file)
	if err != nil {
		return cost{}, err
	}
	c := cost{
		wall: time.Since(begin).Seconds(), server: (gitcache.CPU(b.world.APIServer()) - before).Seconds(),
		requests: b.proxy.Since(mark, func(r Request) bool { return r.Verb != "discover" }),
	}
	var said struct{ Seconds, CPUSeconds float64 }
	err = json.Unmarshal([]byte(out), &said)
	c.seconds, c.cpu = said.Seconds, said.CPUSeconds
	return c, err
}

// ours measures what the agent does about a service because of something.
func (b *bench) ours(ctx context.Context, cause func(ctx context.Context) error) (c cost, err error) {
	mark, server, cpu, begin := b.world.Proxy.Mark(), gitcache.CPU(b.world.APIServer()), gitcache.CPU(b.world.Agent.Pid()), time.Now()
	before, err := b.world.Metric(ctx, "fairlead_agent_apply_seconds_sum")
	if err != nil {
		return c, err
	}
	if err := cause(ctx); err != nil {
		return c, err
	}
	after, err := b.world.Metric(ctx, "fairlead_agent_apply_seconds_sum")
	return cost{
		seconds: after - before, wall: time.Since(begin).Seconds(), cpu: (gitcache.CPU(b.world.Agent.Pid()) - cpu).Seconds(),
		server:   (gitcache.CPU(b.world.APIServer()) - server).Seconds(),
		requests: b.world.Proxy.Since(mark, func(r Request) bool { return r.Verb != "watch" }),
	}, err
}

func about(requests []Request, holds func(Request) bool) []Request {
	var found []Request
	for _, r := range requests {
		if holds(r) {
			found = append(found, r)
		}
	}
	return found
}

func (b *bench) tell(what string, c cost) {
	objects := about(c.requests, func(r Request) bool { return !r.bookkeeping() })
	b.say("%-28s %7.2f s, CPU %6.2f s of its own, %6.2f s of the API server; requests %s; for itself %s",
		what, c.seconds, c.cpu, c.server, tally(objects), tally(about(c.requests, Request.bookkeeping)))
}

// cold applies objects that are not there yet, in turn with plain server-side apply.
func (b *bench) cold(ctx context.Context) error {
	var ratios []float64
	for round := range rounds {
		theirs := "cold-peer-" + strconv.Itoa(round)
		if err := b.world.Kube.Namespace(ctx, theirs); err != nil {
			return err
		}
		plain, err := b.peer(ctx, "ssa", Mixed(theirs, load, nil))
		if err != nil {
			return err
		}
		b.tell("cold, plain apply", plain)
		name := "cold-" + strconv.Itoa(round)
		own, err := b.ours(ctx, func(ctx context.Context) error { return b.world.Deploy(ctx, name, Mixed(name, load, nil)) })
		if err != nil {
			return err
		}
		b.tell("cold, agent", own)
		ratios = append(ratios, plain.seconds/own.seconds)
		if err := b.clear(ctx, theirs); err != nil {
			return err
		}
		if round > 0 { // the first stays, for what comes next
			if err := errors.Join(b.world.Remove(ctx, name), b.clear(ctx, name)); err != nil {
				return err
			}
		}
	}
	b.say("BENCH agent.cold_apply_vs_bare_ssa %.2f x", median(ratios))
	return nil
}

// unchangedName is the service that unchanged objects are measured with.
const unchangedName = "cold-0"

// clear removes a namespace, and waits until it is gone, so that its controllers don't disturb what comes next.
func (b *bench) clear(ctx context.Context, namespace string) error {
	if err := b.world.Kube.Delete(ctx, "/api/v1/namespaces/"+namespace); err != nil {
		return err
	}
	return b.world.await(ctx, namespace+" is gone", func(ctx context.Context) error {
		_, err := b.world.Kube.Get(ctx, "/api/v1/namespaces/"+namespace)
		if IsCode(err, 404) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
}

// Sync has a service rendered and compared anew, and waits until that is done.
func (w *World) Sync(ctx context.Context, name string) error {
	before, err := w.Service(ctx, name)
	if err != nil {
		return err
	}
	if _, err := w.syncs.RequestSync(ctx, &consolev1.RequestSyncRequest{Name: name}); err != nil {
		return err
	}
	return w.await(ctx, name+" is compared anew", func(ctx context.Context) error {
		now, err := w.Service(ctx, name)
		if err != nil {
			return err
		}
		hub, applied := now.GetStatus().GetHub().GetDigest(), now.GetStatus().GetCluster().GetReport().GetAppliedDigest()
		if hub != applied || hub == before.GetStatus().GetHub().GetDigest() {
			return fmt.Errorf("the hub has %s, applied is %s", hub, applied)
		}
		return nil
	})
}

// unchanged compares what it takes to find 5,000 objects as they should be.
func (b *bench) unchanged(ctx context.Context) error {
	if err := b.world.Kube.Namespace(ctx, "flux"); err != nil {
		return err
	}
	objects := Mixed("flux", load, nil)
	if _, err := b.peer(ctx, "ssa", objects); err != nil {
		return err
	}
	if _, err := b.peer(ctx, "flux", objects); err != nil { // takes them over
		return err
	}
	idle, err := b.idle(ctx)
	if err != nil {
		return err
	}
	var wall, server, took []float64
	asked := 0
	for range rounds {
		flux, err := b.peer(ctx, "flux", objects)
		if err != nil {
			return err
		}
		b.tell("unchanged, Flux", flux)
		plain, err := b.peer(ctx, "ssa", Mixed("flux", load, nil))
		if err != nil {
			return err
		}
		b.tell("unchanged, plain apply", plain)
		// Several in a row: one is below what the kernel can count.
		own, err := b.ours(ctx, func(ctx context.Context) error {
			for range loops {
				if err := b.world.Sync(ctx, unchangedName); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		b.tell(fmt.Sprintf("unchanged, agent, %d times", loops), own)
		asked += len(about(own.requests, func(r Request) bool { return !r.bookkeeping() }))
		took = append(took, 1000*own.seconds/loops)
		wall = append(wall, flux.seconds/(own.seconds/loops))
		server = append(server, (flux.server-idle*flux.wall)/(max(own.server, tick)/loops))
	}
	b.say("BENCH agent.unchanged_rerender_ms %.0f ms", median(took))
	b.say("BENCH agent.unchanged_rerender_requests %d requests", asked)
	b.say("BENCH agent.unchanged_vs_flux %.0f x", median(wall))
	b.say("BENCH agent.apiserver_cpu_vs_flux %.0f x", median(server))
	if err := b.clear(ctx, "flux"); err != nil {
		return err
	}
	if err := b.hits(ctx, "hit_ratio", unchangedName, load); err != nil {
		return err
	}
	return b.untouched(ctx)
}

// idle is what the API server takes of a processor while nobody asks it for anything.
func (b *bench) idle(ctx context.Context) (float64, error) {
	const quiet = 30 * time.Second
	c, err := b.ours(ctx, func(ctx context.Context) error {
		retry.Sleep(ctx, quiet)
		return context.Cause(ctx)
	})
	b.say("BENCH agent.apiserver_idle_cores %.4f cores", c.server/c.wall)
	return c.server / c.wall, err
}

// untouched wakes the agent for another service, while the digest of the 5,000 objects stays.
func (b *bench) untouched(ctx context.Context) error {
	if err := b.world.Deploy(ctx, "beside", []Object{configMap("beside", "one", "first")}); err != nil {
		return err
	}
	if err := b.noted(ctx, unchangedName); err != nil {
		return err
	}
	const verifications = "fairlead_agent_verifications_total"
	before, err := b.world.Metric(ctx, verifications)
	if err != nil {
		return err
	}
	mark := b.world.Proxy.Mark()
	own, err := b.ours(ctx, func(ctx context.Context) error {
		for range loops {
			if err := b.world.Sync(ctx, "beside"); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	after, err := b.world.Metric(ctx, verifications)
	if err != nil {
		return err
	}
	beside := func(r Request) bool { return r.In("beside") || strings.HasPrefix(r.Name, "inventory.beside") }
	b.tell(fmt.Sprintf("another service, %d times", loops), own)
	// The slow verification goes on, whatever is synced, and so do watches, which end after some minutes. No more dry
	// runs are its than the agent counts.
	dryRuns := len(about(own.requests, func(r Request) bool { return r.Verb == "dryrun" && !beside(r) }))
	verified := min(dryRuns, int(after-before))
	b.say("BENCH agent.verified_meanwhile %d requests", verified)
	b.say("BENCH agent.watched_meanwhile %d requests", len(b.world.Proxy.Since(mark, func(r Request) bool { return r.Verb == "watch" })))
	b.say("BENCH agent.unchanged_requests %d requests", len(own.requests)-len(about(own.requests, beside))-verified)
	b.say("BENCH agent.unchanged_ms %.0f ms", 1000*own.cpu/loops)
	return nil
}

// noted waits until the inventory of a service says which digest is applied: one that changed nothing is noted within a
// minute.
func (b *bench) noted(ctx context.Context, name string) error {
	svc, err := b.world.Service(ctx, name)
	if err != nil {
		return err
	}
	digest := svc.GetStatus().GetCluster().GetReport().GetAppliedDigest()
	return b.world.await(ctx, "the inventory of "+name+" is written", func(ctx context.Context) error {
		inventory, err := b.world.Kube.Get(ctx, "/api/v1/namespaces/fairlead-system/configmaps/inventory."+name)
		if err != nil {
			return err
		}
		if state, _ := field(inventory, "data", "state").(string); !strings.Contains(state, digest) {
			return fmt.Errorf("it does not say %s", digest)
		}
		return nil
	})
}

// hits counts how often the agent leaves an object alone, over syncs of a service in which nothing changed.
func (b *bench) hits(ctx context.Context, figure, name string, objects int) error {
	mark := b.world.Proxy.Mark()
	for range rounds {
		if err := b.world.Sync(ctx, name); err != nil {
			return err
		}
	}
	sent := b.world.Proxy.Since(mark, in(name), func(r Request) bool { return r.writes() || r.Verb == "dryrun" })
	b.say("BENCH agent.%s %.4f", figure, 1-float64(len(sent))/float64(rounds*objects))
	return nil
}

// onePercent pushes a commit that changes 50 of 5,000 objects.
func (b *bench) onePercent(ctx context.Context) error {
	own, err := b.ours(ctx, func(ctx context.Context) error {
		commit, err := b.world.PushObjects(ctx, unchangedName, Mixed(unchangedName, load, func(i int) bool { return i%100 == 7 }))
		if err != nil {
			return err
		}
		return b.world.Settled(ctx, unchangedName, commit)
	})
	if err != nil {
		return err
	}
	b.tell("1 % changed, agent", own)
	objects := about(own.requests, in(unchangedName))
	b.say("BENCH agent.one_percent_changed_patches %d patches", len(about(objects, Request.writes)))
	b.say("BENCH agent.one_percent_changed_dry_runs %d requests", len(about(objects, func(r Request) bool { return r.Verb == "dryrun" })))
	return nil
}

// small compares a service of 56 objects that the agent doesn't know with one that it does.
func (b *bench) small(ctx context.Context) error {
	var ratios []float64
	for round := range rounds {
		name := "small-" + strconv.Itoa(round)
		uncached, err := b.ours(ctx, func(ctx context.Context) error { return b.world.Deploy(ctx, name, Mixed(name, small, nil)) })
		if err != nil {
			return err
		}
		cached, err := b.ours(ctx, func(ctx context.Context) error {
			for range loops {
				if err := b.world.Sync(ctx, name); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		b.say("%d objects: %.1f ms when new, %.2f ms when known", small, 1000*uncached.seconds, 1000*cached.seconds/loops)
		ratios = append(ratios, uncached.seconds/(cached.seconds/loops))
	}
	b.say("BENCH agent.service56_cached_vs_uncached %.0f x", median(ratios))
	return nil
}

// drift edits single objects, and waits for each until it is as it was.
func (b *bench) drift(ctx context.Context) error {
	var all []time.Duration
	objects := Mixed(unchangedName, load, nil)
	mark := b.world.Proxy.Mark()
	for i := range edits {
		took, err := b.world.repaired(ctx, pathOf(objects[i*17]))
		if err != nil {
			return err
		}
		all = append(all, took)
	}
	slices.Sort(all)
	b.say("%d edits: repaired after %v at the median; requests %s", edits, all[edits/2].Round(time.Millisecond), tally(b.world.Proxy.Since(mark)))
	b.say("BENCH agent.drift_repair_p95_ms %d ms", all[edits*95/100].Milliseconds())
	return nil
}

// valuePath is where an object of the load has its value.
func valuePath(path string) []string {
	switch {
	case strings.Contains(path, "/configmaps/"):
		return []string{"data", "value"}
	case strings.Contains(path, "/deployments/"):
		return []string{"spec", "template", "metadata", "annotations", "value"}
	default:
		return []string{"spec", "value"}
	}
}

// patchOf is a patch that sets one field.
func patchOf(value any, path ...string) Object {
	for _, name := range slices.Backward(path) {
		value = Object{name: value}
	}
	return value.(Object)
}

// repaired changes an object's value, and says how long it took until it was back.
func (w *World) repaired(ctx context.Context, path string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	at := valuePath(path)
	before, err := w.Kube.Get(ctx, path)
	if err != nil {
		return 0, err
	}
	want := field(before, at...)
	begin := time.Now()
	if _, err := w.Kube.Edit(ctx, path, patchOf("edited", at...)); err != nil {
		return 0, err
	}
	err = w.Kube.Watch(ctx, path, func(obj Object) bool { return field(obj, at...) == want })
	return time.Since(begin), err
}

// unhealthy makes a tenth of a service's objects wait for what never comes.
func (b *bench) unhealthy(ctx context.Context) error {
	const name, count = "unhealthy", 500
	if err := b.world.Kube.Namespace(ctx, name); err != nil {
		return err
	}
	objects := Light(name, count)
	for i := 0; i < count; i += 10 {
		obj := deployment(name, fmt.Sprintf("load-%05d", i), "first", 1)
		field(obj, "spec", "template", "spec").(Object)["nodeSelector"] = Object{"no-node": "has-it"}
		objects[i] = obj
	}
	if _, err := b.world.PushObjects(ctx, name, objects); err != nil {
		return err
	}
	if err := b.world.Serve(ctx, name, nil); err != nil {
		return err
	}
	err := b.world.await(ctx, name+" is applied", func(ctx context.Context) error {
		svc, err := b.world.Service(ctx, name)
		if err != nil {
			return err
		}
		report := svc.GetStatus().GetCluster().GetReport()
		if report.GetAppliedDigest() == "" || report.GetObjectsTotal() != count || report.GetObjectsHealthy() != count-count/10 {
			return fmt.Errorf("%d of %d objects are healthy", report.GetObjectsHealthy(), report.GetObjectsTotal())
		}
		return nil
	})
	if err != nil {
		return err
	}
	mark := b.world.Proxy.Mark()
	if err := b.hits(ctx, "hit_ratio_10pct_unhealthy", name, count); err != nil {
		return err
	}
	b.say("requests about them meanwhile: %s", tally(b.world.Proxy.Since(mark, in(name))))
	return b.world.Remove(ctx, name)
}

// restart kills the agent, and counts what the next one asks until it knows all objects.
func (b *bench) restart(ctx context.Context) error {
	want, err := b.world.Metric(ctx, "fairlead_agent_objects", `state="all"`)
	if err != nil {
		return err
	}
	if err := b.world.Agent.Kill(); err != nil {
		return err
	}
	mark, begin := b.world.Proxy.Mark(), time.Now()
	if err := b.world.Agent.Start(); err != nil {
		return err
	}
	err = b.world.await(ctx, "the agent knows all objects", func(ctx context.Context) error {
		all, err := b.world.Metric(ctx, "fairlead_agent_objects", `state="all"`)
		if err != nil {
			return err
		}
		unseen, err := b.world.Metric(ctx, "fairlead_agent_objects", `state="unseen"`)
		if err == nil && (all != want || unseen != 0) {
			err = fmt.Errorf("it knows of %.0f of %.0f, and has not seen %.0f", all, want, unseen)
		}
		return err
	})
	if err != nil {
		return err
	}
	requests := b.world.Proxy.Since(mark)
	b.say("restart with %.0f objects: known after %v; requests %s", want, time.Since(begin).Round(time.Millisecond), tally(requests))
	b.say("BENCH agent.restart_writes %d requests", len(about(requests, func(r Request) bool { return r.writes() || r.Verb == "dryrun" })))
	return nil
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
