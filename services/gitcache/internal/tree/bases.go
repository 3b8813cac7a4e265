package tree

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/remotebase"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/kustomization"
)

const (
	// MaxBases of other repositories are followed for one folder, one by way of the other at most MaxBaseChain.
	MaxBases     = 50
	MaxBaseChain = 8
)

// ErrNoBase: the repository of a base that a kustomization of the folder refers to is not here. The text after it says
// which, and where.
var ErrNoBase = errors.New("base is not fetched")

// WantedBase is a base of another repository that a kustomization refers to, and where that is written.
type WantedBase struct {
	remotebase.Base

	File string
	Line int
	// Within is the base whose repository has the file; the zero value: it is in the source's own.
	Within remotebase.Base
	// Problem is why it can't be had, whatever is fetched; empty: it can.
	Problem string
}

// Where is the place at which a base is written.
func (w WantedBase) Where() string {
	where := fmt.Sprintf("%s line %d", artifact.Printable(w.File), w.Line)
	if w.Within.Repository != "" {
		where += fmt.Sprintf(" of %s at %s", w.Within.Repository, w.Within.Revision)
	}
	return where
}

// shared is what the walkers of one look have in common: that of the folder, and those of the bases that it leads to.
type shared struct {
	// yaml, kustomizations and references were read.
	yaml, kustomizations, references int
	// bases were walked; wanted are those that were found, in order. parts are at their places in the artifact.
	bases  map[remotebase.Base]bool
	wanted []WantedBase
	parts  map[string]Part
}

func newShared() *shared {
	return &shared{bases: map[remotebase.Base]bool{}, parts: map[string]Part{}}
}

// Bases are the bases of other repositories that the kustomization of a folder refers to, and those that these refer to
// as far as Options.Bases has them. folder may be reached by links.
func Bases(ctx context.Context, r Reader, root git.Hash, folder string, o Options) ([]WantedBase, error) {
	base := "."
	if folder != "" {
		to, err := Resolve(ctx, r, root, folder, o.Submodules)
		if err != nil && leadsNowhere(err) {
			return nil, nil // which the service hears when it asks for the folder
		}
		if err != nil {
			return nil, err
		}
		base = to
	}
	w := newWalker(ctx, r, root, base, o)
	files, err := w.listFolder(base, o)
	if errors.Is(err, artifact.ErrRefused) || err != nil && leadsNowhere(err) {
		return nil, nil // as above
	}
	if err != nil {
		return nil, err
	}
	err = w.followKustomization(files)
	return w.shared.wanted, err
}

// followBase carries what a reference to another repository leads to.
func (w *walker) followBase(v visit, ref kustomization.Reference) error {
	w.out = true // the same folder means something else where the repository is here
	if w.options.Bases == nil {
		return nil // for which the agent has the words
	}
	wanted := WantedBase{File: v.file, Line: ref.Line, Within: w.currentBase()}
	base, _, err := remotebase.Parse(ref.Remote)
	switch wanted.Base = base; {
	case err != nil:
		return w.noteWanted(wanted, "the base "+err.Error())
	case w.shared.bases[base]:
		return w.checkRepeated(wanted)
	case len(w.shared.bases) == MaxBases:
		return w.noteWanted(wanted, fmt.Sprintf("base %s: it is one more than the limit of %d for a folder. Copy some of them into the repository", base, MaxBases))
	case len(w.line) == MaxBaseChain:
		return w.noteWanted(wanted, fmt.Sprintf("base %s: bases lead to each other through more than the limit of %d repositories", base, MaxBaseChain))
	}
	w.shared.bases[base] = true
	if len(w.line) == 0 { // other repositories are below the folder for bases
		if _, taken, err := w.lookUp(remotebase.FolderName); err != nil || taken {
			if err != nil {
				return err
			}
			return w.noteWanted(wanted, fmt.Sprintf("base %s: its place %q is that of a folder in the repository. Rename that folder", base, remotebase.FolderName))
		}
	}
	root, ok := w.options.Bases(base)
	if !ok {
		w.shared.wanted = append(w.shared.wanted, wanted)
		w.noteLacking(fmt.Errorf("%w: %s: base %s", ErrNoBase, wanted.Where(), base))
		return nil
	}
	return w.enterBase(wanted, root)
}

