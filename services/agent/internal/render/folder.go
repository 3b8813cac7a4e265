package render

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/artifact/links"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/kubeyaml"
)

// Folder is the folder of a service, and what the names in it tell.
type Folder struct {
	// Service that the folder is of; Renderer is what renders it.
	Service  desired.Service
	Renderer deliveryv1.Renderer

	open func() (io.ReadCloser, error)
	// base is the service's folder in the artifact, "." if the artifact is that folder; else paths in the artifact are
	// those of the repository. root is the folder that is rendered.
	base, root string
	// tests is the folder of the service's tests, which is left out; "": there is none.
	tests string
	// nodes are the files, links and folders of the artifact, by path; "." is all of it.
	nodes map[string]node
	// marks are the files that are made for a renderer, by the folder that they stand in.
	marks map[string][]mark
	// names are those of links that plain manifests and templates are read by, by the file that the link leads to.
	names map[string]string
	// bytes and largest are those of the files that are read as plain manifests.
	bytes, largest int64
}

// node is a file, a link or a folder of the artifact.
type node struct {
	links.Node
	size int64
}

// mark is a file that tells what its folder is made for.
type mark struct {
	file     string
	renderer deliveryv1.Renderer
}

// Scan looks at the names in a service's folder, and finds out what renders it. Open gives the folder, a verified
// tar; it is called more than once, now and by Render. A *kubeyaml.Error is a mistake in the folder.
func Scan(service desired.Service, open func() (io.ReadCloser, error)) (*Folder, error) {
	f := &Folder{
		Service: service, open: open, base: ".", marks: map[string][]mark{}, names: map[string]string{},
		nodes: map[string]node{".": {Node: links.Node{Folder: true}}},
	}
	err := f.Walk(func(entry artifact.Entry, _ io.Reader) error {
		f.base = path.Clean(entry.Base)
		f.nodes[entry.Path] = node{Node: links.Node{Link: entry.Link}, size: entry.Size}
		for dir := path.Dir(entry.Path); !f.nodes[dir].Folder; dir = path.Dir(dir) {
			f.nodes[dir] = node{Node: links.Node{Folder: true}}
		}
		if renderer := madeFor(entry.Path); renderer != 0 {
			dir := path.Dir(entry.Path)
			f.marks[dir] = append(f.marks[dir], mark{file: entry.Path, renderer: renderer})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := f.findRoot(); err != nil {
		return nil, err
	}
	if f.Renderer, err = f.chooseRenderer(); err != nil {
		return nil, err
	}
	return f, f.checkPlain()
}

// findRoot follows render.path.
func (f *Folder) findRoot() error {
	asked := path.Join(f.base, f.Service.Render.GetPath())
	root, err := f.Follow(asked)
	switch {
	case errors.Is(err, links.ErrOutside) || errors.Is(err, links.ErrLoop):
		return f.Unfollowed(asked, err)
	case err != nil || !f.nodes[root].Folder:
		return f.Mistake(asked, "there is no such folder. Mend render.path, or push the folder")
	}
	f.root = root
	if tests := f.Service.Tests.GetPath(); tests != "" {
		f.tests = path.Join(f.base, tests)
		if f.tests == f.root || f.tests == f.base || strings.HasPrefix(f.root, f.tests+"/") {
			return f.Mistake(f.tests, "is the folder that is applied, and can't be that of the tests. Mend tests.path")
		}
	}
	return nil
}

// Root is the folder of the artifact that is rendered, "." for all.
func (f *Folder) Root() string { return f.root }

// Base is the service's folder in the artifact, "." for all.
func (f *Folder) Base() string { return f.base }

// Shown is a path of the artifact as messages show it: in the repository.
func (f *Folder) Shown(name string) string {
	switch {
	case f.base == ".":
		name = path.Join(f.Service.Path, name)
	case name == "":
		name = f.base
	}
	return artifact.Printable(name)
}

// Node is what the artifact has at a path.
func (f *Folder) Node(name string) (links.Node, bool) {
	n, ok := f.nodes[name]
	return n.Node, ok
}

// Paths are those of all files, links and folders of the artifact, in no order.
func (f *Folder) Paths() iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range f.nodes {
			if name != "." && !yield(name) {
				return
			}
		}
	}
}

// Follow finds where a path of the artifact leads, through links.
func (f *Folder) Follow(name string) (string, error) { return links.Follow(name, f.Node) }

// Unfollowed is the mistake of a link that leads nowhere.
func (f *Folder) Unfollowed(name string, err error) error {
	return f.Mistake(name, artifact.Printable("is a link that can't be followed: "+err.Error())+
		". Put the file itself in its place, or what the link leads to into the folder")
}

// isBelow tells whether a file is in the folder that is rendered, and not in that of the tests.
func (f *Folder) isBelow(name string) bool {
	if f.tests != "" && strings.HasPrefix(name, f.tests+"/") {
		return false
	}
	return f.root == "." || strings.HasPrefix(name, f.root+"/")
}

// Plain tells the names of files that hold plain manifests. Names that begin with a dot are left out (.github/,
// .sops.yaml).
func (f *Folder) Plain(name string) bool {
	return f.isBelow(name) && isWanted(strings.TrimPrefix(name, f.root+"/"))
}

// Defines tells the names of templates that only define.
func Defines(name string) bool {
	return strings.HasPrefix(path.Base(name), "_") && path.Ext(name) == ".tpl"
}

// isRead tells the names that are read by the renderers of single files.
func (f *Folder) isRead(name string) bool {
	return f.Plain(name) || f.Renderer == deliveryv1.Renderer_RENDERER_TEMPLATE && Defines(name)
}

// Name is what a file is read as by the renderers of single files: its own name, or that of a link to it. False: it
// is not read.
func (f *Folder) Name(file artifact.Entry) (string, bool) {
	if file.Link != "" {
		return "", false
	}
	if f.isRead(file.Path) {
		return file.Path, true
	}
	name, ok := f.names[file.Path]
	return name, ok
}

func isWanted(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") {
			return false
		}
	}
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// madeFor names the renderer that a file is for; such a folder means something else than the sum of its files.
func madeFor(name string) deliveryv1.Renderer {
	switch path.Base(name) {
	case "kustomization.yaml", "kustomization.yml", "Kustomization":
		return deliveryv1.Renderer_RENDERER_KUSTOMIZE
	case "Chart.yaml":
		return deliveryv1.Renderer_RENDERER_HELM
	}
	return 0
}

