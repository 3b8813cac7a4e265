package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"fairlead.dev/platform/giturl"
	"fairlead.dev/platform/window"
	"fairlead.dev/services/console/internal/store"
)

// Meta is what every resource has. All but Name and Labels is the console's own.
type Meta struct {
	Name       string
	Labels     map[string]string
	UID        string
	Revision   int64
	ETag       string
	CreateTime time.Time
	UpdateTime time.Time
}

// Source is a repository.
type Source struct {
	Meta   Meta
	Spec   SourceSpec
	Status SourceStatus
}

// SourceSpec says what to fetch. The JSON of the specs and statuses here is what the store keeps.
// Exactly one kind of source is set: it has a URL.
type SourceSpec struct {
	Git  GitSource  `json:"git,omitzero"`
	Helm HelmSource `json:"helm,omitzero"`
	OCI  OCISource  `json:"oci,omitzero"`
	// Bucket is set if it has an endpoint.
	Bucket BucketSource `json:"bucket,omitzero"`
}

// Upstream is what sources of all kinds have in common.
type Upstream struct {
	URL, Secret, Proxy, WebhookSecret string
	Registry                          Registry
}

// SendsAs tells whether credentials go to the same places, and as safely, as those of another.
func (u Upstream) SendsAs(o Upstream) bool {
	return u.URL == o.URL && u.Proxy == o.Proxy && u.Registry.Insecure == o.Registry.Insecure && u.Registry.SkipTLSVerify == o.Registry.SkipTLSVerify &&
		slices.Equal(u.Registry.TokenHosts, o.Registry.TokenHosts) && slices.Equal(u.Registry.Mirrors, o.Registry.Mirrors)
}

// Upstream is that of the kind which is set.
func (s SourceSpec) Upstream() Upstream {
	if h := s.Helm; h.URL != "" {
		return Upstream{h.URL, h.Secret, h.Proxy, h.WebhookSecret, h.Registry}
	}
	if o := s.OCI; o.URL != "" {
		return Upstream{o.URL, o.Secret, o.Proxy, o.WebhookSecret, o.Registry}
	}
	if b := s.Bucket; b.Endpoint != "" {
		url := giturl.OfBucket(b.Endpoint, b.Name, b.Prefix, b.Insecure)
		return Upstream{url, b.Secret, b.Proxy, b.WebhookSecret, Registry{Insecure: b.Insecure, SkipTLSVerify: b.SkipTLSVerify, Auth: b.Auth}}
	}
	return Upstream{URL: s.Git.URL, Secret: s.Git.Secret, Proxy: s.Git.Proxy, WebhookSecret: s.Git.WebhookSecret}
}

// HelmSource is a repository of Helm charts.
type HelmSource struct {
	URL string `json:"url"`
	// Interval between polls; 0: the fetcher's default.
	Interval time.Duration `json:"intervalNanos,omitzero"`
	// Secret names the credentials; empty: none.
	Secret string `json:"secret,omitempty"`
	// Proxy to the repository; empty: the fetcher's own way.
	Proxy string `json:"proxy,omitempty"`
	// WebhookSecret names what the repository authenticates with; empty: it may not.
	WebhookSecret string `json:"webhookSecret,omitempty"`
	// AllowReplaced publishes other content under a version that was published before.
	AllowReplaced bool `json:"allowReplaced,omitempty"`
	// Verify says who must have signed a chart; nil: nobody.
	Verify *Verify `json:"verify,omitempty"`
	Registry
}

// OCISource is a repository of artifacts in a registry.
type OCISource struct {
	URL string `json:"url"`
	// Interval between polls; 0: the fetcher's default.
	Interval time.Duration `json:"intervalNanos,omitzero"`
	// Secret names the credentials; empty: none.
	Secret string `json:"secret,omitempty"`
	// Proxy to the registry; empty: the fetcher's own way.
	Proxy string `json:"proxy,omitempty"`
	// WebhookSecret names what the registry authenticates with; empty: it may not.
	WebhookSecret string `json:"webhookSecret,omitempty"`
	// LayerType is the media type of the layer with the files; empty: the fetcher chooses.
	LayerType string `json:"layerType,omitempty"`
	// Verify says who must have signed an artifact; nil: nobody.
	Verify *Verify `json:"verify,omitempty"`
	Registry
}

