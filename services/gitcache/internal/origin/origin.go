// Package origin answers what the content network asks a gitcache: which artifact is a folder of a
// source at a revision. An Origin serves what this replica has, and asks the others for the rest: the owner of the
// source first.
package origin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/pathrules"
	"fairlead.dev/services/gitcache/internal/build"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/tree"
)

// atOnce bounds the queries of one batch that are worked on at once. Builds are bounded further.
const atOnce = 8

// Query names a folder of a source at a revision.
type Query struct {
	Source   string // name
	Revision string // full commit id, or canonical ref
	Path     string
	// Rules as in .gitignore: with Include only what matches, without what matches Ignore.
	Include, Ignore []string
}

// Answer is the content of a folder, or Err.
type Answer struct {
	Head     mirror.Head // the commit, with the trace of who found it if it is a head
	SourceID string
	Artifact artifact.Summary
	Err      *Error
	// Submodules tells whether they belong to the content, by the catalog of who answers.
	Submodules bool
	// Dependencies tells the same of dependencies of charts on charts of repositories.
	Dependencies bool
	// SourceUID and Epoch are what the answer stands on, by the catalog of who answers, or by its own claim of the
	// source.
	SourceUID string
	Epoch     int64
}

// Reason sorts errors.
type Reason int

// The reasons why a query has no answer.
const (
	Internal Reason = iota
	UnknownSource
	NotFetched
	PathNotFound
	Refused
)

// Error is why a query has no answer, in a person's words.
type Error struct {
	Reason  Reason
	Message string
	// elsewhere: another replica may have what is not on this one's disk, or not any more.
	elsewhere bool
}

func (e *Error) Error() string { return e.Message }

// Source is what the catalog knows of one.
type Source struct {
	UID        string
	Epoch      int64 // of who published last
	Submodules bool  // are fetched, and belong to the content
	// Dependencies of charts on charts of repositories are fetched, and belong to the content.
	Dependencies bool
	Heads        []mirror.Head // as published last
	// Problem is what is wrong with it, in words; empty: nothing.
	Problem string
}

// Catalog knows sources.
type Catalog interface {
	Source(name string) (Source, bool)
	// Published are all sources that have heads.
	Published() []Source
}

// Deps of an Origin.
type Deps struct {
	Catalog Catalog
	Mirrors *mirror.Mirrors
	Builder *build.Builder
	Peers   Peers
	// Owned tells whether this replica fetches the source: then its own heads are the newest.
	Owned func(uid string) bool
	// Epoch is this replica's own claim of a source; 0: it has none.
	Epoch func(uid string) int64
	// Repair asks for a poll of a source whose mirror is damaged.
	Repair func(uid string)
	// Keeps tells whether this replica should hold a source's content; nil: all of it.
	Keeps func(uid string) bool
}

// Origin answers queries. Safe for many goroutines.
type Origin struct {
	deps  Deps
	ready atomic.Bool // once and for all
}

// New makes an origin.
func New(deps Deps) *Origin { return &Origin{deps: deps} }

// Resolve answers a batch, in its order. With forwarded set another replica asks, and nobody else is
// asked in turn.
func (o *Origin) Resolve(ctx context.Context, queries []Query, forwarded bool) ([]Answer, error) {
	if len(queries) == 0 {
		return nil, nil
	}
	answers := make([]Answer, len(queries))
	var g errgroup.Group
	g.SetLimit(atOnce)
	last := len(queries) - 1
	for i, q := range queries[:last] {
		g.Go(func() error {
			answers[i] = o.local(ctx, q)
			return nil
		})
	}
	answers[last] = o.local(ctx, queries[last]) // here: nobody has to be woken for the only one
	_ = g.Wait()                                // no job fails
	if !forwarded && ctx.Err() == nil {
		o.askOthers(ctx, queries, answers)
	}
	return answers, ctx.Err()
}

// local answers from what this replica has.
func (o *Origin) local(ctx context.Context, q Query) Answer {
	s, ok := o.deps.Catalog.Source(q.Source)
	if !ok {
		return failed(UnknownSource, "source %q is not in the catalog. Apply it, or correct the name", q.Source)
	}
	a := o.answer(ctx, s, q)
	a.Submodules, a.Dependencies, a.SourceUID, a.Epoch = s.Submodules, s.Dependencies, s.UID, max(s.Epoch, o.deps.Epoch(s.UID))
	return a
}