// chooseRenderer finds the renderer: what the spec says, or else what the folder is made for.
func (f *Folder) chooseRenderer() (deliveryv1.Renderer, error) {
	asked := f.Service.Render.GetRenderer()
	found := deliveryv1.Renderer_RENDERER_RAW
	for i, mark := range f.marks[f.root] {
		if i > 0 && asked == 0 {
			return 0, f.Mistake(mark.file, "the folder also has "+path.Base(f.marks[f.root][0].file)+". Remove one, or say in render.renderer which is meant")
		}
		found = mark.renderer
	}
	switch {
	case asked == 0:
		return found, nil
	case asked == deliveryv1.Renderer_RENDERER_HELM && !f.hasFileFor(asked):
		return 0, f.Mistake(f.root, "there is no Chart.yaml. Mend render.path or render.renderer")
	case asked == deliveryv1.Renderer_RENDERER_KUSTOMIZE && !f.hasFileFor(asked):
		return 0, f.Mistake(f.root, "there is no kustomization.yaml. Mend render.path or render.renderer")
	}
	return asked, nil
}

func (f *Folder) hasFileFor(renderer deliveryv1.Renderer) bool {
	return slices.ContainsFunc(f.marks[f.root], func(m mark) bool { return m.renderer == renderer })
}

// checkPlain makes sure that a folder of plain manifests or templates has nothing else.
func (f *Folder) checkPlain() error {
	if f.Renderer == deliveryv1.Renderer_RENDERER_KUSTOMIZE || f.Renderer == deliveryv1.Renderer_RENDERER_HELM {
		return nil
	}
	for _, dir := range slices.Sorted(maps.Keys(f.marks)) {
		mark := f.marks[dir][0]
		if !f.isBelow(mark.file) {
			continue
		}
		tool := "kustomize"
		if mark.renderer == deliveryv1.Renderer_RENDERER_HELM {
			tool = "helm"
		}
		return f.Mistake(mark.file, "the folder is made for "+tool+", and is taken for plain manifests. Set render.path to it, and render.renderer to "+tool+
			"; or point the service at a folder of plain manifests")
	}
	return f.gatherFiles()
}

// gatherFiles finds the files that plain manifests and templates are read from. Links to files are followed; those to
// folders are not, as with kubectl. A file that several names lead to is read once.
func (f *Folder) gatherFiles() error {
	for _, name := range slices.Sorted(maps.Keys(f.nodes)) {
		is := f.nodes[name]
		if is.Folder || !f.isRead(name) {
			continue
		}
		if is.Link != "" {
			target, err := f.Follow(name)
			if err != nil {
				return f.Unfollowed(name, err)
			}
			if is = f.nodes[target]; is.Folder {
				return f.Mistake(name, "is a link to a folder, and is named like a file. Name the link otherwise, or link the files")
			}
			if f.names[target] != "" || f.isRead(target) {
				continue
			}
			f.names[target] = name
		}
		f.bytes += is.size
		f.largest = max(f.largest, is.size)
	}
	return nil
}

// Mistake is an error at a file of the folder.
func (f *Folder) Mistake(file, problem string) error {
	return &kubeyaml.Error{Position: kubeyaml.Position{File: f.Shown(file)}, Problem: problem}
}

// errEnough ends a walk early; what follows is not needed.
var errEnough = errors.New("enough")

// Walk reads the folder once.
func (f *Folder) Walk(visit func(artifact.Entry, io.Reader) error) error {
	content, err := f.open()
	if err != nil {
		return err
	}
	err = artifact.Walk(content, artifact.Limits{}, visit)
	if closeErr := content.Close(); err == nil && closeErr != nil {
		err = closeErr
	}
	if errors.Is(err, artifact.ErrRefused) {
		return f.Mistake("", "the folder is refused: "+err.Error())
	}
	if err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("read artifact: %w", err)
	}
	return err
}
