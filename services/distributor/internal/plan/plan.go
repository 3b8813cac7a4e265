// Package plan is what every cluster should have: the catalog's services, each with the newest content
// that could be had for it.
//
// Content belongs to folders: services for one folder of a source at one ref get the same. A service keeps
// what was last delivered until something newer is resolved, so an error in between (a folder that is gone,
// a gitcache that is away) changes no content in a cluster; the service's options and configuration are delivered
// with the content that there is. A service that was never resolved is not delivered
// and not removed either: only a service that the catalog does not have for a cluster is.
//
// The plan is computed when something changes, so that a cluster that has all it should have is answered by one
// comparison of strings; and only what changes is computed: a commit touches the folders of its source, and of their
// services those whose folder has other content than before.
package plan

import (
	"sync"
	"sync/atomic"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/delivery"
)

// Revision says which commit something was made from.
type Revision struct {
	Commit      string    `json:"commit"`
	Time        time.Time `json:"time,omitzero"`
	Subject     string    `json:"subject,omitempty"`
	Author      string    `json:"author,omitempty"`
	Traceparent string    `json:"traceparent,omitempty"`
}

// Artifact is content by its digest.
type Artifact struct {
	Digest artifact.Digest `json:"digest"`
	Size   int64           `json:"size"`
	Files  int32           `json:"files"`
}

// Source is what the catalog says of one that exists.
type Source struct {
	UID        string
	Submodules bool // submodules belong to the content
	// Dependencies of charts on charts of repositories belong to the content.
	Dependencies bool
	Heads        map[string]Revision // by canonical ref
}

// Want is a folder at a commit: what a gitcache is asked for. Everything that its content depends on is in the Want,
// because the answer is never asked for again.
type Want struct {
	Source     string        `json:"source"`
	SourceUID  string        `json:"source_uid"`
	Commit     string        `json:"commit"`
	Path       string        `json:"path"`
	Include    catalog.Rules `json:"include,omitempty"`
	Ignore     catalog.Rules `json:"ignore,omitempty"`
	Submodules bool          `json:"submodules,omitempty"`
	// Dependencies of charts on charts of repositories belong to the content.
	Dependencies bool `json:"dependencies,omitempty"`
}

// Content is what was had for a folder. A Content is never changed once it is made.
type Content struct {
	Ref      string   `json:"ref"` // canonical
	Want     Want     `json:"want"`
	Revision Revision `json:"revision"`
	Artifact Artifact `json:"artifact"`
	// Good is the change of the catalog up to which this is known to have been the newest, while newer content can't be
	// had; 0: not noted.
	Good int64 `json:"good,omitempty"`
}

// Key says what content was for, whatever the commit, and the source's spec.
type Key struct {
	Ref  string
	Want Want // without a commit, and without Submodules and Dependencies
}

// Key returns what the content is for.
func (c *Content) Key() Key {
	k := Key{c.Ref, c.Want}
	k.Want.Commit, k.Want.Submodules, k.Want.Dependencies = "", false, false
	return k
}

// Delivery is all that an agent needs of one service.
type Delivery struct {
	Service   string
	UID       string // of the service
	Want      Want
	Namespace string
	Revision  Revision
	Artifact  Artifact
	Options   string // a ServiceDelivery of nothing else, as on the wire
	Config    string // revision of the configuration; empty: none
	// Digest changes when, and only when, there is something for the agent to do.
	Digest string
	// Content is the digest that the service would have without its tests and windows; empty: as Digest.
	Content string
	// Good is the last change of the catalog that the agent of a Difference may see and still be delivered this later.
	Good int64
}

// Problem is why the newest content of a service can't be delivered.
type Problem struct {
	Text string
	// From is when it is worth telling: what passes by itself within seconds is not.
	From time.Time
}

// Plan is the desired state of all clusters. A Plan is safe for concurrent use.
type Plan struct {
	mu       sync.RWMutex // guards everything below
	ready    bool
	current  bool  // made from a catalog that the console has confirmed since the start
	low      int64 // all changes of the catalog up to this one are in
	high     int64 // and none above this one; 0: unknown, both
	services map[string]*service
	clusters map[string]*cluster
	rules    map[string]string // of projects that bound objects, as options
	windows  map[string]string // of projects that have windows or are frozen, as options
	configs  []*consolev1.AgentConfig
	sets     []*consolev1.ViewSet
	sources  map[string]*source
	folders  map[catalog.Folder]*folder
	wants    map[Want]*want
	open     map[*want]struct{} // wants without an answer
	waiting  map[*line]struct{} // lines that are not told, because a folder has not been asked for yet
	inUse    map[artifact.Digest]int
	last     Memory // until the catalog has come in
}

