package acceptance

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/agentconfig"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/kind"
	"fairlead.dev/platform/longform"
	"fairlead.dev/services/console"
)

// queried keeps what WatchQueries told, as a page does.
type queried struct {
	t         testing.TB
	stream    *connect.ServerStreamForClient[consolev1.WatchQueriesResponse]
	names     map[string][]string
	resources map[string]*consolev1.Service
	others    map[string]*consolev1.Resource // of kinds that are no services
	versions  map[string]uint64
	sent      int // resources
	total     int32
	counts    string
	groups    map[string]int32
	events    []string
	whole     bool
	resume    string
	problems  map[string]string
	view      *consolev1.ClusterView
	views     *consolev1.ListClusterViewsResponse
}

func (r *running) query(t testing.TB, token string, list ...*consolev1.Query) *queried {
	t.Helper()
	c := consolev1connect.NewLiveServiceClient(newHTTPClient(t), r.url,
		append(client.Options(), client.WithToken(identity.StaticToken(token)))...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	stream, err := c.WatchQueries(ctx, &consolev1.WatchQueriesRequest{Queries: list})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stream.Close() })
	return &queried{
		t: t, stream: stream, names: map[string][]string{}, resources: map[string]*consolev1.Service{},
		others: map[string]*consolev1.Resource{}, versions: map[string]uint64{}, problems: map[string]string{},
	}
}

// until takes messages in until enough says so.
func (q *queried) until(what string, enough func() bool) {
	q.t.Helper()
	for !enough() {
		if !q.stream.Receive() {
			q.t.Fatalf("%s did not come before the stream ended: %v; names %v, counts %s, events %v", what,
				q.stream.Err(), q.names, q.counts, q.events)
		}
		q.take(q.stream.Msg())
	}
}

func (q *queried) take(m *consolev1.WatchQueriesResponse) {
	if list := m.GetList(); list != nil {
		if list.GetNames() != nil {
			q.names[m.GetName()] = list.GetNames().GetNames()
		}
		for _, r := range list.GetResources() {
			s := r.GetResource().GetService()
			if s == nil {
				_, other := kind.Unwrap(r.GetResource())
				q.others[other.GetMetadata().GetName()] = r.GetResource()
				continue
			}
			q.resources[s.GetMetadata().GetName()], q.versions[s.GetMetadata().GetName()] = s, r.GetVersion()
			q.sent++
		}
		q.total = list.GetTotalSize()
	}
	if m.GetCounts() != nil || m.GetCountChanges() != nil {
		q.takeCounts(m)
	}
	if events := m.GetEvents(); events != nil {
		q.whole = q.whole || events.GetWhole()
		for _, e := range events.GetEvents() {
			q.events = append(q.events, e.GetType())
		}
		q.resume = events.GetResumeToken()
	}
	if m.GetView() != nil {
		q.view = m.GetView().GetView()
	}
	if m.GetViews() != nil {
		q.views = m.GetViews()
	}
	if p := m.GetProblem(); p != nil {
		q.problems[m.GetName()] = connect.Code(p.GetCode()).String() + ": " + p.GetMessage()
	}
}

func (q *queried) takeCounts(m *consolev1.WatchQueriesResponse) {
	if m.GetCounts() != nil {
		q.groups = map[string]int32{}
	}
	for _, c := range append(m.GetCounts().GetCounts(), m.GetCountChanges().GetCounts()...) {
		q.groups[strings.Join(c.GetValues(), "/")] = c.GetCount()
	}
	var out []string
	for _, values := range slices.Sorted(maps.Keys(q.groups)) {
		if count := q.groups[values]; count > 0 {
			out = append(out, fmt.Sprintf("%s:%d", values, count))
		}
	}
	q.counts = strings.Join(out, " ")
}

func serviceList(name string, list *consolev1.ListQuery) *consolev1.Query {
	list.Kind = consolev1.Kind_KIND_SERVICE
	return &consolev1.Query{Name: name, Query: &consolev1.Query_List{List: list}}
}

func (q *queried) is(name string, want ...string) func() bool {
	return func() bool { got, ok := q.names[name]; return ok && slices.Equal(got, want) }
}

