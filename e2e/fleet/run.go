package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/e2e/process"
	"fairlead.dev/platform/delivery"
	"fairlead.dev/platform/retry"
)

const (
	// progressEvery is between two lines about work that takes long.
	progressEvery = 10 * time.Second
	// settleTimeout bounds the first delivery of everything to everyone.
	settleTimeout = 30 * time.Minute
	// pushTimeout bounds how long a push may take to all agents.
	pushTimeout = 5 * time.Minute
	// rampPerSecond is how many agents start per second.
	rampPerSecond = 200
	// unhurried polls are far enough apart that a busy machine is no excuse for more than two of them.
	unhurried = time.Minute
)

// Run is a fleet under way, and what was seen of it.
type Run struct {
	Prepared []Timing
	// Settled is from the start of the agents until all had all, and the hub knew it.
	Settled      time.Duration
	SettledUsage []Usage
	First        First
	// Window is how long the steady state was measured.
	Window time.Duration
	Steady []Usage
	Stats  *Stats // of the steady state
	Pushes []Push // of the steady state
	Wave   Push
	// Pushed is what the wave cost the origin, if everything is downloaded; Cold what it costs with empty
	// caches.
	Pushed, Cold Origin
	Views        Views
	// Reconnected is from the restart of the distributor until all agents were back; 0: not measured.
	Reconnected time.Duration
	// Converged is the longest time from a push after a fault until all was right.
	Converged time.Duration
	// Wrong are clusters that do not have what the console says.
	Wrong  []string
	Logged map[string]int // warnings and errors, by part

	cfg        Config
	hub        *hub
	simulators *simulators
	tokens     map[string]string
	progress   io.Writer
	begin      time.Time
	pushed     int
	errors     *Stats             // of the whole run
	burners    []*process.Process // take processor time away
}

// Push is a commit on its way to agents.
type Push struct {
	Commit   string
	Services int           // that use the folder
	Arrived  int           // of them
	P50, P95 time.Duration // from the end of the push until an agent was told
	Max      time.Duration

	times Times
}

// Do runs a fleet to its end. Progress goes to a writer for people.
func Do(ctx context.Context, cfg Config, progress io.Writer) (r *Run, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r = &Run{cfg: cfg, progress: progress, begin: time.Now(), errors: newStats(), Logged: map[string]int{}}
	begin := startHub
	if cfg.Elsewhere != nil {
		begin = reachHub
	}
	if r.hub, err = begin(ctx, cfg); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, r.hub.stop(ctx)) }()
	if err := r.prepare(ctx); err != nil {
		return r, err
	}
	if err := r.hub.follow(ctx); err != nil {
		return r, err
	}
	r.say("the hub is up")
	r.simulators, err = startSimulators(ctx, cfg, Spec{
		CAFile: r.hub.ca, Distributors: r.hub.distributorURLs(), Balanced: r.hub.urls["balancer"],
		Gitcaches: []string{r.hub.urls["gitcache"]}, Tunnel: r.hub.urls["tunnel"], Tokens: r.tokens,
		Downloads: cfg.Downloads, Tunnels: cfg.Tunnels, Spread: time.Duration(cfg.Clusters) * time.Second / rampPerSecond,
	})
	defer func() { err = errors.Join(err, r.simulators.close(ctx)) }()
	if err != nil {
		return r, err
	}
	defer func() {
		for _, burner := range r.burners {
			err = errors.Join(err, burner.Stop(time.Second))
		}
	}()
	steps := []func(context.Context) error{r.settle, r.steady, r.wave, r.views, r.check}
	if cfg.Cold {
		steps = append(steps, r.cold, r.check)
	}
	if cfg.Faults {
		steps = append(steps, r.faults)
	}
	if cfg.Reconnect {
		steps = append(steps, r.reconnect, r.check)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return r, err
		}
	}
	for _, name := range hubParts() {
		r.Logged[name+" warnings"] = r.hub.logged(name, "WARN")
		r.Logged[name+" errors"] = r.hub.logged(name, "ERROR")
	}
	return r, nil
}

