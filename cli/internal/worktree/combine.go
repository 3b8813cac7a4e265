package worktree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"fairlead.dev/platform/artifact"
)

// Part is one of several sources of a service: a working tree has its folders.
type Part struct {
	Name    string // of its folder among the others
	Folders []Folder
}

// CombineParts packs several sources side by side: of parts what the working trees have, and of all others what is in
// the hub's artifact. Nothing is in it if there are no others.
func CombineParts(w io.Writer, hub io.Reader, parts []Part) (artifact.Summary, error) {
	c := combined{}
	err := artifact.Walk(hub, limits, func(e artifact.Entry, content io.Reader) error {
		name, _, _ := strings.Cut(e.Path, "/")
		if slices.ContainsFunc(parts, func(p Part) bool { return p.Name == name }) {
			return nil
		}
		return c.addEntry(e.Path, e, content)
	})
	if err != nil {
		return artifact.Summary{}, err
	}
	for _, p := range parts {
		for _, folder := range p.Folders {
			if err := c.addFolder(p.Name, folder); err != nil {
				return artifact.Summary{}, fmt.Errorf("source %q: %w", p.Name, err)
			}
		}
	}
	return c.writeArtifact(w)
}

// combined are files by their paths. Limits keep what is read small.
type combined map[string]combinedFile

type combinedFile struct {
	entry   artifact.Entry
	content []byte
}

func (c combined) addEntry(at string, e artifact.Entry, content io.Reader) error {
	text, err := io.ReadAll(content)
	c[at] = combinedFile{e, text}
	return err
}

// addFolder adds a folder as the hub does: at its place in the repository, below a folder of the source's name.
func (c combined) addFolder(name string, folder Folder) error {
	var packed bytes.Buffer
	if _, err := folder.PackFolder(&packed); err != nil {
		return err
	}
	return artifact.Walk(&packed, limits, func(e artifact.Entry, content io.Reader) error {
		at := path.Join(folder.Path, e.Path)
		if e.Base != "" { // then paths are those of the repository
			at = e.Path
		}
		return c.addEntry(path.Join(name, at), e, content)
	})
}

func (c combined) writeArtifact(w io.Writer) (artifact.Summary, error) {
	out := artifact.NewWriter(w, limits)
	var errs error
	for _, at := range slices.Sorted(maps.Keys(c)) {
		is := c[at]
		if is.entry.Link != "" {
			errs = errors.Join(errs, out.Symlink(at, is.entry.Link))
			continue
		}
		errs = errors.Join(errs, out.File(at, is.entry.Executable, is.entry.Size, bytes.NewReader(is.content)))
	}
	if errs != nil {
		return artifact.Summary{}, errs
	}
	return out.Close()
}
