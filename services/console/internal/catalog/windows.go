package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/platform/window"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// keepFreeze gives an edit of a project or cluster the freeze that is there.
func (e *Edit) keepFreeze(current *store.Resource) error {
	_, project := e.spec.(resource.ProjectSpec)
	_, cluster := e.spec.(state.ClusterSpec)
	if e.pulls || !project && !cluster {
		return nil
	}
	if current == nil && e.before != nil { // the write undoes a deletion
		current = e.before
	}
	var is *state.Freeze
	if current != nil {
		var err error
		if is, err = state.FreezeOf(*current); err != nil {
			return err
		}
	}
	switch spec := e.spec.(type) {
	case resource.ProjectSpec:
		spec.Freeze = is
		e.spec = spec
	case state.ClusterSpec:
		spec.Freeze = is
		e.spec = spec
	}
	return nil
}

// Ways in which the history names the lever of projects and clusters.
const (
	frozen   = "frozen"
	unfrozen = "unfrozen"
)

// Freeze keeps what is applied of the services of a project or cluster; nil ends that. The result was tells whether
// there was a freeze before.
func (c *Catalog) Freeze(ctx context.Context, by By, kind store.Kind, name string, f *state.Freeze) (is *state.Freeze, was bool, err error) {
	action := unfrozen
	if f != nil {
		if err := c.checkUntil(f.Until); err != nil {
			return nil, false, err
		}
		f.By, f.Since, action = by.Subject, c.now().UTC(), frozen
	}
	for attempt := 1; ; attempt++ {
		edit, before, err := c.freezing(ctx, kind, name, f)
		if err != nil {
			return nil, false, err
		}
		edit.pulls, edit.draft.Action = true, action
		_, err = c.PutAll(ctx, by, []Edit{edit}, false)
		if refusal.Is(err, refusal.Conflict) && attempt < leverAttempts {
			continue
		}
		return f, before != nil && !before.Over(c.now()), err
	}
}

func (c *Catalog) freezing(ctx context.Context, kind store.Kind, name string, f *state.Freeze) (e Edit, before *state.Freeze, err error) {
	if kind == store.KindCluster {
		cluster, err := c.GetCluster(ctx, name)
		if err != nil {
			return e, nil, err
		}
		before, cluster.Spec.Freeze = cluster.Spec.Freeze, f
		e, err = DraftCluster(&cluster, Expectation{ETag: cluster.Meta.ETag})
		return e, before, err
	}
	project, err := Get(ctx, c, store.KindProject, name, resource.Projects().Load)
	if err != nil {
		return e, nil, err
	}
	before, project.Spec.Freeze = project.Spec.Freeze, f
	e, err = Draft(resource.Projects(), project, Expectation{ETag: project.Meta.ETag})
	return e, before, err
}

// thaw ends the freeze of a project or cluster, if its time has come: somebody may have frozen it anew meanwhile.
func (c *Catalog) thaw(ctx context.Context, of store.Resource) error {
	edit, before, err := c.freezing(ctx, of.Kind, of.Name, nil)
	if err != nil || !before.Over(c.now()) {
		return err
	}
	edit.pulls, edit.draft.Action = true, unfrozen
	_, err = c.PutAll(ctx, Self(clockAuthor), []Edit{edit}, false)
	if refusal.Is(err, refusal.Conflict) {
		return nil // another console ended it, or somebody changed the resource: it is looked at again in seconds
	}
	return err
}

// SyncRequest is how a person asks for a sync.
type SyncRequest struct {
	// Override lets it through windows and freezes that are closed. MayOverride says whether the caller may override
	// one.
	Override    bool
	MayOverride func(window.Closing) error
	// Only are objects, as KIND/NAME or KIND/NAMESPACE/NAME; none: all.
	Only []string
	// Known returns the first of the objects that a service has neither applied nor waiting; empty: it has all of them,
	// or nobody knows.
	Known func(ctx context.Context, service string, objects []string) (missing string, err error)
}

// admit refuses a sync of a service that windows or freezes close, unless they let it through or it overrides them.
// admit returns what the sync overrides.
func (r SyncRequest) admit(s *state.Service) (overrides []string, err error) {
	w := s.Status.Windows
	mode := s.Spec.Wishes().Mode
	if len(r.Only) > 0 && s.Spec.Catalog {
		return nil, refusal.New(refusal.Precondition,
			"service %q has no objects in a cluster: its folder goes to the catalog, all of it or nothing. "+
				"Leave out which objects are to be synced", s.Meta.Name)
	}
	if len(r.Only) > 0 && (mode == state.ModeHold || mode == state.ModeSuspend || mode == state.ModeDryRun) {
		return nil, refusal.New(refusal.Precondition, "service %q applies nothing, in whichever part (spec.sync.mode): `fairlead resume service %s` first, or hold it with --mode manual", s.Meta.Name, s.Meta.Name)
	}
	if !w.Closed || w.Manual {
		return nil, nil
	}
	if !r.Override {
		return nil, refusal.New(refusal.Precondition, "service %q: %s A sync waits for that, too; `fairlead sync service %s --override` does not, with the right to", s.Meta.Name, w.Words(), s.Meta.Name)
	}
	var refused []string
	for _, closing := range w.By {
		if closing.Manual() {
			continue
		}
		err := r.MayOverride(closing)
		denied, ok := errors.AsType[*refusal.Error](err)
		switch {
		case ok:
			refused = append(refused, fmt.Sprintf("%s: %s", closing.Words(), denied.Message))
		case err != nil:
			return nil, err
		}
		overrides = append(overrides, closing.ID())
	}
	if len(refused) > 0 {
		return nil, refusal.New(refusal.Forbidden,
			"service %q: you may not override %s", s.Meta.Name, strings.Join(refused, "; and "))
	}
	return overrides, nil
}