// BucketSource is a bucket.
type BucketSource struct {
	Endpoint string `json:"endpoint"`
	Name     string `json:"bucketName"`
	// Region; empty: the fetcher's default.
	Region string `json:"region,omitempty"`
	// Prefix is a folder of the bucket, without a slash at either end; empty: all of it.
	Prefix    string `json:"prefix,omitempty"`
	Versioned bool   `json:"versioned,omitempty"`
	// Interval between polls; 0: the fetcher's default.
	Interval time.Duration `json:"intervalNanos,omitzero"`
	// Secret names the credentials; empty: none.
	Secret string `json:"secret,omitempty"`
	// Proxy to the host; empty: the fetcher's own way.
	Proxy string `json:"proxy,omitempty"`
	// WebhookSecret names what the host authenticates with; empty: it may not.
	WebhookSecret string `json:"webhookSecret,omitempty"`
	Insecure      bool   `json:"insecure,omitempty"`
	SkipTLSVerify bool   `json:"insecureSkipTLSVerify,omitempty"`
	// Auth is as in Registry.
	Auth CloudAuth `json:"auth,omitempty"`
}

// Verify says who must have signed charts and artifacts.
type Verify struct {
	Provider VerifyProvider `json:"provider"`
	Keys     []string       `json:"keys,omitempty"`
	// Repository is what signatures call the source's repository; empty: as its url does.
	Repository string `json:"repository,omitempty"`
	// Certificates of authorities and Identities of signers are trusted; of notation.
	Certificates []string `json:"certificates,omitempty"`
	Identities   []string `json:"trustedIdentities,omitempty"`
	// Signers are trusted by authorities and logs of TrustedRoot (JSON of Sigstore); of cosign without a key.
	Signers     []OIDCIdentity `json:"matchOIDCIdentity,omitempty"`
	TrustedRoot string         `json:"trustedRoot,omitempty"`
}

// OIDCIdentity is a signer by regular expressions.
type OIDCIdentity struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
}

// VerifyProvider is how charts and artifacts are signed.
type VerifyProvider string

// The providers.
const (
	VerifyCosign     VerifyProvider = "cosign"
	VerifyProvenance VerifyProvider = "provenance"
	VerifyNotation   VerifyProvider = "notation"
)

// Registry is how a registry may be asked.
type Registry struct {
	Insecure      bool     `json:"insecure,omitempty"`
	SkipTLSVerify bool     `json:"insecureSkipTLSVerify,omitempty"`
	TokenHosts    []string `json:"tokenHosts,omitempty"`
	Mirrors       []string `json:"mirrors,omitempty"` // host[:port][/path]
	// Auth is the cloud that logs the gitcache in, by its own identity; empty: none.
	Auth CloudAuth `json:"auth,omitempty"`
}

// CloudAuth is a cloud.
type CloudAuth string

// The clouds.
const (
	AuthAWS   CloudAuth = "aws"
	AuthGCP   CloudAuth = "gcp"
	AuthAzure CloudAuth = "azure"
)

func (r Registry) isZero() bool {
	return !r.Insecure && !r.SkipTLSVerify && len(r.TokenHosts) == 0 && len(r.Mirrors) == 0 && r.Auth == ""
}

