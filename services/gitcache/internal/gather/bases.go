package gather

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/pathrules"
	"fairlead.dev/platform/remotebase"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/pause"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/submodule"
	"fairlead.dev/services/gitcache/internal/tree"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// maxNeededBases are fetched for the folders of services, all in all: repositories at revisions.
const maxNeededBases = 200

// A repository that a kustomization in Git has a base of is kept as a head, whose ref has its URL and the revision that
// is written. The commit that a revision stood for first stays: the same commit of the source means the same content.

// bases fetches the repositories of bases for one poll.
type bases struct {
	p      *Poll
	g      *Repositories
	found  map[string]mirror.Head // by ref
	needed map[string]bool        // refs
	failed map[string]error       // by ref
	// until bounds what one poll fetches.
	until context.Context //nolint:containedctx // of one poll
	// isUnknown: a folder could not be read, and what it needs is not in needed.
	isUnknown bool
	// isUnpublished: heads moved, and are published before anything is fetched.
	isUnpublished bool
}

// gatherBases fetches the repositories of bases that kustomizations in the folders of services refer to. As with
// charts, what can't be had is told, and the refs are published all the same.
func (p *Poll) gatherBases(ctx context.Context, to *Result) error {
	if !p.Source.HasDependencies {
		return nil
	}
	if p.IsFresh || len(p.Memory.based) > maxDepended {
		clear(p.Memory.based)
	}
	b := newBases(p)
	b.isUnpublished = p.Publish != nil
	var cancel context.CancelFunc
	b.until, cancel = context.WithTimeoutCause(ctx, dependTime, ErrTime)
	defer cancel()
	for _, ref := range slices.Sorted(maps.Keys(p.Source.Folders)) {
		id, root, err := p.pointsTo(ref)
		if id.IsZero() && err == nil { // upstream never had the ref
			continue
		}
		if err != nil { // which is told where heads are made
			b.isUnknown = true
			continue
		}
		for _, folder := range p.Source.Folders[ref] {
			wanted, err := b.fetchFolder(ctx, root, folder)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				b.isUnknown = true
				to.noteLost(ref, fmt.Sprintf("folder %q at commit %s: the bases of its kustomization can't be read: %s",
					folder.Path, id.Short(), submodule.Words(err)))
				continue
			}
			for _, w := range wanted {
				b.noteProblem(to, ref, id, w)
			}
		}
	}
	maps.Copy(to.Heads, b.found)
	if maps.Copy(b.needed, to.Needed); b.isUnknown || to.Needed == nil {
		to.Needed = nil // no head is dropped then
		return nil
	}
	to.Needed = b.needed
	return nil
}

func newBases(p *Poll) *bases {
	b := &bases{p: p, found: map[string]mirror.Head{}, needed: map[string]bool{}, failed: map[string]error{}}
	b.g = newRepositories(p.Deps, p.Remote, p.Source, "base")
	b.g.known = map[string][]git.Hash{}
	for ref, h := range p.Heads {
		text, isBase := strings.CutPrefix(ref, remotebase.RefPrefix)
		if i := strings.LastIndexByte(text, '@'); isBase && i > 0 && p.Mirror.Has(h.Commit) { // a revision with an @ costs a longer answer
			if u, err := upstream.ParseURL(text[:i]); err == nil {
				b.g.known[u.String()] = append(b.g.known[u.String()], h.Commit)
			}
		}
	}
	return b
}

// fetchFolder fetches what the kustomization of a folder needs, and gives the bases that it refers to; none: all were
// here.
func (b *bases) fetchFolder(ctx context.Context, root git.Hash, folder source.Folder) ([]tree.WantedBase, error) {
	key := wholeFolder{root, folder}
	isLacking := func(base remotebase.Base) bool {
		return b.admitBase(base) != nil || b.p.Heads[base.Ref()].Object.IsZero()
	}
	if known, ok := b.p.Memory.based[key]; ok && !slices.ContainsFunc(known, isLacking) {
		for _, base := range known {
			b.needed[base.Ref()] = true
		}
		return nil, nil
	}
	delete(b.p.Memory.based, key)
	rules, err := pathrules.ParseCanonical(folder.Rules)
	if err != nil {
		return nil, err
	}
	for range tree.MaxBaseChain { // what is in a repository is seen when it is here
		wanted, err := b.readBases(ctx, root, folder.Path, rules)
		if err != nil {
			return nil, err
		}
		isNew := false
		for _, w := range wanted {
			if w.Problem == "" && b.bringRepository(w.Base) {
				isNew = true
			}
		}
		if !isNew {
			b.rememberBases(key, wanted)
			return wanted, nil
		}
	}
	return b.readBases(ctx, root, folder.Path, rules)
}