// service is small: there are hundreds of thousands.
type service struct {
	is     *catalog.Service
	folder *folder
	// own is what is delivered if that is not what the folder has: nothing stands for nothing.
	own    *Content
	before *Content // delivered before, of another folder; an agent may be about to download it
	digest delivery.Digest
	// earlier are the digests before this one with the same content, the last first, while the newest content can't
	// be had: an agent that has one of them has no newer content. Nil: none.
	earlier *[maxEarlier]delivery.Digest
	place   int32 // in folder.services
}

// maxEarlier bounds the memory of a service whose newest content can't be had: an agent that missed more changes of the
// service than this waits for newer content.
const maxEarlier = 8

// nothing is the content of a service that has none though its folder has.
var nothing = new(Content) //nolint:gochecknoglobals // a mark; it is never looked into

func (s *service) delivered() *Content {
	switch s.own {
	case nil:
		return s.folder.content
	case nothing:
		return nil
	}
	return s.own
}

// folder is what services share: a folder of a source at a ref. Its key is normalized: see normal.
type folder struct {
	key      catalog.Folder
	line     *line
	services []*service
	apart    map[*service]struct{} // those with something of their own
	want     *want                 // nil without a head
	content  *Content              // newest that was had; nil: none
	before   artifact.Digest       // of the content before
	recalled bool                  // content is from the disk, and agents may have newer: see confirm
	restored bool                  // that was so, and agents that do not say what they have seen may still
	late     bool                  // the console was told that its services are behind its line
	some     bool                  // or that some of them are
	// good is the change of the catalog up to which content is known to be the newest, while that is not so
	// any more: an agent that has seen a later one may have newer.
	good       int64
	sourceless time.Time // since when the source is missing
}

// settled says whether content is that of the head.
func (f *folder) settled() bool { return f.want != nil && f.want.answered && f.want.problem == nil }

// line is a ref of a source, with the folders that are delivered from it.
type line struct {
	source  *source
	ref     string
	head    *Revision // nil: not fetched yet
	since   time.Time // of head
	told    string    // commit that the console was told
	folders map[*folder]struct{}
}

type source struct {
	name  string
	is    *Source // nil: not in the catalog
	lines map[string]*line
}

// want is a question to the gitcaches and its answer, shared by the folders that ask it.
type want struct {
	key      Want
	folders  map[*folder]struct{}
	tried    bool // there was an answer, be it that there is none yet
	answered bool
	artifact Artifact // if answered and there is no problem
	problem  func(service string) string
	from     time.Time // of the problem
}

type cluster struct {
	name     string
	exists   bool // in the catalog
	labels   map[string]string
	windows  string     // of its own, as options
	services []*service // in the order of names
	digest   string     // over what is delivered
	// config is of the agent; nil: unknown.
	config   *deliveryv1.AgentConfigDelivery
	sets     *deliveryv1.ViewSetDelivery // of its view; nil: unknown
	changed  time.Time
	revision int64 // of the catalog, when that was
	// withheld: its agent was told less than there is, for it may have newer.
	withheld atomic.Bool
}

// Change is what an update did.
type Change struct {
	// Clusters whose agents have something to do now, with the trace of the commit that it comes of, if it comes of
	// one.
	Clusters map[string]string
	// Services whose delivery or problem is another one now, for the console, and Lines that all their
	// services have now, but for those that say otherwise: they are told after the services.
	Services map[string]struct{}
	Lines    []Line
	// Delivered is what was had for folders, and for how many services it is another content than before.
	Delivered []Delivered
	// For the disk: what folders have is in Delivered; Superseded are contents with another Good than before; Apart are
	// services that got or lost something of their own; Earlier are services with other earlier digests; Gone are
	// contents that nobody uses.
	Superseded []*Content
	Apart      []Apart
	Earlier    []Earlier
	Gone       []Key
}

// Line is where a ref of a source points, as it is delivered.
type Line struct {
	SourceUID, Ref string
	Revision       Revision
}

// Delivered is the content of a folder.
type Delivered struct {
	Content  *Content
	Services int
	Since    time.Time // the ref points to the commit; as far as it is known here
}

// Apart is a service that is not delivered what its folder has.
type Apart struct {
	Service string   `json:"service"`
	UID     string   `json:"uid"`
	Content *Content `json:"content,omitempty"` // nil: nothing is delivered
	Over    bool     `json:"over,omitempty"`    // the service is apart no more
}

// Earlier are the digests that a service had before with the artifact that it has, while newer content can't be had.
type Earlier struct {
	Service  string          `json:"service"`
	UID      string          `json:"uid"`
	Artifact artifact.Digest `json:"artifact,omitempty"`
	Digests  []string        `json:"digests,omitempty"` // the last first; none: they don't count any more
}

