package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/window"
	"fairlead.dev/services/console/internal/refusal"
	"fairlead.dev/services/console/internal/store"
)

// Windows say when new content of services may be applied. Windows are stored as they are written down, in protojson.
type Windows []*deliveryv1.SyncWindow

// MarshalJSON writes each window as protojson.
func (w Windows) MarshalJSON() ([]byte, error) {
	out := make([]json.RawMessage, len(w))
	for i, one := range w {
		var err error
		if out[i], err = protojson.Marshal(one); err != nil {
			return nil, err
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote. Fields of a newer console are dropped.
func (w *Windows) UnmarshalJSON(data []byte) error {
	var in []json.RawMessage
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*w = make(Windows, len(in))
	for i, text := range in {
		(*w)[i] = &deliveryv1.SyncWindow{}
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, (*w)[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkWindows says which window is none. field is where they are written.
func checkWindows(w Windows, field string) error {
	for i, one := range w {
		if err := window.Check(one); err != nil {
			return refusal.New(refusal.Invalid, "spec.%s[%d]: %v", field, i, err)
		}
		same := func(other *deliveryv1.SyncWindow) bool { return other.GetName() == one.GetName() }
		if first := slices.IndexFunc(w, same); one.GetName() != "" && first != i {
			return refusal.New(refusal.Invalid, "spec.%s[%d].name %q: is that of spec.%s[%d], too: messages tell them apart by it", field, i, one.GetName(), field, first)
		}
	}
	return nil
}

// Freeze is the lever of a project or cluster: nothing new of its services is applied. The freeze is stored in their spec, and no write
// of them carries or ends it.
type Freeze struct {
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Until is when it ends by itself; zero: it does not.
	Until time.Time `json:"until,omitzero"`
	// Leaves: drift stays meanwhile.
	Leaves bool `json:"leavesDrift,omitempty"`
}

// FreezeOf is the freeze of a project or cluster; nil: there is none.
func FreezeOf(r store.Resource) (*Freeze, error) {
	var spec struct {
		Freeze *Freeze `json:"freeze"`
	}
	err := decode(r, &spec)
	return spec.Freeze, err
}

// over tells whether the time of a freeze has come.
func (f *Freeze) over(now time.Time) bool {
	return f != nil && !f.Until.IsZero() && !f.Until.After(now)
}

// Encode is the freeze as agents and people get it; nil: there is none. One whose time has come is there until the console has ended it, for
// everybody at the same change: distributors that leave it out by their own clocks would disagree on digests. Agents judge it by theirs.
func (f *Freeze) Encode() *deliveryv1.Freeze {
	if f == nil {
		return nil
	}
	out := &deliveryv1.Freeze{Author: f.By, Reason: f.Reason, SinceTime: timestamppb.New(f.Since)}
	if !f.Until.IsZero() {
		out.UntilTime = timestamppb.New(f.Until)
	}
	if f.Leaves {
		out.Drift = deliveryv1.WindowDrift_WINDOW_DRIFT_LEAVE
	}
	return out
}

// keepFreeze gives an edit of a project or cluster the freeze that is there.
func (e *Edit) keepFreeze(current *store.Resource) error {
	_, project := e.spec.(ProjectSpec)
	_, cluster := e.spec.(ClusterSpec)
	if e.pulls || !project && !cluster {
		return nil
	}
	if current == nil && e.before != nil { // the write undoes a deletion
		current = e.before
	}
	var is *Freeze
	if current != nil {
		var err error
		if is, err = FreezeOf(*current); err != nil {
			return err
		}
	}
	switch spec := e.spec.(type) {
	case ProjectSpec:
		spec.Freeze = is
		e.spec = spec
	case ClusterSpec:
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

// Freeze keeps what is applied of the services of a project or cluster; nil ends that. The result was tells whether there was a
// freeze before.
func (c *Catalog) Freeze(ctx context.Context, by By, kind store.Kind, name string, f *Freeze) (is *Freeze, was bool, err error) {
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
		return f, before != nil && !before.over(c.now()), err
	}
}

func (c *Catalog) freezing(ctx context.Context, kind store.Kind, name string, f *Freeze) (e Edit, before *Freeze, err error) {
	if kind == store.KindCluster {
		cluster, err := c.GetCluster(ctx, name)
		if err != nil {
			return e, nil, err
		}
		before, cluster.Spec.Freeze = cluster.Spec.Freeze, f
		e, err = DraftCluster(&cluster, Expectation{ETag: cluster.Meta.ETag})
		return e, before, err
	}
	project, err := Get(ctx, c, store.KindProject, name, Projects().Load)
	if err != nil {
		return e, nil, err
	}
	before, project.Spec.Freeze = project.Spec.Freeze, f
	e, err = Projects().Draft(project, Expectation{ETag: project.Meta.ETag})
	return e, before, err
}

// thaw ends the freeze of a project or cluster, if its time has come: somebody may have frozen it anew meanwhile.
func (c *Catalog) thaw(ctx context.Context, of store.Resource) error {
	edit, before, err := c.freezing(ctx, of.Kind, of.Name, nil)
	if err != nil || !before.over(c.now()) {
		return err
	}
	edit.pulls, edit.draft.Action = true, unfrozen
	_, err = c.PutAll(ctx, Self(clockAuthor), []Edit{edit}, false)
	if refusal.Is(err, refusal.Conflict) {
		return nil // another console ended it, or somebody changed the resource: it is looked at again in seconds
	}
	return err
}

// timing judges the windows of services that are read together.
type timing struct {
	now      time.Time
	projects map[string]Project
	// shared are states of services without windows of their own, by project and cluster.
	shared map[[2]string]window.State
}

func timingOf(ctx context.Context, v store.View, services []Service, now time.Time) (*timing, error) {
	names := map[string]bool{}
	for i := range services {
		if project := services[i].Spec.Project; project != "" && !services[i].Spec.Catalog {
			names[project] = true
		}
	}
	t := &timing{now: now, shared: map[[2]string]window.State{}}
	if len(names) == 0 {
		return t, nil
	}
	var err error
	t.projects, err = named(ctx, v, store.KindProject, names, Projects().Load)
	return t, err
}

// judge is what windows and freezes say of a service now.
func (t *timing) judge(s *Service, cluster *Cluster) window.State {
	if s.Spec.Catalog {
		return window.State{}
	}
	own := s.Spec.Wishes().Windows
	key := [2]string{s.Spec.Project, s.Spec.Cluster}
	if state, ok := t.shared[key]; ok && len(own) == 0 {
		return state
	}
	project := t.projects[s.Spec.Project]
	state := window.Judge([]*deliveryv1.WindowSet{
		{Kind: string(store.KindProject), Name: project.Meta.Name, Windows: project.Spec.Windows, Freeze: project.Spec.Freeze.Encode()},
		{Kind: string(store.KindCluster), Name: cluster.Meta.Name, Windows: cluster.Spec.Windows, Freeze: cluster.Spec.Freeze.Encode()},
		{Kind: string(store.KindService), Name: s.Meta.Name, Windows: own},
	}, t.now)
	if len(own) == 0 {
		t.shared[key] = state
	}
	return state
}

// windowFault is why the cluster of a service does not hold windows or the manual mode as they are meant; empty: it does.
func windowFault(s *Service, cluster *Cluster) string {
	agent := cluster.Status.Agent
	manual := s.Spec.Wishes().Mode == modeManual
	switch {
	case s.Spec.Catalog || cluster.Status.LastSeen.IsZero() || !s.Status.Windows.Any && !manual:
		return ""
	case !agent.Windows && s.Status.Windows.Any:
		return fmt.Sprintf("The agent of cluster %q can't hold windows and freezes: it applies what is pushed, whatever they say. Update it.", cluster.Meta.Name)
	case !agent.Windows:
		return fmt.Sprintf("The agent of cluster %q knows no manual mode: it holds the service, and no sync applies anything. Update it.", cluster.Meta.Name)
	case agent.ClockSkew != 0 && s.Status.Windows.Any:
		return fmt.Sprintf("The clock of cluster %q is %s: its windows open and close by that clock.", cluster.Meta.Name, skewWords(agent.ClockSkew))
	}
	return ""
}

func skewWords(d time.Duration) string {
	if d < 0 {
		return age(-d) + " ahead of the hub's"
	}
	return age(d) + " behind the hub's"
}

// SyncRequest is how a person asks for a sync.
type SyncRequest struct {
	// Override lets it through windows and freezes that are closed. MayOverride says whether the caller may override one.
	Override    bool
	MayOverride func(window.Closing) error
	// Only are objects, as KIND/NAME or KIND/NAMESPACE/NAME; none: all.
	Only []string
	// Known returns the first of the objects that a service has neither applied nor waiting; empty: it has all of them, or nobody knows.
	Known func(ctx context.Context, service string, objects []string) (missing string, err error)
}

// admit refuses a sync of a service that windows or freezes close, unless they let it through or it overrides them. admit returns what
// the sync overrides.
func (r SyncRequest) admit(s *Service) (overrides []string, err error) {
	w := s.Status.Windows
	if mode := s.Spec.Wishes().Mode; len(r.Only) > 0 && (mode == modeHold || mode == modeSuspend || mode == modeDryRun) {
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
