package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"fairlead.dev/platform/artifact"
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
func (e *Edge) Close() error { return e.run.hub.stop() }

// Pid of a part of the hub.
func (e *Edge) Pid(part string) int { return e.run.hub.parts[part].Pid() }

// URL of a part of the hub.
func (e *Edge) URL(part string) string { return e.run.hub.urls[part] }

// Dir is where a part keeps its data.
func (e *Edge) Dir(part string) string { return e.run.hub.dir(part) }

// Token is the credential of a cluster's agent.
func (e *Edge) Token(cluster int) string { return e.run.tokens[clusterName(cluster)] }

// Artifacts asks as a cluster's agent what is meant for it, and returns the digests in the order of services.
func (e *Edge) Artifacts(ctx context.Context, cluster int) (digests []artifact.Digest, err error) {
	one, err := newAgent(clusterName(cluster), e.Token(cluster), &Spec{CAFile: e.CAFile, Distributor: e.URL("distributor")}, newRecorder())
	if err != nil {
		return nil, err
	}
	defer one.http.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	for len(digests) < e.run.cfg.Services {
		if digests, err = one.wanted(ctx); err != nil {
			return nil, fmt.Errorf("ask what is meant for %s: %w", one.name, err)
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return digests, nil
}