// Memory is what was delivered last.
type Memory struct {
	Contents map[Key]*Content
	Apart    map[string]Apart   // by service
	Earlier  map[string]Earlier // by service
}

// New makes a plan that remembers what was delivered last. The plan is not ready: the catalog has to come in first.
func New(last Memory) *Plan {
	return &Plan{
		services: map[string]*service{}, clusters: map[string]*cluster{}, rules: map[string]string{},
		windows: map[string]string{}, sources: map[string]*source{},
		folders: map[catalog.Folder]*folder{}, wants: map[Want]*want{}, open: map[*want]struct{}{},
		waiting: map[*line]struct{}{}, inUse: map[artifact.Digest]int{}, last: last,
	}
}

// delivery is what an agent is told of a service; nil: nothing.
func (p *Plan) delivery(s *service) *Delivery {
	c := s.delivered()
	if c == nil {
		return nil
	}
	cluster, rules := p.clusters[s.is.Cluster()], p.rules[s.is.Project()]
	out := &Delivery{
		Service: s.is.Name, UID: s.is.UID, Want: c.Want, Namespace: namespace(s.is), Revision: c.Revision, Artifact: c.Artifact,
		Options: p.options(cluster, s.is), Config: s.is.Config(), Digest: s.digest.String(),
	}
	if content := s.is.ContentOptions(cluster.labels) + rules; content != out.Options {
		out.Content = s.digestOf(c, content).String()
	}
	return out
}

// digestOf is the digest of a service with some content and options.
func (s *service) digestOf(c *Content, options string) delivery.Digest {
	return delivery.DigestOf(delivery.Service{
		Name: s.is.Name, Namespace: namespace(s.is), Path: c.Want.Path, Artifact: string(c.Artifact.Digest), Config: s.is.Config(), Options: options,
	})
}

// Truth is what the console is told of a service.
type Truth struct {
	UID      string
	Revision int64     // of the service's spec
	Delivery *Delivery // nil: nothing was delivered yet
	// Follows: what is delivered is from where Ref of the source points, as its Line says.
	Follows        bool
	SourceUID, Ref string
	Problem        Problem // no Text: none
}

// Truth returns what there is to tell of a service. False: the catalog has no such service.
func (p *Plan) Truth(name string) (Truth, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	s, ok := p.services[name]
	if !ok {
		return Truth{}, false
	}
	t := Truth{UID: s.is.UID, Revision: s.is.Revision, Delivery: p.delivery(s), Ref: s.folder.line.ref, Problem: s.whyNoContent()}
	if source := s.folder.line.source.is; source != nil {
		t.SourceUID = source.UID
		t.Follows = t.Delivery != nil && s.own == nil && s.folder.settled()
	}
	return t, true
}

// Catalog returns the services whose folders are for the catalog itself, and for no cluster.
func (p *Plan) Catalog() []string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	c := p.clusters[""]
	if c == nil {
		return nil
	}
	out := make([]string, len(c.services))
	for i, s := range c.services {
		out[i] = s.is.Name
	}
	return out
}

// InUse returns the artifacts that are delivered to some cluster.
func (p *Plan) InUse() []artifact.Digest {
	p.mu.RLock()
	defer p.mu.RUnlock()
	out := make([]artifact.Digest, 0, len(p.inUse))
	for d := range p.inUse {
		out = append(out, d)
	}
	return out
}

// Trace returns the trace context of the commit that a want is of; "": there is none, or nobody wants it any more.
func (p *Plan) Trace(w Want) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if want := p.wants[w]; want != nil {
		for f := range want.folders {
			return f.line.head.Traceparent // any: all are of one commit
		}
	}
	return ""
}

// Open returns the wants that have no answer yet.
func (p *Plan) Open() []Want {
	p.mu.RLock()
	defer p.mu.RUnlock()
	out := make([]Want, 0, len(p.open))
	for w := range p.open {
		out = append(out, w.key)
	}
	return out
}

// Counts are for metrics.
type Counts struct{ Clusters, Services, Undelivered, Open int }

// Counts returns how much there is.
func (p *Plan) Counts() Counts {
	p.mu.RLock()
	defer p.mu.RUnlock()
	c := Counts{Services: len(p.services), Open: len(p.open)}
	for _, cl := range p.clusters {
		if cl.exists {
			c.Clusters++
		}
	}
	for _, f := range p.folders {
		if f.content == nil {
			c.Undelivered += len(f.services) - len(f.apart)
		}
		for s := range f.apart {
			if s.own == nothing {
				c.Undelivered++
			}
		}
	}
	return c
}