// One stream carries a page of a list, counts and events, and each of them follows what happens.
func TestOneStreamKeepsAnswersUpToDate(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		admin.putSource(t, "shop", "https://git.example.com/shop")
		admin.putCluster(t, "edge-1")
		for _, name := range []string{"a", "b", "c", "d"} {
			admin.putLabelled(t, name, "edge-1", map[string]string{"env": "prod"})
		}
		q := r.query(t, r.adminToken(t),
			serviceList("worst", &consolev1.ListQuery{
				PageSize: 2, Filter: "labels.env = prod", OrderBy: "state desc, name",
				ReadMask: &fieldmaskpb.FieldMask{Paths: []string{"metadata.name", "status.state"}},
			}),
			&consolev1.Query{
				Name: "states",
				Query: &consolev1.Query_Counts{
					Counts: &consolev1.CountResourcesRequest{
						Kind: consolev1.Kind_KIND_SERVICE, GroupBy: []string{"state"},
					},
				},
			},
			&consolev1.Query{
				Name:  "failures",
				Query: &consolev1.Query_Events{Events: &consolev1.ListEventsRequest{Filter: "type = service.failed"}},
			},
			serviceList("wrong", &consolev1.ListQuery{Filter: "nme = a"}),
			serviceList("masked", &consolev1.ListQuery{ReadMask: &fieldmaskpb.FieldMask{Paths: []string{"spec.nope"}}}),
		)
		q.until("the first page", q.is("worst", "a", "b"))
		if q.total != 4 || q.resources["a"].GetStatus().GetState() != consolev1.ServiceState_SERVICE_STATE_PENDING ||
			q.resources["a"].GetSpec() != nil {
			t.Errorf("of %d: %v", q.total, q.resources["a"])
		}
		q.until("the counts", func() bool { return q.counts == "pending:4" })
		q.until("the page of events", func() bool { return q.whole })
		for name, words := range map[string]string{
			"wrong":  `invalid_argument: filter: character 1: there is no field "nme"`,
			"masked": `invalid_argument: read_mask: "spec.nope" is no field of Service`,
		} {
			if !strings.Contains(q.problems[name], words) {
				t.Errorf("%s: %q", name, q.problems[name])
			}
		}
		sent := q.sent
		fail(t, r, admin, "d", 1)
		q.until("a service that enters the page", q.is("worst", "d", "a"))
		q.until("its state in the counts", func() bool { return q.counts == "failed:1 pending:3" })
		q.until("its event", func() bool { return slices.Contains(q.events, "service.failed") })
		if more := q.sent - sent; more < 1 || more > 5 { // a source's first head is seen as well
			t.Errorf("%d resources were sent for one that changed", more)
		}
		admin.putLabelled(t, "b", "edge-1", nil)
		q.until("a service that leaves the filter", func() bool { return q.total == 3 })
		if _, err := admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: "d"}); err != nil {
			t.Fatal(err)
		}
		q.until("a service that is gone", q.is("worst", "a", "c"))
		q.until("the counts without it", func() bool { return q.counts == "pending:3" })
	})
}

// A client that lost its stream gets what changed meanwhile, at another console, too.
func TestQueriesResume(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin, token := r.admin(t), r.adminToken(t)
	admin.putSource(t, "shop", "https://git.example.com/shop")
	admin.putCluster(t, "edge-1")
	for _, name := range []string{"a", "b", "c"} {
		admin.putLabelled(t, name, "edge-1", nil)
	}
	events := func(resume string) *consolev1.Query {
		return &consolev1.Query{
			Name: "events", ResumeToken: resume,
			Query: &consolev1.Query_Events{Events: &consolev1.ListEventsRequest{Filter: "type = service.failed"}},
		}
	}
	list := func() *consolev1.ListQuery {
		return &consolev1.ListQuery{
			ReadMask: &fieldmaskpb.FieldMask{Paths: []string{"metadata.name", "metadata.labels"}},
		}
	}
	first := r.query(t, token, serviceList("all", list()), events(""))
	first.until("all", first.is("all", "a", "b", "c"))
	first.until("events", func() bool { return first.whole })
	admin.putLabelled(t, "b", "edge-1", map[string]string{"env": "prod"})
	fail(t, r, admin, "a", 1)
	again := serviceList("all", list())
	for name, version := range first.versions {
		again.Known = append(again.Known, &consolev1.KnownResource{Name: name, Version: version})
	}
	second := r.query(t, token, again, events(first.resume))
	second.until("the event of meanwhile",
		func() bool { return slices.Equal(second.events, []string{"service.failed"}) })
	second.until("all", second.is("all", "a", "b", "c"))
	if second.whole || second.sent != 1 || second.resources["b"].GetMetadata().GetLabels()["env"] != "prod" {
		t.Errorf("whole: %v, sent: %v", second.whole, second.resources)
	}
	gone := r.query(t, token, events("1000000"))
	gone.until("events from the beginning", func() bool { return gone.whole })
}

