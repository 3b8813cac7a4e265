// Package tree turns a folder of a commit into an artifact, straight from Git's tree objects: there is
// no work tree in the hub. Objects come hashed from the mirror; what an artifact must not hold at all
// (names, links, sizes) is platform/artifact's to refuse, what only Git can hold is refused here. Only
// what the filter lets through counts: what is left out may be anything.
package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
)

var (
	// ErrNotFound: the folder is not in the commit, or is not a folder. Is fs.ErrNotExist.
	ErrNotFound = fmt.Errorf("folder %w", fs.ErrNotExist)
	// ErrNoSubmodule: the commit that a submodule names is not in the mirror.
	ErrNoSubmodule = errors.New("submodule is not fetched")
	// errDamaged is for trees that hash right but that no Git would have written.
	errDamaged = errors.New("the tree object is malformed")
)

// Reader gives objects that hash to their names, of at most most bytes. mirror.Objects is one; its
// errors are known here.
type Reader interface {
	Read(kind git.Kind, id git.Hash, most int64) ([]byte, error)
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
	id   git.Hash
}

// Find returns the tree of a folder, through submodules if they are wanted. The empty path is the root
// itself.
func Find(r Reader, root git.Hash, path string, submodules bool) (git.Hash, error) {
	id := root
	if path == "" {
		return id, nil
	}
	walked := ""
	for name := range strings.SplitSeq(path, "/") {
		entries, err := readTree(r, id)
		if errors.Is(err, errDamaged) {
			return git.Hash{}, refusalError("folder %q: %v", walked, err)
		}
		if err != nil {
			return git.Hash{}, fmt.Errorf("read folder %q: %w", walked, err)
		}
		walked = joinPath(walked, name)
		i := slices.IndexFunc(entries, func(e entry) bool { return e.path == name })
		if i < 0 {
			return git.Hash{}, fmt.Errorf("%w: %q", ErrNotFound, walked)
		}
		switch entries[i].mode {
		case modeFolder:
			id = entries[i].id
		case modeSubmodule:
			if !submodules {
				return git.Hash{}, refusalError("%q is a submodule, which is not fetched. %s", walked, askForSubmodules)
			}
			if id, err = submoduleTree(r, walked, entries[i].id); err != nil {
				return git.Hash{}, err
			}
		default:
			return git.Hash{}, fmt.Errorf("%w: %q is a file", ErrNotFound, walked)
		}
	}
	return id, nil
}

const askForSubmodules = "Set submodules: true in the source's git, or name the submodule's repository as a source of its own"

// maxCommitBytes of the commit that a submodule names.
const maxCommitBytes = 4 << 20

// submoduleTree is the tree of the commit that a submodule names.
func submoduleTree(r Reader, path string, commit git.Hash) (git.Hash, error) {
	b, err := r.Read(git.Commit, commit, maxCommitBytes)
	switch {
	case errors.Is(err, mirror.ErrMissing):
		// The mirror is not damaged: the fetch of the submodule brings the commit.
		return git.Hash{}, fmt.Errorf("%w: %q at commit %s", ErrNoSubmodule, path, commit)
	case errors.Is(err, mirror.ErrTooLarge):
		return git.Hash{}, refusalError("submodule %q is at a commit of more than %d MiB", path, maxCommitBytes>>20)
	case errors.Is(err, mirror.ErrKind):
		return git.Hash{}, refusalError("submodule %q is at %s, which is no commit", path, commit)
	case err != nil:
		return git.Hash{}, fmt.Errorf("read submodule %q: %w", path, err)
	}
	if mirror.IsCombination(b) { // it has files of other sources
		return git.Hash{}, refusalError("submodule %q is at commit %s, which was made of several sources. Name a commit of its repository", path, commit)
	}
	line, _, _ := bytes.Cut(b, []byte{'\n'})
	text, ok := bytes.CutPrefix(line, []byte("tree "))
	id, isHash := git.ParseHash(string(text))
	if !ok || !isHash {
		return git.Hash{}, refusalError("submodule %q is at a malformed commit, %s", path, commit)
	}
	return id, nil
}

func readTree(r Reader, id git.Hash) ([]entry, error) {
	b, err := r.Read(git.Tree, id, maxTreeBytes)
	if errors.Is(err, mirror.ErrTooLarge) {
		return nil, refusalError("it is a folder of more than %d MiB of names", maxTreeBytes>>20)
	}
	if errors.Is(err, mirror.ErrKind) {
		return nil, fmt.Errorf("%w: it is no tree object at all", errDamaged)
	}
	if err != nil {
		return nil, err
	}
	return parseTree(b)
}

// parseTree reads a tree object: "<mode> <name>\0<20 bytes>", again and again.
func parseTree(b []byte) ([]entry, error) {
	var entries []entry
	seen := map[string]bool{}
	for len(b) > 0 {
		mode, rest, ok := bytes.Cut(b, []byte{' '})
		name, rest, ok2 := bytes.Cut(rest, []byte{0})
		if !ok || !ok2 || len(rest) < git.HashBytes || !isMode(mode) {
			return nil, errDamaged
		}
		e := entry{mode: string(mode), path: string(name), id: git.Hash(rest[:git.HashBytes])}
		// These names would make the path of one file that of another, before anybody can judge it.
		if e.path == "" || e.path == "." || e.path == ".." || strings.Contains(e.path, "/") {
			return nil, fmt.Errorf("%w: it holds the name %q", errDamaged, e.path)
		}
		if seen[e.path] {
			return nil, fmt.Errorf("%w: it holds %q twice", errDamaged, e.path)
		}
		seen[e.path] = true
		entries = append(entries, e)
		b = rest[git.HashBytes:]
	}
	return entries, nil
}

func isMode(mode []byte) bool {
	return len(mode) > 0 && len(mode) <= 6 && len(bytes.Trim(mode, "01234567")) == 0
}

func joinPath(folder, name string) string {
	if folder == "" {
		return name
	}
	return folder + "/" + name
}

func refusalError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", artifact.ErrRefused, fmt.Sprintf(format, args...))
}
