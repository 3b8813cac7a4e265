package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/agent/internal/apply"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/manifest"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

// problem is why a service is not as it should be, for people.
type problem struct {
	// text is whole sentences.
	text string
	// failures are the objects that are at fault.
	failures []apply.Failure
	// final: trying again changes nothing before the next digest.
	final bool
}

// apply brings the service to its digest. On any problem it reports it and says when to try again.
func (k *keeper) apply(ctx, patience context.Context, service desired.Service, record inventory.Record) time.Duration {
	if !k.announced && !record.Has(service.Digest) {
		k.report(service, record, &deliveryv1.ServiceReport{Phase: deliveryv1.Phase_PHASE_APPLYING})
	}
	k.announced = true
	begin := time.Now()
	ctx, span := k.Tracer.Start(telemetry.Extract(ctx, service.Traceparent), "agent.apply", trace.WithAttributes(
		attribute.String("service", k.name), attribute.String("digest", service.Digest), attribute.String("revision", service.Commit)))
	defer span.End()
	failure := k.prepare(ctx, patience, service, record)
	if ctx.Err() != nil || patience.Err() != nil && failure != nil {
		return 0 // something else is wanted meanwhile, or the agent stops
	}
	k.metrics.seconds.Observe(time.Since(begin).Seconds())
	if failure != nil {
		k.metrics.applies.WithLabelValues("failed").Inc()
		span.SetStatus(codes.Error, "not applied")
		k.stuck = failure.final
		if latest, err := k.Inventory.Get(ctx, k.name); err == nil {
			record = latest
		}
		return k.failed(service, record, *failure)
	}
	k.metrics.applies.WithLabelValues("applied").Inc()
	k.log.Info("applied", "revision", service.Commit, "digest", service.Digest, "seconds", time.Since(begin).Seconds())
	k.backoff.Reset()
	return 0
}

// prepare waits for the content, and then for a turn: a hub that is slow to answer holds no slot.
func (k *keeper) prepare(ctx, patience context.Context, service desired.Service, record inventory.Record) *problem {
	if err := k.Artifacts.Prepare(patience, service); err != nil {
		return retried(err).because(staysAsItWas(record))
	}
	release, ok := k.slot(patience)
	if !ok {
		return &problem{}
	}
	defer release()
	return k.bring(ctx, patience, service, record)
}

// bring does the work of apply, step by step; each leaves the cluster in a state to go on from.
func (k *keeper) bring(ctx, patience context.Context, service desired.Service, record inventory.Record) *problem {
	items, failure := k.render(ctx, patience, service, record)
	if failure != nil {
		return failure
	}
	before := staysAsItWas(record)
	if failure := k.claim(ctx, items, record); failure != nil {
		k.Inventory.Release(k.name)
		return failure.because(before)
	}
	// Only where there is a good state to protect: a first apply would cost twice the requests.
	if record.Applied.Digest != "" {
		if failures := k.Applier.Rehearse(ctx, items, record); len(failures) > 0 {
			k.Inventory.Release(k.name)
			return refused(failures).because(before)
		}
	}
	superset := record
	superset.Complete = false
	superset.Entries = union(record.Entries, items)
	if record.Complete || len(superset.Entries) > len(record.Entries) {
		if err := k.Inventory.Save(ctx, superset); err != nil {
			k.Inventory.Release(k.name)
			return retried(err).because(before)
		}
	}
	applied, failures := k.Applier.Apply(ctx, items, patience.Done())
	if len(failures) > 0 && len(applied) == 0 {
		return refused(failures).because(before)
	}
	if len(failures) > 0 {
		return refused(failures).because(fmt.Sprintf("%d of %d objects are applied, the others stay as they were", len(applied), len(items)))
	}
	return k.finish(ctx, service, superset, applied)
}