// A right that a grant adds or takes away counts for a stream that runs.
func TestQueriesShowNothingForeign(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.putSource(t, "shop", "https://git.example.com/shop")
	admin.putCluster(t, "edge-1")
	admin.putCluster(t, "edge-2")
	admin.putLabelled(t, "mine", "edge-1", nil)
	admin.putLabelled(t, "foreign", "edge-2", nil)
	admin.let(t, "bobs", "viewer", &consolev1.GrantClusters{Names: []string{"edge-1"}})
	q := r.query(t, r.sign(t, identity.Identity{Kind: identity.KindUser, Name: "bob", Groups: []string{"bobs"}}),
		serviceList("all", &consolev1.ListQuery{}),
		&consolev1.Query{
			Name: "counts", OnlyChanges: true,
			Query: &consolev1.Query_Counts{
				Counts: &consolev1.CountResourcesRequest{
					Kind: consolev1.Kind_KIND_SERVICE, GroupBy: []string{"cluster"},
				},
			},
		})
	q.until("his", q.is("all", "mine"))
	q.until("counts of his", func() bool { return q.counts == "edge-1:1" })
	if q.total != 1 {
		t.Errorf("the total counts what he does not see: %d", q.total)
	}
	admin.let(t, "bobs", "viewer", &consolev1.GrantClusters{Names: []string{"edge-2"}})
	q.until("the other", q.is("all", "foreign"))
	q.until("counts of the other", func() bool { return q.counts == "edge-2:1" })
}

func listOf(of consolev1.Kind) *consolev1.Query {
	return &consolev1.Query{Name: of.String(), Query: &consolev1.Query_List{List: &consolev1.ListQuery{Kind: of}}}
}

// The status of a sink or a backend changes without a write of the sink or backend. A stream that runs tells of the
// change, and a later stream begins with the newest status.
func TestQueriesFollowStatusesOfSinksAndBackends(t *testing.T) {
	t.Parallel()
	to, dir, h := newReceiver(t), t.TempDir(), newHub(t, "")
	put(t, dir, "db.yaml", "password: one\n")
	r := h.startWith(t, func(c *console.Config) {
		c.AllowAddresses, c.ConfigDir = []string{"127.0.0.0/8"}, dir
	})
	admin, token := r.admin(t), r.adminToken(t)
	admin.must(t, webhook("hook", to.URL), newBackend("files"), newSource("shop"), newCluster("edge-1"))
	problem := func(q *queried) func() bool {
		return func() bool { return q.others["hook"].GetSink().GetStatus().GetProblem() != nil }
	}
	read := func(q *queried) func() bool {
		return func() bool { return q.others["files"].GetBackend().GetStatus().GetReadTime() != nil }
	}
	sinks, backends := listOf(consolev1.Kind_KIND_SINK), listOf(consolev1.Kind_KIND_BACKEND)
	first := r.query(t, token, sinks, backends)
	first.until("the statuses as they begin", func() bool { return len(first.others) == 2 })
	if problem(first)() || read(first)() {
		t.Fatalf("the statuses begin as %v", first.others)
	}
	to.answers(http.StatusInternalServerError)
	h.tell(t, degraded("a", "", "web"))
	admin.must(t, configured(newService("web", "shop", "edge-1"), nil, settings{
		"password": fromBackend("files", "db.yaml", "password"),
	}))
	await.True(t, "both have other statuses", func() bool {
		files, err := admin.backends.GetBackend(t.Context(), &consolev1.GetBackendRequest{Name: "files"})
		return err == nil && files.GetBackend().GetStatus().GetReadTime() != nil &&
			admin.sink(t, "hook").GetStatus().GetProblem() != nil
	})

	second := r.query(t, token, sinks, backends)
	second.until("both resources", func() bool { return len(second.others) == 2 })
	if !problem(second)() || !read(second)() {
		t.Errorf("a later stream begins with %v", second.others)
	}
	first.until("the problem of the sink", problem(first))
	first.until("the reading of the backend", read(first))
}

