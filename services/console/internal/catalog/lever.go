package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	platform "fairlead.dev/platform/catalog"
	"fairlead.dev/platform/plural"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// leverAttempts is how often a lever is pulled again when somebody else changed the service meanwhile.
const leverAttempts = 3

// Ways in which the history names what an operator did.
const (
	held      = "held"
	resumed   = "resumed"
	pinSet    = "pinned"
	released  = "released"
	synced    = "sync asked"
	confirmed = "confirmed"

	overridden = "sync asked over closed windows"
)

// pull reads a service, has its levers changed, and writes it back: again, if it was changed by others in between.
func (c *Catalog) pull(ctx context.Context, by By, name, action string, change func(*state.Service, *state.Parts) error) (state.Service, error) {
	for attempt := 1; ; attempt++ {
		s, err := c.GetService(ctx, name)
		if err != nil {
			return state.Service{}, err
		}
		p, err := state.PartsOf(s.Spec)
		if err != nil {
			return state.Service{}, err
		}
		if err := change(&s, &p); err != nil {
			return state.Service{}, err
		}
		e, err := draftPulled(&s, p, action)
		if err != nil {
			return state.Service{}, err
		}
		out, _, err := PutOne(ctx, c, by, e, c.Services)
		if refusal.Is(err, refusal.Conflict) && attempt < leverAttempts {
			continue
		}
		return out, err
	}
}

// draftPulled gets a service with other levers ready to be written.
func draftPulled(s *state.Service, p state.Parts, action string) (e Edit, err error) {
	if s.Spec, err = p.Whole(); err != nil {
		return e, err
	}
	e, err = DraftService(s, Expectation{ETag: s.Meta.ETag})
	if err != nil {
		return e, err
	}
	e = e.naming(refsOfStored(&s.Spec))
	e.pulls, e.draft.Action = true, action
	return e, nil
}

// refsOfStored are the resources that a service names by its spec in force and by its files, which count again when no
// lever stands over them.
func refsOfStored(s *state.ServiceSpec) []resource.Reference {
	refs := resource.RefsOfService(s, "spec")
	if s.Levers != nil && s.Levers.Files != nil {
		refs = append(refs, resource.RefsOfService(s.Levers.Files, "spec")...)
	}
	return refs
}

// pulledBy completes a lever with who pulled it; one that was pulled in the same way already stays as it is.
func (c *Catalog) pulledBy(by By, l state.Lever, before *state.Lever) *state.Lever {
	if before != nil {
		same := *before
		same.By, same.Since = "", time.Time{}
		if reflect.DeepEqual(same, l) {
			return before
		}
	}
	l.By, l.Since = by.Subject, c.now().UTC()
	return &l
}

// checkUntil refuses an end that is over already.
func (c *Catalog) checkUntil(until time.Time) error {
	if !until.IsZero() && !until.After(c.now()) {
		return refusal.New(refusal.Invalid, "until: %s is over: name a time to come", until.UTC().Format(time.RFC3339))
	}
	return nil
}

// Hold keeps what is applied of a service, suspends it, or lets it go to dry runs, as the mode says, until somebody
// resumes it or the time comes.
func (c *Catalog) Hold(ctx context.Context, by By, name, mode, reason string, until time.Time) (state.Service, error) {
	if err := c.checkUntil(until); err != nil {
		return state.Service{}, err
	}
	return c.pull(ctx, by, name, held, func(_ *state.Service, p *state.Parts) error {
		p.Levers.Mode = c.pulledBy(by, state.Lever{Mode: mode, Reason: reason, Until: until}, p.Levers.Mode)
		return nil
	})
}

// Resume makes a service automatic again, whatever its files say.
func (c *Catalog) Resume(ctx context.Context, by By, name string) (state.Service, error) {
	return c.pull(ctx, by, name, resumed, func(_ *state.Service, p *state.Parts) error {
		before := p.Levers.Mode
		p.Levers.Mode = nil
		if mode := p.Files.Wishes().Mode; mode != "" && mode != state.ModeAuto {
			p.Levers.Mode = c.pulledBy(by, state.Lever{Mode: state.ModeAuto}, before)
		}
		return nil
	})
}

