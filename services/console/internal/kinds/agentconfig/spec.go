// Package agentconfig is the kind AgentConfig: what the agents of clusters are configured with, which cluster gets
// what, and what agents say became of it. Package agentconfig of platform puts configurations together.
package agentconfig

import (
	"encoding/json"
	"strings"
	"time"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/kubename"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/store"
)

const (
	// most is how many there may be: all may choose the same cluster, whose agent takes no more layers.
	most = 200
	// longestPoll is the longest time between two polls with their spread: a cluster that is silent for five minutes
	// counts as away.
	longestPoll = 4*time.Minute + 30*time.Second
)

// Spec is what is stored.
type Spec struct {
	Description string             `json:"description,omitempty"`
	Clusters    *resource.Selector `json:"clusters"`
	// Settings are an AgentSettings in protojson.
	Settings json.RawMessage `json:"settings"`
}

// AgentConfig is such a resource.
type AgentConfig = resource.Of[Spec]

func kindType() resource.Type[Spec] {
	return resource.Type[Spec]{Kind: store.KindAgentConfig, Check: func(c *AgentConfig) error {
		settings, err := settingsOf(c.Spec)
		if err != nil {
			return err
		}
		return check(settings)
	}}
}

// check finds what the rules of the contract can't say.
func check(s *deliveryv1.AgentSettings) error {
	refuse := func(format string, args ...any) error { return refusal.New(refusal.Invalid, format, args...) }
	poll := s.GetPoll()
	if longest := poll.GetInterval().AsDuration() * time.Duration(100+max(poll.GetJitter(), usualJitter)) / 100; longest > longestPoll {
		return refuse("spec.settings.poll: %s with a jitter of %d %% is up to %s: the most is %s, for the hub takes a cluster for away after 5m of silence",
			poll.GetInterval().AsDuration(), max(poll.GetJitter(), usualJitter), longest, longestPoll)
	}
	for i, pattern := range s.GetImpersonation().GetAccounts() {
		if !kubename.IsAccount(strings.ReplaceAll(pattern, "*", "x")) {
			return refuse("spec.settings.impersonation.accounts[%d] %q: must be namespace/name of a Kubernetes service account, in which * stands for any text", i, pattern)
		}
	}
	if r := s.GetRenderer(); r.GetCpu().AsDuration()%time.Second != 0 {
		return refuse("spec.settings.renderer.cpu %s: must be whole seconds", r.GetCpu().AsDuration())
	}
	return nil
}

// usualJitter is how far polls are spread anyway, in percent.
const usualJitter = 10
