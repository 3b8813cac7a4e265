package plan

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/delivery"
)

var (
	// ErrNotReady: the catalog has not come in yet.
	ErrNotReady = errors.New("the catalog is not loaded yet")
	// ErrUnknownCluster: the catalog has no such cluster.
	ErrUnknownCluster = errors.New("the cluster is not in the catalog")
)

// Difference is what an agent has to do to have what it should have.
type Difference struct {
	None bool // the agent has it, or may have newer
	// Same: the agent has exactly what the plan has for it.
	Same bool
	// HaveWanted: something differs, but the agent did not say what it has.
	HaveWanted bool
	// Ahead: the agent has heard of a newer catalog than this one. Behind: and it differs. The agent is told only of
	// services that it finds in the cluster and knows nothing of: others that it lacks may have been removed since.
	Ahead, Behind bool
	// Pending: there may be more in a moment. A change that the agent was nudged for is not in yet, or content for the
	// cluster is being asked for: for the first time, or since before that nudge. Another replica may have it already,
	// and does not nudge the agent again.
	Pending bool
	Changed []*Delivery // in the order of names
	Removed []string    // in order
	// Revision is the change of the catalog that nothing of the answer is newer than; 0: unknown.
	Revision int64
}

// Compare answers an agent that has services with these digests, and digest over all of them. have may
// be nil for "did not say". seen is the Revision of the last answer that it got, from any distributor: an
// agent is never turned back to what it had before that. nudged is the change of the catalog that it was nudged for.
func (p *Plan) Compare(name, digest string, have map[string]string, seen, nudged int64) (Difference, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	c, err := p.known(name)
	if err != nil {
		return Difference{}, err
	}
	d := Difference{Ahead: seen > p.low, Behind: seen > p.low, Pending: nudged > p.low || p.pending(c, nudged), Revision: p.high}
	if digest == c.digest {
		if d.None, d.Same = true, true; d.Behind {
			d.Behind, d.Revision = false, 0
		}
		return d, nil
	}
	if delivery.SetDigest(have) != digest { // the agent did not say, or its list was cut short
		d.HaveWanted = true
		return d, nil
	}
	p.compare(c, &d, have, seen)
	return d, nil
}

// pending says whether content for a cluster was not answered for yet, be it with a failure. An agent that was nudged
// for what is newer than the content that there is may have been nudged for just this: then a failure that may pass is
// no answer.
func (p *Plan) pending(c *cluster, nudged int64) bool {
	return len(p.open) > 0 && slices.ContainsFunc(c.services, func(s *service) bool {
		w := s.folder.want
		return w != nil && !w.answered && (!w.tried || nudged > s.folder.good)
	})
}

func (p *Plan) compare(c *cluster, d *Difference, have map[string]string, seen int64) {
	for _, s := range c.services {
		switch has, known := have[s.is.Name]; {
		case s.delivered() == nil || has == s.digest.String():
		case !known && d.Behind, has != "" && (d.Behind || s.older(has, seen)):
			c.withheld.Store(true)
		default:
			is := p.delivery(s)
			if is.Good = d.Revision; has != "" && !s.folder.settled() && !s.hadEarlier(has) {
				is.Good = s.folder.good
			}
			d.Changed = append(d.Changed, is)
		}
	}
	awaits := d.Behind || c.awaits()
	for _, service := range slices.Sorted(maps.Keys(have)) {
		// A service that the catalog has, but that was not resolved yet, is left alone.
		if _, ok := c.find(service); !ok && !awaits {
			d.Removed = append(d.Removed, service)
		}
	}
	d.None = awaits && len(d.Changed)+len(d.Removed) == 0
}

// awaits says whether a service of the cluster has nothing yet, and its content is being asked for: the service may be
// a removed one under another name, whose objects go over to it if the agent hears of both at once.
func (c *cluster) awaits() bool {
	return slices.ContainsFunc(c.services, func(s *service) bool {
		w := s.folder.want
		return s.delivered() == nil && w != nil && !w.tried && !w.answered
	})
}

// older says whether an agent that has this digest, and has seen so much of the catalog, may have newer content than
// there is here.
func (s *service) older(has string, seen int64) bool {
	f := s.folder
	return (f.recalled || f.restored && seen == 0 || !f.settled() && seen > f.good) && !s.hadEarlier(has)
}

