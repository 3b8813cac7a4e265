package state

import (
	"encoding/json"
	"time"

	"fairlead.dev/platform/window"
)

// Service is a folder of a source that is kept applied in a cluster.
type Service struct {
	Meta   Meta
	Spec   ServiceSpec
	Status ServiceStatus
}

// ServiceSpec says what is applied where.
type ServiceSpec struct {
	// Source is the first of Sources if there are any, and Ref then stands for all of them: what a service gets is a
	// ref of the first.
	Source    string `json:"source"`
	Ref       string `json:"ref,omitempty"`
	Path      string `json:"path,omitempty"`
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace,omitempty"`
	// Sources are several sources, side by side; nil: Source is the only one.
	Sources []ServiceSource `json:"sources,omitempty"`
	// Include and Ignore are rules as in .gitignore, for the files of the folder.
	Include []string `json:"include,omitempty"`
	Ignore  []string `json:"ignore,omitempty"`
	// Render and Sync are for the agent: kept as they are written down, in protojson.
	Render json.RawMessage `json:"render,omitempty"`
	Sync   json.RawMessage `json:"sync,omitempty"`
	// Project bounds it; empty: none does.
	Project string `json:"project,omitempty"`
	// ConfigSets are names of configuration sets, of which a later one wins; Config is over all of them.
	ConfigSets []string `json:"configSets,omitempty"`
	Config     Settings `json:"config,omitempty"`
	// UnpinAfter is where the ref pointed when the pin was set until it moves on: when it points to another commit, the
	// pin goes.
	UnpinAfter string `json:"unpinAfter,omitempty"`
	// Catalog says that the folder holds resources of the catalog, which are applied there with the rights of
	// ServiceAccount, and that Cluster is empty.
	Catalog        bool   `json:"catalog,omitempty"`
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// Tests is for the agent, as Render is. TestRequest is the last asking for a run, in protojson; RunTests alone sets
	// it.
	Tests       json.RawMessage `json:"tests,omitempty"`
	TestRequest json.RawMessage `json:"testRequest,omitempty"`
	// Levers are those that this spec is in force with; nil: it is as files say it, or a console of an older version
	// wrote it.
	Levers *Levers `json:"levers,omitempty"`
}

// ServiceSource is one of several sources of a service.
type ServiceSource struct {
	Name    string   `json:"name"`
	Source  string   `json:"source"`
	Ref     string   `json:"ref,omitempty"` // as that of a service
	Path    string   `json:"path,omitempty"`
	Include []string `json:"include,omitempty"`
	Ignore  []string `json:"ignore,omitempty"`
}

// ServiceStatus holds the three truths and one word over them.
type ServiceStatus struct {
	State   State
	Message string
	Since   time.Time
	// Git is where the ref points, also of a service with a pin.
	Git GitTruth
	// Pinned is what is known of the pin's commit; nil: there is no pin.
	Pinned  *GitTruth
	Hub     HubTruth
	Cluster ClusterTruth
	// ConfigRevision is of the configuration that is delivered; empty: there is none.
	ConfigRevision string
	// ConfigProblem is why the newest configuration can't be delivered.
	ConfigProblem *Problem
	// Windows is what windows and freezes say now.
	Windows window.State
	// WindowFault is why the cluster does not hold them as they are meant; empty: it does.
	WindowFault string
}

// GitTruth is where the service's ref points upstream, as last fetched.
type GitTruth struct {
	// Head is nil before the ref was fetched.
	Head    *Head
	Problem *Problem
}

// HubTruth is what distributors hand to the cluster.
type HubTruth struct {
	// Source (its uid) and Ref say where the revision is known from if it is not here: a commit is kept once per
	// ref, for all services whose content it did not change.
	Source string `json:"source,omitempty"`
	Ref    string `json:"ref,omitempty"`
	Digest string `json:"digest,omitempty"`
	// Content is the digest without what is said of tests; empty: as Digest.
	Content     string    `json:"content,omitempty"`
	Revision    Revision  `json:"revision,omitzero"`
	Artifact    Artifact  `json:"artifact,omitzero"`
	ResolveTime time.Time `json:"resolveTime,omitzero"`
	Problem     *Problem  `json:"problem,omitempty"`
	// Earlier is the problem with a commit before, while the hub has not said whether the newest commit has it, too.
	Earlier *Problem `json:"earlier,omitempty"`
	// ProblemCluster is the cluster that the service was for when an event told of its last problem; empty: there is
	// none, or an earlier console kept it.
	ProblemCluster string `json:"problemCluster,omitempty"`
	// Alike are digests that were handed out before with the same content, the newest last: a lever was pulled since,
	// or tests were asked for. The cluster's reports on them count until it reports on Digest.
	Alike []string `json:"alike,omitempty"`

	ofRef bool // the revision was taken from what is kept of the ref
}

// Artifact is content by its digest.
type Artifact struct {
	Digest string `json:"digest,omitempty"`
	Size   int64  `json:"size,omitempty"`
	Files  int32  `json:"files,omitempty"`
}

// ClusterTruth is what the cluster's agent said last.
type ClusterTruth struct {
	// Report is nil before the first one.
	Report      *Report
	ReceiveTime time.Time
}
