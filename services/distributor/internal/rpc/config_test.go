package rpc_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/delivery"
	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/services/distributor/internal/configs"
	"fairlead.dev/services/distributor/internal/plan"
	"fairlead.dev/services/distributor/internal/rpc"
)

// configured is a catalog with an AgentConfig for clusters with a label, at a revision.
func configured(u *plan.Update, revision int64, labels map[string]string, settings *deliveryv1.AgentSettings) {
	u.AgentConfigs([]*consolev1.AgentConfig{{
		Metadata: &consolev1.Metadata{Name: "edge"},
		Spec: &consolev1.AgentConfigSpec{
			Clusters: &consolev1.ClusterSelector{Labels: map[string]string{"site": "edge"}}, Settings: settings,
		},
	}})
	u.Labels("edge-1", labels)
	u.At(revision, revision)
}

func TestAConfigurationIsSentOnce(t *testing.T) {
	t.Parallel()
	with := deps(t)
	d := rpc.NewDelivery(with)
	ask := func(revision int64, state *deliveryv1.AgentConfigState, can ...deliveryv1.AgentCapability) *deliveryv1.SyncResponse {
		t.Helper()
		resp, err := d.Sync(asAgent(t.Context()), &deliveryv1.SyncRequest{
			Agent: &deliveryv1.AgentInfo{Version: "v1", Capabilities: can}, Revision: revision, AgentConfig: state,
		})
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	const config = deliveryv1.AgentCapability_AGENT_CAPABILITY_CONFIG
	with.Plan.Update(time.Now(), func(u *plan.Update) { u.Current() })
	edge, slow := map[string]string{"site": "edge"}, &deliveryv1.AgentSettings{Poll: &deliveryv1.AgentPoll{Interval: durationpb.New(4 * time.Minute), Jitter: 12}}
	with.Plan.Update(time.Now(), func(u *plan.Update) { configured(u, 5, map[string]string{"site": "core"}, slow) })
	if got := ask(5, nil, config).GetAgentConfig(); got != nil {
		t.Errorf("a cluster that nothing chooses gets %v", got)
	}
	change := with.Plan.Update(time.Now(), func(u *plan.Update) { configured(u, 6, edge, slow) })
	if _, nudged := change.Clusters["edge-1"]; !nudged {
		t.Error("the agent is not nudged")
	}
	if _, revision, err := with.Plan.Changed("edge-1"); err != nil || revision != 6 {
		t.Errorf("the agent is nudged for revision %d, %v; the change is 6", revision, err)
	}
	sent := ask(6, nil, config).GetAgentConfig()
	if len(sent.GetLayers()) != 1 || sent.GetDigest() == "" {
		t.Fatalf("sent %v", sent)
	}
	if got := ask(6, nil).GetAgentConfig(); got != nil {
		t.Errorf("an agent that can't be configured gets %v", got)
	}
	if got := ask(7, nil, config).GetAgentConfig(); got != nil {
		t.Errorf("an agent that has seen a later catalog gets %v", got)
	}
	has := &deliveryv1.AgentConfigState{Wanted: sent.GetDigest(), InForce: sent.GetDigest()}
	for range 100 {
		resp := ask(6, has, config)
		if next := resp.GetNextPoll().AsDuration(); resp.GetAgentConfig() != nil || next < 4*time.Minute*88/100 ||
			next > 4*time.Minute+5*time.Second {
			t.Fatalf("an agent that has it gets %v", resp)
		}
	}
	refused := &deliveryv1.AgentConfigState{Wanted: sent.GetDigest(), Refusal: "no"}
	if resp := ask(6, refused, config); resp.GetAgentConfig() != nil ||
		resp.GetNextPoll().AsDuration() > 2*time.Minute*11/10 {
		t.Errorf("an agent that refused it gets %v", resp)
	}
	with.Plan.Update(time.Now(), func(u *plan.Update) { u.AgentConfigs(nil); u.At(7, 7) })
	if got := ask(7, has, config).GetAgentConfig(); got == nil || got.GetDigest() != "" {
		t.Errorf("after its removal the agent gets %v", got)
	}
	if again := with.Plan.Update(time.Now(), func(u *plan.Update) { u.AgentConfigs(nil) }); len(again.Clusters) != 0 {
		t.Errorf("nudged for nothing: %v", again.Clusters)
	}
}

// TestPollsOfSeveralConfigurationsAreNoSilence: the longest interval of one, and the widest spread of another.
func TestPollsOfSeveralConfigurationsAreNoSilence(t *testing.T) {
	t.Parallel()
	with := deps(t)
	d := rpc.NewDelivery(with)
	all := &consolev1.ClusterSelector{All: true}
	with.Plan.Update(time.Now(), func(u *plan.Update) {
		u.Current()
		u.AgentConfigs([]*consolev1.AgentConfig{
			{Metadata: &consolev1.Metadata{Name: "slow"}, Spec: &consolev1.AgentConfigSpec{Clusters: all, Settings: &deliveryv1.AgentSettings{
				Poll: &deliveryv1.AgentPoll{Interval: durationpb.New(4 * time.Minute)},
			}}},
			{Metadata: &consolev1.Metadata{Name: "wide"}, Spec: &consolev1.AgentConfigSpec{Clusters: all, Settings: &deliveryv1.AgentSettings{
				Poll: &deliveryv1.AgentPoll{Interval: durationpb.New(5 * time.Second), Jitter: 50},
			}}},
		})
		u.Labels("edge-1", nil)
		u.At(5, 5)
	})
	has := with.Plan.AgentConfig("edge-1").GetDigest()
	var least, most time.Duration
	for range 200 {
		resp, err := d.Sync(asAgent(t.Context()), &deliveryv1.SyncRequest{AgentConfig: &deliveryv1.AgentConfigState{Wanted: has, InForce: has}})
		if err != nil {
			t.Fatal(err)
		}
		next := resp.GetNextPoll().AsDuration()
		if least = min(least, next); least == 0 {
			least = next
		}
		most = max(most, next)
	}
	if least < 2*time.Minute || least > 3*time.Minute || most > 4*time.Minute+5*time.Second ||
		most < 3*time.Minute+30*time.Second {
		t.Errorf("polls are %s to %s apart", least, most)
	}
}

// A configuration makes polls rarer and spreads them wider, and never more frequent or closer together than the hub has
// them by itself.
func TestPollsAreOnlyNarrowed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		poll        *deliveryv1.AgentPoll
		least, most time.Duration
	}{
		{&deliveryv1.AgentPoll{Interval: durationpb.New(5 * time.Second), Jitter: 1}, 108 * time.Second, 132 * time.Second},
		{&deliveryv1.AgentPoll{Interval: durationpb.New(3 * time.Minute)}, 162 * time.Second, 198 * time.Second},
		{&deliveryv1.AgentPoll{Jitter: 50}, time.Minute, 3 * time.Minute},
	} {
		with := deps(t)
		d := rpc.NewDelivery(with)
		with.Plan.Update(time.Now(), func(u *plan.Update) {
			u.Current()
			u.AgentConfigs([]*consolev1.AgentConfig{{Metadata: &consolev1.Metadata{Name: "polls"}, Spec: &consolev1.AgentConfigSpec{
				Clusters: &consolev1.ClusterSelector{All: true}, Settings: &deliveryv1.AgentSettings{Poll: tc.poll},
			}}})
			u.Labels("edge-1", nil)
			u.At(5, 5)
		})
		has := with.Plan.AgentConfig("edge-1").GetDigest()
		var least, most time.Duration
		for i := range 200 {
			resp, err := d.Sync(asAgent(t.Context()), &deliveryv1.SyncRequest{AgentConfig: &deliveryv1.AgentConfigState{Wanted: has, InForce: has}})
			if err != nil {
				t.Fatal(err)
			}
			next := resp.GetNextPoll().AsDuration()
			if least = min(least, next); i == 0 {
				least = next
			}
			most = max(most, next)
		}
		if width := tc.most - tc.least; least < tc.least || most > tc.most || most-least < width/2 {
			t.Errorf("with %v polls are %s to %s apart, want %s to %s", tc.poll, least, most, tc.least, tc.most)
		}
	}
}

