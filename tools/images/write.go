package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/google/go-containerregistry/pkg/name"
)

const spdxType = "application/spdx+json"

// result is what was made of one image.
type result struct {
	digest v1.Hash // of the index over all platforms
	bytes  int64   // compressed, for the first platform
}

// produce builds an image for all platforms and writes what there is to use of it into dir: an OCI layout with an
// index and the lists of modules, NAME, and for `docker load` NAME.tar with the tag, for this machine's platform.
func (s source) produce(ctx context.Context, of image, platforms []platform, dir, tag, binaries string) (result, error) {
	var r result
	index, images, err := s.assemble(ctx, of, platforms, binaries, dir)
	if err != nil {
		return r, err
	}
	for _, b := range images {
		if b.platform == thisPlatform() {
			if err := saveForDocker(b, tag, filepath.Join(dir, fileName(of)+".tar")); err != nil {
				return r, err
			}
		}
	}
	if r.bytes, err = compressed(images[0]); err != nil {
		return r, err
	}
	at := filepath.Join(dir, fileName(of))
	if err := os.RemoveAll(at); err != nil {
		return r, err
	}
	if _, err := layout.Write(at, index); err != nil {
		return r, fmt.Errorf("write layout: %w", err)
	}
	r.digest, err = index.Digest()
	return r, err
}

// assemble builds an image for all platforms, as an index that has the lists of modules, too. The lists are also written into dir.
func (s source) assemble(ctx context.Context, of image, platforms []platform, binaries, dir string) (v1.ImageIndex, []built, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var images []built
	for _, p := range platforms {
		b, err := s.build(ctx, of, p, binaries)
		if err != nil {
			return nil, nil, err
		}
		images = append(images, b)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: b.Image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}}})
		if index, err = s.withBill(index, of, b, filepath.Join(dir, fileName(of)+"-"+p.arch+".spdx.json")); err != nil {
			return nil, nil, err
		}
	}
	return index, images, nil
}

// fileName of an image, which may have a tag in its name.
func fileName(of image) string {
	base, _, _ := strings.Cut(of.name, ":")
	return strings.ReplaceAll(base, "/", "-")
}

func saveForDocker(b built, tag, to string) error {
	ref, err := name.NewTag(tag)
	if err != nil {
		return fmt.Errorf("tag: %w", err)
	}
	return tarball.WriteToFile(to, ref, b.Image)
}

func compressed(b built) (int64, error) {
	layers, err := b.Layers()
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, layer := range layers {
		size, err := layer.Size()
		if err != nil {
			return 0, err
		}
		sum += size
	}
	return sum, nil
}

// withBill adds the list of modules as a manifest that names the image as its subject.
func (s source) withBill(index v1.ImageIndex, of image, b built, to string) (v1.ImageIndex, error) {
	if len(b.binaries) == 0 {
		return index, nil
	}
	bill, err := s.bill("fairlead-"+of.name+"-"+b.platform.arch, b.binaries)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(to, bill, 0o644); err != nil { //nolint:gosec // public
		return nil, err
	}
	subject, err := partial.Descriptor(b.Image)
	if err != nil {
		return nil, err
	}
	list := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), spdxType)
	if list, err = mutate.Append(list, mutate.Addendum{Layer: static.NewLayer(bill, spdxType), MediaType: spdxType}); err != nil {
		return nil, err
	}
	about, ok := mutate.Subject(list, *subject).(v1.Image)
	if !ok {
		return nil, errors.New("list of modules: not an image")
	}
	return mutate.AppendManifests(index, mutate.IndexAddendum{Add: about}), nil
}
