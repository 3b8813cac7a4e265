package plan

import (
	"errors"
	"maps"
	"slices"
	"time"

	"fairlead.dev/platform/artifact"
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
	if digest != "" && len(have) == 0 {
		return Difference{HaveWanted: true}, nil
	}
	var d Difference
	for _, service := range slices.Sorted(maps.Keys(c.services)) {
		if is := c.services[service].delivered; is != nil && have[service] != is.Digest {
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