// GitSource is a repository in Git.
type GitSource struct {
	URL string `json:"url"`
	// Interval between polls; 0: the fetcher's default.
	Interval time.Duration `json:"intervalNanos,omitzero"`
	// Secret names the credentials; empty: none.
	Secret string `json:"secret,omitempty"`
	// Proxy to the Git host; empty: the fetcher's own way.
	Proxy        string        `json:"proxy,omitempty"`
	Submodules   bool          `json:"submodules,omitempty"`
	Verification *Verification `json:"verification,omitempty"`
	// SubmoduleRepositories get the credentials, too: paths on the same host, or with /* at the end all below one.
	SubmoduleRepositories []string `json:"submoduleRepositories,omitempty"`
	// WebhookSecret names what a Git host authenticates with; empty: none may.
	WebhookSecret string `json:"webhookSecret,omitempty"`
	// Allow are the hosts of chart repositories that charts of services may depend on.
	Allow []string `json:"allow,omitempty"`
	// ChartSources are sources of charts that these may depend on, too.
	ChartSources []string `json:"chartSources,omitempty"`
}

// Verification says who must have signed what is published.
type Verification struct {
	// Keys are OpenPGP or SSH public keys.
	Keys []string `json:"keys"`
	// Mode is empty for what the fetcher takes for the default.
	Mode VerificationMode `json:"mode,omitempty"`
}

// VerificationMode is what must be signed.
type VerificationMode string

// The modes.
const (
	VerifyCommit       VerificationMode = "commit"
	VerifyTag          VerificationMode = "tag"
	VerifyTagAndCommit VerificationMode = "tagAndCommit"
)

