package tree

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/artifact/links"
	"fairlead.dev/platform/remotebase"
	"fairlead.dev/services/gitcache/internal/depend"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/kustomization"
	"fairlead.dev/services/gitcache/internal/pack"
)

// Bounds of what one folder may refer to beyond itself.
const (
	// maxKustomizations are read, one within the other at most maxChain, with the files of their plugins.
	maxKustomizations = 1000
	maxChain          = 64
	// maxYAML of all of them, and of one.
	maxYAML     = 8 << 20
	maxYAMLFile = 1 << 20
	// maxReferences that are looked up.
	maxReferences = 20_000
)

// passedFile is a file without content that stands for a folder which links only pass through, as in library/../shared:
// an artifact has no folders but those of its files.
const passedFile = ".fairlead-folder"

// emptyBlob is the object id of a file without content. No repository has to hold it.
var emptyBlob = pack.Name(git.Blob, nil) //nolint:gochecknoglobals // a constant

// Part is a file or link beyond a folder that the folder refers to.
type Part struct {
	Path string // in the repository
	Mode string
	ID   git.Hash
}

// ErrNoChart: a chart of a repository that a chart of the folder depends on is not here. The text after it says which,
// and where.
var ErrNoChart = errors.New("dependency is not fetched")

// Reach finds what a folder of a commit's tree refers to beyond itself, within the repository: what a kustomization in
// it needs, the charts that its charts depend on (repository: file://../db), and where the links of charts and links to
// files lead. Reach renders nothing. A reference that leads nowhere is left out: the agent has better words. The parts
// are sorted by path; folder is clean and has no links in it.
//
// With Options.Charts the charts of repositories that its charts depend on are parts, too, in the charts/ folders of
// those charts; with Options.Bases what its kustomizations need of other repositories, in the folder for bases.
//
// alone: no reference leads out of the folder, be there anything or not. That follows from the folder's own tree,
// wherever it is in whatever commit.
func Reach(ctx context.Context, r Reader, root git.Hash, folder string, o Options) (parts []Part, alone bool, err error) {
	if folder == "" { // the same tree may be a folder elsewhere, with other things beyond it
		if o.Charts == nil && o.Bases == nil {
			return nil, false, nil
		}
		return newWalker(ctx, r, root, ".", o).reachOfRoot()
	}
	w := newWalker(ctx, r, root, folder, o)
	files, err := w.listFolder(folder, o)
	if errors.Is(err, artifact.ErrRefused) {
		return nil, true, nil // as it will be when it is packed
	}
	if err != nil {
		return nil, false, err
	}
	if err := w.followLinks(files); err != nil {
		return nil, false, err
	}
	if err := w.followKustomization(files); err != nil {
		return nil, false, err
	}
	if err := w.followCharts(files); err != nil {
		return nil, false, err
	}
	maps.Copy(w.parts, w.shared.parts)
	if w.lacking != nil {
		return nil, false, w.lacking
	}
	if len(w.parts) == 0 {
		return nil, !w.out && w.problem == nil, nil // a defect within the folder is the agent's to report
	}
	if w.problem != nil {
		return nil, false, w.problem
	}
	w.addPassed()
	return w.sortedParts(), false, nil
}

func newWalker(ctx context.Context, r Reader, root git.Hash, base string, o Options) *walker {
	return &walker{
		ctx: ctx, r: r, root: root, base: base, options: o, trees: map[git.Hash][]entry{}, links: map[string]string{},
		parts: map[string]Part{}, passed: map[string]bool{}, seen: map[string]bool{}, shared: newShared(),
	}
}

func (w *walker) sortedParts() []Part {
	return slices.SortedFunc(maps.Values(w.parts), func(a, b Part) int { return strings.Compare(a.Path, b.Path) })
}

