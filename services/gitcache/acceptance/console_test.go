package acceptance

import (
	"context"
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
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
)

// console plays the console at the edge of the network: a catalog, epochs, secrets and identities.
type console struct {
	*httptest.Server
	keys *identity.KeySet

	trail    auditService
	mu       sync.Mutex // guards what follows
	changed  chan struct{}
	sources  map[string]*consolev1.Source
	services map[string]*consolev1.Service
	secrets  map[string]*consolev1.Secret
	grants   []*consolev1.Grant
	version  int
	down     bool
	accepted []*consolev1.PublishHeadsRequest
	refused  int
}

func newConsole(t *testing.T) *console {
	t.Helper()
	keys, err := identity.NewKeySet()
	if err != nil {
		t.Fatal(err)
	}
	c := &console{
		keys: keys, changed: make(chan struct{}), sources: map[string]*consolev1.Source{},
		services: map[string]*consolev1.Service{}, secrets: map[string]*consolev1.Secret{},
	}
	mux := http.NewServeMux()
	mux.Handle(consolev1connect.NewCatalogServiceHandler(catalogService{c}))
	mux.Handle(consolev1connect.NewHeadServiceHandler(headService{c}))
	mux.Handle(consolev1connect.NewSecretServiceHandler(secretService{console: c}))
	mux.Handle(consolev1connect.NewIdentityServiceHandler(identityService{console: c}))
	mux.Handle(consolev1connect.NewAuditServiceHandler(&c.trail))
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.isDown() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	c.Config.Protocols = new(http.Protocols)
	c.Config.Protocols.SetUnencryptedHTTP2(true)
	c.Config.Protocols.SetHTTP1(true)
	c.Start()
	t.Cleanup(func() {
		c.CloseClientConnections()
		c.Close()
	})
	return c
}

func (c *console) isDown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down
}

// setDown makes every call fail and ends the streams.
func (c *console) setDown(down bool) {
	c.mu.Lock()
	c.down = down
	c.announce()
	c.mu.Unlock()
	if down {
		c.CloseClientConnections()
	}
}

// announce wakes the streams. Call it with mu held.
func (c *console) announce() {
	c.version++
	close(c.changed)
	c.changed = make(chan struct{})
}

// seldom is the interval of polls: a test that counts requests must not see one that the time has come for.
const seldom = time.Hour

// sourceName is the source that the tests share in.
const sourceName = "shop"

func (c *console) setSource(url, secret string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.announce()
	s := &consolev1.Source{
		Metadata: &consolev1.Metadata{Name: sourceName, Uid: "uid-" + sourceName},
		Spec: &consolev1.SourceSpec{Git: &consolev1.GitSource{
			Url: url, Secret: secret,
			Interval: durationpb.New(seldom),
		}},
		Status: &consolev1.SourceStatus{},
	}
	if old, ok := c.sources[sourceName]; ok {
		s.Status = proto.CloneOf(old.GetStatus())
	}
	c.sources[sourceName] = s
}

func (c *console) deleteSource() {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.announce()
	delete(c.sources, sourceName)
}

func (c *console) setService(name, ref string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.announce()
	c.services[name] = &consolev1.Service{
		Metadata: &consolev1.Metadata{Name: name, Uid: "uid-" + name},
		Spec:     &consolev1.ServiceSpec{Source: sourceName, Cluster: "a"},
	}
	catalog.SetRef(c.services[name].Spec, ref)
}

// grant gives ada a role in a project; none: everywhere at cluster a. No role: takes all away.
func (c *console) grant(role string, projects ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.announce()
	c.grants = nil
	if role != "" {
		c.grants = []*consolev1.Grant{{Metadata: &consolev1.Metadata{Name: "adas"}, Spec: &consolev1.GrantSpec{
			Role: role, Projects: projects, Clusters: &consolev1.GrantClusters{Names: []string{"a"}},
			Subjects: []*consolev1.GrantSubject{{Subject: &consolev1.GrantSubject_User{User: "ada"}}},
		}}}
	}
}

func (c *console) setSecret(name string, data map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.announce()
	revision := c.secrets[name].GetMetadata().GetRevision() + 1
	c.secrets[name] = &consolev1.Secret{Metadata: &consolev1.Metadata{
		Name: name, Uid: "uid-" + name,
		Revision: revision,
	}, Data: data}
}

// usurp claims a source for somebody else, as a replica does that believes it has the lease.
func (c *console) usurp(name string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sources[name].Status.Epoch++
	return c.sources[name].Status.Epoch
}

func (c *console) status() *consolev1.SourceStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return proto.CloneOf(c.sources[sourceName].GetStatus())
}

func (c *console) publishes() (accepted []*consolev1.PublishHeadsRequest, refused int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.accepted), c.refused
}

