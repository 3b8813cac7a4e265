package acceptance

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/consoletest"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
)

// console plays the console at the edge of the network: epochs and secrets beside who is who and the catalog.
type console struct {
	*httptest.Server
	*consoletest.Console

	trail    auditService
	mu       sync.Mutex // guards what follows
	sources  map[string]*consolev1.Source
	services map[string]*consolev1.Service
	secrets  map[string]*consolev1.Secret
	down     bool
	accepted []*consolev1.PublishHeadsRequest
	refused  int
}

func newConsole(t *testing.T) *console {
	t.Helper()
	c := &console{
		Console: consoletest.New(t), sources: map[string]*consolev1.Source{},
		services: map[string]*consolev1.Service{}, secrets: map[string]*consolev1.Secret{},
	}
	mux := http.NewServeMux()
	c.Handle(mux)
	mux.Handle(consolev1connect.NewHeadServiceHandler(headService{c}))
	mux.Handle(consolev1connect.NewSecretServiceHandler(secretService{console: c}))
	mux.Handle(consolev1connect.NewAuditServiceHandler(&c.trail))
	c.Server = consoletest.Server(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.isDown() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
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
	c.mu.Unlock()
	if down {
		c.CloseClientConnections()
	}
}

// announce has the catalog say what is there now. Call it with mu held.
func (c *console) announce() {
	var all []*consolev1.Change
	for _, s := range c.sources {
		all = append(all, &consolev1.Change{Change: &consolev1.Change_Source{Source: proto.CloneOf(s)}})
	}
	for _, s := range c.services {
		all = append(all, &consolev1.Change{Change: &consolev1.Change_Service{Service: proto.CloneOf(s)}})
	}
	for _, s := range c.secrets {
		all = append(all, &consolev1.Change{Change: &consolev1.Change_Secret{
			Secret: &consolev1.Secret{Metadata: proto.CloneOf(s.GetMetadata())},
		}})
	}
	c.Set(all, consolev1.Kind_KIND_SOURCE, consolev1.Kind_KIND_SERVICE, consolev1.Kind_KIND_SECRET)
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
	if role == "" {
		c.SetGrants()
		return
	}
	c.SetGrants(&consolev1.Grant{Metadata: consoletest.Meta("adas"), Spec: &consolev1.GrantSpec{
		Role: role, Projects: projects, Clusters: &consolev1.GrantClusters{Names: []string{"a"}},
		Subjects: []*consolev1.GrantSubject{{Subject: &consolev1.GrantSubject_User{User: "ada"}}},
	}})
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

// token is an hour's token for a service of the hub or, with a kind, for somebody else.
func (c *console) token(t *testing.T, kind identity.Kind, name string) string {
	t.Helper()
	token, _, err := c.Sign(identitytest.Bind(identity.Identity{Kind: kind, Name: name}))
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