// TestAConfigurationIsSentAfterTheCatalogWasPutBack: the agent has seen what the console's database has no more.
func TestAConfigurationIsSentAfterTheCatalogWasPutBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		with := deps(t)
		d := rpc.NewDelivery(with)
		with.Plan.Update(time.Now(), func(u *plan.Update) {
			u.Current()
			configured(u, 5, map[string]string{"site": "edge"}, &deliveryv1.AgentSettings{Concurrency: 1})
		})
		begin := time.Now()
		for {
			resp, err := d.Sync(asAgent(t.Context()), &deliveryv1.SyncRequest{Revision: 9, Agent: &deliveryv1.AgentInfo{
				Capabilities: []deliveryv1.AgentCapability{deliveryv1.AgentCapability_AGENT_CAPABILITY_CONFIG},
			}})
			if err != nil {
				t.Fatal(err)
			}
			switch after := time.Since(begin); {
			case resp.GetAgentConfig() != nil && (after == 0 || resp.GetRevision() != 5):
				t.Fatalf("after %s the agent gets %v: the replica may have been behind", after, resp)
			case resp.GetAgentConfig() != nil:
				return
			case after > 2*time.Minute:
				t.Fatalf("after %s the agent gets %v", after, resp)
			}
			time.Sleep(resp.GetNextPoll().AsDuration()) //nolint:forbidigo // fake time
		}
	})
}

