package plan

import (
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/agentconfig"
	"fairlead.dev/platform/viewset"
)

// AgentConfigs brings in all configurations of agents.
func (u *Update) AgentConfigs(all []*consolev1.AgentConfig) {
	u.plan.configs = all
	for _, c := range u.plan.clusters {
		u.configure(c)
	}
}

// ViewSets brings in all sets of views.
func (u *Update) ViewSets(all []*consolev1.ViewSet) {
	u.plan.sets = all
	for _, c := range u.plan.clusters {
		u.configure(c)
	}
}

// configure finds the configuration of a cluster's agent, and the sets of its view. An agent that gets others is
// nudged.
func (u *Update) configure(c *cluster) {
	config, sets := agentconfig.For(u.plan.configs, c.name, c.labels), viewset.For(u.plan.sets, c.name, c.labels)
	hadConfig, hadSets := c.config, c.sets
	c.config, c.sets = config, sets
	if hadConfig == nil || hadSets == nil || !c.exists || hadConfig.GetDigest() == config.GetDigest() && hadSets.GetDigest() == sets.GetDigest() {
		return // an agent that comes to a plan that is new asks by itself
	}
	u.configured[c] = struct{}{}
}

// nudgeConfigured nudges the agents that get another configuration.
func (u *Update) nudgeConfigured() {
	for c := range u.configured {
		if !c.exists {
			continue
		}
		c.changed, c.revision = u.now, u.plan.high
		if _, nudged := u.change.Clusters[c.name]; !nudged {
			u.change.Clusters[c.name] = ""
		}
	}
}

// AgentConfig is what the agent of a cluster is to be configured with; nil: the plan does not know.
func (p *Plan) AgentConfig(cluster string) *deliveryv1.AgentConfigDelivery {
	p.mu.RLock()
	defer p.mu.RUnlock()
	c, err := p.known(cluster)
	if err != nil {
		return nil
	}
	return c.config
}

// ViewSets is what the view of a cluster is to have besides; nil: the plan does not know.
func (p *Plan) ViewSets(cluster string) *deliveryv1.ViewSetDelivery {
	p.mu.RLock()
	defer p.mu.RUnlock()
	c, err := p.known(cluster)
	if err != nil {
		return nil
	}
	return c.sets
}
