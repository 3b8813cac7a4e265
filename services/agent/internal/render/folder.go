package render

import (
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/agent/internal/desired"
)

// folder is what is known of a service's folder before it is rendered.
type folder struct {
	service desired.Service
	// marks are the files that are made for a renderer, by the folder that they stand in.
	marks map[string]mark
	// links are symbolic links; folders are all that have a file.
	links   []artifact.Entry
	folders map[string]bool
	// bytes and largest are those of plain manifests.
	bytes, largest int64
}

// mark is a file that tells what its folder is made for.
type mark struct {
	file     string
	renderer deliveryv1.Renderer
}

// scan looks at the names in a folder.
func scan(in Input) (*folder, error) {
	f := &folder{service: in.Service, marks: map[string]mark{}, folders: map[string]bool{}}
	err := walk(in, func(entry artifact.Entry, _ io.Reader) error {
		for dir := path.Dir(entry.Path); dir != "." && !f.folders[dir]; dir = path.Dir(dir) {
			f.folders[dir] = true
		}
		if entry.Link != "" {
			f.links = append(f.links, entry)
		}
		if renderer := madeFor(entry.Path); renderer != 0 {
			f.marks[path.Dir(entry.Path)] = mark{file: entry.Path, renderer: renderer}
		}
		if wanted(entry.Path) {
			f.bytes += entry.Size
			f.largest = max(f.largest, entry.Size)
		}
		return nil
	})
	return f, err
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

func title(renderer deliveryv1.Renderer) string {
	if renderer == deliveryv1.Renderer_RENDERER_HELM {
		return "Helm"
	}
	return "Kustomize"
}

// plain makes sure that the folder has nothing but plain manifests. Symbolic links are not followed:
// one that could hide manifests is an error, because what is not seen would be pruned.
func (f *folder) plain() error {
	for _, dir := range slices.Sorted(maps.Keys(f.marks)) {
		return mistake(f.service, f.marks[dir].file, "the folder is made for "+title(f.marks[dir].renderer)+
			", and the agent applies plain manifests only. Render it before the push, or point the service at a folder of plain manifests")
	}
	for _, link := range f.links {
		if wanted(link.Path) || f.folders[target(link)] {
			return mistake(f.service, link.Path, "is a symbolic link, and links are not followed. Put the file itself in its place")
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