// readBases finds the bases of a folder, as far as repositories are here.
func (b *bases) readBases(ctx context.Context, root git.Hash, folder string, rules pathrules.Rules) ([]tree.WantedBase, error) {
	o := b.p.Mirror.Objects()
	defer o.Close()
	return tree.Bases(ctx, o, root, folder, tree.Options{
		Limits: folderLimits(), Rules: rules, Submodules: b.p.Source.Submodules,
		Bases: func(base remotebase.Base) (git.Hash, bool) {
			h, ok := b.headOf(base.Ref())
			if !ok {
				return git.Hash{}, false
			}
			c, err := o.Commit(h.Commit)
			return c.Tree, err == nil
		},
	})
}

// rememberBases keeps the bases of a folder that lacks nothing, so that the next poll does not look.
func (b *bases) rememberBases(key wholeFolder, wanted []tree.WantedBase) {
	known := make([]remotebase.Base, 0, len(wanted))
	for _, w := range wanted {
		if w.Problem != "" || b.failed[w.Ref()] != nil {
			return
		}
		known = append(known, w.Base)
	}
	b.p.Memory.based[key] = known
}

// headOf is where a base is now.
func (b *bases) headOf(ref string) (mirror.Head, bool) {
	if h, ok := b.found[ref]; ok {
		return h, true
	}
	h, ok := b.p.Heads[ref]
	return h, ok
}

// noteProblem notes what is wrong with a base. The text names the file and no services: those of the ref are mostly ones
// that do not reach the file.
func (b *bases) noteProblem(to *Result, ref string, commit git.Hash, w tree.WantedBase) {
	text, err := w.Problem, b.failed[w.Ref()]
	if text == "" {
		if err == nil {
			return
		}
		text = fmt.Sprintf("base %s: %s", w.Base, err)
	}
	h, known := b.headOf(w.Ref())
	isHere := w.Problem == "" && known && b.p.Mirror.Has(h.Commit)
	text = fmt.Sprintf("%s at commit %s: %s", w.Where(), commit.Short(), text)
	to.Troubles = append(to.Troubles, source.Trouble{Ref: ref, Text: text, Cause: err, IsHere: isHere})
}

// bringRepository fetches the repository of a base, once, and keeps its errors. isNew: more can be read now.
func (b *bases) bringRepository(base remotebase.Base) (isNew bool) {
	ref := base.Ref()
	if _, tried := b.failed[ref]; tried || b.found[ref].Ref != "" {
		return false
	}
	h, known := b.p.Heads[ref]
	err := b.admitBase(base)
	if known { // what was fetched is delivered, also if it would not be fetched today
		b.needed[ref] = true
		if b.p.Mirror.Has(h.Commit) {
			if h.Object.IsZero() { // the console told of the head, and a copy brought its commit: the mirror keeps both from now on
				h.Object = h.Commit
				b.found[ref] = h
			}
			if err != nil {
				b.failed[ref] = err
			}
			return false
		}
	}
	if err == nil && b.until.Err() != nil {
		err = context.Cause(b.until)
	}
	if err == nil {
		b.needed[ref] = true
		err = b.fetchRepository(b.until, base)
	}
	if err != nil {
		b.failed[ref] = err
	}
	return err == nil
}

// admitBase says why a base is not one that folders of this source may have; nil: it is.
func (b *bases) admitBase(base remotebase.Base) error {
	if host := base.Host(); !slices.Contains(b.p.Source.Allow, host) {
		return fmt.Errorf("the source does not allow the host %s. Add it to git.allow in the source, or copy the folder into the repository", host)
	}
	if _, isHead := b.p.Heads[base.Ref()]; len(b.needed) >= maxNeededBases && !isHead && !b.needed[base.Ref()] {
		return fmt.Errorf("it is one more than the limit of %d repositories and revisions for a source. Copy some of them into the repository, or split the source", maxNeededBases)
	}
	return nil
}

