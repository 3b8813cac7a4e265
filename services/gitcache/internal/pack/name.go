package pack

import (
	"crypto"
	"hash"
	"io"
	"strconv"

	"github.com/go-git/go-git/v5/plumbing"
	githash "github.com/go-git/go-git/v5/plumbing/hash"
)

// namer computes the names of objects, one after the other. It knows a forged SHA-1 when it sees one.
type namer struct{ hash.Hash }

func newNamer() namer { return namer{githash.New(crypto.SHA1)} }

func (n namer) begin(kind plumbing.ObjectType, size int64) {
	n.Reset()
	head := append(kind.Bytes(), ' ')
	_, _ = n.Write(append(strconv.AppendInt(head, size, 10), 0)) // a hash takes everything
}

func (n namer) name() (id plumbing.Hash) {
	n.Sum(id[:0])
	return id
}

// of names a content that is held.
func (n namer) of(c *content) (plumbing.Hash, error) {
	n.begin(c.kind, c.size)
	err := c.copyTo(io.Writer(n), 0, c.size)
	return n.name(), err
}
