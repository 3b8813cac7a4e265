package alert

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	rules "fairlead.dev/platform/access"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	alerts "fairlead.dev/services/console/internal/alert"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/store"
)

// Deps is what the API of the kind works with.
type Deps struct {
	descriptor.Door
	Rights   *authz.Rules
	Alerts   *alerts.Evaluator
	Accesses *audit.Accesses
}

// Mount serves the API of the kind.
func Mount(d Deps) server.Mount {
	return server.RPC(consolev1connect.AlertServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
		return consolev1connect.NewAlertServiceHandler(&service{
			Service: descriptor.Service[alerts.Alert, *consolev1.Alert]{Of: Kind(), Door: d.Door}, deps: d,
		}, o...)
	})
}

func policy() identity.Policy {
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

type service struct {
	descriptor.Service[alerts.Alert, *consolev1.Alert]
	deps Deps
}

func (s *service) GetAlert(ctx context.Context, req *consolev1.GetAlertRequest) (*consolev1.GetAlertResponse, error) {
	out, err := s.Get(ctx, req)
	return &consolev1.GetAlertResponse{Alert: out}, err
}

func (s *service) ListAlerts(ctx context.Context, req *consolev1.ListAlertsRequest) (*consolev1.ListAlertsResponse, error) {
	out, next, err := s.List(ctx, req)
	return &consolev1.ListAlertsResponse{Alerts: out, NextPageToken: next}, err
}

func (s *service) UpdateAlert(ctx context.Context, req *consolev1.UpdateAlertRequest) (*consolev1.UpdateAlertResponse, error) {
	out, outcome, err := s.Update(ctx, req.GetAlert(), req)
	return &consolev1.UpdateAlertResponse{Alert: out, Outcome: outcome}, err
}

func (s *service) DeleteAlert(ctx context.Context, req *consolev1.DeleteAlertRequest) (*consolev1.DeleteAlertResponse, error) {
	return &consolev1.DeleteAlertResponse{}, s.Delete(ctx, req)
}

func (s *service) AcknowledgeAlert(ctx context.Context, req *consolev1.AcknowledgeAlertRequest) (*consolev1.AcknowledgeAlertResponse, error) {
	out, err := s.note(ctx, req.GetName(), audit.Act{Action: "alert.acknowledge", Reason: req.GetReason()}, func(a alerts.Alert) error {
		return s.deps.Alerts.Acknowledge(ctx, a, req.GetGroup(), call.Actor(ctx), req.GetReason())
	})
	return &consolev1.AcknowledgeAlertResponse{Alert: out}, err
}

func (s *service) SilenceAlert(ctx context.Context, req *consolev1.SilenceAlertRequest) (*consolev1.SilenceAlertResponse, error) {
	until := descriptor.Moment(req.GetUntilTime())
	act := audit.Act{Action: "alert.silence", Reason: req.GetReason()}
	if until.IsZero() {
		act.Action = "alert.unsilence"
	}
	out, err := s.note(ctx, req.GetName(), act, func(a alerts.Alert) error {
		return s.deps.Alerts.Silence(ctx, a, until, call.Actor(ctx), req.GetReason())
	})
	return &consolev1.SilenceAlertResponse{Alert: out}, err
}

// note has a caller that may say something of an alert.
func (s *service) note(ctx context.Context, name string, act audit.Act, do func(alerts.Alert) error) (*consolev1.Alert, error) {
	a, err := catalog.Get(ctx, s.Catalog, store.KindAlert, name, alerts.Kind().Load) // a caller that may not see the alert is told that there is none
	if err == nil {
		err = s.deps.Rights.May(ctx, rules.Deploy, rules.Target{Kind: rules.Alert, Name: name})
	}
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	if err := do(a); err != nil {
		return nil, s.Fail(ctx, err)
	}
	act.Resource, act.Name = "alert", name
	s.deps.Accesses.Tell(call.Who(ctx), act)
	return s.Get(ctx, &consolev1.GetAlertRequest{Name: name})
}
