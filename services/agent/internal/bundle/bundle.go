// Package bundle reads the manifests of a service out of its artifact.
package bundle

import (
	"fmt"
	"io"
	"strings"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/agent/internal/manifest"
)

// Read returns the files of an artifact that may hold manifests. Symbolic links are not followed: one
// that could hide manifests is an error, because what is not seen would be pruned.
func Read(r io.Reader, prefix string) ([]manifest.File, error) {
	var files []manifest.File
	var links []artifact.Entry
	folders := map[string]bool{}
	total := 0
	err := artifact.Walk(r, artifact.Limits{}, func(entry artifact.Entry, content io.Reader) error {
		for dir := entry.Path; strings.Contains(dir, "/"); {
			dir = dir[:strings.LastIndexByte(dir, '/')]
			folders[dir] = true
		}
		if entry.Link != "" {
			links = append(links, entry)
			return nil
		}
		if !manifest.Wanted(entry.Path) {
			return nil
		}
		data, err := io.ReadAll(io.LimitReader(content, manifest.MaxFileBytes+1))
		if err != nil {
			return err
		}
		if total += len(data); total > manifest.MaxBytes+manifest.MaxFileBytes {
			return nil // Parse tells it; more is not kept.
		}
		files = append(files, manifest.File{Path: entry.Path, Data: data})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read artifact: %w", err)
	}
	for _, link := range links {
		if manifest.Wanted(link.Path) || folders[target(link)] {
			return nil, &manifest.Error{
				Position: manifest.Position{File: strings.TrimPrefix(prefix+"/"+link.Path, "/")},
				Problem:  "is a symbolic link, and links are not followed. Put the file itself in its place",
			}
		}
	}
	return files, nil
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