func (o *Origin) answer(ctx context.Context, s Source, q Query) Answer {
	if err := checkPath(q.Path); err != nil {
		return failed(PathNotFound, "folder %q: %v", q.Path, err)
	}
	head, ok := o.head(s, q.Revision)
	if !ok {
		return o.notFetched(revisionOf(q), s)
	}
	rules, err := pathrules.Parse(q.Include, q.Ignore)
	if err != nil {
		return failed(Refused, "source %q, folder %q: %v", q.Source, q.Path, err)
	}
	built, err := o.deps.Builder.Resolve(ctx, build.Place{
		Source: s.UID, Commit: head.Commit, Path: q.Path, Filter: rules.Canonical(), Submodules: s.Submodules, Dependencies: s.Dependencies,
	})
	if err != nil {
		return o.explain(q, s, head.Commit, err)
	}
	head.CommitTime, head.Subject, head.Author = built.Commit.Time, built.Commit.Subject, built.Commit.Author
	return Answer{Head: head, SourceID: built.SourceID, Artifact: built.Artifact}
}

// head finds the commit of a revision. The owner's own heads are the newest; for all others the
// published ones are.
func (o *Origin) head(s Source, revision string) (mirror.Head, bool) {
	lookups := []func(ref string) (mirror.Head, bool){s.published}
	heads := func() []mirror.Head { return s.Heads }
	if m, err := o.deps.Mirrors.Mirror(s.UID); err == nil {
		lookups = append(lookups, m.Head)
		heads = func() []mirror.Head { return slices.AppendSeq(slices.Clone(s.Heads), maps.Values(m.Heads())) }
	}
	if o.deps.Owned(s.UID) {
		slices.Reverse(lookups)
	}
	for _, lookup := range lookups {
		if h, ok := lookup(revision); ok {
			return h, true
		}
	}
	commit, ok := git.ParseHash(revision)
	if !ok {
		return mirror.Head{}, false
	}
	for _, h := range heads() { // for the trace of who found it
		if h.Commit == commit {
			return h, true
		}
	}
	return mirror.Head{Ref: revision, Commit: commit}, true
}

// published finds a head among those that the hub knows.
func (s Source) published(ref string) (mirror.Head, bool) {
	i := slices.IndexFunc(s.Heads, func(h mirror.Head) bool { return h.Ref == ref })
	if i < 0 {
		return mirror.Head{}, false
	}
	return s.Heads[i], true
}

func (o *Origin) notFetched(what string, s Source) Answer {
	why := "It is on its way"
	if s.Problem != "" {
		why = s.Problem
	}
	return elsewhere(failed(NotFetched, "%s is not fetched. %s", what, why))
}

// elsewhere marks what another replica may be able to answer.
func elsewhere(a Answer) Answer {
	a.Err.elsewhere = true
	return a
}

func (o *Origin) explain(q Query, s Source, commit git.Hash, err error) Answer {
	at := fmt.Sprintf("source %q at %s", q.Source, commit.Short())
	switch {
	case errors.Is(err, build.ErrNotFetched):
		return o.notFetched(revisionOf(q), s)
	case errors.Is(err, tree.ErrNoSubmodule):
		return o.notFetched(fmt.Sprintf("%s: %s of folder %q", at, after(err, tree.ErrNoSubmodule), q.Path), s)
	case errors.Is(err, tree.ErrNoChart):
		return o.notFetched(fmt.Sprintf("%s, folder %q: %s", at, q.Path, after(err, tree.ErrNoChart)), s)
	case errors.Is(err, tree.ErrNoBase):
		return o.notFetched(fmt.Sprintf("%s, folder %q: %s", at, q.Path, after(err, tree.ErrNoBase)), s)
	case errors.Is(err, tree.ErrNotFound):
		return failed(PathNotFound, "%s has no folder %q. Check the service's path", at, q.Path)
	case errors.Is(err, artifact.ErrRefused):
		return failed(Refused, "%s, folder %q: %s", at, q.Path, after(err, artifact.ErrRefused))
	case errors.Is(err, build.ErrDamaged):
		o.deps.Repair(s.UID)
		return elsewhere(failed(Internal, "%s: %v. Ask again in a minute", at, build.ErrDamaged))
	default:
		return failed(Internal, "%s, folder %q: %v. Ask again later", at, q.Path, err)
	}
}

func revisionOf(q Query) string { return fmt.Sprintf("revision %q of source %q", q.Revision, q.Source) }

// after is the part of an error that is for people: what it says after the words of its kind.
func after(err, kind error) string {
	text := err.Error()
	if i := strings.LastIndex(text, kind.Error()+": "); i >= 0 {
		text = text[i+len(kind.Error())+2:]
	}
	return text
}

// checkPath refuses what can't be a folder's path, before anybody looks for it.
func checkPath(path string) error {
	if path == "" {
		return nil
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." || name == ".." {
			return errors.New("write it without leading, trailing or double slashes and without dots")
		}
	}
	return nil
}

func failed(reason Reason, format string, args ...any) Answer {
	return Answer{Err: &Error{Reason: reason, Message: fmt.Sprintf(format, args...)}}
}
