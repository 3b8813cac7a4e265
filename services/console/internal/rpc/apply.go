package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"github.com/rogpeppe/go-internal/diff"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalogyaml"
	"fairlead.dev/platform/kind"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

type applies struct{ Deps }

func (s *applies) Apply(ctx context.Context, req *consolev1.ApplyRequest) (*consolev1.ApplyResponse, error) {
	a := catalog.Application{
		Set: req.GetSet(), Prune: req.GetPrune(), Dry: req.GetDryRun(), Confirmation: req.GetConfirmation(),
	}
	var fixed []int // which of the resources are always there, as they are
	for i, r := range req.GetResources() {
		if s.isFixed(r) {
			fixed = append(fixed, i)
			continue
		}
		e, err := s.draftAny(r)
		if err != nil {
			return nil, s.fail(ctx, fmt.Errorf("resource %d: %w", i, err))
		}
		a.Edits = append(a.Edits, e)
	}
	applied, err := s.Catalog.Apply(ctx, call.By(ctx), a)
	if err != nil {
		countFixed(err, fixed)
		return nil, s.fail(ctx, err)
	}
	if !a.Dry {
		s.revoked(ctx, applied.Written)
	}
	out := &consolev1.ApplyResponse{TouchedTotal: int32(applied.Total)}
	for _, r := range applied.Touched[:min(len(applied.Touched), shownTouched)] {
		touched, err := encodeTouched(r)
		if err != nil {
			return nil, s.fail(ctx, err)
		}
		out.TouchedServices = append(out.TouchedServices, touched)
	}
	for _, w := range applied.Written {
		result, err := s.applied(w, a.Dry)
		if err != nil {
			return nil, s.fail(ctx, err)
		}
		out.Results = append(out.Results, result)
	}
	for _, i := range fixed {
		out.Results = slices.Insert(out.GetResults(), i, unchanged(req.GetResources()[i]))
	}
	return out, nil
}

// countFixed has faults name resources by their places in the request, where others are fixed.
func countFixed(err error, fixed []int) {
	refused, ok := errors.AsType[*refusal.Error](err)
	if !ok {
		return
	}
	for i := range refused.Faults {
		for _, place := range fixed {
			if place <= refused.Faults[i].Index {
				refused.Faults[i].Index++
			}
		}
	}
}

// isFixed says that a resource is always there, as it is: it needs no write.
func (d Deps) isFixed(r *consolev1.Resource) bool {
	k, m := kind.Unwrap(r)
	of := d.Kinds.Stored(store.Kind(k.Singular()))
	return m != nil && of != nil && of.IsFixed(m)
}

// unchanged is what became of a resource that is always there.
func unchanged(r *consolev1.Resource) *consolev1.Applied {
	k, m := kind.Unwrap(r)
	return &consolev1.Applied{
		Kind: descriptor.Number(store.Kind(k.Singular())), Name: m.GetMetadata().GetName(),
		Outcome: consolev1.ApplyOutcome_APPLY_OUTCOME_UNCHANGED,
	}
}

// shownTouched is how many services are named that get another configuration.
const shownTouched = 100

func encodeTouched(r store.Reconfigured) (*consolev1.TouchedService, error) {
	var spec state.ServiceSpec
	if err := json.Unmarshal(r.Service.Spec, &spec); err != nil {
		return nil, fmt.Errorf("decode service %q: %w", r.Service.Name, err)
	}
	return &consolev1.TouchedService{Name: r.Service.Name, Cluster: spec.Cluster, Entries: r.Entries, Problem: r.Problem}, nil
}

// revoked puts the revocations in force of clusters' agents and of service accounts.
func (d Deps) revoked(ctx context.Context, written []catalog.Written) {
	for _, w := range written {
		if w.Kind == store.KindCluster && w.Outcome == catalog.Removed || w.Kind == store.KindServiceAccount && w.Outcome != catalog.Unchanged {
			d.reload(ctx)
			return
		}
	}
}

// draftAny gets a resource ready to be written.
func (d Deps) draftAny(r *consolev1.Resource) (catalog.Edit, error) {
	k, m := kind.Unwrap(r)
	of := d.Kinds.Stored(store.Kind(k.Singular()))
	if m == nil || of == nil {
		return catalog.Edit{}, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("is a %T: this console does not know that yet", r.GetResource()))
	}
	return d.draft(of, m), nil
}

// draft gets a resource ready to be written. Faults of the resource itself are reported with the other faults.
func (d Deps) draft(of descriptor.Any, m kind.Message) catalog.Edit {
	e, err := of.Drafted(d.Catalog, m)
	if err != nil {
		return catalog.Broken(of.Stored(), m.GetMetadata().GetName(), err)
	}
	return e
}

func (s *applies) applied(w catalog.Written, dry bool) (*consolev1.Applied, error) {
	out := &consolev1.Applied{Kind: descriptor.Number(w.Kind), Name: w.Name}
	switch w.Outcome {
	case catalog.Created:
		out.Outcome = consolev1.ApplyOutcome_APPLY_OUTCOME_CREATED
	case catalog.Updated:
		out.Outcome = consolev1.ApplyOutcome_APPLY_OUTCOME_UPDATED
	case catalog.Unchanged:
		out.Outcome = consolev1.ApplyOutcome_APPLY_OUTCOME_UNCHANGED
	case catalog.Removed:
		out.Outcome = consolev1.ApplyOutcome_APPLY_OUTCOME_DELETED
	}
	if w.After != nil {
		out.Etag = w.After.ETag()
	}
	side, err := catalog.NoteSide(w.Side)
	if err != nil {
		return nil, err
	}
	out.Note = strings.Join(append(w.Notes, side...), ", ")
	if !dry || w.Outcome == catalog.Unchanged {
		return out, nil
	}
	out.Diff, err = s.diff(w.Name, w.Before, w.After)
	return out, err
}

// diff shows what changes, as people write it down.
func (d Deps) diff(name string, before, after *store.Resource) (string, error) {
	before, after, err := state.AsFiles(before, after)
	if err != nil {
		return "", err
	}
	was, err := d.text(before, before)
	if err != nil {
		return "", err
	}
	is, err := d.text(before, after)
	if err != nil {
		return "", err
	}
	return string(diff.Diff("is "+name, was, "will be "+name, is)), nil
}

// text is told as YAML; nothing for none. Of a service it is what files say, where that changes, and else what is in
// force.
func (d Deps) text(before, r *store.Resource) ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	m, err := d.told(before, r)
	if err != nil {
		return nil, err
	}
	return catalogyaml.YAML(m)
}

// told is what people write down of a resource, with its secrets masked; of a value that is not that of before, this
// is said.
func (d Deps) told(before, r *store.Resource) (kind.Message, error) {
	of, err := d.described(*r)
	if err != nil {
		return nil, err
	}
	return of.Written(d.Catalog, before, r)
}

func (d Deps) described(r store.Resource) (descriptor.Any, error) {
	of := d.Kinds.Stored(r.Kind)
	if of == nil {
		return nil, fmt.Errorf("%s %q can't be shown", r.Kind, r.Name)
	}
	return of, nil
}

// reload puts a revocation that is durable in force here; elsewhere it is at the next look at the database.
func (d Deps) reload(ctx context.Context) {
	if err := d.Authority.Reload(ctx); err != nil {
		d.Log.WarnContext(ctx, "revocation is not in force yet", "err", err)
	}
}
