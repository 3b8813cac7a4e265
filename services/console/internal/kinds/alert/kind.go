// Package alert is the kind Alert. Package alert beside the kinds finds what alerts are about.
package alert

import (
	"context"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	alerts "fairlead.dev/services/console/internal/alert"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/kinds/viewset"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/views"
)

// Kind describes the kind.
func Kind() descriptor.Of[alerts.Alert, *consolev1.Alert] {
	d := descriptor.Plainly(alerts.Kind(), decode, encode)
	d.Show, d.Personal, d.Policy = show, true, policy()
	return d
}

func decode(a *consolev1.Alert) (alerts.Alert, error) {
	spec := a.GetSpec()
	clusters, err := descriptor.Selector("spec.clusters", spec.GetClusters())
	out := alerts.Alert{Meta: descriptor.Meta(a.GetMetadata()), Spec: alerts.Spec{
		Description: spec.GetDescription(), Clusters: clusters, When: spec.GetWhen(), For: spec.GetFor().AsDuration(), Recover: alerts.UsualRecover,
		MoreThan: int(spec.GetMoreThan()), GroupBy: spec.GetGroupBy(), Severity: int32(spec.GetSeverity()),
	}}
	if spec.GetRecover() != nil {
		out.Spec.Recover = spec.GetRecover().AsDuration()
	}
	return out, err
}

func encode(a alerts.Alert) *consolev1.Alert {
	out := &consolev1.Alert{Metadata: descriptor.Metadata(a.Meta), Spec: &consolev1.AlertSpec{
		Description: a.Spec.Description, Clusters: descriptor.ClusterSelector(a.Spec.Clusters), When: a.Spec.When, Recover: durationpb.New(a.Spec.Recover),
		MoreThan: int32(a.Spec.MoreThan), GroupBy: a.Spec.GroupBy, Severity: consolev1.Severity(a.Spec.Severity), // bounded by the contract
	}}
	if a.Spec.For > 0 {
		out.Spec.For = durationpb.New(a.Spec.For)
	}
	return out
}

// shownClusters is how many clusters of a group a status names.
const shownClusters = 100

// show encodes alerts with what they have found, as far as it is about clusters that the caller sees.
func show(ctx context.Context, c *catalog.Catalog, list []alerts.Alert) ([]*consolev1.Alert, error) {
	states, err := c.AlertStates(ctx)
	if err != nil {
		return nil, err
	}
	found := make([]alerts.State, len(list))
	var names []string
	for i, a := range list {
		if found[i], err = alerts.StateOf(states[a.Meta.UID]); err != nil {
			return nil, err
		}
		names = append(names, found[i].Clusters()...)
	}
	problems, err := problemsOf(ctx, c, list)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	sees, all, err := c.Visible(ctx, store.KindCluster, slices.Compact(names))
	if err != nil {
		return nil, err
	}
	out := descriptor.Each(list, encode)
	for i := range list {
		out[i].Status = encodeStatus(found[i], sees, all, time.Now())
		out[i].Status.Problem = problems[i]
		if all {
			out[i].Status.Unknown = int32(found[i].Unknown)
		}
	}
	return out, nil
}

// problemsOf says of each alert why it can find nothing: a figure that it asks for is one that no view has.
func problemsOf(ctx context.Context, c *catalog.Catalog, list []alerts.Alert) ([]string, error) {
	questions := make([]*views.Question, len(list))
	var names []string
	for i, a := range list {
		question, err := views.ParseQuestion(a.Spec.When)
		if err != nil {
			continue // of a later version, which round says, too
		}
		questions[i], names = question, append(names, question.Sets()...)
	}
	rows, err := c.Named(ctx, store.KindViewSet, names)
	if err != nil {
		return nil, err
	}
	sees, err := c.Sees(ctx)
	if err != nil {
		return nil, err
	}
	sets, err := viewset.Messages(rows, sees)
	if err != nil {
		return nil, err
	}
	all := catalog.SeesAllOf(store.KindViewSet, sees)
	out := make([]string, len(list))
	for i, question := range questions {
		if question == nil {
			continue
		}
		if out[i] = question.Mistake(sets); out[i] == "" && all { // others learn of no ViewSet that it is not there
			out[i] = question.Missing(sets)
		}
	}
	return out, nil
}

func encodeStatus(is alerts.State, sees map[string]bool, all bool, now time.Time) *consolev1.AlertStatus {
	out := &consolev1.AlertStatus{LookTime: descriptor.Stamp(is.Looked)}
	if is.Silence != nil && now.Before(is.Silence.Until) {
		out.Silence = encodeNote(is.Silence)
	}
	for _, name := range slices.Sorted(maps.Keys(is.Groups)) {
		g := is.Groups[name]
		group := &consolev1.AlertGroup{Group: name, SinceTime: descriptor.Stamp(g.Since), Acknowledged: encodeNote(g.Ack), FlapsSinceTime: descriptor.Stamp(g.Flaps)}
		var doubtful time.Time
		for _, cluster := range slices.Sorted(maps.Keys(g.Members)) {
			switch m := g.Members[cluster]; {
			case !sees[cluster]:
			case !m.Met:
				out.Pending++
			default:
				if !m.Unknown.IsZero() {
					group.Unknown++
					if doubtful.IsZero() || m.Unknown.Before(doubtful) {
						doubtful = m.Unknown
					}
				}
				if group.Total++; group.GetTotal() <= shownClusters {
					group.Clusters = append(group.Clusters, cluster)
				}
			}
		}
		group.UnknownSinceTime = descriptor.Stamp(doubtful)
		if !g.Since.IsZero() && group.GetTotal() > 0 || !g.Flaps.IsZero() && (all || group.GetTotal() > 0) {
			out.Firing = append(out.Firing, group)
		}
	}
	return out
}

func encodeNote(n *alerts.Note) *consolev1.AlertNote {
	if n == nil {
		return nil
	}
	return &consolev1.AlertNote{Author: n.Author, Reason: n.Reason, Time: descriptor.Stamp(n.Time), UntilTime: descriptor.Stamp(n.Until)}
}