// Resolve follows the links in a folder's path. An error is fs.ErrNotExist if there is no such folder.
func Resolve(ctx context.Context, r Reader, root git.Hash, folder string, submodules bool) (string, error) {
	w := &walker{ctx: ctx, r: r, root: root, options: Options{Submodules: submodules}, trees: map[git.Hash][]entry{}, links: map[string]string{}}
	to, err := w.findPath(folder)
	return to.path, err
}

// walker looks around in a commit's tree.
type walker struct {
	ctx     context.Context //nolint:containedctx // of one walk
	r       Reader
	root    git.Hash
	base    string // the folder
	options Options

	trees map[git.Hash][]entry
	links map[string]string // targets, by path
	parts map[string]Part
	// passed are folders beyond the folder that ways to what is carried enter and leave again.
	passed map[string]bool
	// seen are the visits that were made, and the folders that are carried whole.
	seen map[string]bool
	// out: a reference has led out of the folder.
	out bool
	// problem is the first thing that is wrong with the references. The problem is reported if there is something
	// beyond the folder.
	problem error
	// broken is why a look-up ended.
	broken error
	// wanted are the charts of repositories that charts depend on. lacking is why one of them can't be had; nil: all
	// can.
	wanted  []depend.Wanted
	lacking error

	// line are the bases that lead to this walker, if the tree is of another repository; shared is what all walkers of
	// one look have in common.
	line   []remotebase.Base
	shared *shared
}

// isInside tells what the folder itself holds.
func (w *walker) isInside(p string) bool {
	return w.base == "." || p == w.base || strings.HasPrefix(p, w.base+"/")
}

// readEntries of a tree, read once.
func (w *walker) readEntries(id git.Hash) ([]entry, error) {
	if w.ctx.Err() != nil {
		return nil, context.Cause(w.ctx)
	}
	if known, ok := w.trees[id]; ok {
		return known, nil
	}
	found, err := readTree(w.r, id)
	if errors.Is(err, errDamaged) {
		return nil, refusalError("a folder that is referred to: %v", err)
	}
	if err == nil {
		slices.SortFunc(found, func(a, b entry) int { return strings.Compare(a.path, b.path) })
		w.trees[id] = found
	}
	return found, err
}

// lookUp looks up a clean path without following links.
func (w *walker) lookUp(p string) (entry, bool, error) {
	is := entry{mode: modeFolder, path: ".", id: w.root}
	if p == "." {
		return is, true, nil
	}
	for name := range strings.SplitSeq(p, "/") {
		if is.mode == modeSubmodule {
			if !w.options.Submodules {
				return is, false, nil
			}
			id, err := submoduleTree(w.r, is.path, is.id)
			if err != nil {
				return is, false, err
			}
			is.mode, is.id = modeFolder, id
		}
		if is.mode != modeFolder {
			return is, false, nil
		}
		all, err := w.readEntries(is.id)
		if err != nil {
			return is, false, err
		}
		i, ok := slices.BinarySearchFunc(all, name, func(e entry, name string) int { return strings.Compare(e.path, name) })
		if !ok {
			return is, false, nil
		}
		is = all[i]
	}
	is.path = p
	return is, true, nil
}

// destination is where a path has led, by these links.
type destination struct {
	entry
	links  []Part
	passed []string // folders that the way has entered and left again
}

func (d destination) isFolder() bool { return d.mode == modeFolder || d.mode == modeSubmodule }

