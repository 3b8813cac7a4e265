package gitcache

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache/internal/authz"
	"fairlead.dev/services/gitcache/internal/browse"
	"fairlead.dev/services/gitcache/internal/origin"
	"fairlead.dev/services/gitcache/internal/owner"
	"fairlead.dev/services/gitcache/internal/rpc"
	"fairlead.dev/services/gitcache/internal/rpc/remote"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/status"
	"fairlead.dev/services/gitcache/internal/webhook"
)

// newSources puts together what people see of sources, and ask for.
func (s *Service) newSources(from *origin.Origin) *rpc.Sources {
	others := remote.Peers{Members: s.peers}
	return &rpc.Sources{
		Ready: s.replica.Catalog.Ready, Rights: s.rights(), Refresh: s.refresh, Log: s.deps.Log,
		View: status.NewView(status.Deps{
			Replica: s.cfg.Replica, Published: s.sources.Live, Copied: status.Copied(s.mirrors), Others: others.Live, Holders: s.replica.Coordinator.Holders,
			State: func(uid string) owner.State { state, _ := s.owner.State(uid); return state },
		}),
		Browser: browse.New(browse.Deps{
			Source: s.sources.Browse, Mirrors: s.mirrors, Owned: s.owned, Others: others,
		}),
		UID: func(name string) (string, bool) {
			source, ok := s.sources.Source(name)
			return source.UID, ok
		},
		Packs: rpc.Packs{
			Service: s.replica.Catalog.Service, Published: s.sources.Head, Owned: s.owned, Owner: others.Client, Origin: from,
			Look: func(ctx context.Context, uid, ref string, folder source.Folder) (string, error) {
				commit, err := s.owner.Look(ctx, uid, ref, folder)
				return commit.String(), err
			},
			Open: func(ctx context.Context, d artifact.Digest) (io.ReadCloser, error) {
				return s.store.Fill(ctx, d, s.find)
			},
		},
	}
}

// find reads an artifact that the store has no more: built again from a mirror here, or from another replica.
func (s *Service) find(ctx context.Context, d artifact.Digest) (io.ReadCloser, error) {
	r, err := s.builder.Open(ctx, d)
	if err == nil {
		return r, nil
	}
	return s.peers.Open(ctx, d)
}

func (s *Service) rights() authz.Rights { return authz.Rights{Catalog: s.replica.Catalog} }

// epoch is this replica's claim of a source; 0: it has none.
func (s *Service) epoch(uid string) int64 {
	state, _ := s.owner.State(uid)
	return state.Epoch
}

func (s *Service) owned(uid string) bool {
	state, _ := s.owner.State(uid)
	return state.Owned
}

// refresh makes the owner of a source poll now, whichever replica that is.
func (s *Service) refresh(ctx context.Context, uid string) error {
	if s.owner.Refresh(uid) {
		return nil
	}
	return s.replica.Coordinator.Publish(ctx, refreshTopic, []byte(uid))
}

// newWebhooks mounts what Git hosts call. The mount has no role: each webhook carries a proof of its own.
func (s *Service) newWebhooks() (server.Mount, error) {
	count := telemetry.FromZero(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fairlead_gitcache_webhooks_total", Help: "Webhooks by result: accepted, ping, ignored, refused, limited, bad, failed.",
	}, []string{"result"}), "accepted", "ping", "ignored", "refused", "limited", "bad", "failed")
	if err := s.deps.Telemetry.Registry.Register(count); err != nil {
		return server.Mount{}, fmt.Errorf("register metrics: %w", err)
	}
	var handler http.Handler = webhook.New(webhook.Deps{
		Ready: s.replica.Catalog.Ready, Source: s.sources.Webhook, Token: s.console.WebhookToken, Refresh: s.refresh,
		Count: func(r webhook.Result) { count.WithLabelValues(string(r)).Inc() }, Log: s.deps.Log,
	})
	// Raw, because GitHub sends more than a message may have. The handler bounds size and time itself.
	return server.Raw(webhook.Path, handler, identity.RoleOpen), nil
}
