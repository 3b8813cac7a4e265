package state

import (
	"encoding/json"
	"time"
)

// Cluster is a Kubernetes cluster with an agent.
type Cluster struct {
	Meta   Meta
	Spec   ClusterSpec
	Status ClusterStatus
}

// ClusterSpec is what people say of a cluster.
type ClusterSpec struct {
	Description string `json:"description,omitempty"`
	// Config is a layer of the configuration of all its services.
	Config Settings `json:"config,omitempty"`
	// Windows say when new content of services in it may be applied; Freeze, an operator's lever, that none may.
	Windows Windows `json:"windows,omitempty"`
	Freeze  *Freeze `json:"freeze,omitempty"`
}

// ClusterStatus is what is known of a cluster's agent.
type ClusterStatus struct {
	JoinTime time.Time
	// LeaveTime is when the cluster left; zero: it did not, or has joined again.
	LeaveTime time.Time
	// ReuseTime is when a token of its agents was used that had been renewed before, and Reuse how, in words; zero:
	// none was since the cluster's credentials were taken away last.
	ReuseTime time.Time
	Reuse     string
	LastSeen  time.Time
	Agent     AgentInfo
	// Connected is true while LastSeen is recent enough to trust what the cluster said.
	Connected bool
}

// AgentInfo is what an agent says of itself.
type AgentInfo struct {
	Version           string `json:"version,omitempty"`
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// ClusterProblem is why it can't do anything in its cluster, in words; empty: it can.
	ClusterProblem string `json:"clusterProblem,omitempty"`
	// Tests: it runs the tests of services.
	Tests bool `json:"tests,omitempty"`
	// Windows: it holds windows, freezes and the manual mode.
	Windows bool `json:"windows,omitempty"`
	// Views: it pushes views.
	Views bool `json:"views,omitempty"`
	// ViewSets: it keeps ViewSets.
	ViewSets bool `json:"viewSets,omitempty"`
	// ClockSkew is how far its clock is behind the hub's, in whole minutes.
	ClockSkew time.Duration `json:"clockSkewNanos,omitempty"`
	// NextPoll is about when it asks again if nothing nudges before.
	NextPoll time.Time `json:"nextPoll,omitzero"`
	// Unbound: its token is bound to no key.
	Unbound bool `json:"unbound,omitempty"`
	// Configurable: it takes configurations, and Config is what it says of them, in protojson; nil: nothing.
	Configurable bool            `json:"configurable,omitempty"`
	Config       json.RawMessage `json:"config,omitempty"`
}
