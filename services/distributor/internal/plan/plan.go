// Package plan is what every cluster should have: the catalog's services, each with the newest content
// that could be had for it.
//
// A service keeps what was last delivered until something newer is resolved, so an error in between
// (a folder that is gone, a gitcache that is away) changes nothing in a cluster. A service that was
// never resolved is not delivered and not removed either: only a service that the catalog does not
// have for a cluster is.
//
// Everything is computed when it changes, so that a cluster that has all it should have is answered
// by one comparison of strings.
package plan

import (
	"strings"
	"sync"
	"time"

	"fairlead.dev/platform/artifact"
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

// Spec is what the catalog says of a service.
type Spec struct {
	Name, UID, Cluster string
	Namespace          string // never empty
	Source, SourceUID  string // no UID: the source is not in the catalog
	Ref, Path          string
	Include, Ignore    Rules
	Submodules         bool // of the source: they belong to the content
}

// Want is a folder at a commit: what a gitcache is asked for. All that its content depends on is in it,
// because the answer is never asked for again.
type Want struct {
	Source     string `json:"source"`
	SourceUID  string `json:"source_uid"`
	Commit     string `json:"commit"`
	Path       string `json:"path"`
	Include    Rules  `json:"include,omitempty"`
	Ignore     Rules  `json:"ignore,omitempty"`
	Submodules bool   `json:"submodules,omitempty"`
}

// Rules are lines as in .gitignore, in one string: so a Want can be compared. The catalog takes no rule
// of more than one line.
type Rules string

// NewRules puts rules together.
func NewRules(lines []string) Rules { return Rules(strings.Join(lines, "\n")) }

// Lines takes rules apart.
func (r Rules) Lines() []string {
	if r == "" {
		return nil
	}
	return strings.Split(string(r), "\n")
}

// Delivery is all that an agent needs of one service. It is never changed once it is made.
type Delivery struct {
	Service   string   `json:"service"`
	UID       string   `json:"uid"` // of the service
	Want      Want     `json:"want"`
	Namespace string   `json:"namespace"`
	Revision  Revision `json:"revision"`
	Artifact  Artifact `json:"artifact"`
	// Digest changes when, and only when, there is something for the agent to do.
	Digest string `json:"-"`
}

func (d *Delivery) seal() {
	d.Digest = delivery.ServiceDigest(delivery.Service{
		Name: d.Service, Namespace: d.Namespace, Path: d.Want.Path, Artifact: string(d.Artifact.Digest),
	})
}

// Problem is why the newest content of a service can't be delivered.
type Problem struct {
	Text string
	// From is when it is worth telling: what passes by itself within seconds is not.
	From time.Time
}

// Plan is the desired state of all clusters. It is safe for concurrent use.
type Plan struct {
	mu       sync.RWMutex // guards everything below
	ready    bool
	current  bool // made from a catalog that the console has confirmed since the start
	services map[string]*service
	clusters map[string]*cluster
	wants    map[Want]*want
	last     map[string]*Delivery // from disk, by service, until the service shows up in the catalog
	inUse    map[artifact.Digest]int
}

type service struct {
	spec      Spec
	head      Revision // zero: the ref was not fetched yet
	want      *want    // nil without a head
	delivered *Delivery
	recalled  bool            // delivered is from the disk, and not confirmed yet: agents may have newer
	before    artifact.Digest // delivered before that; an agent may be about to download it
	problem   Problem
}

// want is a question to the gitcaches and its answer, shared by the services that ask it.
type want struct {
	key      Want
	services map[*service]struct{}
	answered bool
	artifact Artifact // if answered and there is no problem
	problem  func(service string) string
	from     time.Time // of the problem
}

type cluster struct {
	exists   bool // in the catalog
	services map[string]*service
	digest   string // over what is delivered
	changed  time.Time
}

// Change is what an update did.
type Change struct {
	// Clusters whose agents have something to do now.
	Clusters map[string]struct{}
	// Services whose delivery or problem is another one now, for the console.
	Services map[string]struct{}
	// Delivered are the services whose delivery is another one now, for the disk; Gone are those
	// that have left the catalog.
	Delivered []*Delivery
	Gone      []string
}

// New makes a plan that remembers what was delivered last. It is not ready: the catalog has to come
// in first.
func New(last []*Delivery) *Plan {
	p := &Plan{
		services: map[string]*service{}, clusters: map[string]*cluster{}, wants: map[Want]*want{},
		last: make(map[string]*Delivery, len(last)), inUse: map[artifact.Digest]int{},
	}
	for _, d := range last {
		d.seal()
		p.last[d.Service] = d
	}
	return p
}

// Truth is what the console is told of a service.
type Truth struct {
	UID      string
	Delivery *Delivery // nil: nothing was delivered yet
	Problem  Problem   // no Text: none
}

// Truth returns what there is to tell of a service. False: the catalog has no such service.
func (p *Plan) Truth(name string) (Truth, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	s, ok := p.services[name]
	if !ok {
		return Truth{}, false
	}
	return Truth{UID: s.spec.UID, Delivery: s.delivered, Problem: s.problem}, true
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

// Open returns the wants that have no answer yet.
func (p *Plan) Open() []Want {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var out []Want
	for key, w := range p.wants {
		if !w.answered {
			out = append(out, key)
		}
	}
	return out
}

// Counts are for metrics.
type Counts struct{ Clusters, Services, Undelivered, Open int }

// Counts returns how much there is.
func (p *Plan) Counts() Counts {
	p.mu.RLock()
	defer p.mu.RUnlock()
	c := Counts{Services: len(p.services)}
	for _, cl := range p.clusters {
		if cl.exists {
			c.Clusters++
		}
	}
	for _, s := range p.services {
		if s.delivered == nil {
			c.Undelivered++
		}
	}
	for _, w := range p.wants {
		if !w.answered {
			c.Open++
		}
	}
	return c
}