// Pin delivers one commit of a service, wherever its ref points; an empty one releases the pin, or ends the rollback.
func (c *Catalog) Pin(ctx context.Context, by By, name, commit, reason string, untilNext bool, until time.Time) (state.Service, error) {
	if err := c.checkUntil(until); err != nil {
		return state.Service{}, err
	}
	action := pinSet
	if commit == "" {
		action = released
	}
	return c.pull(ctx, by, name, action, func(s *state.Service, p *state.Parts) error {
		before := p.Levers.Pin
		p.Levers.Pin = nil
		if commit == "" {
			if pin := p.Files.Wishes().Pin; pin != "" && pin != state.PinNone {
				p.Levers.Pin = c.pulledBy(by, state.Lever{}, before)
			}
			return nil
		}
		l := state.Lever{Commit: commit, Reason: reason, Until: until}
		if mode := p.Levers.Mode; reason == "" && mode != nil && mode.Mode != state.ModeAuto {
			l.Reason = mode.Reason // one incident
		}
		if before != nil && before.Commit == commit {
			l.Deployment, l.Spec = before.Deployment, before.Spec // a rollback that lasts for another time
		}
		if untilNext {
			var err error
			if l.After, err = c.headNow(ctx, s); err != nil {
				return err
			}
		}
		p.Levers.Pin = c.pulledBy(by, l, before)
		return nil
	})
}

// RequestSync has everything of a service rendered and compared anew. One in manual mode is applied as the hub has it.
func (c *Catalog) RequestSync(ctx context.Context, by By, name string, r SyncRequest) (state.Service, error) {
	s, err := c.GetService(ctx, name)
	if err != nil {
		return state.Service{}, err
	}
	overrides, err := r.admit(&s)
	if err != nil {
		return state.Service{}, err
	}
	action := synced
	if len(overrides) > 0 {
		action = overridden
	}
	if err := c.named(ctx, name, r); err != nil {
		return state.Service{}, err
	}
	return c.pull(ctx, by, name, action, func(_ *state.Service, p *state.Parts) (err error) {
		p.Asked.Override, p.Asked.Overrides, p.Asked.Only = nil, nil, nil
		if len(overrides) > 0 {
			p.Asked.Override = json.RawMessage("true")
			if p.Asked.Overrides, err = json.Marshal(overrides); err != nil {
				return err
			}
		}
		if len(r.Only) > 0 {
			if p.Asked.Only, err = json.Marshal(r.Only); err != nil {
				return err
			}
		}
		p.Asked.Time, err = json.Marshal(c.now().UTC().Format(time.RFC3339Nano))
		return err
	})
}

// named refuses a sync of objects that the service is known not to have: its agent would find the mistake only later.
func (c *Catalog) named(ctx context.Context, name string, r SyncRequest) error {
	if len(r.Only) == 0 || r.Known == nil {
		return nil
	}
	missing, err := r.Known(ctx, name, r.Only)
	if err != nil || missing == "" {
		return err
	}
	return refusal.New(refusal.Precondition, "service %q has no object %s, neither applied nor waiting (hooks can't be named): `fairlead tree service %s` and `fairlead diff service %s` show what it has", name, missing, name, name)
}

// ConfirmPrune lets a removal go on that a guard stopped.
func (c *Catalog) ConfirmPrune(ctx context.Context, by By, name, guard string) (state.Service, error) {
	return c.pull(ctx, by, name, confirmed, func(s *state.Service, p *state.Parts) (err error) {
		if err := CheckGuard(s, guard); err != nil {
			return err
		}
		p.Asked.Confirmed, err = json.Marshal(guard)
		return err
	})
}

