package agentconfig

import (
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/store"
)

// Kind describes the kind.
func Kind() descriptor.Of[AgentConfig, *consolev1.AgentConfig] {
	d := described()
	d.Mount, d.Policy = mount, policy()
	return d
}

// described is Kind without its API, which works by it.
func described() descriptor.Of[AgentConfig, *consolev1.AgentConfig] {
	d := descriptor.Plainly(kindType(), decode, encode)
	d.Show = show
	d.Follow = func(c store.Change) (*consolev1.AgentConfig, error) {
		in, err := kindType().Decode(c.Resource)
		return encode(in), err
	}
	return d
}
