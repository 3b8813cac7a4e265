// Package consoletest plays the console for tests of the hub's other services: identities and the catalog. Tests answer
// beside it whatever else their service asks the console for.
package consoletest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/identity"
)

// HubSecret is that of the hub.
const HubSecret = "0123456789abcdef"

// Console keeps a catalog in memory and signs tokens.
type Console struct {
	consolev1connect.UnimplementedIdentityServiceHandler
	keys *identity.KeySet

	mu       sync.Mutex                   // guards what follows
	all      map[string]*consolev1.Change // what is there, by kind and name
	log      []*consolev1.Change
	changed  chan struct{} // closed and replaced at every change
	removals *consolev1.Removals
	silent   chan struct{} // Watch says nothing until it is closed; nil: Watch says all at once
	revoked  []identity.Revocation
}

// New returns a console with keys of its own, and with these in its catalog.
func New(t testing.TB, changes ...*consolev1.Change) *Console {
	t.Helper()
	keys, err := identity.NewKeySet()
	if err != nil {
		t.Fatal(err)
	}
	c := &Console{keys: keys, all: map[string]*consolev1.Change{}, changed: make(chan struct{})}
	c.Put(changes...)
	return c
}

// Handle adds the services of identities and of the catalog to a console's.
func (c *Console) Handle(mux *http.ServeMux) {
	mux.Handle(consolev1connect.NewIdentityServiceHandler(c))
	mux.Handle(consolev1connect.NewCatalogServiceHandler(c))
}

// Server serves a console, as one does behind a proxy that ends TLS, until the test ends.
func Server(t testing.TB, handler http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// Sign returns an hour's token for anybody, and what it says.
func (c *Console) Sign(id identity.Identity) (token string, signed identity.Identity, err error) {
	return c.keys.Sign(id, time.Hour)
}

// Revoke makes tokens invalid as soon as the services hear of it.
func (c *Console) Revoke(r identity.Revocation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revoked = append(c.revoked, r)
}

// ExchangeHubSecret implements IdentityService.
func (c *Console) ExchangeHubSecret(_ context.Context,
	req *consolev1.ExchangeHubSecretRequest,
) (*consolev1.ExchangeHubSecretResponse, error) {
	if req.GetHubSecret() != HubSecret {
		return nil, connect.NewError(connect.CodeUnauthenticated, errors.New("wrong secret"))
	}
	token, id, err := c.Sign(identity.Identity{Kind: identity.KindService, Name: req.GetService()})
	return &consolev1.ExchangeHubSecretResponse{
		Token: &consolev1.Token{Token: token, Id: id.TokenID, ExpireTime: timestamppb.New(id.ExpiresAt)},
	}, err
}

// GetTrustBundle implements IdentityService.
func (c *Console) GetTrustBundle(context.Context, *consolev1.GetTrustBundleRequest) (*consolev1.GetTrustBundleResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return identity.Bundle{
		Keys: c.keys.PublicJWKS(), Revocations: slices.Clone(c.revoked), IssuedAt: time.Now(),
	}.Proto(), nil
}

// Put changes the catalog. The caller leaves the changes as they are afterwards.
func (c *Console) Put(changes ...*consolev1.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(changes...)
}

// SetGrants puts grants in the place of all that there are.
func (c *Console) SetGrants(grants ...*consolev1.Grant) {
	changes := make([]*consolev1.Change, len(grants))
	for i, grant := range grants {
		changes[i] = &consolev1.Change{Change: &consolev1.Change_Grant{Grant: grant}}
	}
	c.Set(changes, consolev1.Kind_KIND_GRANT)
}

// Set puts resources in the place of all of some kinds. A resource that is as it was is no change.
func (c *Console) Set(all []*consolev1.Change, kinds ...consolev1.Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var changes []*consolev1.Change
	stays := map[string]bool{}
	for _, ch := range all {
		stays[key(ch)] = true
		if !proto.Equal(c.all[key(ch)], ch) {
			changes = append(changes, ch)
		}
	}
	for at, ch := range c.all {
		if kind, of := about(ch); !stays[at] && slices.Contains(kinds, kind) {
			changes = append(changes, deleted(kind, of))
		}
	}
	c.put(changes...)
}

// put is Put. The caller holds mu.
func (c *Console) put(changes ...*consolev1.Change) {
	for _, ch := range changes {
		if ch.GetDeleted() != nil {
			delete(c.all, key(ch))
		} else {
			c.all[key(ch)] = ch
		}
	}
	c.log = append(c.log, changes...)
	c.announce()
}

// Revision is the number of the last change.
func (c *Console) Revision() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(len(c.log))
}

// SayOfRemovals has the console say something about removals with its next heartbeat.
func (c *Console) SayOfRemovals(r *consolev1.Removals) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removals = r
	c.announce()
}

