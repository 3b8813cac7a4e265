package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// refName is the annotation by which an OCI layout names what is in it.
const refName = "org.opencontainers.image.ref.name"

// contents of a bundle: what has which digest.
type contents []struct{ reference, digest string }

func (c *contents) add(reference string, digest v1.Hash) {
	*c = append(*c, struct{ reference, digest string }{reference, digest.String()})
}

// table is a part of the notes.
func (c contents) table() string {
	var b strings.Builder
	b.WriteString("\n## Images and charts of this version\n\n| in a registry | digest |\n|---|---|\n")
	for _, one := range c {
		fmt.Fprintf(&b, "| `%s` | `%s` |\n", one.reference, one.digest)
	}
	return b.String()
}

// bundle writes one file with all images for all platforms, their lists of modules, and the charts: a tar of an OCI layout, for
// registries that nothing else reaches. `fairlead images mirror` pushes it, and so do others that read such archives.
func (r release) bundle(ctx context.Context, charts []chart) (contents, error) {
	name := "fairlead-bundle-" + r.version + ".tar"
	at, err := layout.Write(filepath.Join(r.work, "layout"), empty.Index)
	if err != nil {
		return nil, fmt.Errorf("write layout: %w", err)
	}
	var all contents
	for _, of := range r.images {
		r.step("%s: image %s for %s", name, of.name, platforms(r.services))
		index, _, err := r.assemble(ctx, of, r.services, r.work, r.work)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", of.name, err)
		}
		reference := r.reference(of.name)
		if err := at.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: reference})); err != nil {
			return nil, fmt.Errorf("%s: %w", of.name, err)
		}
		digest, err := index.Digest()
		if err != nil {
			return nil, err
		}
		all.add(reference, digest)
	}
	for _, c := range charts {
		reference := r.reference(chartFolder + c.name)
		digest, err := c.addTo(at, reference)
		if err != nil {
			return nil, fmt.Errorf("chart %s: %w", c.name, err)
		}
		all.add(reference, digest)
	}
	return all, r.packLayout(string(at), name)
}

// packLayout writes the layout as one file, without compression: layers have theirs, and readers find blobs in it.
func (r release) packLayout(at, name string) (err error) {
	var files []file
	if err := filepath.WalkDir(at, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		inside, err := filepath.Rel(at, path)
		files = append(files, file{path: "/" + filepath.ToSlash(inside), mode: 0o644, from: path})
		return err
	}); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(r.dir, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return packTo(out, files, r.time)
}

func platforms(all []platform) string {
	var names []string
	for _, p := range all {
		names = append(names, p.String())
	}
	return strings.Join(names, ", ")
}