// finish removes what is no longer there, and records the digest as applied.
func (k *keeper) finish(ctx context.Context, service desired.Service, record inventory.Record, applied []apply.Applied) *problem {
	now := make(map[object.Key]bool, len(applied))
	entries := make([]inventory.Entry, 0, len(applied))
	k.watch = watch{}
	for _, one := range applied {
		ref := one.Item.Ref()
		now[ref.Key] = true
		entries = append(entries, inventory.Entry{Ref: ref, UID: one.Object.GetUID(), Sum: one.Item.Sum, Owned: object.Owned(one.Object)})
		k.watch.see(k.Checker.Of(ref, one.Object))
	}
	var stale []inventory.Entry
	for _, entry := range record.Entries {
		if !now[entry.Key] {
			stale = append(stale, entry)
		}
	}
	if len(stale) > 0 {
		left := k.Pruner.Prune(ctx, k.name, stale)
		k.metrics.pruned.Add(float64(len(stale) - len(left)))
		k.log.Info("removed objects that are no longer in the manifests", "objects", len(stale)-len(left), "left", len(left))
		for _, one := range left {
			one.Entry.Sum = 0 // marks it as leaving
			entries = append(entries, one.Entry)
		}
		k.watch.leaving = left
	}
	record.Entries = entries
	record.Complete = true
	record.Applied = inventory.Applied{Digest: service.Digest, Commit: service.Commit, Set: setOf(service).String(), Time: time.Now().UTC().Truncate(time.Second)}
	if err := k.Inventory.Save(ctx, record); err != nil {
		return retried(err).because("all objects are applied")
	}
	k.keepSets(record)
	return nil
}

// render turns the service's artifact into objects that are ready to be sent.
func (k *keeper) render(ctx, patience context.Context, service desired.Service, record inventory.Record) ([]apply.Item, *problem) {
	before := staysAsItWas(record)
	objects, failure := k.objects(ctx, patience, service, record)
	if failure != nil {
		return nil, failure
	}
	items, err := readAll(objects)
	if err = errors.Join(err, objects.Close()); err != nil {
		return nil, retried(err).because(before)
	}
	return items, nil
}

// readAll reads the objects of a set.
func readAll(objects *set.Set) ([]apply.Item, error) {
	listed, err := objects.Items()
	if err != nil {
		return nil, err
	}
	items := make([]apply.Item, len(listed))
	for i, item := range listed {
		obj, at, err := objects.Object(item)
		if err != nil {
			return nil, err
		}
		items[i] = apply.Item{Object: manifest.Object{Unstructured: obj, Position: at}, Sum: item.Sum}
	}
	return items, nil
}

// claim makes sure that every object is this service's to apply.
func (k *keeper) claim(ctx context.Context, items []apply.Item, record inventory.Record) *problem {
	keys := make([]object.Key, len(items))
	for i, item := range items {
		keys[i] = item.Ref().Key
	}
	if taken := k.Inventory.Claim(k.name, keys); len(taken) > 0 {
		var failures []apply.Failure
		for _, item := range items {
			if owner, ok := taken[item.Ref().Key]; ok {
				failures = append(failures, apply.Failure{Item: item, Problem: *apply.Taken(owner)})
			}
		}
		return refused(failures)
	}
	if failures := k.Applier.Strangers(ctx, k.name, items, record); len(failures) > 0 {
		return refused(failures)
	}
	return nil
}

// union lists what is there and what is to come. What is there keeps its hash until it is applied anew.
func union(entries []inventory.Entry, items []apply.Item) []inventory.Entry {
	all := append([]inventory.Entry(nil), entries...)
	at := make(map[object.Key]int, len(all))
	for i, entry := range all {
		at[entry.Key] = i
	}
	for _, item := range items {
		ref := item.Ref()
		if i, ok := at[ref.Key]; ok {
			all[i].Version = ref.Version
			continue
		}
		all = append(all, inventory.Entry{Ref: ref})
	}
	return all
}

func staysAsItWas(record inventory.Record) string {
	switch {
	case record.Applied.Digest == "":
		return "nothing was applied"
	case !record.Complete:
		return "what is applied stays"
	}
	return "the previous state stays applied"
}

// because ends the text with what that means for the cluster: "...; the previous state stays applied."
func (p *problem) because(state string) *problem {
	p.text = strings.TrimSuffix(p.text, ".") + "; " + state + "."
	if more := len(p.failures) - 1; more == 1 {
		p.text += " One more object has a problem, too."
	} else if more > 1 {
		p.text += fmt.Sprintf(" %d more objects have problems, too.", more)
	}
	return p
}

func retried(err error) *problem {
	return &problem{text: sentence(err) + " It is tried again."}
}

// mistakeOrRetry tells manifests that are wrong from a cluster that does not answer.
func mistakeOrRetry(err error) *problem {
	if mistake := (*manifest.Error)(nil); errors.As(err, &mistake) {
		return &problem{text: sentence(err) + " Fix the manifest and push.", final: true}
	}
	return retried(err)
}

func sentence(err error) string { return strings.TrimRight(err.Error(), ". \n") + "." }

func refused(failures []apply.Failure) *problem {
	first := failures[0]
	return &problem{
		text:     fmt.Sprintf("%s: %s. %s", first.Item, first.Problem.Text, first.Problem.Advice),
		failures: failures,
	}
}
