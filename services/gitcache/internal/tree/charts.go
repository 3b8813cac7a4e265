package tree

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/gitcache/internal/depend"
	"fairlead.dev/services/gitcache/internal/git"
)

// Charts are the charts of repositories that those of a folder depend on and do not have in their charts/ folders.
// folder may be reached by links.
func Charts(ctx context.Context, r Reader, root git.Hash, folder string, o Options) ([]depend.Wanted, error) {
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
	o.Charts = nil
	w := newWalker(ctx, r, root, base, o)
	files, err := w.listFolder(base, o)
	if errors.Is(err, artifact.ErrRefused) || err != nil && leadsNowhere(err) {
		return nil, nil // as above
	}
	if err != nil {
		return nil, err
	}
	err = w.followCharts(files)
	return w.wanted, err
}

// reachOfRoot is Reach for all of a repository: nothing is beyond it but charts of repositories and bases of others.
func (w *walker) reachOfRoot() ([]Part, bool, error) {
	files, err := w.listFolder(w.base, w.options)
	if errors.Is(err, artifact.ErrRefused) {
		return nil, false, nil // as it will be when it is packed
	}
	if err != nil {
		return nil, false, err
	}
	if w.options.Bases != nil { // else its kustomization leads nowhere
		if err := w.followKustomization(files); err != nil {
			return nil, false, err
		}
	}
	if err := w.followCharts(files); err != nil {
		return nil, false, err
	}
	maps.Copy(w.parts, w.shared.parts)
	if w.lacking != nil || len(w.parts) == 0 {
		return nil, false, w.lacking
	}
	return w.sortedParts(), false, w.problem
}

// maxDependencies on charts of repositories of one folder, with those of the charts that it depends on by file://.
const maxDependencies = 200

// dependOnRepositories carries the charts of repositories that the chart of a folder depends on, by one of its files,
// and does not have in its charts/ folder.
func (w *walker) dependOnRepositories(folder, file string, content []byte) error {
	lockName := "Chart.lock"
	if file != "Chart.yaml" {
		lockName = "requirements.lock"
	}
	if content == nil || len(depend.Read(file, content, lockName, nil)) == 0 {
		return nil
	}
	lock, err := w.readReferences(path.Join(folder, lockName))
	if err != nil {
		return err
	}
	taken := map[string]depend.Chart{} // by folder
	for _, wanted := range depend.Read(path.Join(folder, file), content, lockName, lock) {
		if packed, err := w.hasPacked(folder, wanted.Name, wanted.Version); err != nil || packed {
			if err != nil {
				return err
			}
			continue
		}
		switch have := len(w.wanted); {
		case have > maxDependencies: // the first one above the limit is told
			return nil
		case have == maxDependencies:
			wanted.Problem = fmt.Sprintf("dependency %.100q: it is one more than the limit of %d on charts of repositories for a folder. Push charts into charts/", wanted.Name, maxDependencies)
		}
		name, err := w.placeChart(folder, &wanted, taken)
		if err != nil {
			return err
		}
		w.out, w.wanted = true, append(w.wanted, wanted) // the same folder means something else where other charts are here
		if wanted.Problem == "" {
			if taken[name] == wanted.Chart {
				continue
			}
			taken[name] = wanted.Chart
		}
		if w.options.Charts == nil {
			continue
		}
		if err := w.carryChart(path.Join(folder, "charts", name), wanted); err != nil {
			return err
		}
	}
	return nil
}

// placeChart chooses the name in charts/ of a chart that a folder's chart depends on. A chart that would share its
// place has a problem.
func (w *walker) placeChart(folder string, wanted *depend.Wanted, taken map[string]depend.Chart) (string, error) {
	if wanted.Problem != "" { // its name may be anything
		return "", nil
	}
	charts, ok, err := w.lookUp(path.Join(folder, "charts"))
	if err != nil {
		return "", err
	}
	switch {
	case ok && charts.mode == modeLink:
		wanted.Problem = fmt.Sprintf("dependency %.100q: %q is a link, and the chart has no place in what it leads to. Make it a folder, or push the chart there", wanted.Name, charts.path)
		return "", nil
	case ok && charts.mode != modeFolder && charts.mode != modeSubmodule:
		wanted.Problem = fmt.Sprintf("dependency %.100q: %q is a file, and the chart has to be in a folder of that name. Rename the file", wanted.Name, charts.path)
		return "", nil
	}
	isFree := func(name string) bool { other, ok := taken[name]; return !ok || other == wanted.Chart }
	name := wanted.Name
	if isFree(name) {
		return name, nil
	}
	name += "-" + strings.ReplaceAll(wanted.Version, "+", "_") // Helm goes by what Chart.yaml says
	at := path.Join(folder, "charts", name)
	_, there, err := w.lookUp(at)
	if there || !isFree(name) {
		wanted.Problem = fmt.Sprintf("dependency %.100q: its place %q is that of another chart. Push both into charts/, each in a folder of its own", wanted.Name, at)
	}
	return name, err
}

// carryChart carries a chart of a repository.
func (w *walker) carryChart(at string, wanted depend.Wanted) error {
	if wanted.Problem != "" {
		w.noteLacking(refusalError("%s: %s", wanted.Where(), wanted.Problem))
		return nil
	}
	id, ok := w.options.Charts(wanted.Chart)
	if !ok {
		w.noteLacking(fmt.Errorf("%w: %s: dependency %s %s of %s", ErrNoChart, wanted.Where(), wanted.Name, wanted.Version, wanted.Repository))
		return nil
	}
	files, err := listFiles(w.ctx, w.r, id, Options{Limits: w.options.Limits})
	if err != nil {
		return err
	}
	for _, f := range files {
		p := path.Join(at, f.path)
		w.parts[p] = Part{Path: p, Mode: f.mode, ID: f.id}
	}
	return w.checkBound(at)
}

// noteLacking notes the first chart that can't be had.
func (w *walker) noteLacking(err error) {
	if w.lacking == nil {
		w.lacking = err
	}
}