// findPath follows a path.
func (w *walker) findPath(p string) (destination, error) {
	var followed []Part
	var folders []string
	entered := false
	to, err := links.Follow(p, func(p string) (links.Node, bool) {
		within := strings.HasPrefix(p, w.base+"/")
		if entered && !within || !w.isInside(p) && !strings.HasPrefix(w.base, p+"/") {
			w.out = true // also where it comes back: the same folder elsewhere would not
		}
		entered = entered || within
		is, ok, err := w.lookUp(p)
		if err != nil {
			w.broken = err
		}
		if !ok || err != nil {
			return links.Node{}, false
		}
		if is.mode != modeLink {
			folder := is.mode == modeFolder || is.mode == modeSubmodule
			if folder {
				folders = append(folders, p)
			}
			return links.Node{Folder: folder}, true
		}
		followed = append(followed, Part{Path: p, Mode: is.mode, ID: is.id})
		target, ok := w.readLink(p, is.id)
		return links.Node{Link: target}, ok
	})
	if w.broken != nil {
		return destination{}, w.broken
	}
	if err != nil {
		w.out = w.out || errors.Is(err, links.ErrOutside)
		return destination{}, err
	}
	is, _, err := w.lookUp(to)
	if err == nil && is.mode == modeSubmodule {
		is.id, err = submoduleTree(w.r, to, is.id)
	}
	passed := slices.DeleteFunc(folders, func(p string) bool { return to == p || strings.HasPrefix(to, p+"/") })
	return destination{is, followed, passed}, err
}

// readLink reads a link. A link that no artifact holds leads nowhere.
func (w *walker) readLink(p string, id git.Hash) (string, bool) {
	if known, ok := w.links[p]; ok {
		return known, known != ""
	}
	content, err := readBlob(w.r, id, p, artifact.DefaultPathBytes)
	if err != nil && !errors.Is(err, artifact.ErrRefused) {
		w.broken = err
	}
	w.links[p] = string(content)
	return string(content), err == nil && len(content) > 0
}

// addPart notes what is beyond the folder.
func (w *walker) addPart(p Part) {
	switch p.Mode {
	case modeFile, modeGroupFile, modeExecutable, modeLink:
		if !w.isInside(p.Path) {
			w.parts[p.Path] = p
		}
	}
}

// addPassed notes a file for each folder that is only passed through, so that the artifact has that folder, too.
func (w *walker) addPassed() {
	here := map[string]bool{} // folders
	note := func(file string) {
		for dir := path.Dir(file); dir != "." && !here[dir]; dir = path.Dir(dir) {
			here[dir] = true
		}
	}
	note(path.Join(w.base, passedFile))
	for p := range w.parts {
		note(p)
	}
	for _, p := range slices.Backward(slices.Sorted(maps.Keys(w.passed))) { // a folder comes after those in it
		if file := path.Join(p, passedFile); !here[p] && !w.isInside(p) {
			w.addPart(Part{Path: file, Mode: modeFile, ID: emptyBlob})
			note(file)
		}
	}
}

// carryTo notes a file, or the way to a folder.
func (w *walker) carryTo(to destination) {
	for _, link := range to.links {
		w.addPart(link)
	}
	for _, p := range to.passed {
		w.passed[p] = true
	}
	if !to.isFolder() {
		w.addPart(Part{Path: to.path, Mode: to.mode, ID: to.id})
	}
}

// leadsNowhere tells the errors of paths that lead nowhere.
func leadsNowhere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, links.ErrOutside) || errors.Is(err, links.ErrLoop)
}

// followLinks carries what links of the folder lead to: files, and in charts folders, as Helm does. A folder that the
// folder itself is in is not carried: it would be the repository.
func (w *walker) followLinks(files []entry) error {
	charts := map[string]bool{}
	for _, f := range files {
		if path.Base(f.path) == "Chart.yaml" {
			charts[path.Dir(f.path)] = true
		}
	}
	return w.carryLinks(files, func(name string) bool {
		for dir := path.Dir(name); w.isInside(dir); dir = path.Dir(dir) {
			if charts[dir] {
				return true
			}
		}
		return false
	})
}

// listFolder gives the files of a folder with their paths in the repository.
func (w *walker) listFolder(folder string, o Options) ([]entry, error) {
	to := destination{entry: entry{id: w.root}}
	if folder != "." {
		var err error
		if to, err = w.findPath(folder); err != nil {
			return nil, err
		}
	}
	files, err := listFiles(w.ctx, w.r, to.id, o)
	for i := range files {
		files[i].path = path.Join(folder, files[i].path)
	}
	return files, err
}

