// Package browse shows what is in a source: its history, its folders, its files, as they are in the
// mirrors. A Browser answers from this replica's mirror if that has the commit, else from the owner's, else from any
// other replica's.
package browse

import (
	"context"
	"errors"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/tree"
)

// MaxFileBytes of a file that is shown.
const MaxFileBytes = 1 << 20

// noRevisionError is the refusal of a revision that is not here, as far as this replica knows.
type noRevisionError struct{ error }

func (e noRevisionError) Unwrap() error { return e.error }

func noRevision(format string, args ...any) error {
	return noRevisionError{refusal.New(refusal.NotFound, format, args...)}
}

// IsNoRevision tells the refusal of a revision from that of a file or folder: another replica may have the revision,
// and a version of a chart can be asked for by itself.
func IsNoRevision(err error) bool {
	_, ok := errors.AsType[noRevisionError](err)
	return ok
}

// Commits is a page of a history.
type Commits struct {
	Commits []mirror.Commit
	Next    string // token of the next page; empty: there is none
	// Reached: the history came to Place.Until.
	Reached bool
}

// Entry is what is in a folder.
type Entry struct {
	tree.Entry
	Size int64 // of files and links
}

// Listing is a page of a folder.
type Listing struct {
	Commit  mirror.Commit
	Entries []Entry
	Next    string
}

// File is a file, or where a link points.
type File struct {
	Commit  mirror.Commit
	Entry   Entry
	Content []byte
}

// Source is what the catalog knows of one.
type Source struct {
	UID        string
	Submodules bool          // are followed
	Heads      []mirror.Head // as published last
	Problem    string        // in words; empty: none
}

// Page asks for a part.
type Page struct {
	Size  int
	Token string
}

// Place is a path of a source at a revision: a full commit id, a beginning of one, or a ref as people
// write it.
type Place struct {
	Source, Revision, Path string
	// Until is the full id of the commit before which a history ends; empty: it ends with the first commit.
	Until string
}

// Peer is another one that can be asked. A replica answers from what it has.
type Peer interface {
	Commits(ctx context.Context, p Place, page Page) (Commits, error)
	Tree(ctx context.Context, p Place, page Page) (Listing, error)
	File(ctx context.Context, p Place) (File, error)
}

// Deps of a Browser.
type Deps struct {
	Source  func(name string) (Source, bool)
	Mirrors *mirror.Mirrors
	// Owned tells whether this replica fetches the source: then its own heads are the newest.
	Owned  func(uid string) bool
	Others Others
}

// Others are the replicas that may know more.
type Others interface {
	// Owner of a source; false: there is none, or it can't be reached.
	Owner(ctx context.Context, uid string) (Peer, bool)
	// All of them.
	All() []Peer
}

// Browser shows sources. Safe for many goroutines.
type Browser struct{ deps Deps }

// New makes a browser.
func New(deps Deps) *Browser { return &Browser{deps} }

// Commits is a page of the history of a revision, newest first, first parents only. With forwarded set
// another replica asks, and nobody else is asked in turn.
func (b *Browser) Commits(ctx context.Context, p Place, page Page, forwarded bool) (Commits, error) {
	return show(ctx, b, p, forwarded,
		func(ctx context.Context, v view) (Commits, error) { return v.commits(ctx, page) },
		func(ctx context.Context, r Peer, p Place) (Commits, error) { return r.Commits(ctx, p, page) })
}

// Commit is the commit that a revision stands for, as far as this replica knows.
func (b *Browser) Commit(ctx context.Context, source, revision string) (mirror.Commit, error) {
	return show(ctx, b, Place{Source: source, Revision: revision}, true,
		func(_ context.Context, v view) (mirror.Commit, error) { return v.commit, nil }, nil)
}

// Tree is a page of a folder.
func (b *Browser) Tree(ctx context.Context, p Place, page Page, forwarded bool) (Listing, error) {
	return show(ctx, b, p, forwarded,
		func(ctx context.Context, v view) (Listing, error) { return v.tree(ctx, page) },
		func(ctx context.Context, r Peer, p Place) (Listing, error) { return r.Tree(ctx, p, page) })
}

// File is a file.
func (b *Browser) File(ctx context.Context, p Place, forwarded bool) (File, error) {
	return show(ctx, b, p, forwarded,
		func(_ context.Context, v view) (File, error) { return v.file() },
		func(ctx context.Context, r Peer, p Place) (File, error) { return r.File(ctx, p) })
}

// errElsewhere: this replica does not have the commit, or not all of it.
var errElsewhere = errors.New("the mirror does not have it")

// show answers from here or, where here is not enough, from the first other replica that can.
func show[T any](ctx context.Context, b *Browser, p Place, forwarded bool,
	here func(context.Context, view) (T, error), there func(context.Context, Peer, Place) (T, error),
) (T, error) {
	var none T
	s, ok := b.deps.Source(p.Source)
	if !ok {
		return none, refusal.New(refusal.NotFound, "source %q is not in the catalog. Apply it, or correct the name", p.Source)
	}
	if err := checkPath(p.Path); err != nil {
		return none, err
	}
	out, err := local(ctx, b, s, p, here)
	if err == nil || ctx.Err() != nil || forwarded || b.deps.Owned(s.UID) || !mayBeElsewhere(err) {
		return out, said(p, s, err)
	}
	if owner, ok := b.deps.Others.Owner(ctx, s.UID); ok {
		if out, err := there(ctx, owner, p); err == nil || !mayBeElsewhere(err) || ctx.Err() != nil {
			return out, err
		}
	}
	for _, r := range b.deps.Others.All() {
		if out, err := there(ctx, r, p); err == nil || ctx.Err() != nil {
			return out, err
		}
	}
	return none, said(p, s, err)
}

// mayBeElsewhere tells errors that are about this replica from those that are about the content.
func mayBeElsewhere(err error) bool {
	known, ok := errors.AsType[*refusal.Error](err)
	return !ok || known.Reason == refusal.Unavailable || IsNoRevision(err)
}

// said is an error in words for people.
func said(p Place, s Source, err error) error {
	if !errors.Is(err, errElsewhere) {
		return err
	}
	why := "It is on its way, or its owner can't be reached: try again"
	if s.Problem != "" {
		why = s.Problem
	}
	return refusal.New(refusal.Unavailable, "revision %q of source %q is not here. %s", shown(p.Revision), p.Source, why)
}

// local answers from this replica's mirror.
func local[T any](ctx context.Context, b *Browser, s Source, p Place, here func(context.Context, view) (T, error)) (T, error) {
	var none T
	m, err := b.deps.Mirrors.Mirror(s.UID)
	if err != nil {
		return none, err
	}
	o := m.Objects()
	defer o.Close()
	id, err := b.resolve(ctx, o, s, m, p)
	if err != nil {
		return none, err
	}
	commit, err := o.Commit(id)
	if errors.Is(err, mirror.ErrKind) {
		return none, refusal.New(refusal.NotFound,
			"source %q: revision %q is the id of a tag, file or folder. Name a commit, or the tag by its name",
			p.Source, shown(p.Revision))
	}
	if err == nil {
		var out T
		if out, err = here(ctx, view{o: o, place: p, commit: commit, submodules: s.Submodules}); err == nil {
			return out, nil
		}
	}
	switch {
	case errors.Is(err, mirror.ErrMissing):
		return none, errElsewhere // a copy that is not whole yet
	case errors.Is(err, mirror.ErrCorrupt):
		m.Doubt(err)
		return none, errElsewhere
	}
	return none, err
}