// headNow is the commit that the ref of a service points to: a pin until the ref moves on waits for another one.
func (c *Catalog) headNow(ctx context.Context, s *state.Service) (string, error) {
	source, err := c.GetSource(ctx, s.Spec.Source)
	if err != nil {
		return "", err
	}
	if head := state.GitTruthOf(&source, s.Spec.Ref).Head; head != nil {
		return head.Revision.Commit, nil
	}
	ref, next := cmp.Or(platform.ShowRef(s.Spec.Ref), "HEAD"), "`fairlead trace service "+s.Meta.Name+"` says why"
	return "", refusal.New(refusal.Precondition, "service %q: the hub does not know where %s of source %q points: %s", s.Meta.Name, ref, s.Spec.Source, next)
}

// CheckGuard is an error unless the cluster's report has the guard with this id.
func CheckGuard(s *state.Service, id string) error {
	switch r := s.Status.Cluster.Report; {
	case r == nil || r.Guard == nil:
		return refusal.New(refusal.Precondition, "service %q: nothing is to be confirmed any more", s.Meta.Name)
	case r.Guard.ID != id:
		return refusal.New(refusal.Precondition, "service %q: %s would be removed now, which is not what guard %q is about: look at them, and confirm %s",
			s.Meta.Name, plural.Part(r.Guard.Removing, r.Guard.ObjectsTotal, "object"), id, r.Guard.ID)
	}
	return nil
}

// Reached tells whether a service's ref is known to lead to a commit, or the service was given it: it is the ref's
// commit now, was delivered to the service, or runs at a service that follows the same ref of the same source, because
// the ref led there.
func Reached(ctx context.Context, v store.View, service store.Resource, commit string) (bool, error) {
	var spec state.ServiceSpec
	if err := state.Decode(service, &spec); err != nil {
		return false, err
	}
	past, err := v.Deployments(ctx, service.UID, 0, maxReached)
	if known, err := anyOf(past, err, func(d Deployment) bool { return d.Commit.Commit == commit }); known || err != nil {
		return known, err
	}
	source, err := v.Get(ctx, store.KindSource, spec.Source)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	heads, err := v.Heads(ctx, []string{source.UID})
	if err != nil {
		return false, err
	}
	status, err := state.ReadHeads(heads[source.UID])
	if err != nil {
		return false, err
	}
	if head := state.GitTruthOf(&state.Source{Status: status}, spec.Ref).Head; head != nil && head.Revision.Commit == commit {
		return true, nil
	}
	uids, err := followers(ctx, v, spec)
	if err != nil {
		return false, err
	}
	last, err := v.LastDeployments(ctx, uids)
	return anyOf(slices.Collect(maps.Values(last)), err, func(d Deployment) bool { return d.Cause == CauseCommit && d.Commit.Commit == commit })
}

// maxReached is how many deployments of a service are searched: all that are kept.
const maxReached = 1000

func anyOf(rows []store.Deployment, err error, is func(Deployment) bool) (bool, error) {
	for _, row := range rows {
		d, err := deploymentOf(row)
		if err != nil {
			return false, err
		}
		if is(d) {
			return true, nil
		}
	}
	return false, err
}

// followers are the services, by uid, that follow the ref of a spec in its source, unpinned.
func followers(ctx context.Context, v store.View, spec state.ServiceSpec) (uids []string, err error) {
	refs, err := v.Referrers(ctx, store.Ref{Kind: store.KindSource, Name: spec.Source}, MaxReferrers)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, ref := range refs {
		if ref.Kind == store.KindService {
			names = append(names, ref.Name)
		}
	}
	services, err := v.Named(ctx, store.KindService, names)
	if err != nil {
		return nil, err
	}
	for _, row := range services {
		var other state.ServiceSpec
		if err := state.Decode(row, &other); err != nil {
			return nil, err
		}
		if other.Source == spec.Source && platform.CanonicalRef(other.EffectiveRef()) == platform.CanonicalRef(spec.Ref) {
			uids = append(uids, row.UID)
		}
	}
	return uids, nil
}
