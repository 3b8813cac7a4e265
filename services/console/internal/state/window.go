package state

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/window"
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

// Freeze is the lever of a project or cluster: nothing new of its services is applied. The freeze is stored in their
// spec, and no write of them carries or ends it.
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
	err := Decode(r, &spec)
	return spec.Freeze, err
}

// SameButFreeze says whether two projects, or two clusters, have the same spec but for the freeze.
func SameButFreeze(a, b store.Resource) (bool, error) {
	var specs [2]map[string]any
	for i, r := range []store.Resource{a, b} {
		if err := Decode(r, &specs[i]); err != nil {
			return false, err
		}
		delete(specs[i], "freeze")
	}
	return reflect.DeepEqual(specs[0], specs[1]), nil
}

// Over tells whether the time of a freeze has come.
func (f *Freeze) Over(now time.Time) bool {
	return f != nil && !f.Until.IsZero() && !f.Until.After(now)
}

// Encode is the freeze as agents and people get it; nil: there is none. One whose time has come is there until the
// console has ended it, for everybody at the same change: distributors that leave it out by their own clocks would
// disagree on digests. Agents judge it by theirs.
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

// timing judges the windows of services that are read together.
type timing struct {
	now      time.Time
	projects map[string]bounds
	// shared are states of services without windows of their own, by project and cluster.
	shared map[[2]string]window.State
}

// bounds are as much of a project's spec as says when its services are applied.
type bounds struct {
	Windows Windows `json:"windows"`
	Freeze  *Freeze `json:"freeze"`
}

func readBounds(_ context.Context, _ store.View, rows []store.Resource) ([]bounds, error) {
	out := make([]bounds, len(rows))
	for i, r := range rows {
		if err := Decode(r, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
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
	t.projects, err = LoadNamed(ctx, v, store.KindProject, names, readBounds)
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
		{Kind: string(store.KindProject), Name: s.Spec.Project, Windows: project.Windows, Freeze: project.Freeze.Encode()},
		{Kind: string(store.KindCluster), Name: cluster.Meta.Name, Windows: cluster.Spec.Windows, Freeze: cluster.Spec.Freeze.Encode()},
		{Kind: string(store.KindService), Name: s.Meta.Name, Windows: own},
	}, t.now)
	if len(own) == 0 {
		t.shared[key] = state
	}
	return state
}

// windowFault is why the cluster of a service does not hold windows or the manual mode as they are meant; empty: it
// does.
func windowFault(s *Service, cluster *Cluster) string {
	agent := cluster.Status.Agent
	manual := s.Spec.Wishes().Mode == ModeManual
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
