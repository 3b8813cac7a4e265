// Package tree turns a folder of a commit into an artifact, straight from Git's tree objects: there is
// no work tree in the hub. Objects come hashed from the mirror; what an artifact must not hold at all
// (names, links, sizes) is platform/artifact's to refuse, what only Git can hold is refused here.
package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/gitcache/internal/mirror"
)

var (
	// ErrNotFound: the folder is not in the commit, or is not a folder. Is fs.ErrNotExist.
	ErrNotFound = fmt.Errorf("folder %w", fs.ErrNotExist)
	// errDamaged is for trees that hash right but that no Git would have written.
	errDamaged = errors.New("the tree object is malformed")
)

// Reader gives objects that hash to their names, of at most most bytes. mirror.Objects is one; its
// errors are known here.
type Reader interface {
	Read(kind plumbing.ObjectType, id plumbing.Hash, most int64) ([]byte, error)
}

// maxTreeBytes of one tree object: about 10^5 entries in one folder.
const maxTreeBytes = 8 << 20

// Modes of tree entries, as Git writes them.
const (
	modeFolder     = "40000"
	modeFile       = "100644"
	modeGroupFile  = "100664" // by old versions of Git; the same as a file
	modeExecutable = "100755"
	modeLink       = "120000"
	modeSubmodule  = "160000"
)

// entry is a line of a tree, or with a whole path, a file of a folder.
type entry struct {
	mode string
	path string
	id   plumbing.Hash
}

// Find returns the tree of a folder. The empty path is the root itself.
func Find(r Reader, root plumbing.Hash, path string) (plumbing.Hash, error) {
	id := root
	if path == "" {
		return id, nil
	}
	walked := ""
	for name := range strings.SplitSeq(path, "/") {
		entries, err := read(r, id)
		if err != nil {
			return plumbing.ZeroHash, fmt.Errorf("read folder %q: %w", walked, err)
		}
		walked = join(walked, name)
		i := slices.IndexFunc(entries, func(e entry) bool { return e.path == name })
		if i < 0 {
			return plumbing.ZeroHash, fmt.Errorf("%w: %q", ErrNotFound, walked)
		}
		switch entries[i].mode {
		case modeFolder:
			id = entries[i].id
		case modeSubmodule:
			return plumbing.ZeroHash, refuse("%q is a submodule, which is not fetched. Name the submodule's repository as a source of its own", walked)
		default:
			return plumbing.ZeroHash, fmt.Errorf("%w: %q is a file", ErrNotFound, walked)
		}
	}
	return id, nil
}

// Pack writes a folder's files to w. Errors that are the content's own fault are artifact.ErrRefused.
func Pack(ctx context.Context, r Reader, folder plumbing.Hash, l artifact.Limits, w *artifact.Writer) error {
	files, err := list(ctx, r, folder, l)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := pack(r, f, l, w); err != nil {
			return err
		}
	}
	return nil
}

func pack(r Reader, f entry, l artifact.Limits, w *artifact.Writer) error {
	content, err := r.Read(plumbing.BlobObject, f.id, l.FileBytes)
	if errors.Is(err, mirror.ErrTooLarge) {
		return refuse("%q is larger than the limit of %d MiB for one file", f.path, l.FileBytes>>20)
	}
	if err != nil {
		return fmt.Errorf("read %q: %w", f.path, err)
	}
	if f.mode == modeLink {
		return w.Symlink(f.path, string(content))
	}
	if isLFSPointer(content) {
		return refuse("%q is kept in Git LFS, which Fairlead does not fetch. Commit the file itself, or move it out of the folder", f.path)
	}
	return w.File(f.path, f.mode == modeExecutable, int64(len(content)), bytes.NewReader(content))
}

const (
	lfsBegin    = "version https://git-lfs.github.com/spec/"
	lfsMaxBytes = 1024 // by its specification
)

func isLFSPointer(content []byte) bool {
	return len(content) < lfsMaxBytes && bytes.HasPrefix(content, []byte(lfsBegin))
}