// TestAnAgentThatStandsByGetsItsConfigurationAlone, whatever it has.
func TestAnAgentThatStandsByGetsItsConfigurationAlone(t *testing.T) {
	t.Parallel()
	with := deps(t)
	d := rpc.NewDelivery(with)
	with.Plan.Update(time.Now(), func(u *plan.Update) {
		u.Current()
		configured(u, 5, map[string]string{"site": "edge"}, &deliveryv1.AgentSettings{Concurrency: 1})
	})
	resp, err := d.Sync(asAgent(t.Context()), &deliveryv1.SyncRequest{
		Digest: "sha256:of-long-ago", AgentConfig: &deliveryv1.AgentConfigState{StandsBy: true},
		Agent: &deliveryv1.AgentInfo{Capabilities: []deliveryv1.AgentCapability{deliveryv1.AgentCapability_AGENT_CAPABILITY_CONFIG}},
	})
	if err != nil || resp.GetNotModified() == nil || resp.GetAgentConfig().GetDigest() == "" {
		t.Errorf("got %v, %v", resp, err)
	}
}

// unconfigured is a console that has no configurations.
type unconfigured struct {
	consolev1connect.UnimplementedConfigServiceHandler
}

func (unconfigured) AccessConfigs(context.Context, *consolev1.AccessConfigsRequest) (*consolev1.AccessConfigsResponse, error) {
	return &consolev1.AccessConfigsResponse{}, nil
}

