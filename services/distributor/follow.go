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
			change = follow.Apply(s.plan, s.replica.Catalog, sub, time.Now())
			s.seen.Forget(func(cluster string) bool { _, ok := s.replica.Catalog.Cluster(cluster); return ok })
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
		// Served on all the same; a restart asks the gitcaches again.
		s.deps.Log.Warn("what is delivered could not be written to the disk", "err", err)
	}
	s.metrics.Nudges.Add(float64(s.nudges.Nudge(c.Clusters)))
	s.resolve.Kick()
	s.hub.Changed(c.Services, c.Lines)
	s.trace(ctx, c.Delivered)
}

// trace puts what is delivered into the trace that follows its commit: one span per commit, however many
// services it is delivered to.
func (s *Service) trace(ctx context.Context, delivered []plan.Delivered) {
	services := map[string]int{} // by trace context
	for _, d := range delivered {
		c := d.Content
		s.deps.Log.DebugContext(ctx, "delivered", "source", c.Want.Source, "path", c.Want.Path, "revision", c.Revision.Commit, "digest", c.Artifact.Digest, "services", d.Services)
		if c.Revision.Traceparent == "" {
			continue
		}
		if _, begun := services[c.Revision.Traceparent]; !begun {
			_, span := s.tracer.Start(telemetry.Extract(ctx, c.Revision.Traceparent), "distribute",
				trace.WithAttributes(attribute.String("source", c.Want.Source), attribute.String("revision", c.Revision.Commit)))
			defer func() {
				span.SetAttributes(attribute.Int("services", services[c.Revision.Traceparent]))
				span.End()
			}()
		}
		services[c.Revision.Traceparent] += d.Services
	}
}