// carryLinks carries what links lead to. Folders says which of them may lead to folders.
func (w *walker) carryLinks(files []entry, folders func(link string) bool) error {
	for _, f := range files {
		if f.mode != modeLink {
			continue
		}
		to, err := w.findPath(f.path)
		switch {
		case err != nil && leadsNowhere(err):
		case err != nil:
			return err
		case !to.isFolder():
			w.carryTo(to)
		case folders(f.path) && !w.isInside(to.path) && to.path != "." && !strings.HasPrefix(w.base, to.path+"/"):
			w.carryTo(to)
			if err := w.carryFolder(to.path); err != nil {
				return err
			}
		}
		if err := w.checkBound(f.path); err != nil {
			return err
		}
	}
	return nil
}

// carryFolder carries all of a folder, and what its links lead to.
func (w *walker) carryFolder(folder string) error {
	if w.seen["all of "+folder] {
		return nil
	}
	w.seen["all of "+folder] = true
	files, err := w.listFolder(folder, Options{Limits: w.options.Limits, Submodules: w.options.Submodules})
	if err != nil {
		return err
	}
	for _, f := range files {
		w.addPart(Part{Path: f.path, Mode: f.mode, ID: f.id})
	}
	if err := w.checkBound(folder); err != nil {
		return err
	}
	return w.carryLinks(files, func(string) bool { return true })
}

// checkBound ends what grows without an end.
func (w *walker) checkBound(at string) error {
	if most := w.options.Limits.Files; len(w.parts)+len(w.shared.parts) > most {
		return refusalError("%q leads to more than the limit of %d files beyond the folder", at, most)
	}
	return nil
}

// followKustomization follows the folder's own kustomization, if the rules let it through.
func (w *walker) followKustomization(files []entry) error {
	for _, name := range kustomization.Names() {
		own := path.Join(w.base, name)
		if slices.ContainsFunc(files, func(f entry) bool { return f.path == own }) {
			return w.walkKustomization(visit{folder: w.base})
		}
	}
	return nil
}

