package build

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"github.com/go-git/go-git/v5/plumbing"

	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/tree"
)

// Place is a folder at a commit of a source.
type Place struct {
	Source string // uid
	Commit plumbing.Hash
	Path   string // "" is the whole repository
	Filter string // filter.Rules.Canonical
	// Submodules belong to the content.
	Submodules bool
}

// content is what makes up a source_id.
type content struct {
	source     string // uid
	tree       plumbing.Hash
	filter     string
	submodules bool
}

type found struct {
	commit mirror.Commit
	tree   plumbing.Hash
}

// content finds what a place holds, and its source_id.
func (b *Builder) content(p Place) (found, key, error) {
	f, err := b.find(p)
	if err != nil {
		return f, key{}, err
	}
	return f, f.content(p).id(), nil
}

func (f found) content(p Place) content {
	return content{source: p.Source, tree: f.tree, filter: p.Filter, submodules: p.Submodules}
}

// id is the source_id: the identity of a content before it is built.
func (c content) id() (id key) {
	parts := []string{format, c.source, "sha1", c.tree.String(), c.filter}
	if c.submodules {
		parts = append(parts, "submodules")
	}
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

// find looks up the tree of a place.
func (b *Builder) find(p Place) (found, error) {
	f, ok := b.places.get(p)
	if ok {
		return f, nil
	}
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
		return found{}, b.judge(p.Source, p.Commit, err)
	}
	if f.tree, err = tree.Find(objects, f.commit.Tree, p.Path, p.Submodules); err != nil {
		return found{}, b.judge(p.Source, p.Commit, err)
	}
	b.places.put(p, f)
	return f, nil
}