// SourceStatus is what the source's fetcher published.
type SourceStatus struct {
	Epoch   int64    `json:"-"`
	Owner   string   `json:"-"`
	Heads   []Head   `json:"heads,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
}

// Head is where a ref points.
type Head struct {
	Ref       string    `json:"ref"`
	Revision  Revision  `json:"revision"`
	FetchTime time.Time `json:"fetchTime,omitzero"`
	// Resolved is the tag that a range of versions chose.
	Resolved string `json:"resolved,omitempty"`
	// SignedBy is a key's fingerprint.
	SignedBy string `json:"signedBy,omitempty"`
	// NewerVersion is upstream, outside of the range.
	NewerVersion string `json:"newerVersion,omitempty"`
}

// Revision is a commit.
type Revision struct {
	Commit      string    `json:"commit,omitempty"`
	CommitTime  time.Time `json:"commitTime,omitzero"`
	Subject     string    `json:"subject,omitempty"`
	Author      string    `json:"author,omitempty"`
	Traceparent string    `json:"traceparent,omitempty"`
}

// Problem is a thing that is wrong, since when.
type Problem struct {
	Message string    `json:"message"`
	Since   time.Time `json:"since,omitzero"`
	// Refs that a source's problem is about; empty: all of them.
	Refs []string `json:"refs,omitempty"`
	// Single is what is wrong with single refs of a source. Where Refs is set Message repeats theirs, else it is about the whole source only. Gitcaches of
	// earlier versions have the one message for all.
	Single []RefProblem `json:"single,omitempty"`
}

// RefProblem is what is wrong with one ref, since when.
type RefProblem struct {
	Ref     string    `json:"ref"`
	Message string    `json:"message"`
	Since   time.Time `json:"since,omitzero"`
	// Missing: the Git host does not have the ref.
	Missing bool `json:"missing,omitempty"`
}

// Fails tells a problem of the source from one of refs that the Git host does not have: those concern the services that follow them.
func (p *Problem) Fails() bool {
	return p != nil && (len(p.Single) == 0 || p.IsWhole() || slices.ContainsFunc(p.Single, func(one RefProblem) bool { return !one.Missing }))
}

// IsWhole tells a problem of a whole source from those of single refs.
func (p *Problem) IsWhole() bool { return p != nil && len(p.Refs) == 0 }

// Of returns what is wrong with a ref: its own problem, or that of the whole source; nil: nothing.
func (p *Problem) Of(ref string) *Problem {
	if p == nil {
		return nil
	}
	for _, one := range p.Single {
		if one.Ref == ref {
			return &Problem{Message: one.Message, Since: one.Since, Refs: []string{ref}}
		}
	}
	if p.IsWhole() || len(p.Single) == 0 && slices.Contains(p.Refs, ref) {
		return p
	}
	return nil
}

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
	// ReuseTime is when a token of its agents was used that had been renewed before, and Reuse how, in words; zero: none was since the
	// cluster's credentials were taken away last.
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

// Service is a folder of a source that is kept applied in a cluster.
type Service struct {
	Meta   Meta
	Spec   ServiceSpec
	Status ServiceStatus
}

// ServiceSpec says what is applied where.
type ServiceSpec struct {
	// Source is the first of Sources if there are any, and Ref then stands for all of them: what a service gets is a ref of the first.
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
	// UnpinAfter is where the ref pointed when the pin was set until it moves on: when it points to another commit, the pin goes.
	UnpinAfter string `json:"unpinAfter,omitempty"`
	// Catalog says that the folder holds resources of the catalog, which are applied there with the rights of ServiceAccount, and
	// that Cluster is empty.
	Catalog        bool   `json:"catalog,omitempty"`
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// Tests is for the agent, as Render is. TestRequest is the last asking for a run, in protojson; RunTests alone sets it.
	Tests       json.RawMessage `json:"tests,omitempty"`
	TestRequest json.RawMessage `json:"testRequest,omitempty"`
	// Levers are those that this spec is in force with; nil: it is as files say it, or a console of an older version wrote it.
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
	// Alike are digests that were handed out before with the same content, the newest last: a lever was pulled since, or tests were asked for.
	// The cluster's reports on them count until it reports on Digest.
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

// Phase is how far an agent is with a service.
type Phase string

// The phases.
const (
	PhaseApplying    Phase = "applying"
	PhaseProgressing Phase = "progressing"
	PhaseHealthy     Phase = "healthy"
	PhaseDegraded    Phase = "degraded"
	PhaseFailed      Phase = "failed"
	PhaseRemoved     Phase = "removed"
	PhaseHeld        Phase = "held"
	PhaseWaiting     Phase = "waiting"
	PhaseDiffers     Phase = "differs"
)

// Report is the whole state of a service in a cluster.
type Report struct {
	Service        string         `json:"service"`
	Sequence       uint64         `json:"sequence"`
	Phase          Phase          `json:"phase,omitempty"`
	Digest         string         `json:"digest,omitempty"`
	Commit         string         `json:"commit,omitempty"`
	AppliedDigest  string         `json:"appliedDigest,omitempty"`
	AppliedCommit  string         `json:"appliedCommit,omitempty"`
	AppliedTime    time.Time      `json:"appliedTime,omitzero"`
	ObservedTime   time.Time      `json:"observedTime,omitzero"`
	Message        string         `json:"message,omitempty"`
	ObjectsTotal   int32          `json:"objectsTotal,omitempty"`
	ObjectsHealthy int32          `json:"objectsHealthy,omitempty"`
	Objects        []ObjectReport `json:"objects,omitempty"`
	Traceparent    string         `json:"traceparent,omitempty"`
	// Guard is what a person has to confirm; nil: nothing.
	Guard *Guard `json:"guard,omitempty"`
	// ObjectsDrifted are those that others keep changing.
	ObjectsDrifted int32 `json:"objectsDrifted,omitempty"`
	// Repairs counts what was put right, RepairTime is when it was last, and Repaired what.
	Repairs    uint64        `json:"repairs,omitempty"`
	RepairTime time.Time     `json:"repairTime,omitzero"`
	Repaired   *ObjectReport `json:"repaired,omitempty"`
	// Tests is the latest run of its tests; nil: there was none.
	Tests *TestSummary `json:"tests,omitempty"`
	// SyncProblem is why the objects that the last sync names were not all applied; empty: they were, or it names none.
	SyncProblem string `json:"syncProblem,omitempty"`
}

// Guard stands before a removal that looks like an accident.
type Guard struct {
	ID           string          `json:"id"`
	Removing     int32           `json:"removing"`
	ObjectsTotal int32           `json:"objectsTotal"`
	Sample       []ManagedObject `json:"sample,omitempty"`
}

// ManagedObject is an object of a service.
type ManagedObject struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
	Wave      int32  `json:"wave,omitempty"`
	Leaving   string `json:"leaving,omitempty"`
}

// ObjectReport is an object that is not healthy.
type ObjectReport struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Health    string `json:"health,omitempty"`
	Message   string `json:"message,omitempty"`
	// Rival is who changed Fields of it against Git.
	Rival  string   `json:"rival,omitempty"`
	Fields []string `json:"fields,omitempty"`
	// NextAttempt is when it is repaired next, and Drifted when the agent's watch saw that it differs from what is applied.
	NextAttempt time.Time `json:"nextAttempt,omitzero"`
	Drifted     time.Time `json:"drifted,omitzero"`
}

// Secret holds credentials by key.
type Secret struct {
	Meta Meta
	// Data is write-only: the values are empty in what is read.
	Data map[string]string
}

// secretSpec is the part of a secret that anybody may see.
type secretSpec struct {
	Keys []string `json:"keys"`
}

// MetaOf returns what the store knows of a resource.
func MetaOf(r store.Resource) Meta {
	return Meta{
		Name: r.Name, Labels: r.Labels, UID: r.UID, Revision: r.Revision, ETag: r.ETag(),
		CreateTime: r.CreateTime, UpdateTime: r.UpdateTime,
	}
}

// Deleted names a resource that is gone.
type Deleted struct {
	Kind store.Kind
	Name string
	UID  string
}

// ReadSource makes a source of what is stored, without a status.
func ReadSource(r store.Resource) (Source, error) {
	s := Source{Meta: MetaOf(r)}
	err := decode(r, &s.Spec)
	return s, err
}

// ReadCluster makes a cluster of what is stored, without a status.
func ReadCluster(r store.Resource) (Cluster, error) {
	c := Cluster{Meta: MetaOf(r)}
	err := decode(r, &c.Spec)
	return c, err
}

// ReadService makes a service of what is stored, without a status.
func ReadService(r store.Resource) (Service, error) {
	s := Service{Meta: MetaOf(r)}
	err := decode(r, &s.Spec)
	return s, err
}

// ReadGrant makes a grant of what is stored.
func ReadGrant(r store.Resource) (Grant, error) {
	g := Grant{Meta: MetaOf(r)}
	err := decode(r, &g.Spec)
	return g, err
}

func decode(r store.Resource, spec any) error {
	if err := json.Unmarshal(r.Spec, spec); err != nil {
		return fmt.Errorf("decode %s %q: %w", r.Kind, r.Name, err)
	}
	return nil
}

// ReadHeads makes a source's status of what is stored.
func ReadHeads(h store.Heads) (SourceStatus, error) {
	status := SourceStatus{Epoch: h.Epoch, Owner: h.Owner}
	if err := json.Unmarshal(h.State, &status); err != nil {
		return SourceStatus{}, fmt.Errorf("decode heads: %w", err)
	}
	return status, nil
}

// EncodeReport makes of a report what is stored.
func EncodeReport(service, cluster string, r Report) (store.Report, error) {
	state, err := json.Marshal(r)
	if err != nil {
		return store.Report{}, fmt.Errorf("encode report about service %q: %w", r.Service, err)
	}
	return store.Report{Service: service, Cluster: cluster, Sequence: int64(r.Sequence), State: state}, nil
}

// ReadReport makes a report of what is stored.
func ReadReport(row store.Report) (r Report, err error) {
	if err := json.Unmarshal(row.State, &r); err != nil {
		return r, fmt.Errorf("decode report: %w", err)
	}
	r.Sequence = uint64(row.Sequence)
	return r, nil
}

// ReadSecret makes a secret of what is stored, without values.
func ReadSecret(r store.Resource) (Secret, error) {
	var spec secretSpec
	if err := decode(r, &spec); err != nil {
		return Secret{}, err
	}
	s := Secret{Meta: MetaOf(r), Data: make(map[string]string, len(spec.Keys))}
	for _, key := range spec.Keys {
		s.Data[key] = ""
	}
	return s, nil
}