// followCharts carries the charts that those of the folder depend on. Charts in a charts/ folder are complete: Helm
// follows none of theirs.
func (w *walker) followCharts(files []entry) error {
	charts := map[string]bool{}
	for _, f := range files {
		if path.Base(f.path) == "Chart.yaml" {
			charts[path.Dir(f.path)] = true
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(charts)) {
		if within := path.Dir(folder); path.Base(within) == "charts" && charts[path.Dir(within)] {
			continue
		}
		if err := w.carryCharts(folder, 0); err != nil {
			return err
		}
	}
	return nil
}

// carryCharts carries the charts that one depends on and does not have in its charts/ folder. The depth counts the
// charts that lead to it.
func (w *walker) carryCharts(folder string, depth int) error {
	if depth == maxChain {
		w.noteWrong("charts depend on each other through more than %d folders, at %q", maxChain, folder)
		return nil
	}
	if w.seen["chart "+folder] { // also where charts depend on each other without an end, which the agent has the words for
		return nil
	}
	w.seen["chart "+folder] = true
	file, ofRepositories := "", []byte(nil)
	for _, name := range []string{"Chart.yaml", "requirements.yaml"} {
		content, err := w.readReferences(path.Join(folder, name))
		if err != nil {
			return err
		}
		dependencies := kustomization.LocalDependencies(content)
		if w.shared.references += len(dependencies); w.shared.references > maxReferences {
			w.noteWrong("charts refer to more than %d folders, at %q", maxReferences, folder)
			return nil
		}
		for _, dependency := range dependencies {
			if err := w.carryDependency(folder, dependency, depth); err != nil {
				return err
			}
		}
		if file == "" || kustomization.HasDependencies(content) { // as in Helm, the last list counts
			file, ofRepositories = name, content
		}
	}
	return w.dependOnRepositories(folder, file, ofRepositories)
}

// carryDependency carries a chart that another one depends on.
func (w *walker) carryDependency(folder string, dependency kustomization.Dependency, depth int) error {
	if packed, err := w.hasPacked(folder, dependency.Name, ""); packed || err != nil {
		return err
	}
	p := path.Join(folder, dependency.Path)
	if below, ok := strings.CutPrefix(folder+"/", w.base+"/"); !ok || leavesRoot(path.Join(below, dependency.Path)) {
		w.out = true
	}
	if leavesRoot(p) {
		return nil
	}
	to, err := w.findPath(p)
	switch {
	case err != nil && leadsNowhere(err) || err == nil && !to.isFolder():
		return nil
	case err != nil:
		return err
	case to.path == "." || w.base == to.path || strings.HasPrefix(w.base, to.path+"/"): // the base would be the repository
		return nil
	}
	w.carryTo(to)
	if !w.isInside(to.path) {
		if err := w.carryFolder(to.path); err != nil {
			return err
		}
	}
	return w.carryCharts(to.path, depth+1)
}

// hasPacked tells whether a chart has a dependency in its charts/ folder, as a folder or an archive.
func (w *walker) hasPacked(folder, name, version string) (bool, error) {
	charts, err := w.findPath(path.Join(folder, "charts"))
	switch {
	case err != nil && leadsNowhere(err) || err == nil && !charts.isFolder():
		return false, nil
	case err != nil:
		return false, err
	}
	all, err := w.readEntries(charts.id)
	return slices.ContainsFunc(all, func(e entry) bool {
		return e.path == name || isPackage(e.path, name, version)
	}), err
}

// isPackage tells whether a file is named as a package of a chart is, in this or any other version. The version is
// strict: the file redis-7-1.0.0.tgz is a package of redis-7.
func isPackage(file, name, version string) bool {
	rest, of := strings.CutPrefix(file, name+"-")
	has, packed := strings.CutSuffix(rest, ".tgz")
	if !of || !packed {
		return false
	}
	_, err := semver.StrictNewVersion(strings.TrimPrefix(strings.ReplaceAll(has, "_", "+"), "v")) // a tag of a registry has no plus
	return err == nil || has != "" && has == version
}

// visit is a kustomization that is followed.
type visit struct {
	folder string
	// above are the folders that lead to it.
	above []string
	// plugins is the folder whose kustomization takes this one's resources for plugins: what these read is relative to
	// that folder. Empty: they are none.
	plugins string
	// file of the references.
	file string
}

// walkKustomization follows what the kustomization of a folder refers to.
func (w *walker) walkKustomization(v visit) error {
	if len(v.above) == maxChain {
		w.noteWrong("kustomizations refer to each other through more than %d folders, at %q", maxChain, v.folder)
		return nil
	}
	key := v.folder + "\x00" + v.plugins
	if w.seen[key] {
		return nil
	}
	w.seen[key] = true
	for _, name := range kustomization.Names() {
		content, err := w.readReferences(path.Join(v.folder, name))
		if err != nil {
			return err
		}
		if err := w.followAll(visit{folder: v.folder, above: v.above, plugins: v.plugins, file: path.Join(v.folder, name)}, kustomization.References(content)); err != nil {
			return err
		}
	}
	return nil
}

// noteWrong notes the first thing that is wrong with the references.
func (w *walker) noteWrong(format string, args ...any) {
	if w.problem == nil {
		w.problem = refusalError(format, args...)
	}
}

// readReferences carries a file of references and gives its content; nil if there is none.
func (w *walker) readReferences(p string) ([]byte, error) {
	to, err := w.findPath(p)
	switch {
	case err != nil && leadsNowhere(err) || err == nil && to.isFolder():
		return nil, nil
	case err != nil:
		return nil, err
	}
	w.carryTo(to)
	content, err := readBlob(w.r, to.id, to.path, maxYAMLFile)
	if errors.Is(err, artifact.ErrRefused) {
		w.noteWrong("%s, to follow what it refers to", strings.TrimPrefix(err.Error(), artifact.ErrRefused.Error()+": "))
		return nil, nil
	}
	w.shared.yaml += len(content)
	if w.shared.kustomizations++; w.shared.kustomizations > maxKustomizations || w.shared.yaml > maxYAML {
		w.noteWrong("%q is one kustomization or chart more than the limit of %d, or of %d MiB of them", p, maxKustomizations, maxYAML>>20)
		return nil, nil
	}
	return content, err
}

// followAll carries what the references of a folder's kustomization lead to.
func (w *walker) followAll(v visit, refs []kustomization.Reference) error {
	if w.shared.references += len(refs); w.shared.references > maxReferences || len(refs) >= kustomization.Max {
		w.noteWrong("kustomizations refer to more than %d files and folders, or one to more than %d, at %q", maxReferences, kustomization.Max, v.folder)
		return nil
	}
	for _, ref := range refs {
		if err := w.followReference(v, ref); err != nil {
			return err
		}
	}
	return nil
}

// followReference carries what a reference leads to.
func (w *walker) followReference(v visit, ref kustomization.Reference) error {
	if ref.Remote != "" {
		return w.followBase(v, ref)
	}
	p := path.Join(v.folder, ref.Path) // as kustomize does, whatever links there are
	if below, ok := strings.CutPrefix(v.folder+"/", w.base+"/"); !ok || leavesRoot(path.Join(below, ref.Path)) {
		w.out = true
	}
	if leavesRoot(p) {
		w.noteEscape(v, ref)
		return nil
	}
	to, err := w.findPath(p)
	switch {
	case err != nil && leadsNowhere(err) || err == nil && to.isFolder() && !ref.Base:
		return nil
	case err != nil:
		return err
	}
	w.carryTo(to)
	plugins := v.plugins
	if ref.Plugin {
		plugins = v.folder
	}
	if !to.isFolder() {
		if plugins != "" && ref.Base {
			return w.carryPlugin(plugins, to.path)
		}
		return w.checkBound(p)
	}
	above := append(slices.Clip(v.above), v.folder)
	for i, f := range above {
		if to.path == f || to.path == "." || strings.HasPrefix(f, to.path+"/") {
			w.noteWrong("kustomizations refer to each other without an end: %s", artifact.Printable(strings.Join(append(slices.Clone(above[i:]), to.path), " -> ")))
			return nil
		}
	}
	return w.walkKustomization(visit{folder: to.path, above: above, plugins: plugins})
}

// leavesRoot tells a clean relative path that leads above where it begins.
func leavesRoot(p string) bool { return p == ".." || strings.HasPrefix(p, "../") }

// carryPlugin carries what the objects in a file refer to, seen from the folder of the kustomization.
func (w *walker) carryPlugin(folder, file string) error {
	content, err := w.readReferences(file)
	if err != nil {
		return err
	}
	return w.followAll(visit{folder: folder, file: file}, kustomization.PluginReferences(content))
}

// PackWith writes a folder's files to w, and the parts that it refers to beyond itself, at their paths in the
// repository.
func PackWith(ctx context.Context, r Reader, folder git.Hash, base string, parts []Part, o Options, w *artifact.Writer) error {
	files, err := listFiles(ctx, r, folder, o)
	if err != nil {
		return err
	}
	if base != "" { // else the folder is all of the repository
		if err := w.Base(base); err != nil {
			return err
		}
	}
	for i := range files {
		files[i].path = path.Join(base, files[i].path)
	}
	for _, p := range parts {
		files = append(files, entry{path: p.Path, mode: p.Mode, id: p.ID})
	}
	slices.SortFunc(files, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return packAll(ctx, r, files, o, w)
}