func (r *Run) say(format string, args ...any) {
	fmt.Fprintf(r.progress, "%6.1f s  "+format+"\n", append([]any{time.Since(r.begin).Seconds()}, args...)...)
}

// ask asks the simulators, and keeps the errors of the whole run.
func (r *Run) ask(ctx context.Context, q question) (answer, error) {
	a, err := r.simulators.ask(ctx, q)
	if err == nil {
		for name, n := range a.Stats.Errors {
			if r.cfg.Faults {
				r.say("  agents met %d x %s", n, name)
			}
			r.errors.Errors[name] += n
			r.errors.Texts[name] = a.Stats.Texts[name]
		}
	}
	return a, err
}

// Errors are those that agents met, by kind, over the whole run.
func (r *Run) Errors() map[string]int64 { return r.errors.Errors }

// settle waits until every agent has something for each of its services, all reports are acknowledged and lists show
// them.
func (r *Run) settle(ctx context.Context) error {
	meter := r.meter()
	written := r.hub.written()
	r.First.Calls = map[string]int64{}
	stop := r.applying(ctx, &r.First)
	defer stop()
	want, disturbed := r.cfg.Clusters*r.cfg.Services, r.cfg.Disturb == ""
	var failed error
	err := r.until(ctx, settleTimeout, question{}, func(a answer) (bool, string) {
		s := a.Stats
		for name, times := range s.Calls {
			r.First.Calls[name] += times.Count
		}
		if !disturbed && s.Services >= want/2 {
			disturbed, failed = true, r.disturb(ctx, meter)
		}
		return failed != nil || s.Services == want && s.Pending == 0 && s.Watching == r.cfg.Clusters,
			fmt.Sprintf("%d of %d agents watch, %d of %d services delivered, %d reports on their way", s.Watching, r.cfg.Clusters, s.Services, want, s.Pending)
	})
	if err := errors.Join(failed, err); err != nil {
		return fmt.Errorf("wait for the first delivery: %w", err)
	}
	if err := r.shown(ctx); err != nil {
		return fmt.Errorf("wait for lists to show what was delivered: %w", err)
	}
	for name, n := range r.errors.Errors {
		if r.forgivenAtFirst(name, r.errors.Texts[name]) {
			r.say("while all came, agents met %d x %s", n, name)
			r.First.Refused += n
			delete(r.errors.Errors, name)
		}
	}
	stop()
	r.Settled, r.SettledUsage = time.Since(meter.begin), meter.end(ctx, r.hub)
	r.First.Written += r.hub.written() - written
	r.First.Database = r.hub.database()
	r.say("everything is delivered, reported and shown after %.1f s", r.Settled.Seconds())
	return nil
}

// shown waits until lists show all services as healthy.
func (r *Run) shown(ctx context.Context) error {
	for deadline := time.Now().Add(pushTimeout); ; {
		other, err := r.hub.api.unhealthy(ctx)
		switch {
		case err == nil && other == "":
			return nil
		case err != nil && connect.CodeOf(err) != connect.CodeUnavailable: // which has too many to look through yet
			return err
		case time.Now().After(deadline):
			return errors.Join(fmt.Errorf("not all healthy after %s, such as %q", pushTimeout, other), err)
		}
		if !retry.Sleep(ctx, time.Second) {
			return context.Cause(ctx)
		}
	}
}

