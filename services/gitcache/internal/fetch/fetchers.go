package fetch

import (
	"context"

	"github.com/go-git/go-git/v5/plumbing"
)

// Fetchers is the Fetcher for every URL that ParseURL takes.
type Fetchers struct {
	http *HTTP
}

// New makes them. Close ends them.
func New(o Options) (*Fetchers, error) {
	return &Fetchers{http: NewHTTP(o)}, nil
}

// Close releases what is idle.
func (f *Fetchers) Close() { f.http.Close() }

// List asks where the refs point.
func (f *Fetchers) List(ctx context.Context, r Remote) (*Listing, error) {
	return f.http.List(ctx, r)
}

// Fetch brings wants and all that they reach.
func (f *Fetchers) Fetch(ctx context.Context, r Remote, l *Listing, wants []plumbing.Hash, into Target) (int64, error) {
	return f.http.Fetch(ctx, r, l, wants, into)
}