// Silence has the streams that begin from now on say nothing before speak is called.
func (c *Console) Silence() (speak func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	silent := make(chan struct{})
	c.silent = silent
	return func() { close(silent) }
}

// announce wakes the streams. The caller holds mu.
func (c *Console) announce() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Meta is what each resource has: its uid is made of its name.
func Meta(name string) *consolev1.Metadata {
	return &consolev1.Metadata{Name: name, Uid: "uid-" + name}
}

// Cluster is a cluster that comes.
func Cluster(name string) *consolev1.Change {
	return &consolev1.Change{Change: &consolev1.Change_Cluster{Cluster: &consolev1.Cluster{Metadata: Meta(name)}}}
}

// Deleted is a resource that goes.
func Deleted(kind consolev1.Kind, name string) *consolev1.Change { return deleted(kind, Meta(name)) }

func deleted(kind consolev1.Kind, of *consolev1.Metadata) *consolev1.Change {
	return &consolev1.Change{Change: &consolev1.Change_Deleted{
		Deleted: &consolev1.Deleted{Kind: kind, Name: of.GetName(), Uid: of.GetUid()},
	}}
}

// about is what a change is about.
func about(ch *consolev1.Change) (consolev1.Kind, *consolev1.Metadata) {
	switch r := ch.GetChange().(type) {
	case *consolev1.Change_Deleted:
		return r.Deleted.GetKind(), &consolev1.Metadata{Name: r.Deleted.GetName(), Uid: r.Deleted.GetUid()}
	case *consolev1.Change_Source:
		return consolev1.Kind_KIND_SOURCE, r.Source.GetMetadata()
	case *consolev1.Change_Cluster:
		return consolev1.Kind_KIND_CLUSTER, r.Cluster.GetMetadata()
	case *consolev1.Change_Service:
		return consolev1.Kind_KIND_SERVICE, r.Service.GetMetadata()
	case *consolev1.Change_Secret:
		return consolev1.Kind_KIND_SECRET, r.Secret.GetMetadata()
	case *consolev1.Change_Project:
		return consolev1.Kind_KIND_PROJECT, r.Project.GetMetadata()
	case *consolev1.Change_Role:
		return consolev1.Kind_KIND_ROLE, r.Role.GetMetadata()
	case *consolev1.Change_Grant:
		return consolev1.Kind_KIND_GRANT, r.Grant.GetMetadata()
	}
	return consolev1.Kind_KIND_UNSPECIFIED, nil
}

// key is the kind and the name of what a change is about.
func key(ch *consolev1.Change) string {
	kind, of := about(ch)
	return fmt.Sprint(kind, " ", of.GetName())
}

// Watch implements CatalogService: a snapshot and then every change, without resuming.
func (c *Console) Watch(ctx context.Context, _ *consolev1.WatchRequest, out *connect.ServerStream[consolev1.WatchResponse]) error {
	c.mu.Lock()
	silent := c.silent
	c.mu.Unlock()
	if silent != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-silent:
		}
	}
	c.mu.Lock()
	snapshot, at, removals := slices.Collect(maps.Values(c.all)), len(c.log), c.removals
	c.mu.Unlock()
	const token = "t"
	for _, m := range []*consolev1.WatchResponse{
		{Event: &consolev1.WatchResponse_SnapshotBegin{SnapshotBegin: &consolev1.SnapshotBegin{}}},
		changesOf(snapshot),
		{Event: &consolev1.WatchResponse_SnapshotEnd{SnapshotEnd: &consolev1.SnapshotEnd{}}, ResumeToken: token, Revision: int64(at), Removals: removals},
	} {
		if err := out.Send(m); err != nil {
			return err
		}
	}
	for {
		c.mu.Lock()
		news, wait, told := c.log[at:], c.changed, removals
		at, removals = len(c.log), c.removals
		c.mu.Unlock()
		var m *consolev1.WatchResponse
		switch {
		case removals != told:
			beat := &consolev1.WatchResponse_Heartbeat{Heartbeat: &consolev1.Heartbeat{}}
			at -= len(news) // these come next
			m = &consolev1.WatchResponse{Event: beat, ResumeToken: token, Revision: int64(at), Removals: removals}
		case len(news) > 0:
			m = changesOf(news)
			m.ResumeToken, m.Revision = token, int64(at)
		default:
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-wait:
			}
			continue
		}
		if err := out.Send(m); err != nil {
			return err
		}
	}
}

func changesOf(list []*consolev1.Change) *consolev1.WatchResponse {
	changes := &consolev1.Changes{Changes: list}
	return &consolev1.WatchResponse{Event: &consolev1.WatchResponse_Changes{Changes: changes}}
}