// The status of an AgentConfig is that of the caller's clusters, whoever looked before.
func TestQueriesShowConfigurationsByTheirCaller(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	all := newAgentConfig("all", &consolev1.ClusterSelector{All: true}, &deliveryv1.AgentSettings{Concurrency: 3})
	admin.must(t, newCluster("edge-1"), newCluster("edge-2"), all, &consolev1.Role{
		Metadata: meta("configs"), Spec: &consolev1.RoleSpec{
			Rules: []*consolev1.RoleRule{{Verbs: []string{"view"}, Kinds: []string{"AgentConfig"}}},
		},
	})
	admin.let(t, "configs", "configs", &consolev1.GrantClusters{All: true})
	admin.let(t, "one", "viewer", &consolev1.GrantClusters{Names: []string{"edge-1"}})
	r.configured(t, "edge-2", &deliveryv1.AgentConfigState{
		Wanted:  agentconfig.For([]*consolev1.AgentConfig{all}, "edge-2", nil).GetDigest(),
		Refusal: "the agent did not reach the hub", RefuseTime: timestamppb.Now(),
	}, configurable)
	olga := identity.Identity{Kind: identity.KindUser, Name: "olga", Groups: []string{"configs", "one"}}
	for _, c := range []struct {
		token string
		want  *consolev1.AgentConfigStatus
	}{
		{r.adminToken(t), &consolev1.AgentConfigStatus{Clusters: 2, Refused: []string{"edge-2"}, RefusedTotal: 1}},
		{r.sign(t, olga), &consolev1.AgentConfigStatus{Clusters: 1}},
		{r.adminToken(t), &consolev1.AgentConfigStatus{Clusters: 2, Refused: []string{"edge-2"}, RefusedTotal: 1}},
	} {
		unary, err := r.as(t, c.token).agents.GetAgentConfig(t.Context(), &consolev1.GetAgentConfigRequest{Name: "all"})
		if got := unary.GetAgentConfig().GetStatus(); err != nil || !proto.Equal(got, c.want) {
			t.Fatalf("the method answers %v, %v, want %v", got, err, c.want)
		}
		q := r.query(t, c.token, listOf(consolev1.Kind_KIND_AGENT_CONFIG))
		q.until("the configuration", func() bool { return len(q.others) == 1 })
		if got := q.others["all"].GetAgentConfig().GetStatus(); !proto.Equal(got, c.want) {
			t.Errorf("the stream shows %v, want %v", got, c.want)
		}
	}
}

// After any change, a page that follows is the page that a list would give.
func TestQueriesEqualLists(t *testing.T) {
	t.Parallel()
	longform.Only(t, "hundreds of random changes")
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.putSource(t, "shop", "https://git.example.com/shop")
	admin.putCluster(t, "edge-1")
	const filter, order, size = "labels.env = prod", "labels.team desc, name", 4
	q := r.query(t, r.adminToken(t),
		serviceList("page", &consolev1.ListQuery{Filter: filter, OrderBy: order, PageSize: size}),
		&consolev1.Query{
			Name: "counts", OnlyChanges: true,
			Query: &consolev1.Query_Counts{
				Counts: &consolev1.CountResourcesRequest{
					Kind: consolev1.Kind_KIND_SERVICE, Filter: filter, GroupBy: []string{"labels.team"},
				},
			},
		})
	q.until("an empty page", q.is("page"))
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range 12 {
		for range 10 {
			name := fmt.Sprintf("service-%d", random.IntN(9))
			if random.IntN(4) == 0 {
				_, err := admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: name})
				if err != nil && connect.CodeOf(err) != connect.CodeNotFound {
					t.Fatal(err)
				}
				continue
			}
			admin.putLabelled(t, name, "edge-1", map[string]string{
				"env": []string{"prod", "test"}[random.IntN(2)], "team": fmt.Sprint(random.IntN(3)),
			})
		}
		want, err := admin.services.ListServices(t.Context(), &consolev1.ListServicesRequest{
			Filter: filter, OrderBy: order, PageSize: size,
		})
		if err != nil {
			t.Fatal(err)
		}
		counts, err := admin.live.CountResources(t.Context(), &consolev1.CountResourcesRequest{
			Kind: consolev1.Kind_KIND_SERVICE, Filter: filter, GroupBy: []string{"labels.team"},
		})
		if err != nil {
			t.Fatal(err)
		}
		var count []string
		for _, c := range counts.GetCounts() {
			count = append(count, fmt.Sprintf("%s:%d", c.GetValues()[0], c.GetCount()))
		}
		q.until(fmt.Sprintf("what the list has in round %d (seed %d): %v %v", round, seed, want.GetServices(), count),
			func() bool {
				return q.counts == strings.Join(count, " ") &&
					slices.EqualFunc(q.names["page"], want.GetServices(), func(name string, s *consolev1.Service) bool {
						return name == s.GetMetadata().GetName() &&
							q.resources[name].GetMetadata().GetEtag() == s.GetMetadata().GetEtag()
					})
			})
	}
}
