package fetch

import (
	"context"

	"github.com/go-git/go-git/v5/plumbing"
)

// Fetchers is the Fetcher for every URL that ParseURL takes.
type Fetchers struct {
	http *HTTP
	ssh  *SSH
}

// New makes them. Close ends them.
func New(o Options) (*Fetchers, error) {
	if o.Budget == nil {
		o.Budget = NewBudget()
	}
	return &Fetchers{http: NewHTTP(o), ssh: NewSSH(o)}, nil
}

// Close releases what is idle.
func (f *Fetchers) Close() { f.http.Close() }

func (f *Fetchers) of(r Remote) Fetcher {
	if r.URL.Scheme == "ssh" {
		return f.ssh
	}
	return f.http
}

// List asks where the refs point.
func (f *Fetchers) List(ctx context.Context, r Remote) (*Listing, error) {
	return f.of(r).List(ctx, r)
}

// Fetch brings wants and all that they reach.
func (f *Fetchers) Fetch(ctx context.Context, r Remote, l *Listing, wants []plumbing.Hash, into Target) (int64, error) {
	return f.of(r).Fetch(ctx, r, l, wants, into)
}

// unfit is what the builtin fetchers can't do with a host, and the git binary may.
type unfit string

func (u unfit) Error() string { return string(u) + ", which Fairlead itself can't follow" }
