package acceptance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/agentconfig"
	"fairlead.dev/platform/identity"
)

func newAgentConfig(name string, clusters *consolev1.ClusterSelector,
	settings *deliveryv1.AgentSettings,
) *consolev1.AgentConfig {
	return &consolev1.AgentConfig{
		Metadata: meta(name), Spec: &consolev1.AgentConfigSpec{Clusters: clusters, Settings: settings},
	}
}

func labelled(key, value string) *consolev1.ClusterSelector {
	return &consolev1.ClusterSelector{Labels: map[string]string{key: value}}
}

// configured has the agent of a cluster say something of its configuration.
func (r *running) configured(t *testing.T, cluster string, state *deliveryv1.AgentConfigState,
	can ...deliveryv1.AgentCapability,
) {
	t.Helper()
	distributor := r.as(t, r.sign(t, identity.Identity{Kind: identity.KindService, Name: identity.ServiceDistributor}))
	_, err := distributor.status.RecordSeen(t.Context(), &consolev1.RecordSeenRequest{
		Clusters: []*consolev1.ClusterSeen{{
			Cluster: cluster, Time: timestamppb.Now(),
			Agent: &deliveryv1.AgentInfo{Version: "v1.0.0", Capabilities: can}, AgentConfig: state,
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (a api) agentConfigOf(t *testing.T, cluster string) *consolev1.ClusterAgentConfig {
	t.Helper()
	resp, err := a.clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{Name: cluster})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetCluster().GetStatus().GetAgentConfig()
}

const configurable = deliveryv1.AgentCapability_AGENT_CAPABILITY_CONFIG

func TestAClusterSaysHowItsAgentIsConfigured(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		all := newAgentConfig("all", &consolev1.ClusterSelector{All: true}, &deliveryv1.AgentSettings{
			Concurrency: 3, LogLevel: "info",
		})
		edge := newAgentConfig("edge", labelled("site", "edge"), &deliveryv1.AgentSettings{
			Concurrency: 2, Poll: &deliveryv1.AgentPoll{Interval: durationpb.New(4 * time.Minute)},
			Off: []string{"views"},
		})
		admin.must(t, newCluster("edge-1", "site", "edge"), newCluster("core-1"))
		if got := admin.agentConfigOf(t, "core-1"); got != nil {
			t.Errorf("without configurations: %v", got)
		}
		admin.must(t, all, edge)
		wanted := agentconfig.For([]*consolev1.AgentConfig{all, edge}, "edge-1", map[string]string{"site": "edge"})
		is := func(phase consolev1.AgentConfigPhase, message string, values ...string) {
			t.Helper()
			got := admin.agentConfigOf(t, "edge-1")
			var found []string
			for _, v := range got.GetInForce() {
				text := v.GetKey() + "=" + v.GetValue() + " " + strings.Join(v.GetFrom(), ",")
				if v.GetByFlags() {
					text += " flags"
				}
				found = append(found, text)
			}
			if got.GetPhase() != phase || !strings.Contains(got.GetMessage(), message) ||
				!slices.Equal(found, values) || !slices.Equal(got.GetWanted(), []string{"all", "edge"}) {
				t.Errorf("got %v %q\nwant %v %q", got, found, phase, values)
			}
		}
		both := []string{
			"concurrency=2 edge", "logLevel=info all flags", "off.views=true edge", "poll.interval=4m0s edge",
		}
		is(consolev1.AgentConfigPhase_AGENT_CONFIG_PHASE_WAITING, "has not asked")
		r.configured(t, "edge-1", nil)
		is(consolev1.AgentConfigPhase_AGENT_CONFIG_PHASE_UNSUPPORTED, "too old")
		r.configured(t, "edge-1", nil, configurable)
		is(consolev1.AgentConfigPhase_AGENT_CONFIG_PHASE_WAITING, "has not asked")
		state := &deliveryv1.AgentConfigState{
			Wanted: wanted.GetDigest(), InForce: wanted.GetDigest(), Trial: true, Ceilings: []string{"logLevel"},
		}
		r.configured(t, "edge-1", state, configurable)
		is(consolev1.AgentConfigPhase_AGENT_CONFIG_PHASE_TRIAL, "", both...)
		state.Trial = false
		r.configured(t, "edge-1", state, configurable)
		is(consolev1.AgentConfigPhase_AGENT_CONFIG_PHASE_IN_FORCE, "", both...)
		before := []*deliveryv1.AgentLayer{{Name: "old", Settings: &deliveryv1.AgentSettings{Concurrency: 4}}}
		r.configured(t, "edge-1", &deliveryv1.AgentConfigState{
			Wanted: wanted.GetDigest(), InForce: agentconfig.Digest(before), Layers: before,
			Refusal: "the agent did not reach the hub", RefuseTime: timestamppb.Now(),
		}, configurable)
		is(consolev1.AgentConfigPhase_AGENT_CONFIG_PHASE_REFUSED, "did not reach", "concurrency=4 old")

		got, err := admin.agents.GetAgentConfig(t.Context(), &consolev1.GetAgentConfigRequest{Name: "all"})
		if err != nil {
			t.Fatal(err)
		}
		want := &consolev1.AgentConfigStatus{Clusters: 2, Refused: []string{"edge-1"}, RefusedTotal: 1}
		if !proto.Equal(got.GetAgentConfig().GetStatus(), want) ||
			!proto.Equal(got.GetAgentConfig().GetSpec(), all.GetSpec()) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestAWriteSaysWhichAgentsAreConfiguredAnew(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.must(t, newCluster("edge-1", "site", "edge"), newCluster("edge-2", "site", "edge"), newCluster("core-1"),
		newAgentConfig("all", &consolev1.ClusterSelector{
			All: true,
		}, &deliveryv1.AgentSettings{Concurrency: 3, LogLevel: "warn"}))
	edge := newAgentConfig("edge", labelled("site",
		"edge"), &deliveryv1.AgentSettings{Concurrency: 2, Off: []string{"views"}})
	note := func(a api, dry bool, m proto.Message) string {
		t.Helper()
		got, err := a.apply(t, &consolev1.ApplyRequest{Resources: anyOf(m), DryRun: dry})
		if err != nil {
			t.Fatal(err)
		}
		return got[0].GetNote()
	}
	const want = "configures 2 agents anew; edge-1, edge-2: concurrency 2 instead of 3, off.views true"
	if got := note(admin, true, edge); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// Names and numbers of clusters are for those alone who see the clusters.
	admin.let(t, "some", "admin", &consolev1.GrantClusters{Names: []string{"edge-2"}})
	admin.let(t, "own", "viewer", &consolev1.GrantClusters{Names: []string{"edge-2"}})
	if _, err := r.user(t, "mallory",
		"some").apply(t, &consolev1.ApplyRequest{
		Resources: anyOf(edge), DryRun: true,
	}); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("a grant at one cluster let a write of all through: %v", err)
	}
	if got := note(admin, false, edge); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := note(admin, true,
		newAgentConfig("more", labelled("site",
			"edge"), &deliveryv1.AgentSettings{
			Concurrency: 4,
		})); got != "configures 2 agents anew; edge-1, edge-2: nothing that counts: other configurations are as narrow" {
		t.Errorf("got %q", got)
	}
	if got := note(admin, true,
		newAgentConfig("nowhere", labelled("site",
			"moon"), &deliveryv1.AgentSettings{Concurrency: 1})); got != "no agent is configured anew" {
		t.Errorf("got %q", got)
	}
	admin.let(t, "viewers", "viewer", &consolev1.GrantClusters{All: true})
	seen, err := r.user(t, "vera", "viewers").agents.ListAgentConfigs(t.Context(), &consolev1.ListAgentConfigsRequest{})
	if err != nil || named(seen.GetAgentConfigs()) != "all edge" ||
		seen.GetAgentConfigs()[1].GetStatus().GetClusters() != 2 {
		t.Errorf("a viewer sees %v, %v", seen, err)
	}
	if unseen, err := r.user(t, "olga", "own").agents.ListAgentConfigs(t.Context(),
		&consolev1.ListAgentConfigsRequest{}); err != nil || len(unseen.GetAgentConfigs()) != 0 {
		t.Errorf("a viewer of one cluster sees %v, %v", unseen, err)
	}
}

func TestAConfigurationThatCanNotBeIsRefused(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	all := &consolev1.ClusterSelector{All: true}
	for name, tc := range map[string]struct {
		is   *consolev1.AgentConfig
		want string
	}{
		"nothing": {newAgentConfig("a", all, &deliveryv1.AgentSettings{}), "says nothing"},
		"where": {
			newAgentConfig("a", &consolev1.ClusterSelector{
				Where: "labels.a = b",
			}, &deliveryv1.AgentSettings{Concurrency: 1}),
			"where",
		},
		"nobody": {
			newAgentConfig("a", &consolev1.ClusterSelector{}, &deliveryv1.AgentSettings{Concurrency: 1}),
			"names, labels, where and all",
		},
		"silence": {
			newAgentConfig("a", all, &deliveryv1.AgentSettings{
				Poll: &deliveryv1.AgentPoll{Interval: durationpb.New(4 * time.Minute), Jitter: 50},
			}),
			"4m30s",
		},
		"many": {newAgentConfig("a", all, &deliveryv1.AgentSettings{Concurrency: 5}), "concurrency"},
		"account": {
			newAgentConfig("a", all, &deliveryv1.AgentSettings{
				Impersonation: &deliveryv1.AgentImpersonation{Accounts: []string{"shop-/x"}},
			}),
			"accounts",
		},
		"registry": {
			newAgentConfig("a", all, &deliveryv1.AgentSettings{
				Images: &deliveryv1.AgentImages{Registries: []string{"https://ghcr.io"}},
			}),
			"registries",
		},
		"feature": {newAgentConfig("a", all, &deliveryv1.AgentSettings{Off: []string{"hub"}}), "off"},
		"level":   {newAgentConfig("a", all, &deliveryv1.AgentSettings{LogLevel: "loud"}), "log_level"},
		"seconds": {
			newAgentConfig("a", all, &deliveryv1.AgentSettings{
				Renderer: &deliveryv1.AgentRenderer{Cpu: durationpb.New(1500 * time.Millisecond)},
			}),
			"whole seconds",
		},
	} {
		_, err := admin.agents.UpdateAgentConfig(t.Context(), &consolev1.UpdateAgentConfigRequest{
			AllowMissing: true, AgentConfig: tc.is,
		})
		if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}

// Distributors are told of configurations, without statuses.
func TestDistributorsFollowConfigurations(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	is := newAgentConfig("all", &consolev1.ClusterSelector{All: true}, &deliveryv1.AgentSettings{Concurrency: 3})
	admin.must(t, newCluster("edge-1"), is)
	distributor := r.as(t, r.distributorToken(t))
	stream, err := distributor.catalog.Watch(t.Context(), &consolev1.WatchRequest{
		Kinds: []consolev1.Kind{consolev1.Kind_KIND_AGENT_CONFIG},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for stream.Receive() {
		changes := stream.Msg().GetChanges().GetChanges()
		if len(changes) == 0 {
			continue
		}
		if got := changes[0].GetAgentConfig(); got.GetMetadata().GetName() != "all" ||
			!proto.Equal(got.GetSpec(), is.GetSpec()) || got.GetStatus() != nil {
			t.Errorf("told of %v", got)
		}
		return
	}
	t.Fatal("told of nothing:", stream.Err())
}
