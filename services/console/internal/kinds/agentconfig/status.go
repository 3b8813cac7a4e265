package agentconfig

import (
	"context"
	"slices"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	platform "fairlead.dev/platform/agentconfig"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

const (
	// shownRefused is how many clusters a status names, and pageSize how many are read at once.
	shownRefused, pageSize = 100, 1000
)

// configs are all configurations, as messages.
func configs(rows []store.Resource) ([]*consolev1.AgentConfig, error) {
	out := make([]*consolev1.AgentConfig, len(rows))
	for i, r := range rows {
		c, err := kindType().Decode(r)
		if err != nil {
			return nil, err
		}
		out[i] = encode(c)
	}
	return out, nil
}

func all(ctx context.Context, c *catalog.Catalog) ([]*consolev1.AgentConfig, error) {
	rows, err := c.Rows(ctx, store.KindAgentConfig)
	if err != nil {
		return nil, err
	}
	return configs(rows)
}

// States say how the agents of clusters are configured, in the order of the clusters; nil for one that has and wants
// nothing.
func States(ctx context.Context, c *catalog.Catalog, clusters []state.Cluster) ([]*consolev1.ClusterAgentConfig, error) {
	known, err := all(ctx, c)
	if err != nil {
		return nil, err
	}
	out := make([]*consolev1.ClusterAgentConfig, len(clusters))
	for i, cluster := range clusters {
		out[i] = stateOf(known, cluster)
	}
	return out, nil
}

func stateOf(known []*consolev1.AgentConfig, cluster state.Cluster) *consolev1.ClusterAgentConfig {
	wanted := platform.For(known, cluster.Meta.Name, cluster.Meta.Labels)
	is := heard(cluster.Status.Agent.Config)
	if len(wanted.GetLayers()) == 0 && is.GetInForce() == "" {
		return nil
	}
	out := &consolev1.ClusterAgentConfig{Wanted: names(wanted.GetLayers())}
	out.Phase, out.Message = phase(wanted, is, cluster)
	if out.GetPhase() == consolev1.AgentConfigPhase_AGENT_CONFIG_PHASE_REFUSED {
		out.SinceTime = is.GetRefuseTime()
	}
	layers := is.GetLayers()
	if is.GetInForce() == wanted.GetDigest() {
		layers = wanted.GetLayers()
	}
	if is.GetInForce() == "" || platform.Digest(layers) != is.GetInForce() {
		return out // nothing is in force, or it is not known what
	}
	settings := platform.Merge(layers)
	for _, v := range settings.Values() {
		out.InForce = append(out.InForce, &consolev1.AgentConfigValue{
			Key: v.Key, Value: v.Text, From: v.From,
			ByFlags: slices.Contains(is.GetCeilings(), v.Key),
		})
	}
	return out
}

func phase(wanted *deliveryv1.AgentConfigDelivery, is *deliveryv1.AgentConfigState, cluster state.Cluster) (consolev1.AgentConfigPhase, string) {
	switch {
	case !cluster.Status.LastSeen.IsZero() && !cluster.Status.Agent.Configurable:
		return consolev1.AgentConfigPhase_AGENT_CONFIG_PHASE_UNSUPPORTED, "the agent is too old to be configured: upgrade it"
	case is.GetWanted() != wanted.GetDigest():
		return consolev1.AgentConfigPhase_AGENT_CONFIG_PHASE_WAITING, "the agent has not asked since this was written"
	case is.GetRefusal() != "":
		return consolev1.AgentConfigPhase_AGENT_CONFIG_PHASE_REFUSED, is.GetRefusal()
	case is.GetInForce() != wanted.GetDigest():
		return consolev1.AgentConfigPhase_AGENT_CONFIG_PHASE_WAITING, "the agent has not put it in force yet"
	case is.GetTrial():
		return consolev1.AgentConfigPhase_AGENT_CONFIG_PHASE_TRIAL, ""
	}
	return consolev1.AgentConfigPhase_AGENT_CONFIG_PHASE_IN_FORCE, ""
}

func names(layers []*deliveryv1.AgentLayer) []string {
	out := make([]string, len(layers))
	for i, l := range layers {
		out[i] = l.GetName()
	}
	return out
}

// show encodes configurations with their statuses, which count the clusters that the caller may see.
func show(ctx context.Context, c *catalog.Catalog, list []AgentConfig) ([]*consolev1.AgentConfig, error) {
	out := make([]*consolev1.AgentConfig, len(list))
	byName := map[string]*consolev1.AgentConfig{}
	for i, one := range list {
		out[i] = encode(one)
		out[i].Status = &consolev1.AgentConfigStatus{}
		byName[one.Meta.Name] = out[i]
	}
	if len(list) == 0 {
		return out, nil
	}
	known, err := all(ctx, c)
	if err != nil {
		return nil, err
	}
	for page := (catalog.Page{Size: pageSize}); ; {
		clusters, next, err := catalog.List(ctx, c, store.KindCluster, page, c.Clusters)
		if err != nil {
			return nil, err
		}
		for _, cluster := range clusters {
			is := stateOf(known, cluster)
			for _, name := range is.GetWanted() {
				if of := byName[name]; of != nil {
					count(of.GetStatus(), cluster.Meta.Name, is.GetPhase())
				}
			}
		}
		if page.Token = next; next == "" {
			return out, nil
		}
	}
}

func count(s *consolev1.AgentConfigStatus, cluster string, phase consolev1.AgentConfigPhase) {
	s.Clusters++
	switch phase {
	case consolev1.AgentConfigPhase_AGENT_CONFIG_PHASE_IN_FORCE:
		s.InForce++
	case consolev1.AgentConfigPhase_AGENT_CONFIG_PHASE_TRIAL:
		s.InForce++
		s.OnTrial++
	case consolev1.AgentConfigPhase_AGENT_CONFIG_PHASE_REFUSED:
		if s.RefusedTotal++; s.GetRefusedTotal() <= shownRefused {
			s.Refused = append(s.Refused, cluster)
		}
	default:
	}
}
