package distributor

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/distributor/internal/follow"
	"fairlead.dev/services/distributor/internal/plan"
)

// maxAnswers is how many answers of gitcaches are taken in at a time: one write to the disk and one
// round of nudges for all of them.
const maxAnswers = 256

// learn hands an answer to the loop below.
func (s *Service) learn(ctx context.Context, a plan.Answer) {
	s.metrics.Resolved(a)
	select {
	case s.answers <- a:
	case <-ctx.Done():
	}
}

// follow is the one goroutine that changes the plan: by what changes in the catalog, and by what
// gitcaches answer.
func (s *Service) follow(ctx context.Context) error {
	sub := s.replica.Catalog.Subscribe()
	defer sub.Close()
	overdue := time.NewTicker(time.Second)
	defer overdue.Stop()
	for {
		var change plan.Change
		select {
		case <-ctx.Done():
			return nil
		case <-sub.C():
			var gone bool
			change, gone = follow.Apply(s.plan, s.replica.Catalog, sub, time.Now())
			s.nudge(ctx, untraced(s.gate.Changed()), nil)
			if gone {
				s.forget()
			}
		case <-overdue.C:
			if !s.plan.Waiting() {
				continue
			}
			change = s.plan.Overdue(time.Now())
		case a := <-s.answers:
			change = s.plan.Answer(time.Now(), s.gather(a)...)
		}
		s.settle(ctx, change)
	}
}

// forget drops what is known of clusters that left the catalog.
func (s *Service) forget() {
	exists := func(cluster string) bool { _, ok := s.replica.Catalog.Cluster(cluster); return ok }
	s.seen.Forget(exists)
	s.gate.Forget(exists)
	s.delivery.Forget(exists)
}

// untraced are clusters that have something to do which comes of no commit.
func untraced(clusters map[string]struct{}) map[string]string {
	out := make(map[string]string, len(clusters))
	for c := range clusters {
		out[c] = ""
	}
	return out
}

// gather adds the answers that wait already.
func (s *Service) gather(first plan.Answer) []plan.Answer {
	answers := []plan.Answer{first}
	for len(answers) < maxAnswers {
		select {
		case a := <-s.answers:
			answers = append(answers, a)
		default:
			return answers
		}
	}
	return answers
}

// settle does what follows from a change. The record comes before the nudges: after a kill in between,
// agents that were told would be turned back to what they had before.
func (s *Service) settle(ctx context.Context, c plan.Change) {
	s.store.Pin(s.plan.InUse())
	if err := s.ledger.Record(c); err != nil {
		s.deps.Log.Warn("what is delivered can't be written to the disk: it is served, and a restart asks the gitcaches again. Free or repair the disk",
			"err", err)
	}
	s.nudge(ctx, c.Clusters, s.digests(ctx, c.Delivered))
	s.resolve.Kick()
	if s.plan.Current() { // else the console may know of newer commits, and would take this for what came of them
		s.hub.Changed(c.Services, c.Lines)
	}
	s.folders.Changed(c.Services)
}

// digests puts what is delivered into the traces that follow its commits: one span per commit, however many services it
// is delivered to. digests returns their contexts by those of the commits.
func (s *Service) digests(ctx context.Context, delivered []plan.Delivered) map[string]string {
	services := map[string]int{}
	traces := map[string]string{}
	for _, d := range delivered {
		c := d.Content
		s.deps.Log.DebugContext(ctx, "delivered", "source", c.Want.Source, "path", c.Want.Path,
			"revision", c.Revision.Commit, "digest", c.Artifact.Digest, "services", d.Services)
		parent := c.Revision.Traceparent
		services[parent] += d.Services
		if _, begun := traces[parent]; begun || !telemetry.Sampled(parent) {
			continue
		}
		traced, span := telemetry.Of(ctx, parent, s.tracer, "distributor.digest", trace.WithTimestamp(d.Since),
			trace.WithAttributes(attribute.String("source", c.Want.Source), attribute.String("revision", c.Revision.Commit)))
		defer func() {
			span.SetAttributes(attribute.Int("services", services[parent]))
			span.End()
		}()
		traces[parent] = telemetry.Inject(traced)
	}
	return traces
}

// nudge tells the agents of clusters that there is something to do, each within the trace of the commit that it comes
// of.
func (s *Service) nudge(ctx context.Context, clusters, traces map[string]string) {
	nudges := map[string]string{} // trace contexts by those of the commits
	for parent, digest := range traces {
		nudged, span := telemetry.Of(ctx, digest, s.tracer, "distributor.nudge")
		defer span.End()
		nudges[parent] = telemetry.Inject(nudged)
	}
	for cluster, parent := range clusters {
		clusters[cluster] = nudges[parent]
	}
	s.metrics.Nudges.Add(float64(s.nudges.Nudge(clusters)))
}
