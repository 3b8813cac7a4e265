package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/e2e/process"
)

// outage is something behind the distributors that goes away and comes back.
type outage struct {
	what    string
	begin   func() error
	restore func(context.Context) error
}

func (r *Run) outages() []outage {
	part := func(name string) outage {
		return outage{name, r.hub.parts[name].Kill, func(ctx context.Context) error { return r.hub.startPart(ctx, name) }}
	}
	list := []outage{
		part("console"),
		{"redis", r.hub.redis.Kill, r.hub.redis.Restart},
		part("gitcache"),
		{"the git host", r.hub.git.close, r.hub.git.serve},
	}
	return append(list, outage{"all of them", func() error {
		var errs []error
		for _, o := range list {
			errs = append(errs, o.begin())
		}
		return errors.Join(errs...)
	}, func(ctx context.Context) error {
		for _, o := range slices.Backward(list[:2]) { // the console is followed by all others
			if err := o.restore(ctx); err != nil {
				return err
			}
		}
		for _, o := range slices.Backward(list[2:]) {
			if err := o.restore(ctx); err != nil {
				return err
			}
		}
		return nil
	}})
}

// faults has everything behind the distributors fail, one after another and all together, then the
// distributors and their disks.
func (r *Run) faults(ctx context.Context) error {
	for _, o := range r.outages() {
		if err := r.endure(ctx, o); err != nil {
			return fmt.Errorf("outage of %s: %w", o.what, err)
		}
	}
	steps := []struct {
		what string
		do   func(context.Context) error
	}{
		{"cache files go bad", r.rot}, {"a disk is full", r.full}, {"distributors are replaced", r.replace},
	}
	for _, s := range steps {
		r.say("%s", s.what)
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		if err := r.converge(ctx); err != nil {
			return fmt.Errorf("after %s: %w", s.what, err)
		}
	}
	return nil
}

// endure looks at agents while something is away: they poll, and get what is cached, without an error. Then it
// comes back, and what is pushed gets to all.
func (r *Run) endure(ctx context.Context, o outage) error {
	before := maps.Clone(r.errors.Errors)
	if err := o.begin(); err != nil {
		return err
	}
	begin := time.Now()
	for first := true; first || time.Since(begin) < r.cfg.Hold; first = false {
		for range 2 {
			if err := r.polled(ctx); err != nil {
				return err
			}
		}
		if err := r.downloaded(ctx); err != nil {
			return err
		}
	}
	if err := r.met(before); err != nil {
		return err
	}
	if err := o.restore(ctx); err != nil {
		return err
	}
	if err := r.converge(ctx); err != nil {
		return err
	}
	return r.met(before)
}

// polled waits until every agent was answered once more.
func (r *Run) polled(ctx context.Context) error {
	return r.until(ctx, settleTimeout, question{Since: time.Now().UnixNano()}, func(a answer) (bool, string) {
		return a.Stats.Synced == r.cfg.Clusters, fmt.Sprintf("%d of %d agents were answered", a.Stats.Synced, r.cfg.Clusters)
	})
}

// downloaded has every agent download again what it was delivered last, until it has it.
func (r *Run) downloaded(ctx context.Context) error {
	a, err := r.ask(ctx, question{Download: true})
	if err == nil && a.Stats.downloads() < r.cfg.Clusters {
		err = fmt.Errorf("%d of %d agents got what is cached", a.Stats.downloads(), r.cfg.Clusters)
	}
	return err
}

// met says what agents met besides reports that are put off.
func (r *Run) met(before map[string]int64) error {
	var errs []error
	for name, n := range r.errors.Errors {
		if n > before[name] && !r.excused(name) {
			errs = append(errs, fmt.Errorf("agents met %d x %s (%s)", n-before[name], name, r.errors.Texts[name]))
		}
	}
	return errors.Join(errs...)
}

// converge pushes, and waits until all that use it have it, and what the console says.
func (r *Run) converge(ctx context.Context) error {
	if _, err := r.ask(ctx, question{Measuring: true}); err != nil {
		return err
	}
	p, err := r.push(ctx, 0, 0)
	if err != nil {
		return err
	}
	begin, arrived := time.Now(), 0
	err = r.until(ctx, pushTimeout, question{Measuring: true}, func(a answer) (bool, string) {
		arrived += len(a.Stats.Arrivals[p.commit])
		return arrived >= p.services, fmt.Sprintf("the push is at %d of %d agents", arrived, p.services)
	})
	if err == nil {
		err = r.check(ctx)
	}
	took := time.Since(begin)
	r.Converged = max(r.Converged, took)
	r.say("  all have a new push, and what the console says, after %.1f s", took.Seconds())
	return err
}

