package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"fairlead.dev/services/gitcache/internal/git"
)

// walker visits what heads reach.
type walker struct {
	objects *Objects
	packs   *openPacks
	seen    [][]byte // a bit per object of each pack
	next    []visit
}

type visit struct {
	id   git.Hash
	kind git.Kind // UnknownKind: the mirror tells
}

func (w *walker) addObject(id git.Hash, kind git.Kind) {
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
	if v.kind == git.UnknownKind {
		if v.kind, err = w.objects.Kind(v.id); err != nil {
			return err
		}
	}
	if v.kind == git.Blob {
		return nil // that it is there is enough: its pack's sum is right
	}
	b, err := w.objects.Read(v.kind, v.id, maxWalkBytes)
	if errors.Is(err, ErrKind) || errors.Is(err, ErrTooLarge) {
		return nil // as it came from upstream
	}
	if err != nil {
		return err
	}
	w.addContent(v.kind, b)
	return nil
}

// addContent adds what an object names.
func (w *walker) addContent(kind git.Kind, b []byte) {
	switch kind {
	case git.Tree:
		w.addTree(b)
	case git.Commit, git.Tag:
		w.addHeaders(b)
	}
}

// maxWalkBytes of one commit or tree: above what anybody reads of one.
const maxWalkBytes = 64 << 20

// markVisited notes a visit; first is false if there was one before.
func (w *walker) markVisited(id git.Hash) (first bool, err error) {
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
		if !ok || len(rest) < git.HashBytes {
			return
		}
		id := git.Hash(rest[:git.HashBytes])
		switch {
		case bytes.HasPrefix(head, []byte("40000 ")):
			w.addObject(id, git.Tree)
		case !bytes.HasPrefix(head, []byte("160000 ")):
			w.addObject(id, git.Blob)
		}
		b = rest[git.HashBytes:]
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
			w.addObject(id, git.Tree)
		case "parent":
			w.addObject(id, git.Commit)
		case "object":
			w.addObject(id, git.UnknownKind)
		}
	}
}
