package pack

import (
	"crypto"
	"hash"
	"io"
	"strconv"
	"sync"

	githash "github.com/go-git/go-git/v5/plumbing/hash"

	"fairlead.dev/services/gitcache/internal/git"
)

// namer computes the names of objects, one after the other. A namer knows a forged SHA-1 when it sees one.
type namer struct{ hash.Hash }

//nolint:gochecknoglobals // one is a KiB, and needed for every object that is read
var namers = sync.Pool{New: func() any { n := newNamer(); return &n }}

// Name is the name of an object.
func Name(kind git.Kind, content []byte) git.Hash {
	n, _ := namers.Get().(*namer)
	defer namers.Put(n)
	n.beginObject(kind, int64(len(content)))
	_, _ = n.Write(content) // a hash takes everything
	return n.sumName()
}

func newNamer() namer { return namer{githash.New(crypto.SHA1)} }

func (n namer) beginObject(kind git.Kind, size int64) {
	n.Reset()
	head := append([]byte(kind.String()), ' ')
	_, _ = n.Write(append(strconv.AppendInt(head, size, 10), 0)) // a hash takes everything
}

func (n namer) sumName() (id git.Hash) {
	n.Sum(id[:0])
	return id
}

// nameContent names a content that is held.
func (n namer) nameContent(c *content) (git.Hash, error) {
	n.beginObject(c.kind, c.size)
	err := c.copyTo(io.Writer(n), 0, c.size)
	return n.sumName(), err
}