// rot spoils every file of the distributors' caches, each in another way. Agents verify what they get: they
// may be cut off, and have the right bytes in the end.
func (r *Run) rot(ctx context.Context) error {
	spoilt := 0
	for _, name := range distributors() {
		files, err := filepath.Glob(filepath.Join(r.hub.dir(name), "artifacts", "*.tar.zst"))
		if err != nil {
			return err
		}
		for i, file := range files {
			if err := spoil(file, files[(i+1)%len(files)], i); err != nil {
				return err
			}
			spoilt++
		}
	}
	defer r.forgive(maps.Clone(r.errors.Errors))
	if err := r.downloaded(ctx); err != nil {
		return err
	}
	corrupt := 0.0
	for _, name := range distributors() {
		n, err := r.hub.api.metric(ctx, r.hub.urls[name], "fairlead_distributor_cache_corrupt_total")
		if err != nil {
			return err
		}
		corrupt += n
	}
	if corrupt == 0 {
		return fmt.Errorf("of %d bad files none was noticed", spoilt)
	}
	return nil
}

func spoil(file, other string, how int) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	switch how % 3 {
	case 0:
		text[len(text)/2] ^= 1
	case 1:
		text = text[:len(text)/2]
	default:
		if text, err = os.ReadFile(other); err != nil {
			return err
		}
	}
	return os.WriteFile(file, text, 0o600)
}

// full leaves a distributor's cache no room for a byte while there is something new, and gives it back.
func (r *Run) full(ctx context.Context) error {
	if !r.hub.small {
		r.say("  skipped: a small disk can't be mounted here (that takes root)")
		return nil
	}
	ballast := filepath.Join(r.hub.dir("distributor"), "artifacts", "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		return err
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if err := f.Close(); err != nil {
		return err
	}
	before := maps.Clone(r.errors.Errors)
	if err := r.converge(ctx); err != nil {
		return err
	}
	if err := r.downloaded(ctx); err != nil {
		return err
	}
	return errors.Join(r.met(before), os.Remove(ballast))
}

// replace ends each distributor as a rolling update does. Agents go to the other one: nothing is lost, and no
// agent asks in vain for long.
func (r *Run) replace(ctx context.Context) error {
	defer r.forgive(maps.Clone(r.errors.Errors))
	for _, name := range distributors() {
		if err := r.hub.parts[name].Stop(stopGrace); err != nil {
			return err
		}
		if err := r.polled(ctx); err != nil {
			return err
		}
		if err := r.converge(ctx); err != nil {
			return err
		}
		if err := r.hub.startPart(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// forgive forgets errors that belong to a step.
func (r *Run) forgive(before map[string]int64) { r.errors.Errors = before }

// excused says which errors are none. Reports that are put off agents keep until the hub takes them. A new
// connection may be cut, when its distributor ends just then or has no time for its handshake: who asks with
// a connection for each request meets that, and asks again.
func (r *Run) excused(name string) bool {
	if strings.HasPrefix(name, "report: unavailable: ") || strings.HasPrefix(name, "report: resource_exhausted: ") {
		return true
	}
	return r.cfg.Faults && unconnected(name)
}

// unconnected says whether an error is of a connection that was not made whole.
func unconnected(name string) bool {
	return slices.ContainsFunc([]string{"EOF", "connection reset", "TLS handshake timeout", "client conn could not be established"},
		func(part string) bool { return strings.Contains(name, part) })
}

// refusedForNow says whether an error is the answer of a busy distributor, which tells when to come again.
func refusedForNow(name string) bool { return strings.Contains(name, "too many calls at once") }

// forgivenAtFirst says whether an error, of which one text is known whole, may be met in a first delivery: all agents
// come at once, and some again when parts are killed.
func (r *Run) forgivenAtFirst(name, text string) bool {
	return unconnected(name) || refusedForNow(name) || r.cfg.Disturb == DisturbKill && ofAKill(name, text)
}

// ofAKill says whether a killed part explains an error: a connection is refused or breaks, or a part that has come back
// is not ready for a call or is late with its answer.
func ofAKill(name, text string) bool {
	call, said, _ := strings.Cut(name, ": ")
	code, _, _ := strings.Cut(strings.TrimPrefix(said, "stream: "), ":")
	if call != "download" && (code == connect.CodeUnavailable.String() || code == connect.CodeDeadlineExceeded.String()) {
		return true
	}
	return slices.ContainsFunc([]string{
		"EOF", "connection reset", "connection refused", "broken pipe", "connection force closed", "http2: server sent GOAWAY", "503 Service Unavailable",
	}, func(part string) bool { return strings.Contains(text, part) })
}

// refreshed does what a webhook does, as often as the host repeats it: the hub may just be starting.
func (r *Run) refreshed(ctx context.Context, source int) error {
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	return process.Await(ctx, "the hub takes a webhook", func(ctx context.Context) error { return r.hub.api.refresh(ctx, sourceName(source)) })
}
