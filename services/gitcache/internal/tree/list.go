package tree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/pathrules"
	"fairlead.dev/services/gitcache/internal/git"
)

// maxNested submodules, one within the other.
const maxNested = 8

// listFiles returns the files below a folder that the filter lets through, in the order of an artifact: by
// the bytes of whole paths. (Git sorts a folder as if its name ended with a slash.)
func listFiles(ctx context.Context, r Reader, folder git.Hash, o Options) ([]entry, error) {
	l := &lister{r: r, limits: o.Limits, submodules: o.Submodules}
	rules := o.Rules.Begin()
	if err := l.walkTree(ctx, place{tree: folder, rules: rules}); err != nil {
		return nil, err
	}
	if len(l.files) == 0 {
		return nil, unrulyError(rules.Nothing())
	}
	slices.SortFunc(l.files, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return l.files, nil
}

type lister struct {
	r          Reader
	limits     artifact.Limits
	submodules bool
	files      []entry
	folders    int
}

// place is a folder on the way.
type place struct {
	path   string
	tree   git.Hash
	depth  int
	nested int // submodules above
	rules  *pathrules.Folder
}

// walkTree is bounded on the way, not afterwards: few objects can make a tree of 10^9 paths.
func (l *lister) walkTree(ctx context.Context, p place) error {
	if ctx.Err() != nil {
		return fmt.Errorf("at %q: %w", p.path, context.Cause(ctx))
	}
	if p.depth > l.limits.Depth {
		return refusalError("%q is deeper than the limit of %d folders", p.path, l.limits.Depth)
	}
	if l.folders++; l.folders > l.limits.Files {
		return refusalError("%q is one folder more than the limit of %d", p.path, l.limits.Files)
	}
	entries, err := readTree(l.r, p.tree)
	if errors.Is(err, errDamaged) {
		return refusalError("folder %q: %v", p.path, err)
	}
	if err != nil {
		return fmt.Errorf("read folder %q: %w", p.path, err)
	}
	if err := l.readRules(p, entries); err != nil {
		return err
	}
	for _, e := range entries {
		if err := l.addEntry(ctx, p, e); err != nil {
			return err
		}
	}
	return nil
}

// readRules takes what the folder itself says of its files.
func (l *lister) readRules(p place, entries []entry) error {
	i := slices.IndexFunc(entries, isRules)
	if i < 0 {
		return nil
	}
	path := joinPath(p.path, pathrules.FileName)
	if entries[i].mode == modeLink {
		return refusalError("%q is a link. Write the rules into a file of that name", path)
	}
	content, err := readBlob(l.r, entries[i].id, path, pathrules.MaxFileBytes)
	if err != nil {
		return err
	}
	return unrulyError(p.rules.Read(content))
}

// isRules tells the files of rules, which are not part of the content.
func isRules(e entry) bool {
	return e.path == pathrules.FileName && e.mode != modeFolder && e.mode != modeSubmodule
}

// unrulyError is an error of the rules as one of the content.
func unrulyError(err error) error {
	if errors.Is(err, pathrules.ErrRules) {
		return refusalError("%s", strings.TrimPrefix(err.Error(), pathrules.ErrRules.Error()+": "))
	}
	return err
}

func (l *lister) addEntry(ctx context.Context, p place, e entry) error {
	if isRules(e) {
		return nil
	}
	folder := e.mode == modeFolder || e.mode == modeSubmodule
	verdict, err := p.rules.Judge(e.path, folder)
	if err != nil {
		return unrulyError(err)
	}
	if verdict == pathrules.Out {
		return nil
	}
	if folder {
		return l.enterFolder(ctx, p, e, verdict)
	}
	return l.addFile(p, e)
}

// enterFolder goes into a folder or a submodule. A submodule that is not fetched is refused even if its files may not
// be wanted: without them a service could lose what it runs.
func (l *lister) enterFolder(ctx context.Context, p place, e entry, verdict pathrules.Verdict) error {
	below := place{path: joinPath(p.path, e.path), tree: e.id, depth: p.depth + 1, nested: p.nested}
	if e.mode == modeSubmodule {
		if !l.submodules {
			return refusalError("%q is a submodule, which is not fetched. %s, or leave it out by an ignore rule", below.path, askForSubmodules)
		}
		if below.nested++; below.nested > maxNested {
			return refusalError("%q is a submodule within more than the limit of %d others", below.path, maxNested)
		}
		var err error
		if below.tree, err = submoduleTree(l.r, below.path, e.id); err != nil {
			return err
		}
	}
	below.rules = p.rules.Enter(e.path, verdict)
	return l.walkTree(ctx, below)
}

func (l *lister) addFile(p place, e entry) error {
	e.path = joinPath(p.path, e.path)
	switch e.mode {
	case modeFile, modeGroupFile, modeExecutable, modeLink:
	default:
		return refusalError("%q has the unknown mode %s", e.path, e.mode)
	}
	if len(e.path) > l.limits.PathBytes {
		return refusalError("path %.80q... is longer than the limit of %d bytes", e.path, l.limits.PathBytes)
	}
	if len(l.files) >= l.limits.Files {
		return refusalError("%q is one file more than the limit of %d", e.path, l.limits.Files)
	}
	l.files = append(l.files, e)
	return nil
}