// list returns all files below a folder in the order of an artifact: by the bytes of whole paths.
// (Git sorts a folder as if its name ended with a slash.)
func list(ctx context.Context, r Reader, folder plumbing.Hash, l artifact.Limits) ([]entry, error) {
	lister := &lister{r: r, limits: l}
	if err := lister.walk(ctx, "", folder, 0); err != nil {
		return nil, err
	}
	slices.SortFunc(lister.files, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return lister.files, nil
}

type lister struct {
	r       Reader
	limits  artifact.Limits
	files   []entry
	folders int
}

// walk is bounded on the way, not afterwards: few objects can make a tree of 10^9 paths.
func (s *lister) walk(ctx context.Context, path string, id plumbing.Hash, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if depth > s.limits.Depth {
		return refuse("%q is deeper than the limit of %d folders", path, s.limits.Depth)
	}
	if s.folders++; s.folders > s.limits.Files {
		return refuse("%q is one folder more than the limit of %d", path, s.limits.Files)
	}
	entries, err := read(s.r, id)
	if errors.Is(err, errDamaged) {
		return refuse("folder %q: %v", path, err)
	}
	if err != nil {
		return fmt.Errorf("read folder %q: %w", path, err)
	}
	for _, e := range entries {
		e.path = join(path, e.path)
		if err := s.add(ctx, e, depth); err != nil {
			return err
		}
	}
	return nil
}

func (s *lister) add(ctx context.Context, e entry, depth int) error {
	switch e.mode {
	case modeFolder:
		return s.walk(ctx, e.path, e.id, depth+1)
	case modeSubmodule:
		return refuse("%q is a submodule, which is not fetched. Name the submodule's repository as a source of its own, or move it out of the folder", e.path)
	case modeFile, modeGroupFile, modeExecutable, modeLink:
	default:
		return refuse("%q has the unknown mode %s", e.path, e.mode)
	}
	if len(e.path) > s.limits.PathBytes {
		return refuse("path %.80q... is longer than the limit of %d bytes", e.path, s.limits.PathBytes)
	}
	if len(s.files) >= s.limits.Files {
		return refuse("%q is one file more than the limit of %d", e.path, s.limits.Files)
	}
	s.files = append(s.files, e)
	return nil
}

func read(r Reader, id plumbing.Hash) ([]entry, error) {
	b, err := r.Read(plumbing.TreeObject, id, maxTreeBytes)
	if errors.Is(err, mirror.ErrTooLarge) {
		return nil, refuse("it is a folder of more than %d MiB of names", maxTreeBytes>>20)
	}
	if err != nil {
		return nil, err
	}
	return parse(b)
}

// parse reads a tree object: "<mode> <name>\0<20 bytes>", again and again.
func parse(b []byte) ([]entry, error) {
	var entries []entry
	seen := map[string]bool{}
	for len(b) > 0 {
		mode, rest, ok := bytes.Cut(b, []byte{' '})
		name, rest, ok2 := bytes.Cut(rest, []byte{0})
		if !ok || !ok2 || len(rest) < len(plumbing.ZeroHash) || !isMode(mode) {
			return nil, errDamaged
		}
		e := entry{mode: string(mode), path: string(name), id: plumbing.Hash(rest[:20])}
		// These would make the path of one file that of another, before anybody can judge it.
		if e.path == "" || e.path == "." || e.path == ".." || strings.Contains(e.path, "/") {
			return nil, fmt.Errorf("%w: it holds the name %q", errDamaged, e.path)
		}
		if seen[e.path] {
			return nil, fmt.Errorf("%w: it holds %q twice", errDamaged, e.path)
		}
		seen[e.path] = true
		entries = append(entries, e)
		b = rest[20:]
	}
	return entries, nil
}

func isMode(mode []byte) bool {
	return len(mode) > 0 && len(mode) <= 6 && len(bytes.Trim(mode, "01234567")) == 0
}

func join(folder, name string) string {
	if folder == "" {
		return name
	}
	return folder + "/" + name
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", artifact.ErrRefused, fmt.Sprintf(format, args...))
}