// What the agent is told beside a service that waits says how new it is: a replica that is behind would take it back.
// But the agent is not told of a later change than the service that waits can still be delivered after.
func TestAServiceThatWaitsForItsConfigurationKeepsNoRevisionBack(t *testing.T) {
	t.Parallel()
	with := deps(t)
	with.Configs = configs.New(unconfigured{}, slog.New(slog.DiscardHandler))
	with.Tickets.Secret = hubsecret.Text("secret")
	d := rpc.NewDelivery(with)
	update := func(revision int64, fn func(*plan.Update)) {
		with.Plan.Update(time.Now(), func(u *plan.Update) {
			u.Current()
			fn(u)
			u.At(revision, revision)
		})
	}
	head := func(u *plan.Update, source, commit string) {
		u.Source(source, &plan.Source{UID: source, Heads: map[string]plan.Revision{"HEAD": {Commit: commit}}})
	}
	service := func(name, source, config string) *catalog.Service {
		return catalog.NewService(&consolev1.Service{
			Metadata: &consolev1.Metadata{Name: name, Uid: name}, Spec: &consolev1.ServiceSpec{Cluster: "edge-1", Source: source},
			Status: &consolev1.ServiceStatus{ConfigRevision: config},
		})
	}
	answer := func(failure *plan.Failure) {
		for _, want := range with.Plan.Open() {
			with.Plan.Answer(time.Now(), plan.Answer{Want: want, Failure: failure})
		}
	}
	have := map[string]string{"web": "of before"}
	ask := func(seen int64) int64 {
		t.Helper()
		req := &deliveryv1.SyncRequest{Digest: delivery.SetDigest(have), Revision: seen}
		for name, digest := range have {
			req.Have = append(req.Have, &deliveryv1.ServiceDigest{Service: name, Digest: digest})
		}
		resp, err := d.Sync(asAgent(t.Context()), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range resp.GetChanges().GetServices() {
			have[s.GetName()] = s.GetDigest()
		}
		return resp.GetRevision()
	}
	update(5, func(u *plan.Update) {
		head(u, "shop", "1111111")
		head(u, "other", "1111111")
		u.Service(service("web", "shop", "r1"))
		u.Service(service("plain", "other", ""))
	})
	answer(nil)
	if got := ask(3); got != 5 || have["plain"] == "" {
		t.Errorf("told %v, with revision %d", have, got)
	}
	update(6, func(u *plan.Update) { head(u, "shop", "2222222") })
	answer(&plan.Failure{Kind: plan.NoFolder})
	update(7, func(u *plan.Update) { u.Service(service("more", "other", "")) })
	if got := ask(3); got != 5 || have["more"] == "" {
		t.Errorf("told %v, with revision %d", have, got)
	}
	if got := ask(5); got != 0 {
		t.Errorf("told nothing new, with revision %d", got)
	}
}

func TestASyncWhoseOnlyServiceWaitsForItsConfigurationCountsAsNotModified(t *testing.T) {
	t.Parallel()
	with := deps(t)
	with.Configs = configs.New(unconfigured{}, slog.New(slog.DiscardHandler))
	with.Plan.Update(time.Now(), func(u *plan.Update) {
		u.Current()
		u.Source("shop", &plan.Source{UID: "1", Heads: map[string]plan.Revision{"HEAD": {Commit: "1111111"}}})
		u.Service(catalog.NewService(&consolev1.Service{
			Metadata: &consolev1.Metadata{Name: "web", Uid: "2"}, Spec: &consolev1.ServiceSpec{Cluster: "edge-1", Source: "shop"},
			Status: &consolev1.ServiceStatus{ConfigRevision: "r1"},
		}))
	})
	with.Plan.Answer(time.Now(), plan.Answer{Want: with.Plan.Open()[0]})
	resp, err := rpc.NewDelivery(with).Sync(asAgent(t.Context()), &deliveryv1.SyncRequest{})
	if err != nil || resp.GetNotModified() == nil {
		t.Fatalf("got %v, %v", resp, err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(with.Metrics.Syncs)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatal(families, err)
	}
	for _, m := range families[0].GetMetric() {
		if result := m.GetLabel()[0].GetValue(); (m.GetCounter().GetValue() == 1) != (result == "not_modified") {
			t.Errorf("%s: %v", result, m)
		}
	}
}

// holding is a console that has one text for each service, or does not answer.
type holding struct {
	consolev1connect.UnimplementedConfigServiceHandler
	text string
	err  error
}

func (h holding) AccessConfigs(_ context.Context, req *consolev1.AccessConfigsRequest) (*consolev1.AccessConfigsResponse, error) {
	resp := &consolev1.AccessConfigsResponse{}
	for _, wanted := range req.GetServices() {
		resp.Services = append(resp.Services, &consolev1.AccessedConfig{
			ServiceUid: wanted.GetServiceUid(), Revision: wanted.GetRevision(),
			Values: []*consolev1.ConfigValue{{Name: "text", Type: consolev1.ConfigType_CONFIG_TYPE_TEXT, Value: h.text}},
		})
	}
	return resp, h.err
}

// A service under another name takes over the objects of the removed one, if the agent hears of both at once.
func TestARemovalWaitsForTheConfigurationOfANewService(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		console consolev1connect.ConfigServiceHandler
		have    map[string]string
		brings  []int // services, by answer
		removes bool  // the last answer does; the others never do
	}{
		"the console answers":          {holding{text: "a"}, map[string]string{"old": "1"}, []int{2}, true},
		"the console does not answer":  {holding{err: errors.New("away")}, map[string]string{"old": "1"}, []int{0}, false},
		"no new service":               {holding{err: errors.New("away")}, map[string]string{"old": "1", "web": "1", "api": "1"}, []int{0}, true},
		"more than an answer can have": {holding{text: strings.Repeat("a", 3<<20)}, map[string]string{"old": "1"}, []int{1, 1}, true},
		"the console has none":         {unconfigured{}, map[string]string{"old": "1"}, []int{0}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			with := deps(t)
			with.Configs = configs.New(tc.console, slog.New(slog.DiscardHandler))
			with.Tickets.Secret = hubsecret.Text("secret")
			with.Plan.Update(time.Now(), func(u *plan.Update) {
				u.Current()
				u.Source("shop", &plan.Source{UID: "1", Heads: map[string]plan.Revision{"HEAD": {Commit: "1111111"}}})
				for _, name := range []string{"api", "web"} {
					u.Service(catalog.NewService(&consolev1.Service{
						Metadata: &consolev1.Metadata{Name: name, Uid: name}, Spec: &consolev1.ServiceSpec{Cluster: "edge-1", Source: "shop"},
						Status: &consolev1.ServiceStatus{ConfigRevision: "r1"},
					}))
				}
			})
			for _, want := range with.Plan.Open() {
				with.Plan.Answer(time.Now(), plan.Answer{Want: want})
			}
			d := rpc.NewDelivery(with)
			for i, want := range tc.brings {
				req := &deliveryv1.SyncRequest{Digest: delivery.SetDigest(tc.have)}
				for name, digest := range tc.have {
					req.Have = append(req.Have, &deliveryv1.ServiceDigest{Service: name, Digest: digest})
				}
				resp, err := d.Sync(asAgent(t.Context()), req)
				if err != nil {
					t.Fatal(err)
				}
				brought := resp.GetChanges().GetServices()
				for _, s := range brought {
					tc.have[s.GetName()] = s.GetDigest()
				}
				removes := tc.removes && i == len(tc.brings)-1
				if len(brought) != want || removes != (len(resp.GetChanges().GetRemoved()) == 1) {
					t.Errorf("answer %d brings %d services and removes %v", i, len(brought), resp.GetChanges().GetRemoved())
				}
			}
		})
	}
}