// until asks until ok.
func (r *Run) until(ctx context.Context, limit time.Duration, q question, ok func(answer) (bool, string)) error {
	deadline, told := time.Now().Add(limit), time.Now()
	for {
		a, err := r.ask(ctx, q)
		if err != nil {
			return err
		}
		done, text := ok(a)
		if done {
			return nil
		}
		if time.Since(told) > progressEvery {
			told = time.Now()
			r.say("  %s", text)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not after %s: %s", limit, text)
		}
		if !retry.Sleep(ctx, 200*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

// steady measures while nothing but the usual happens: polls, and a share of services that change.
func (r *Run) steady(ctx context.Context) error {
	if r.cfg.Duration == 0 || r.cfg.ViewsPerSecond > 0 { // the cost of views is measured by itself
		r.Stats = newStats()
		return nil
	}
	if _, err := r.ask(ctx, question{Measuring: true}); err != nil { // figures from before do not count
		return err
	}
	r.say("measuring for %s", r.cfg.Duration)
	meter := r.meter()
	pushes, every := map[string]pushed{}, r.pushEvery()
	next := meter.begin.Add(every / 2)
	end := meter.begin.Add(r.cfg.Duration)
	for next.Before(end) {
		if !retry.Sleep(ctx, time.Until(next)) {
			return context.Cause(ctx)
		}
		p, err := r.push(ctx, r.pushed%max(r.cfg.Services-1, 1)+min(1, r.cfg.Services-1), r.pushed)
		if err != nil {
			return err
		}
		pushes[p.commit] = p
		next = next.Add(every)
	}
	if !retry.Sleep(ctx, time.Until(end)) {
		return context.Cause(ctx)
	}
	a, err := r.ask(ctx, question{Measuring: true})
	if err != nil {
		return err
	}
	r.Window, r.Steady, r.Stats = time.Since(meter.begin), meter.end(ctx, r.hub), a.Stats
	if err := r.arrived(ctx, pushes, a.Stats); err != nil {
		return err
	}
	for _, p := range pushes {
		r.Pushes = append(r.Pushes, p.judge(a.Stats.Arrivals[p.commit]))
	}
	return nil
}

// arrived waits until the newest push to each folder is at all agents that use it, so that no later step counts it. Of
// pushes that were overtaken agents may never hear.
func (r *Run) arrived(ctx context.Context, pushes map[string]pushed, into *Stats) error {
	newest := map[string]pushed{}
	for _, p := range pushes {
		if p.at.After(newest[p.folder].at) {
			newest[p.folder] = p
		}
	}
	left := func(p pushed) bool { return len(into.Arrivals[p.commit]) < p.services }
	for slices.ContainsFunc(slices.Collect(maps.Values(newest)), left) {
		err := r.until(ctx, pushTimeout, question{Measuring: true}, func(a answer) (bool, string) {
			for commit, at := range a.Stats.Arrivals {
				into.Arrivals[commit] = append(into.Arrivals[commit], at...)
			}
			return len(a.Stats.Arrivals) > 0, "pushes of the steady state are on their way"
		})
		if err != nil {
			return fmt.Errorf("wait for the pushes of the steady state: %w", err)
		}
	}
	return nil
}

// pushEvery is between two pushes, each to the folder of one group.
func (r *Run) pushEvery() time.Duration {
	perHour := r.cfg.ChangesPerHour * float64(r.cfg.Clusters*r.cfg.Services)
	if perHour == 0 {
		return r.cfg.Duration + time.Hour
	}
	return time.Duration(float64(time.Hour) * float64(r.cfg.users(min(1, r.cfg.Services-1), 0)) / perHour)
}

type pushed struct {
	commit   string
	folder   string
	services int
	at       time.Time
}

// push changes the folder of one group of clusters, and tells the hub as a webhook does.
func (r *Run) push(ctx context.Context, service, group int) (pushed, error) {
	group %= r.cfg.groupsOf(service)
	source := r.cfg.sourceOf(service)
	r.pushed++
	commit, at, err := r.hub.git.push(ctx, source, folder(service, group), fmt.Sprintf("push %d", time.Now().UnixNano()))
	if err != nil {
		return pushed{}, err
	}
	return pushed{commit, folder(service, group), r.cfg.users(service, group), at}, r.refreshed(ctx, source)
}

func (p pushed) judge(arrivals []int64) Push {
	out := Push{Commit: p.commit, Services: p.services, Arrived: len(arrivals)}
	for _, at := range arrivals {
		took := time.Unix(0, at).Sub(p.at)
		out.times.Add(took)
		out.Max = max(out.Max, took)
	}
	out.P50, out.P95 = out.times.Quantile(0.5), out.times.Quantile(0.95)
	return out
}

// wave measures how long a new head takes to all that use it.
func (r *Run) wave(ctx context.Context) error {
	if _, err := r.ask(ctx, question{Measuring: true}); err != nil {
		return err
	}
	before := r.origin(ctx)
	p, err := r.push(ctx, 0, 0)
	if err != nil {
		return err
	}
	var arrivals []int64
	downloads := 0
	err = r.until(ctx, pushTimeout, question{Measuring: true}, func(a answer) (bool, string) {
		arrivals = append(arrivals, a.Stats.Arrivals[p.commit]...)
		downloads += a.Stats.downloads()
		return len(arrivals) >= p.services && (r.cfg.Downloads < 1 || downloads >= p.services),
			fmt.Sprintf("the push is at %d of %d agents, and downloaded by %d", len(arrivals), p.services, downloads)
	})
	if err != nil {
		return fmt.Errorf("wait for a push: %w", err)
	}
	r.Pushed = r.origin(ctx).since(before)
	r.Pushed.Downloads = downloads
	r.Wave = p.judge(arrivals)
	r.say("a push to %d agents: p95 %d ms", r.Wave.Arrived, r.Wave.P95.Milliseconds())
	return nil
}

// check compares what each agent has with what the console says is handed out.
func (r *Run) check(ctx context.Context) error {
	return r.until(ctx, pushTimeout, question{Digests: true}, func(a answer) (bool, string) {
		said, err := r.hub.api.digests(ctx)
		if err != nil {
			return false, err.Error()
		}
		clusters := map[string]map[string]string{}
		for name, digest := range said {
			_, cluster, _ := strings.Cut(name, "-")
			if clusters[cluster] == nil {
				clusters[cluster] = map[string]string{}
			}
			clusters[cluster][name] = digest
		}
		r.Wrong = nil
		for cluster := range maps.Keys(r.tokens) {
			if len(clusters[cluster]) != r.cfg.Services || delivery.SetDigest(clusters[cluster]) != a.Digests[cluster] {
				r.Wrong = append(r.Wrong, cluster)
			}
		}
		slices.Sort(r.Wrong)
		return len(r.Wrong) == 0 && a.Stats.Pending == 0, fmt.Sprintf("%d clusters do not have what the console says, such as %s; %d reports on their way",
			len(r.Wrong), strings.Join(r.Wrong[:min(len(r.Wrong), 3)], ", "), a.Stats.Pending)
	})
}

// reconnect kills the distributor and measures until every agent polls and watches again.
func (r *Run) reconnect(ctx context.Context) error {
	p := r.hub.parts["distributor"]
	if err := p.Kill(); err != nil {
		return err
	}
	begin := time.Now()
	if err := p.Start(); err != nil {
		return err
	}
	// Errors that agents meet meanwhile are no errors of the run.
	before := maps.Clone(r.errors.Errors)
	defer func() { r.errors.Errors = before }()
	err := r.until(ctx, settleTimeout, question{Since: begin.UnixNano()}, func(a answer) (bool, string) {
		return a.Stats.Synced == r.cfg.Clusters && a.Stats.Watching == r.cfg.Clusters,
			fmt.Sprintf("%d of %d agents poll again, %d watch", a.Stats.Synced, r.cfg.Clusters, a.Stats.Watching)
	})
	if err != nil {
		return fmt.Errorf("wait for agents after a restart: %w", err)
	}
	r.Reconnected = time.Since(begin)
	r.say("all agents are back %.1f s after the distributor was killed", r.Reconnected.Seconds())
	return nil
}

// Fault says what was not as it has to be, whatever the figures. Reports that the hub puts off are no
// fault: agents keep them until it takes them.
func (r *Run) Fault() error {
	var errs []error
	if len(r.Wrong) > 0 {
		errs = append(errs, fmt.Errorf("%d clusters do not have what the console says", len(r.Wrong)))
	}
	for name, n := range r.errors.Errors {
		if !r.excused(name) {
			errs = append(errs, fmt.Errorf("agents met %d x %s", n, name))
		}
	}
	if most := 2 * r.cfg.NextPoll; most >= unhurried && r.Converged > most {
		errs = append(errs, fmt.Errorf("after a fault it took %s until all was right: more than two polls", r.Converged))
	}
	return errors.Join(errs...)
}
