package distributor

import (
	"context"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/access"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/audit"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/distributor/internal/edge"
	"fairlead.dev/services/distributor/internal/plan"
	"fairlead.dev/services/distributor/internal/registry"
)

// actionArtifactRead is of a service's content that somebody downloads.
const actionArtifactRead = "artifact.read"

// registry serves people and programs what services are delivered, as a registry does.
func (s *Service) registry(origin *edge.Edge) server.Mount {
	tokens := consolev1connect.NewTokenServiceClient(s.replica.HTTP(), s.cfg.ConsoleURL, client.Options()...)
	verifier := registry.NewTokens(s.replica.Credential, func(ctx context.Context, apiToken string) (string, time.Time, error) {
		resp, err := tokens.ExchangeToken(ctx, &consolev1.ExchangeTokenRequest{Token: apiToken})
		return resp.GetToken(), resp.GetExpireTime().AsTime(), err
	})
	refusals := &audit.Refusals{Recorder: s.replica.Audit, Log: s.deps.Log}
	handler := registry.New(registry.Deps{
		Held: func(r *http.Request, service string) (plan.Held, bool, error) {
			if err := s.replica.Catalog.Ready(); err != nil {
				return plan.Held{}, false, err
			}
			id, _ := identity.FromContext(r.Context())
			exists, may := s.mayView(id, service)
			if !may {
				if exists {
					refusals.Artifact(r, "service "+service, "no grant lets the caller view the service")
				}
				return plan.Held{}, false, nil
			}
			held, err := s.plan.Held(service)
			return held, true, err
		},
		Open: func(ctx context.Context, d artifact.Digest) (*artifact.Blob, error) {
			return s.store.Fill(ctx, d, origin.Fetch)
		},
		Read: s.recordRead,
		Away: s.metrics.Away.WithLabelValues("registry").Inc,
	})
	return server.HTTP(registry.Path, handler, identity.RoleUser).
		Through(server.Door{Verifier: verifier, Bearer: registry.Bearer, Refuse: registry.Refuse})
}

// mayView says whether the catalog has a service, and whether somebody may view it.
func (s *Service) mayView(who identity.Identity, service string) (exists, may bool) {
	is, ok := s.replica.Catalog.Service(service)
	if !ok {
		return false, false
	}
	at := access.Target{Kind: access.Service, Name: service, Project: is.Project(), Cluster: is.Cluster()}
	if cluster, ok := s.replica.Catalog.Cluster(is.Cluster()); ok {
		at.ClusterLabels = cluster.GetMetadata().GetLabels()
	}
	rules := access.Rules{Grants: s.replica.Catalog.Grants(), Roles: s.replica.Catalog.Roles()}
	return true, rules.Allows(who, access.View, at)
}

func (s *Service) recordRead(r *http.Request, service string, d artifact.Digest) {
	id, _ := identity.FromContext(r.Context())
	e := audit.Event{
		Actor: audit.Of(id), Action: actionArtifactRead, Resource: "service@" + string(d), Name: service, Verb: r.Method,
		Code: http.StatusOK, Remote: r.RemoteAddr,
	}
	if host, _, err := net.SplitHostPort(e.Remote); err == nil {
		e.Remote = host
	}
	if span := trace.SpanContextFromContext(r.Context()); span.HasTraceID() {
		e.TraceID = span.TraceID().String()
	}
	s.replica.Audit.Record(e)
}