// currentBase is the base whose repository is walked.
func (w *walker) currentBase() remotebase.Base {
	if len(w.line) == 0 {
		return remotebase.Base{}
	}
	return w.line[len(w.line)-1]
}

// noteWanted notes a base that can't be had.
func (w *walker) noteWanted(wanted WantedBase, problem string) error {
	wanted.Problem = problem
	w.shared.wanted = append(w.shared.wanted, wanted)
	w.noteLacking(refusalError("%s: %s", wanted.Where(), problem))
	return nil
}

// checkRepeated looks at a base that was walked before: it may be one that leads here.
func (w *walker) checkRepeated(wanted WantedBase) error {
	if i := slices.Index(w.line, wanted.Base); i >= 0 {
		return w.noteWanted(wanted, fmt.Sprintf("base %s: bases refer to each other without an end", wanted.Base))
	}
	w.shared.wanted = append(w.shared.wanted, wanted)
	return nil
}

// outside is the folder of a walker that carries all that it finds. No entry of a tree has this name.
const outside = "\x00"

// enterBase carries what the kustomization of a base leads to. It can refer to all of its repository, and to nothing
// else but further bases.
func (w *walker) enterBase(wanted WantedBase, root git.Hash) error {
	o := w.options
	o.Submodules = false // they are not fetched
	in := newWalker(w.ctx, w.r, root, outside, o)
	in.line, in.shared = append(slices.Clip(w.line), wanted.Base), w.shared
	folder, problem, err := in.findBase(wanted.Base)
	switch {
	case err != nil:
		return err
	case problem != "":
		return w.noteWanted(wanted, fmt.Sprintf("base %s: %s", wanted.Base, problem))
	}
	w.shared.wanted = append(w.shared.wanted, wanted)
	if err := in.walkKustomization(visit{folder: folder}); err != nil {
		return err
	}
	in.addPassed()
	for p, part := range in.parts {
		part.Path = path.Join(wanted.Folder(), p)
		w.shared.parts[part.Path] = part
	}
	if in.lacking != nil {
		w.noteLacking(in.lacking)
	}
	if in.problem != nil { // the agent does not see the repository
		w.noteLacking(refusalError("%s: base %s: %s", wanted.Where(), wanted.Base, strings.TrimPrefix(in.problem.Error(), artifact.ErrRefused.Error()+": ")))
	}
	return w.checkBound(wanted.Folder())
}

// findBase finds the folder of a base in its repository, and says what is wrong with it.
func (w *walker) findBase(base remotebase.Base) (folder, problem string, err error) {
	folder = "."
	if base.Path != "" {
		to, err := w.findPath(base.Path)
		switch {
		case err != nil && leadsNowhere(err):
			return "", "the repository has no such folder at that revision", nil
		case err != nil:
			return "", "", err
		case !to.isFolder():
			return "", "it is a file, and has to be a folder with a kustomization.yaml", nil
		}
		w.carryTo(to)
		folder = to.path
	}
	for _, name := range kustomization.Names() {
		to, err := w.findPath(path.Join(folder, name))
		if err != nil && !leadsNowhere(err) {
			return "", "", err
		}
		if err == nil && !to.isFolder() {
			return folder, "", nil
		}
	}
	return "", "its folder has no kustomization.yaml at that revision", nil
}

// noteEscape notes a reference of a base that leads out of its repository: at the agent that would be the repository of
// the service.
func (w *walker) noteEscape(v visit, ref kustomization.Reference) {
	if len(w.line) > 0 {
		at := WantedBase{File: v.file, Line: ref.Line, Within: w.currentBase()}
		w.noteLacking(refusalError("%s: %q leads out of that repository", at.Where(), ref.Path))
	}
}
