package build

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/pathrules"
	"fairlead.dev/platform/remotebase"
	"fairlead.dev/services/gitcache/internal/depend"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/tree"
)

const (
	// reachTime bounds how long it may take to find what a folder refers to; the bounds of tree.Reach are well below.
	reachTime = 30 * time.Second
	// reachPause is how long a look that took all of reachTime is not tried again.
	reachPause = 10 * time.Minute
)

// Place is a folder at a commit of a source.
type Place struct {
	Source string // uid
	Commit git.Hash
	Path   string // "" is the whole repository
	Filter string // pathrules.Rules.Canonical
	// Submodules belong to the content.
	Submodules bool
	// Dependencies of charts on charts of repositories, and of kustomizations on bases of other repositories, belong to
	// the content.
	Dependencies bool
}

// content is what makes up a source_id.
type content struct {
	source     string // uid
	tree       git.Hash
	filter     string
	submodules bool
	// dependencies of charts on charts of repositories, and of kustomizations on bases of other repositories, are part
	// of it. The source_id has what is carried of these itself.
	dependencies bool
	// reach is set if the folder refers to something beyond itself.
	reach reach
	// alone: it is known that it never will. This field is no part of the source_id.
	alone bool
}

// reach says where the rest of a content is. The zero value: the folder is all of it.
type reach struct {
	root   git.Hash // tree of the commit that it was found in
	folder string   // path of the folder in there
	id     key      // source_id, a hash over the folder and all parts
}

func (r reach) hasRoot() bool { return !r.root.IsZero() }

type found struct {
	commit mirror.Commit
	tree   git.Hash
	reach  reach
	alone  bool
	// refused is why there is no content, and until when that is not looked up again; zero: for good.
	refused error
	until   time.Time
}

// findContent finds what a place holds, and its source_id.
func (b *Builder) findContent(ctx context.Context, p Place) (found, key, error) {
	f, err := b.findPlace(ctx, p)
	if err != nil {
		return f, key{}, err
	}
	return f, f.contentAt(p).sourceID(), nil
}

func (f found) contentAt(p Place) content {
	return content{source: p.Source, tree: f.tree, filter: p.Filter, submodules: p.Submodules, dependencies: p.Dependencies, reach: f.reach, alone: f.alone}
}

// sourceID is the source_id: the identity of a content before it is built.
func (c content) sourceID() (id key) {
	if c.reach.hasRoot() {
		return c.reach.id
	}
	parts := []string{format, c.source, "sha1", c.tree.String(), c.filter}
	if c.submodules {
		parts = append(parts, "submodules")
	}
	return sumParts(parts)
}

// idWith is the source_id of a content with parts beyond the folder, which are at their places in the repository.
func (c content) idWith(folder string, beyond []tree.Part) key {
	parts := []string{formatWithParts, c.source, "sha1", c.tree.String(), c.filter, "", folder}
	if c.submodules {
		parts[5] = "submodules"
	}
	for _, p := range beyond {
		parts = append(parts, p.Path, p.Mode, p.ID.String())
	}
	return sumParts(parts)
}

