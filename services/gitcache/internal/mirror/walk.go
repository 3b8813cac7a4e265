package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
)

// walker visits what heads reach.
type walker struct {
	objects *Objects
	packs   *openPacks
	seen    [][]byte // a bit per object of each pack
	next    []visit
}

type visit struct {
	id   plumbing.Hash
	kind plumbing.ObjectType // AnyObject: not known
}

func (w *walker) addObject(id plumbing.Hash, kind plumbing.ObjectType) {
	if !id.IsZero() {
		w.next = append(w.next, visit{id, kind})
	}
}

func (w *walker) walkAll(ctx context.Context) error {
	for len(w.next) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		v := w.next[len(w.next)-1]
		w.next = w.next[:len(w.next)-1]
		if err := w.visitObject(v); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) visitObject(v visit) error {
	first, err := w.markVisited(v.id)
	if err != nil || !first {
		return err
	}
	if v.kind == plumbing.AnyObject {
		if v.kind, err = w.objects.Kind(v.id); err != nil {
			return err
		}
	}
	if v.kind == plumbing.BlobObject {
		return nil // that it is there is enough: its pack's sum is right
	}
	b, err := w.objects.Read(v.kind, v.id, maxWalkBytes)
	if errors.Is(err, ErrKind) || errors.Is(err, ErrTooLarge) {
		return nil // as it came from upstream
	}
	if err != nil {
		return err
	}
	switch v.kind {
	case plumbing.TreeObject:
		w.addTree(b)
	case plumbing.CommitObject, plumbing.TagObject:
		w.addHeaders(b)
	}
	return nil
}

// maxWalkBytes of one commit or tree: above what anybody reads of one.
const maxWalkBytes = 64 << 20

// markVisited notes a visit; first is false if there was one before.
func (w *walker) markVisited(id plumbing.Hash) (first bool, err error) {
	for i, f := range w.packs.files {
		n, found, err := f.Index().Number(id)
		if err != nil {
			return false, readError(id, err)
		}
		if !found {
			continue
		}
		bits, bit := &w.seen[i][n/8], byte(1)<<(n%8)
		first, *bits = *bits&bit == 0, *bits|bit
		return first, nil
	}
	return false, fmt.Errorf("%w: %s", ErrMissing, id)
}

// addTree adds the entries: "<mode> <name>\0<20 bytes>" each. A malformed entry came so from upstream.
func (w *walker) addTree(b []byte) {
	for len(b) > 0 {
		head, rest, ok := bytes.Cut(b, []byte{0})
		if !ok || len(rest) < len(plumbing.ZeroHash) {
			return
		}
		id := plumbing.Hash(rest[:20])
		switch {
		case bytes.HasPrefix(head, []byte("40000 ")):
			w.addObject(id, plumbing.TreeObject)
		case !bytes.HasPrefix(head, []byte("160000 ")):
			w.addObject(id, plumbing.BlobObject)
		}
		b = rest[20:]
	}
}

// addHeaders adds what a commit or a tag names: its tree, all its parents, its object.
func (w *walker) addHeaders(b []byte) {
	head, _, _ := bytes.Cut(b, []byte("\n\n"))
	for line := range bytes.Lines(head) {
		key, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte{' '})
		id, err := parseID(string(value))
		if err != nil {
			continue
		}
		switch string(key) {
		case "tree":
			w.addObject(id, plumbing.TreeObject)
		case "parent":
			w.addObject(id, plumbing.CommitObject)
		case "object":
			w.addObject(id, plumbing.AnyObject)
		}
	}
}
