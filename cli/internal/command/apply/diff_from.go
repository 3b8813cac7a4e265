package apply

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/view"
	"fairlead.dev/cli/internal/worktree"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/catalog"
)

// packFrom writes what a service would get from working trees: one for all of it, or one for each of the sources that
// are named.
func packFrom(
	ctx context.Context, h *hubclient.Hub, service *consolev1.Service, from []string, into io.Writer,
) (artifact.Summary, error) {
	spec := service.GetSpec()
	if parts := catalog.PartsOf(spec); len(parts) > 0 {
		return packParts(ctx, h, service, parts, from, into)
	}
	if len(from) > 1 {
		return artifact.Summary{}, fmt.Errorf("service %q has one source: name one working tree", service.GetMetadata().GetName())
	}
	return worktree.Folder{
		Dir: from[0], Path: spec.GetPath(), Include: spec.GetInclude(),
		Ignore: spec.GetIgnore(), Beyond: namesBeyond(spec),
	}.PackFolder(into)
}

// namesBeyond tells whether a service names values files beside its folder.
func namesBeyond(spec *consolev1.ServiceSpec) bool {
	for _, file := range spec.GetRender().GetHelm().GetValuesFiles() {
		if _, _, isOther := catalog.ParseValuesFile(file); !isOther && strings.Contains(file, "..") {
			return true
		}
	}
	return false
}

// packParts takes the place of some of several sources. The others are as the hub delivers them now.
func packParts(ctx context.Context, h *hubclient.Hub, service *consolev1.Service, all []catalog.Part, from []string, into io.Writer) (artifact.Summary, error) {
	name := service.GetMetadata().GetName()
	parts, err := partsFrom(service, all, from)
	if err != nil {
		return artifact.Summary{}, err
	}
	if len(parts) == len(all) {
		return worktree.CombineParts(into, strings.NewReader(""), parts)
	}
	rest, err := os.CreateTemp("", "fairlead-diff-*.tar")
	if err != nil {
		return artifact.Summary{}, err
	}
	defer func() {
		_ = rest.Close()
		_ = os.Remove(rest.Name()) // the file is in the folder for temporary ones
	}()
	what, err := downloadRevision(ctx, h, name, "HEAD", rest)
	if err != nil {
		return artifact.Summary{}, fmt.Errorf("get the other sources of service %q: %w", name, err)
	}
	return worktree.CombineParts(into, io.NewSectionReader(rest, 0, what.size), parts)
}

// partsFrom reads NAME=DIR of some of several sources.
func partsFrom(service *consolev1.Service, all []catalog.Part, from []string) (parts []worktree.Part, err error) {
	spec, dirs := service.GetSpec(), map[string]string{}
	for _, text := range from {
		name, dir, ok := strings.Cut(text, "=")
		if _, twice := dirs[name]; !ok || twice {
			return nil, fmt.Errorf("service %q has several sources (%s): write --from NAME=DIR, once for each source that has a working tree here", service.GetMetadata().GetName(), view.SourcesOf(spec))
		}
		dirs[name] = dir
	}
	for i, p := range all {
		dir, ok := dirs[p.Name]
		if !ok {
			continue
		}
		delete(dirs, p.Name)
		part := worktree.Part{Name: p.Name}
		for _, folder := range p.Folders() {
			part.Folders = append(part.Folders, worktree.Folder{
				Dir: dir, Path: folder.Path, Include: folder.Include.Lines(),
				Ignore: folder.Ignore.Lines(), Beyond: i == 0 && namesBeyond(spec),
			})
		}
		parts = append(parts, part)
	}
	for name := range dirs {
		return nil, fmt.Errorf("service %q has no source of the name %q: it has %s", service.GetMetadata().GetName(), name, view.SourcesOf(spec))
	}
	return parts, nil
}