func sumParts(parts []string) (id key) {
	h := sha256.New()
	for _, part := range parts {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	h.Sum(id[:0])
	return id
}

// findPlace looks up the tree of a place, and what it refers to. A look is for all callers that ask for the place: it
// goes on when one of them gives up, and Close ends it.
func (b *Builder) findPlace(ctx context.Context, p Place) (found, error) {
	if f, ok := b.places.getPlace(p); ok {
		return f, f.refused
	}
	done := b.lookups.DoChan(p.keyText(), func() (any, error) { //nolint:contextcheck // see above
		if !b.beginBuild() {
			return found{}, context.Canceled
		}
		defer b.running.Done()
		if f, ok := b.places.getPlace(p); ok { // another look has just ended
			return f, f.refused
		}
		leave, err := b.looks.takeTurn(b.life, p.Source)
		if err != nil {
			return found{}, err
		}
		defer leave()
		return b.lookUp(p)
	})
	select {
	case <-ctx.Done():
		return found{}, ctx.Err()
	case r := <-done:
		f, _ := r.Val.(found)
		return f, r.Err
	}
}

// keyText is a place as the key of a map.
func (p Place) keyText() string {
	return fmt.Sprintf("%s %s %t %t %q %q", p.Source, p.Commit, p.Submodules, p.Dependencies, p.Path, p.Filter)
}

// lookUp finds a place, and remembers what it found.
func (b *Builder) lookUp(p Place) (f found, err error) {
	m, err := b.deps.Mirrors.Mirror(p.Source)
	if err != nil {
		return found{}, err
	}
	objects := m.Objects()
	defer objects.Close()
	if f.commit, err = objects.Commit(p.Commit); err != nil {
		if errors.Is(err, mirror.ErrMissing) || errors.Is(err, mirror.ErrKind) { // no commit of that name
			return found{}, ErrNotFetched
		}
		return found{}, b.judgeError(p.Source, p.Commit, err)
	}
	ctx, cancel := context.WithTimeoutCause(b.life, b.lookTime, fmt.Errorf(
		"%w: to find what folder %q refers to takes longer than the limit of %s", context.DeadlineExceeded, p.Path, b.lookTime))
	defer cancel()
	if err := b.findFolder(ctx, m, objects, p, &f); err != nil {
		switch {
		case errors.Is(err, artifact.ErrRefused):
			b.places.putPlace(p, found{commit: f.commit, refused: err})
		case errors.Is(err, context.DeadlineExceeded):
			b.places.putPlace(p, found{commit: f.commit, refused: err, until: b.places.now().Add(reachPause)})
		}
		return found{}, b.judgeError(p.Source, p.Commit, err)
	}
	b.places.putPlace(p, f)
	return f, nil
}

// findFolder finds the folder of a place in its commit.
func (b *Builder) findFolder(ctx context.Context, m *mirror.Mirror, r *mirror.Objects, p Place, f *found) error {
	id, err := tree.Find(r, f.commit.Tree, p.Path, p.Submodules)
	folder := p.Path
	if errors.Is(err, tree.ErrNotFound) { // by way of links, perhaps
		to, e := tree.Resolve(ctx, r, f.commit.Tree, p.Path, p.Submodules)
		if e == nil && to != p.Path && to != "." {
			folder = to
			id, err = tree.Find(r, f.commit.Tree, folder, p.Submodules)
		}
	}
	if err != nil {
		return err
	}
	f.tree = id
	own := f.contentAt(p)
	if b.alone.hasID(own.sourceID()) || b.memo.isAlone(own.sourceID()) {
		f.alone = true
		return nil
	}
	parts, alone, err := reachOf(ctx, m, r, f.commit.Tree, folder, own)
	if err != nil {
		return err
	}
	if f.alone = alone; alone {
		b.standsAlone(own)
	}
	if len(parts) == 0 {
		return nil
	}
	f.reach = reach{root: f.commit.Tree, folder: folder, id: own.idWith(folder, parts)}
	b.memo.noteFound(f.reach)
	return nil
}

// reachOf finds what a folder refers to beyond itself.
func reachOf(ctx context.Context, m *mirror.Mirror, r *mirror.Objects, root git.Hash, folder string,
	c content,
) (parts []tree.Part, alone bool, err error) {
	rules, err := pathrules.ParseCanonical(c.filter)
	if err != nil {
		return nil, false, err
	}
	o := tree.Options{Limits: artifactLimits(), Rules: rules, Submodules: c.submodules}
	if c.dependencies {
		o.Charts = func(chart depend.Chart) (git.Hash, bool) { return treeOf(m, r, chart.Ref()) }
		o.Bases = func(base remotebase.Base) (git.Hash, bool) { return treeOf(m, r, base.Ref()) }
	}
	return tree.Reach(ctx, r, root, folder, o)
}

// treeOf finds a chart of a repository, or what has a base, among the heads of a mirror.
func treeOf(m *mirror.Mirror, r *mirror.Objects, ref string) (git.Hash, bool) {
	h, ok := m.Head(ref)
	if !ok {
		return git.Hash{}, false
	}
	c, err := r.Commit(h.Commit)
	return c.Tree, err == nil // one that can't be read is fetched anew
}

// standsAlone notes that nothing in a folder leads out of it; in the memo, too, if an earlier release or another
// replica has built it.
func (b *Builder) standsAlone(c content) {
	b.alone.putID(c.sourceID())
	if err := b.memo.noteAlone(c.sourceID()); err != nil {
		b.deps.Log.Warn("memo is not written; after a restart it is looked up again what a folder refers to", "err", err)
	}
}
