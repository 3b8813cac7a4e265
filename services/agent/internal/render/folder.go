package render

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/manifest"
)

// Folder is the folder of a service, and what the names in it tell.
type Folder struct {
	// Service that the folder is of; Renderer is what renders it.
	Service  desired.Service
	Renderer deliveryv1.Renderer

	open func() (io.ReadCloser, error)
	// marks are the files that are made for a renderer, by the folder that they stand in.
	marks map[string][]mark
	// links are symbolic links; folders are all that have a file.
	links   []artifact.Entry
	folders map[string]bool
	// bytes and largest are those of the plain manifests below the root.
	bytes, largest int64
}

// mark is a file that tells what its folder is made for.
type mark struct {
	file     string
	renderer deliveryv1.Renderer
}

// Scan looks at the names in a service's folder, and finds out what renders it. Open gives the folder, a verified
// tar; it is called more than once, now and by Render. A *manifest.Error is a mistake in the folder.
func Scan(service desired.Service, open func() (io.ReadCloser, error)) (*Folder, error) {
	f := &Folder{Service: service, open: open, marks: map[string][]mark{}, folders: map[string]bool{}}
	err := f.Walk(func(entry artifact.Entry, _ io.Reader) error {
		for dir := path.Dir(entry.Path); dir != "." && !f.folders[dir]; dir = path.Dir(dir) {
			f.folders[dir] = true
		}
		if entry.Link != "" {
			f.links = append(f.links, entry)
		}
		if renderer := madeFor(entry.Path); renderer != 0 {
			dir := path.Dir(entry.Path)
			f.marks[dir] = append(f.marks[dir], mark{file: entry.Path, renderer: renderer})
		}
		if f.Plain(entry.Path) {
			f.bytes += entry.Size
			f.largest = max(f.largest, entry.Size)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if f.Renderer, err = f.choose(); err != nil {
		return nil, err
	}
	return f, f.check()
}

// Root is the folder that is rendered, "." for all.
func (f *Folder) Root() string { return path.Clean(f.Service.Render.GetPath()) }

// below tells whether a file is in the folder that is rendered.
func (f *Folder) below(name string) bool {
	return f.Root() == "." || strings.HasPrefix(name, f.Root()+"/")
}

// Plain tells the files that hold plain manifests. Names that begin with a dot are left out (.github/, .sops.yaml).
func (f *Folder) Plain(name string) bool {
	return f.below(name) && wanted(name)
}

func wanted(name string) bool {
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

// choose finds the renderer: what the spec says, or else what the folder is made for.
func (f *Folder) choose() (deliveryv1.Renderer, error) {
	if f.Root() != "." && !f.folders[f.Root()] {
		return 0, f.mistake(f.Root(), "there is no such folder. Mend render.path, or push the folder")
	}
	asked := f.Service.Render.GetRenderer()
	found := deliveryv1.Renderer_RENDERER_RAW
	for i, mark := range f.marks[f.Root()] {
		if i > 0 && asked == 0 {
			return 0, f.mistake(mark.file, "the folder also has "+path.Base(f.marks[f.Root()][0].file)+". Remove one, or say in render.renderer which is meant")
		}
		found = mark.renderer
	}
	switch {
	case asked == 0:
		return found, nil
	case asked == deliveryv1.Renderer_RENDERER_HELM && !f.has(asked):
		return 0, f.mistake(f.Root(), "there is no Chart.yaml. Mend render.path or render.renderer")
	case asked == deliveryv1.Renderer_RENDERER_KUSTOMIZE && !f.has(asked):
		return 0, f.mistake(f.Root(), "there is no kustomization.yaml. Mend render.path or render.renderer")
	}
	return asked, nil
}

func (f *Folder) has(renderer deliveryv1.Renderer) bool {
	return slices.ContainsFunc(f.marks[f.Root()], func(m mark) bool { return m.renderer == renderer })
}

// check makes sure that a folder of plain manifests or templates has nothing else. Symbolic links are not
// followed: one that could hide manifests is an error, because what is not seen would be pruned.
func (f *Folder) check() error {
	if f.Renderer == deliveryv1.Renderer_RENDERER_KUSTOMIZE || f.Renderer == deliveryv1.Renderer_RENDERER_HELM {
		return f.checkLinks()
	}
	for _, dir := range slices.Sorted(maps.Keys(f.marks)) {
		mark := f.marks[dir][0]
		if !f.below(mark.file) {
			continue
		}
		tool := "kustomize"
		if mark.renderer == deliveryv1.Renderer_RENDERER_HELM {
			tool = "helm"
		}
		return f.mistake(mark.file, "the folder is made for "+tool+", and is taken for plain manifests. Set render.path to it, and render.renderer to "+mark.renderer.String()+
			"; or point the service at a folder of plain manifests")
	}
	return f.checkLinks()
}

func (f *Folder) checkLinks() error {
	helm := f.Renderer == deliveryv1.Renderer_RENDERER_HELM // A template may have any name.
	for _, link := range f.links {
		below := f.below(link.Path) || f.Renderer == deliveryv1.Renderer_RENDERER_KUSTOMIZE
		if below && (helm || wanted(link.Path) || f.folders[target(link)]) {
			return f.mistake(link.Path, "is a symbolic link, and links are not followed. Put the file itself in its place")
		}
	}
	return nil
}

// target is the path within the artifact that a link leads to.
func target(link artifact.Entry) string {
	dir := strings.Split(link.Path, "/")
	dir = dir[:len(dir)-1]
	for part := range strings.SplitSeq(link.Link, "/") {
		switch part {
		case "", ".":
		case "..":
			dir = dir[:max(len(dir)-1, 0)]
		default:
			dir = append(dir, part)
		}
	}
	return strings.Join(dir, "/")
}

// mistake is an error at a file of the folder.
func (f *Folder) mistake(file, problem string) error { return Mistake(f.Service.Path, file, problem) }

// Mistake is an error at a file of a service's folder.
func Mistake(folder, file, problem string) error {
	return &manifest.Error{Position: manifest.Position{File: artifact.Printable(path.Join(folder, file))}, Problem: problem}
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
		return f.mistake("", "the folder is refused: "+err.Error())
	}
	if err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("read artifact: %w", err)
	}
	return err
}
