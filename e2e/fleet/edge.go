package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/audit"
	"fairlead.dev/platform/retry"
)

// Edge is the hub with a catalog whose agents do not run: for those who ask in their place.
type Edge struct {
	// CAFile is the hub's authority; empty: it has no TLS.
	CAFile string

	run *Run
}

// OpenEdge starts a hub, writes its catalog, and waits until everything can be had from the distributor.
func OpenEdge(ctx context.Context, cfg Config, progress io.Writer) (e *Edge, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &Run{cfg: cfg, progress: progress, begin: time.Now(), errors: newStats(), Logged: map[string]int{}}
	if r.hub, err = startHub(ctx, cfg); err != nil {
		return nil, err
	}
	e = &Edge{run: r}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	if err := r.prepare(ctx); err != nil {
		return e, err
	}
	if err := r.hub.follow(ctx); err != nil {
		return e, err
	}
	e.CAFile = r.hub.ca
	return e, nil
}

// Close ends the hub.
func (e *Edge) Close() error { return e.run.hub.stop(context.Background()) }

// Pid of a part of the hub.
func (e *Edge) Pid(part string) int { return e.run.hub.parts[part].Pid() }

// URL of a part of the hub.
func (e *Edge) URL(part string) string { return e.run.hub.urls[part] }

// Dir is where a part keeps its data.
func (e *Edge) Dir(part string) string { return e.run.hub.dir(part) }

// Token is the credential of a cluster's agent.
func (e *Edge) Token(cluster int) string { return e.run.tokens[clusterName(cluster)] }

// Delivered asks as a cluster's agent what is meant for it, until that is everything, in the order of names.
func (e *Edge) Delivered(ctx context.Context, cluster int) (services []*deliveryv1.ServiceDelivery, err error) {
	one, err := e.agent(cluster)
	if err != nil {
		return nil, err
	}
	defer one.http.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	for {
		if services, err = one.wanted(ctx); err != nil {
			return nil, fmt.Errorf("ask what is meant for %s: %w", one.name, err)
		}
		if len(services) == e.run.cfg.Services {
			return services, nil
		}
		if !retry.Sleep(ctx, 200*time.Millisecond) {
			return nil, context.Cause(ctx)
		}
	}
}

// Download gets an artifact as a cluster's agent does, verified: from the distributor, or with a ticket from
// the gitcache.
func (e *Edge) Download(ctx context.Context, cluster int, digest artifact.Digest, ticket string) error {
	one, err := e.agent(cluster)
	if err != nil {
		return err
	}
	defer one.http.CloseIdleConnections()
	content, err := one.content.Fetch(ctx, digest, ticket)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, content)
	return errors.Join(err, content.Close())
}

func (e *Edge) agent(cluster int) (*agent, error) {
	return newAgent(clusterName(cluster), e.Token(cluster), &Spec{
		CAFile: e.CAFile, Distributors: []string{e.URL("distributor")}, Gitcaches: []string{e.URL("gitcache")},
	}, newRecorder())
}

// Kill ends a part of the hub without a chance to clean up.
func (e *Edge) Kill(part string) error { return e.run.hub.parts[part].Kill() }

// Refused are the "<actor> <digest>" of downloads that the console's audit trail says were refused.
func (e *Edge) Refused(ctx context.Context) (all []string, err error) {
	resp, err := e.run.hub.api.audits.ListAuditEvents(ctx, &consolev1.ListAuditEventsRequest{
		PageSize: 1000, Filter: &consolev1.AuditFilter{Action: audit.ActionArtifactRefused},
	})
	for _, event := range resp.GetEvents() {
		all = append(all, event.GetActor().GetName()+" "+event.GetResource())
	}
	return all, err
}
