package rpc

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	rules "fairlead.dev/platform/access"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/console/internal/alert"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/store"
)

func alertMounts(d Deps) []server.Mount {
	return []server.Mount{
		server.RPC(consolev1connect.AlertServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewAlertServiceHandler(&alerts{d}, o...)
		}),
	}
}

func alertPolicy() identity.Policy {
	return identity.Policy{
		// Grants decide, within reading and writing.
		consolev1connect.AlertServiceGetAlertProcedure:         identity.RoleUser,
		consolev1connect.AlertServiceListAlertsProcedure:       identity.RoleUser,
		consolev1connect.AlertServiceUpdateAlertProcedure:      identity.RoleUser,
		consolev1connect.AlertServiceDeleteAlertProcedure:      identity.RoleUser,
		consolev1connect.AlertServiceAcknowledgeAlertProcedure: identity.RoleUser,
		consolev1connect.AlertServiceSilenceAlertProcedure:     identity.RoleUser,
	}
}

func alertKind() descriptor.Of[alert.Alert, *consolev1.Alert] {
	d := descriptor.Plainly(alert.Kind(), decodeAlert, encodeAlert)
	d.Show, d.Personal = showAlerts, true
	return d
}

type alerts struct{ Deps }

func (s *alerts) GetAlert(ctx context.Context, req *consolev1.GetAlertRequest) (*consolev1.GetAlertResponse, error) {
	out, err := serve(s.Deps, alertKind()).Get(ctx, req)
	return &consolev1.GetAlertResponse{Alert: out}, err
}

func (s *alerts) ListAlerts(ctx context.Context, req *consolev1.ListAlertsRequest) (*consolev1.ListAlertsResponse, error) {
	out, next, err := serve(s.Deps, alertKind()).List(ctx, req)
	return &consolev1.ListAlertsResponse{Alerts: out, NextPageToken: next}, err
}

func (s *alerts) UpdateAlert(ctx context.Context, req *consolev1.UpdateAlertRequest) (*consolev1.UpdateAlertResponse, error) {
	out, outcome, err := serve(s.Deps, alertKind()).Update(ctx, req.GetAlert(), req)
	return &consolev1.UpdateAlertResponse{Alert: out, Outcome: outcome}, err
}

func (s *alerts) DeleteAlert(ctx context.Context, req *consolev1.DeleteAlertRequest) (*consolev1.DeleteAlertResponse, error) {
	return &consolev1.DeleteAlertResponse{}, serve(s.Deps, alertKind()).Delete(ctx, req)
}

func (s *alerts) AcknowledgeAlert(ctx context.Context, req *consolev1.AcknowledgeAlertRequest) (*consolev1.AcknowledgeAlertResponse, error) {
	out, err := s.note(ctx, req.GetName(), audit.Act{Action: "alert.acknowledge", Reason: req.GetReason()}, func(a alert.Alert) error {
		return s.Alerts.Acknowledge(ctx, a, req.GetGroup(), call.Actor(ctx), req.GetReason())
	})
	return &consolev1.AcknowledgeAlertResponse{Alert: out}, err
}

func (s *alerts) SilenceAlert(ctx context.Context, req *consolev1.SilenceAlertRequest) (*consolev1.SilenceAlertResponse, error) {
	until := descriptor.Moment(req.GetUntilTime())
	act := audit.Act{Action: "alert.silence", Reason: req.GetReason()}
	if until.IsZero() {
		act.Action = "alert.unsilence"
	}
	out, err := s.note(ctx, req.GetName(), act, func(a alert.Alert) error { return s.Alerts.Silence(ctx, a, until, call.Actor(ctx), req.GetReason()) })
	return &consolev1.SilenceAlertResponse{Alert: out}, err
}

// note has a caller that may say something of an alert.
func (s *alerts) note(ctx context.Context, name string, act audit.Act, do func(alert.Alert) error) (*consolev1.Alert, error) {
	a, err := catalog.Get(ctx, s.Catalog, store.KindAlert, name, alert.Kind().Load) // a caller that may not see the alert is told that there is none
	if err == nil {
		err = s.Rights.May(ctx, rules.Deploy, rules.Target{Kind: rules.Alert, Name: name})
	}
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	if err := do(a); err != nil {
		return nil, s.fail(ctx, err)
	}
	act.Resource, act.Name = "alert", name
	s.Accesses.Tell(call.Who(ctx), act)
	return serve(s.Deps, alertKind()).Get(ctx, &consolev1.GetAlertRequest{Name: name})
}

func decodeAlert(a *consolev1.Alert) (alert.Alert, error) {
	spec := a.GetSpec()
	clusters, err := descriptor.Selector("spec.clusters", spec.GetClusters())
	out := alert.Alert{Meta: descriptor.Meta(a.GetMetadata()), Spec: alert.Spec{
		Description: spec.GetDescription(), Clusters: clusters, When: spec.GetWhen(), For: spec.GetFor().AsDuration(), Recover: alert.UsualRecover,
		MoreThan: int(spec.GetMoreThan()), GroupBy: spec.GetGroupBy(), Severity: int32(spec.GetSeverity()),
	}}
	if spec.GetRecover() != nil {
		out.Spec.Recover = spec.GetRecover().AsDuration()
	}
	return out, err
}

func encodeAlert(a alert.Alert) *consolev1.Alert {
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

// showAlerts encodes alerts with what they have found, as far as it is about clusters that the caller sees.
func showAlerts(ctx context.Context, c *catalog.Catalog, list []alert.Alert) ([]*consolev1.Alert, error) {
	states, err := c.AlertStates(ctx)
	if err != nil {
		return nil, err
	}
	found := make([]alert.State, len(list))
	var names []string
	for i, a := range list {
		if found[i], err = alert.StateOf(states[a.Meta.UID]); err != nil {
			return nil, err
		}
		names = append(names, found[i].Clusters()...)
	}
	slices.Sort(names)
	sees, all, err := c.Visible(ctx, store.KindCluster, slices.Compact(names))
	if err != nil {
		return nil, err
	}
	out := descriptor.Each(list, encodeAlert)
	for i := range list {
		out[i].Status = encodeAlertStatus(found[i], sees, all, time.Now())
		if all {
			out[i].Status.Unknown = int32(found[i].Unknown)
		}
	}
	return out, nil
}

func encodeAlertStatus(is alert.State, sees map[string]bool, all bool, now time.Time) *consolev1.AlertStatus {
	out := &consolev1.AlertStatus{LookTime: descriptor.Stamp(is.Looked)}
	if is.Silence != nil && now.Before(is.Silence.Until) {
		out.Silence = encodeAlertNote(is.Silence)
	}
	for _, name := range slices.Sorted(maps.Keys(is.Groups)) {
		g := is.Groups[name]
		group := &consolev1.AlertGroup{Group: name, SinceTime: descriptor.Stamp(g.Since), Acknowledged: encodeAlertNote(g.Ack), FlapsSinceTime: descriptor.Stamp(g.Flaps)}
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

func encodeAlertNote(n *alert.Note) *consolev1.AlertNote {
	if n == nil {
		return nil
	}
	return &consolev1.AlertNote{Author: n.Author, Reason: n.Reason, Time: descriptor.Stamp(n.Time), UntilTime: descriptor.Stamp(n.Until)}
}
