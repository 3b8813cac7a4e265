package owner

import (
	"context"
	"errors"

	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// Catalog is the hub's knowledge of sources.
type Catalog interface {
	// Sources returns all of them. known is false until a complete catalog was seen; live is true if it
	// is the console's present one and not a memory of it.
	Sources() (sources []source.Source, known, live bool)
	// Changed receives after changes; it coalesces.
	Changed() <-chan struct{}
}

// Publication is everything that is said of a source at once.
type Publication struct {
	Source, UID string
	Epoch       int64
	Heads       []mirror.Head // by ref
	Problem     source.Problem
}

// Claimed is what a new owner has of a source: its epoch, and what was published last.
type Claimed struct {
	Epoch   int64
	Heads   []mirror.Head
	Problem source.Problem
}

// Console is the record of who may publish and of what was.
type Console interface {
	// Claim gives the next epoch of a source and what was published last. ErrGone: no such source.
	Claim(ctx context.Context, name, uid, owner string) (Claimed, error)
	// Publish records. ErrStale: the epoch is not the current one. ErrGone: no such source.
	Publish(ctx context.Context, p Publication) error
	// Credentials reads a secret. The error is in words for the source's owner.
	Credentials(ctx context.Context, secret string) (upstream.Credentials, error)
}

// Errors of a Console.
var (
	// ErrStale: somebody claimed the source since. Step down.
	ErrStale = errors.New("another replica has claimed the source")
	// ErrGone: the source was deleted, or deleted and made again.
	ErrGone = errors.New("the source is gone")
)