// fetchRepository brings a repository into the mirror, and makes a head of the commit that its revision stands for, or
// stood for when it was fetched first.
func (b *bases) fetchRepository(ctx context.Context, base remotebase.Base) (err error) {
	u, err := upstream.ParseURL(base.Repository)
	if err != nil {
		return err
	}
	if b.isUnpublished { // most services need no bases
		b.isUnpublished = false
		if err := b.p.Publish(ctx); err != nil {
			return err
		}
	}
	ctx, span := telemetry.Child(ctx, b.p.Tracer,
		"gitcache.base", trace.WithAttributes(attribute.String("repository", u.Redacted()), attribute.String("revision", base.Revision)))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, "fetch")
		}
		span.End()
	}()
	old, known := b.p.Heads[base.Ref()]
	h := mirror.Head{Ref: base.Ref(), FetchTime: time.Now().UTC().Truncate(time.Microsecond), Traceparent: telemetry.Inject(ctx)}
	id, isHash := git.ParseHash(base.Revision)
	switch {
	case known:
		h = old
		h.Object = old.Commit
	case isHash:
		h.Object = id
	default:
		if h.Object, h.Resolved, err = b.fetchNamed(ctx, u, base.Revision); err != nil {
			return err
		}
		return b.keepHead(h)
	}
	if err := b.g.bringModule(ctx, submodule.Module{URL: u, Commit: h.Object}); err != nil {
		if known {
			return fmt.Errorf("commit %s, which the revision stood for first, can't be fetched again: %w. Write another revision", old.Commit.Short(), err)
		}
		return err
	}
	return b.keepHead(h)
}

// fetchNamed brings what a name stands for. As with `git fetch`, a tag comes before a branch.
func (b *bases) fetchNamed(ctx context.Context, u *url.URL, revision string) (object git.Hash, resolved string, err error) {
	at, this := u.String(), u.String()+" "+revision
	if b.g.lendsCredentials(u) { // a URL that was refused without credentials is tried with them at once
		at = "with credentials " + at
	}
	pauses := b.p.Pauses
	for _, key := range []string{at, this} {
		if err := pauses.Check(key); err != nil {
			return object, "", err
		}
	}
	names := refNames(revision)
	l, err := b.g.listNames(ctx, u, gitwire.Names{Refs: slices.Clone(names)})
	if err != nil {
		return object, "", b.holdOff(ctx, at, err)
	}
	pauses.Clear(at)
	i := slices.IndexFunc(names, func(name string) bool { _, ok := l.Refs[name]; return ok })
	if i < 0 {
		return object, "", b.holdOff(ctx, this, errors.New("the repository has no branch and no tag of that name. Push it there, or write a tag, a branch or a full commit id"))
	}
	object, resolved = l.Refs[names[i]], names[i]
	if err := b.p.Fetch(ctx, b.g.remoteOf(u), l, []git.Hash{object}, b.g.targetOf(u)); err != nil {
		return object, "", b.holdOff(ctx, this, b.g.explainError(u, err))
	}
	pauses.Clear(this)
	return object, resolved, nil
}

// holdOff puts off what did not work, so that the next poll begins with the others.
func (b *bases) holdOff(ctx context.Context, key string, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrTime) {
		err = cause
	} else if ctx.Err() != nil {
		return err
	}
	b.p.Pauses.Add(key, err, pause.Most)
	return err
}

// refNames are the refs that a revision may mean, the first one that there is counts.
func refNames(revision string) []string {
	switch {
	case revision == remotebase.Head, strings.HasPrefix(revision, "refs/"):
		return []string{revision}
	case strings.HasPrefix(revision, "heads/"), strings.HasPrefix(revision, "tags/"):
		return []string{"refs/" + revision, source.TagPrefix + revision, source.BranchPrefix + revision}
	}
	return []string{source.TagPrefix + revision, source.BranchPrefix + revision}
}

// keepHead makes a head of what was fetched.
func (b *bases) keepHead(h mirror.Head) error {
	o := b.p.Mirror.Objects()
	defer o.Close()
	var err error
	if h.Commit, err = o.Peel(h.Object); err != nil {
		return err
	}
	c, err := o.Commit(h.Commit)
	if err == nil && c.Combination != "" {
		err = source.ErrCombined
	}
	if err != nil {
		return err
	}
	h.CommitTime, h.Subject, h.Author = c.Time, c.Subject, c.Author
	b.found[h.Ref] = h
	return nil
}
