package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/pathrules"
	"fairlead.dev/platform/remotebase"
	"fairlead.dev/services/gitcache/internal/depend"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
)

// Options say what of a folder belongs to its content.
type Options struct {
	Limits     artifact.Limits
	Rules      pathrules.Rules
	Submodules bool // are followed, else refused
	// Charts gives the tree of a chart that charts of the folder depend on; false: it is not here. nil: these are left
	// out.
	Charts func(depend.Chart) (git.Hash, bool)
	// Bases gives the tree of the repository of a base at its revision, which kustomizations of the folder refer to;
	// false: it is not here. nil: these are left out.
	Bases func(remotebase.Base) (git.Hash, bool)
}

// Pack writes a folder's files to w. Errors that are the content's own fault are artifact.ErrRefused.
func Pack(ctx context.Context, r Reader, folder git.Hash, o Options, w *artifact.Writer) error {
	files, err := listFiles(ctx, r, folder, o)
	if err != nil {
		return err
	}
	return packAll(ctx, r, files, o, w)
}

func packAll(ctx context.Context, r Reader, files []entry, o Options, w *artifact.Writer) error {
	for _, f := range files {
		if ctx.Err() != nil {
			return fmt.Errorf("at %q: %w", f.path, context.Cause(ctx))
		}
		if err := packFile(r, f, o.Limits, w); err != nil {
			return err
		}
	}
	return nil
}

func packFile(r Reader, f entry, l artifact.Limits, w *artifact.Writer) error {
	content, err := readBlob(r, f.id, f.path, l.FileBytes)
	if err != nil {
		return err
	}
	if f.mode == modeLink {
		return w.Symlink(f.path, string(content))
	}
	if isLFSPointer(content) {
		return refusalError("%q is kept in Git LFS, which Fairlead does not fetch. Commit the file itself, or leave it out by an ignore rule", f.path)
	}
	return w.File(f.path, f.mode == modeExecutable, int64(len(content)), bytes.NewReader(content))
}

func readBlob(r Reader, id git.Hash, path string, most int64) ([]byte, error) {
	if id == emptyBlob {
		return nil, nil
	}
	content, err := r.Read(git.Blob, id, most)
	if errors.Is(err, mirror.ErrTooLarge) {
		return nil, refusalError("%q is larger than the limit of %s for one file", path, formatSize(most))
	}
	if errors.Is(err, mirror.ErrKind) {
		return nil, refusalError("%q is an object that is no file", path)
	}
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	return content, nil
}

func formatSize(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

const (
	lfsBegin    = "version https://git-lfs.github.com/spec/"
	lfsMaxBytes = 1024 // by its specification
)

func isLFSPointer(content []byte) bool {
	return len(content) < lfsMaxBytes && bytes.HasPrefix(content, []byte(lfsBegin))
}
