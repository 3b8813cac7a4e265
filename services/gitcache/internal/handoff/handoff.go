// Package handoff moves sources from the replica that owns them to the one that should: when replicas
// come, drain or end, and when somebody says so.
//
// The owner offers a source until the other replica has a copy of it (Take on that side), finishes its
// poll, gives the lease back and says that it is free. A failed step loses nothing: until the lease is given back the
// owner goes on, and from then on whoever comes first in the ranking takes it.
package handoff

import (
	"context"
	"errors"

	"fairlead.dev/platform/coordination"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/owner"
)

var (
	// ErrCold: the other replica has no copy yet. The replica is making one: offer the source again.
	ErrCold = errors.New("the copy is not complete yet")
	// ErrUnknown: the source is not in the catalog, or not yet.
	ErrUnknown = errors.New("the source is not in the catalog")
	// ErrCutOff: a replica that does not reach the console takes nothing while another one does.
	ErrCutOff = errors.New("the replica does not reach the console: it takes no sources")
	errOwned  = errors.New("this replica believes that it owns the source itself")
	// ErrDraining: a replica that hands over everything takes nothing.
	ErrDraining = errors.New("the replica drains: it takes no sources")
)

// Offer of a source to another replica.
type Offer struct {
	UID   string
	Heads []mirror.Head // that the owner has; of Take only their commits count
	// Released: the lease is free.
	Released bool
	// Keep: somebody wants the source there.
	Keep     bool
	Schedule owner.Schedule // with Released
}

// Peers are the replicas.
type Peers interface {
	// Rank says who should own a source, the best first.
	Rank(uid string) []string
	// Member is another replica that lives.
	Member(id string) (coordination.Member, bool)
	Offer(ctx context.Context, to coordination.Member, o Offer) error
	Draining() bool
	// CutOff: this replica can't publish, and another one can.
	CutOff() bool
	// Alone: there is nobody to hand anything to.
	Alone() bool
}

// Owner owns sources.
type Owner interface {
	Owned() []owner.Owned
	Owns(uid string) bool
	Keep(uid string) bool
	Expect(uid string)
	Yield(ctx context.Context, uid string) (owner.Schedule, error)
	Take(ctx context.Context, uid string, s owner.Schedule, keep bool) error
}

// Copies are what this replica has of sources that others own.
type Copies interface {
	// Has tells whether there is a copy with all these heads.
	Has(uid string, heads []mirror.Head) bool
	// Hurry makes one now.
	Hurry(uid string)
}

// Receiver takes sources that others hand over.
type Receiver struct {
	Known  func(uid string) bool // whether the catalog has it
	Peers  Peers
	Owner  Owner
	Copies Copies
}

// Take gets ready for a source or, once it is released, takes it.
func (r *Receiver) Take(ctx context.Context, o Offer) error {
	owns := r.Owner.Owns(o.UID)
	switch {
	case !r.Known(o.UID):
		return ErrUnknown
	case owns && !o.Released:
		return errOwned // the owner was stopped, maybe, and will notice any moment
	case !owns && r.Peers.Draining():
		return ErrDraining
	case !owns && r.Peers.CutOff():
		return ErrCutOff
	case o.Released:
		return r.Owner.Take(ctx, o.UID, o.Schedule, o.Keep)
	case !r.Copies.Has(o.UID, o.Heads):
		r.Copies.Hurry(o.UID)
		return ErrCold
	}
	r.Owner.Expect(o.UID)
	return nil
}