// hadEarlier says whether a digest is one that the service had before with the same content.
func (s *service) hadEarlier(has string) bool {
	if s.earlier == nil {
		return false
	}
	digest, ok := delivery.ParseDigest(has)
	return ok && slices.Contains(s.earlier[:], digest)
}

// Lacking is what of a difference can't hurt where the plan may be behind what the agent was told elsewhere, or before
// a restart: services that the agent does not have, unless it has heard of a newer catalog (see Compare). The services
// that the agent has stay as they are.
func (d Difference) Lacking(have map[string]string) Difference {
	if d.None || d.HaveWanted {
		return d
	}
	changed := slices.DeleteFunc(slices.Clone(d.Changed), func(is *Delivery) bool { return have[is.Service] != "" })
	return Difference{None: len(changed) == 0, Ahead: d.Ahead, Behind: d.Behind, Pending: d.Pending, Changed: changed}
}

func (p *Plan) known(name string) (*cluster, error) {
	if !p.ready {
		return nil, ErrNotReady
	}
	c := p.clusters[name]
	if c == nil || !c.exists {
		return nil, ErrUnknownCluster
	}
	return c, nil
}

// Ready is nil once the catalog has come in.
func (p *Plan) Ready() error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if !p.ready {
		return ErrNotReady
	}
	return nil
}

// Current says whether the plan was made from a catalog that the console has confirmed since the start.
func (p *Plan) Current() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.current
}

// Changed returns when the cluster's services changed last, and how new the catalog was then: no newer than it is now,
// after it was put back to an earlier state.
func (p *Plan) Changed(name string) (at time.Time, revision int64, err error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	c, err := p.known(name)
	if err != nil {
		return time.Time{}, 0, err
	}
	return c.changed, min(c.revision, p.high), nil
}

// Has says whether the catalog has a service for a cluster.
func (p *Plan) Has(cluster, service string) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	s := p.services[service]
	return s != nil && s.is.Cluster() == cluster
}

// Wanted names all that the plan has for the agent of a cluster; 0: the plan does not know.
func (p *Plan) Wanted(name string) uint64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	c, err := p.known(name)
	if err != nil || !p.current || c.config == nil || c.sets == nil {
		return 0
	}
	sum := sha256.Sum256([]byte(c.digest + "\n" + c.config.GetDigest() + "\n" + c.sets.GetDigest()))
	return max(binary.BigEndian.Uint64(sum[:]), 1)
}

// Uses says whether a service of the cluster is delivered with this artifact, or was just before.
func (p *Plan) Uses(name string, d artifact.Digest) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	c, err := p.known(name)
	if err != nil || d == "" {
		return false
	}
	for _, s := range c.services {
		is := s.delivered()
		if is != nil && is.Artifact.Digest == d || s.before != nil && s.before.Artifact.Digest == d || s.own == nil && s.folder.before == d {
			return true
		}
	}
	return false
}

// Held is what a service holds, for others than agents.
type Held struct {
	// Commit that what is delivered is made from, and its Artifact; empty: nothing was delivered yet.
	Commit   string
	Artifact artifact.Digest
	// Before are artifacts that were delivered just before: somebody may be about to download them.
	Before []artifact.Digest
}

// All are the artifacts that the service holds, what is delivered first.
func (h Held) All() []artifact.Digest {
	if h.Artifact == "" {
		return h.Before
	}
	return append([]artifact.Digest{h.Artifact}, h.Before...)
}

// Held returns what a service holds; nothing, if the catalog has no such service.
func (p *Plan) Held(name string) (Held, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if !p.ready {
		return Held{}, ErrNotReady
	}
	s := p.services[name]
	if s == nil {
		return Held{}, nil
	}
	var h Held
	if is := s.delivered(); is != nil {
		h.Commit, h.Artifact = is.Revision.Commit, is.Artifact.Digest
	}
	if s.before != nil {
		h.Before = append(h.Before, s.before.Artifact.Digest)
	}
	if s.own == nil && s.folder.before != "" {
		h.Before = append(h.Before, s.folder.before)
	}
	return h, nil
}
