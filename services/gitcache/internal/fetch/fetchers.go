package fetch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"fairlead.dev/services/gitcache/internal/fetch/buckets"
	"fairlead.dev/services/gitcache/internal/fetch/chartrepo"
	"fairlead.dev/services/gitcache/internal/fetch/githttp"
	"fairlead.dev/services/gitcache/internal/fetch/gitssh"
	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/fetch/registry"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// The values of Options.Git.
const (
	GitAuto    = "auto"    // builtin, but for hosts that need the binary
	GitBuiltin = "builtin" // never run git
	GitBinary  = "binary"  // run git for every request by http
)

// CheckGit says what is wrong with a value of Options.Git.
func CheckGit(way string) error {
	switch way {
	case "", GitAuto, GitBuiltin, GitBinary:
		return nil
	}
	return fmt.Errorf("%q is none of %s, %s and %s", way, GitAuto, GitBuiltin, GitBinary)
}

// Fetchers is the Fetcher for every URL that upstream.ParseURL takes. ssh has one way. For http there are two:
// the builtin one, which costs next to nothing, and the git binary, a process per request, for hosts that
// the builtin one turned out not to do. The need for git is remembered per host for a day, in memory.
type Fetchers struct {
	*registry.Registries
	*chartrepo.Repositories
	*buckets.Hosts

	client *upstream.Client
	http   *githttp.HTTP
	ssh    *gitssh.SSH
	git    string
	dir    string
	temp   bool // dir is ours alone and goes with us

	binary *githttp.Binary // nil: there is none
	none   error           // why

	mu    sync.Mutex // guards needs
	needs map[string]need
}

// need is what a host needs the git binary for.
type need struct {
	lists bool // and not only packs
	until time.Time
}

const (
	// needTime is after which a host is tried the builtin way again: it may have learned.
	needTime = 24 * time.Hour
	// maxNeeds bounds what is remembered; few hosts in the world need anything.
	maxNeeds = 256
)

// New makes them. Close ends them.
func New(o upstream.Options) (*Fetchers, error) {
	if err := CheckGit(o.Git); err != nil {
		return nil, fmt.Errorf("choose a way to fetch: %w", err)
	}
	if o.Budget == nil {
		o.Budget = upstream.NewBudget()
	}
	f := &Fetchers{git: o.Git, needs: map[string]need{}, temp: o.Dir == ""}
	var err error
	if f.dir, err = workFolder(o.Dir); err != nil {
		return nil, fmt.Errorf("make the folder for fetches: %w", err)
	}
	o.Dir = f.dir
	f.client, f.ssh = upstream.NewClient(o), gitssh.New(o)
	f.http, f.Registries, f.Hosts = githttp.New(f.client), registry.New(f.client, f.dir), buckets.New(f.client, f.dir)
	f.Repositories = chartrepo.New(f.client, f.Registries, f.dir)
	if o.Git != GitBuiltin {
		f.binary, f.none = githttp.NewBinary(f.http, f.dir)
	}
	if o.Git == GitBinary && f.none != nil {
		f.Close()
		return nil, fmt.Errorf("git is to be used, and can't: %w", f.none)
	}
	return f, nil
}

// workFolder is empty: what a killed process left is removed.
func workFolder(dir string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", "fairlead-fetch-*")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return dir, errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700))
}

// Close releases what is idle. No request may be running.
func (f *Fetchers) Close() {
	f.http.Close()
	f.client.Close()
	if f.temp {
		_ = os.RemoveAll(f.dir)
	}
}

// List asks where refs point.
func (f *Fetchers) List(ctx context.Context, r upstream.Remote, names gitwire.Names) (*gitwire.Listing, error) {
	switch {
	case r.URL.Scheme == "ssh":
		l, err := f.ssh.List(ctx, r, names)
		return l, f.adviseGit(r, err)
	case f.git == GitBinary, f.binary != nil && f.neededFor(r).lists:
		return f.binary.List(ctx, r, names)
	}
	l, err := f.http.List(ctx, r, names)
	if f.learnNeed(r, err, true) {
		return f.binary.List(ctx, r, names)
	}
	return l, f.adviseGit(r, err)
}

// Fetch brings wants and all that they reach.
func (f *Fetchers) Fetch(
	ctx context.Context, r upstream.Remote, l *gitwire.Listing, wants []git.Hash, into upstream.Target,
) (int64, error) {
	switch {
	case r.URL.Scheme == "ssh":
		n, err := f.ssh.Fetch(ctx, r, l, wants, into)
		return n, f.adviseGit(r, err)
	case l.Binary, f.git == GitBinary, f.binary != nil && !f.neededFor(r).until.IsZero():
		return f.binary.Fetch(ctx, r, l, wants, into)
	}
	n, err := f.http.Fetch(ctx, r, l, wants, into)
	if f.learnNeed(r, err, false) {
		return f.binary.Fetch(ctx, r, l, wants, into)
	}
	return n, f.adviseGit(r, err)
}

// neededFor is what is known of a host; zero: nothing.
func (f *Fetchers) neededFor(r upstream.Remote) need {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.needs[r.DoorOf(r.URL)]
	if time.Now().After(n.until) {
		return need{}
	}
	return n
}

// learnNeed remembers a host that only the binary can do, and tells whether it can be used.
func (f *Fetchers) learnNeed(r upstream.Remote, err error, list bool) bool {
	if _, no := errors.AsType[gitwire.Unfit](err); !no || f.binary == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.needs) >= maxNeeds {
		clear(f.needs)
	}
	f.needs[r.DoorOf(r.URL)] = need{lists: list || f.needs[r.DoorOf(r.URL)].lists, until: time.Now().Add(needTime)}
	return true
}

// adviseGit says what to do where only git would do.
func (f *Fetchers) adviseGit(r upstream.Remote, err error) error {
	why, no := errors.AsType[gitwire.Unfit](err)
	if !no {
		return err
	}
	e := &upstream.Error{Kind: upstream.KindContent, Cause: err, Message: fmt.Sprintf("%s can't be talked to without git: %s. ", r.URL.Host, why)}
	switch {
	case r.URL.Scheme == "ssh":
		e.Message += "Use its https:// url"
	case f.git == GitBuiltin:
		e.Message += "Let the hub's operator start the gitcache with --git=auto"
	default:
		e.Message += fmt.Sprintf("Let the hub's operator install git %s or later beside the gitcache (%s)", githttp.OldestGit, upstream.CleanLine(f.none.Error()))
	}
	return e
}