func (c *console) snapshot() (changes []*consolev1.Change, token string, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.sources)) {
		changes = append(changes, &consolev1.Change{Change: &consolev1.Change_Source{Source: proto.CloneOf(c.sources[name])}})
	}
	for _, name := range slices.Sorted(maps.Keys(c.services)) {
		changes = append(changes, &consolev1.Change{Change: &consolev1.Change_Service{Service: proto.CloneOf(c.services[name])}})
	}
	for _, name := range slices.Sorted(maps.Keys(c.secrets)) {
		s := proto.CloneOf(c.secrets[name])
		s.Data = nil
		changes = append(changes, &consolev1.Change{Change: &consolev1.Change_Secret{Secret: s}})
	}
	for _, g := range c.grants {
		changes = append(changes, &consolev1.Change{Change: &consolev1.Change_Grant{Grant: g}})
	}
	return changes, fmt.Sprint(c.version), c.changed
}

type catalogService struct{ *console }

// Watch sends the whole catalog after every change.
func (c catalogService) Watch(ctx context.Context, _ *consolev1.WatchRequest,
	out *connect.ServerStream[consolev1.WatchResponse],
) error {
	for {
		changes, token, changed := c.snapshot()
		for _, m := range []*consolev1.WatchResponse{
			{Event: &consolev1.WatchResponse_SnapshotBegin{SnapshotBegin: &consolev1.SnapshotBegin{}}},
			{Event: &consolev1.WatchResponse_Changes{Changes: &consolev1.Changes{Changes: changes}}},
			{Event: &consolev1.WatchResponse_SnapshotEnd{SnapshotEnd: &consolev1.SnapshotEnd{}}, ResumeToken: token},
		} {
			if err := out.Send(m); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
		if c.isDown() {
			return connect.NewError(connect.CodeUnavailable, nil)
		}
	}
}

type headService struct{ *console }

func (c headService) ClaimSource(_ context.Context,
	r *consolev1.ClaimSourceRequest,
) (*consolev1.ClaimSourceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.sources[r.GetSource()]
	if !ok || s.GetMetadata().GetUid() != r.GetUid() {
		return nil, connect.NewError(connect.CodeNotFound, nil)
	}
	s.Status.Epoch++
	s.Status.Owner = r.GetOwner()
	is := s.GetStatus()
	return &consolev1.ClaimSourceResponse{Epoch: is.GetEpoch(), Heads: is.GetHeads(), Problem: is.GetProblem()}, nil
}

func (c headService) PublishHeads(_ context.Context,
	r *consolev1.PublishHeadsRequest,
) (*consolev1.PublishHeadsResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.sources[r.GetSource()]
	switch {
	case !ok:
		return nil, connect.NewError(connect.CodeNotFound, nil)
	case s.GetStatus().GetEpoch() != r.GetEpoch():
		c.refused++
		return nil, connect.NewError(connect.CodeAborted, nil)
	}
	s.Status.Heads, s.Status.Problem = r.GetHeads(), r.GetProblem()
	c.accepted = append(c.accepted, r)
	c.announce()
	return &consolev1.PublishHeadsResponse{}, nil
}

type secretService struct {
	consolev1connect.UnimplementedSecretServiceHandler
	*console
}

func (c secretService) AccessSecret(_ context.Context,
	r *consolev1.AccessSecretRequest,
) (*consolev1.AccessSecretResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.secrets[r.GetName()]
	if !ok {
		return nil, connect.NewError(connect.CodeNotFound, nil)
	}
	return &consolev1.AccessSecretResponse{Data: s.GetData(), Revision: s.GetMetadata().GetRevision()}, nil
}

type identityService struct {
	consolev1connect.UnimplementedIdentityServiceHandler
	*console
}

func (c identityService) ExchangeHubSecret(_ context.Context,
	r *consolev1.ExchangeHubSecretRequest,
) (*consolev1.ExchangeHubSecretResponse, error) {
	token, signed, err := c.keys.Sign(identity.Identity{Kind: identity.KindService, Name: r.GetService()}, time.Hour)
	if err != nil {
		return nil, err
	}
	return &consolev1.ExchangeHubSecretResponse{Token: &consolev1.Token{
		Token: token, Id: signed.TokenID, ExpireTime: timestamppb.New(signed.ExpiresAt),
	}}, nil
}

func (c identityService) GetTrustBundle(context.Context,
	*consolev1.GetTrustBundleRequest,
) (*consolev1.GetTrustBundleResponse, error) {
	return identity.Bundle{Keys: c.keys.PublicJWKS(), IssuedAt: time.Now()}.Proto(), nil
}

// token is an hour's token for a service of the hub or, with a kind, for somebody else.
func (c *console) token(t *testing.T, kind identity.Kind, name string) string {
	t.Helper()
	token, _, err := c.keys.Sign(identitytest.Bind(identity.Identity{Kind: kind, Name: name}), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// head is where a ref was published to point.
func head(s *consolev1.SourceStatus, ref string) *artifactv1.Revision {
	for _, h := range s.GetHeads() {
		if h.GetRef() == ref {
			return h.GetRevision()
		}
	}
	return nil
}
