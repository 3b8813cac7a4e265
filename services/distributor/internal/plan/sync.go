package plan

import (
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
	None bool // it has
	// HaveWanted: something differs, but the agent did not say what it has.
	HaveWanted bool
	Changed    []*Delivery // in the order of names
	Removed    []string    // in order
}

// Compare answers an agent that has services with these digests, and digest over all of them. have may
// be nil for "did not say".
func (p *Plan) Compare(name, digest string, have map[string]string) (Difference, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	c, err := p.known(name)
	if err != nil {
		return Difference{}, err
	}
	if digest == c.digest {
		return Difference{None: true}, nil
	}
	if delivery.SetDigest(have) != digest { // it did not say, or its list was cut short
		return Difference{HaveWanted: true}, nil
	}
	var d Difference
	for _, service := range slices.Sorted(maps.Keys(c.services)) {
		s := c.services[service]
		switch is := s.delivered; {
		case is == nil || have[service] == is.Digest:
		case s.recalled && have[service] != "": // it may be newer
		default:
			d.Changed = append(d.Changed, is)
		}
	}
	for _, service := range slices.Sorted(maps.Keys(have)) {
		// One that the catalog has, but that was not resolved yet, is left alone.
		if c.services[service] == nil {
			d.Removed = append(d.Removed, service)
		}
	}
	return d, nil
}

// Lacking is what of a difference can't hurt where the plan may be behind what the agent was told
// elsewhere, or before a restart: services that it doesn't have at all. What it has stays as it is.
func (d Difference) Lacking(have map[string]string) Difference {
	if d.None || d.HaveWanted {
		return d
	}
	changed := slices.DeleteFunc(slices.Clone(d.Changed), func(is *Delivery) bool { return have[is.Service] != "" })
	return Difference{None: len(changed) == 0, Changed: changed}
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

// Changed returns when the cluster's services changed last.
func (p *Plan) Changed(name string) (time.Time, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	c, err := p.known(name)
	if err != nil {
		return time.Time{}, err
	}
	return c.changed, nil
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
		if s.delivered != nil && s.delivered.Artifact.Digest == d || s.before == d {
			return true
		}
	}
	return false
}
