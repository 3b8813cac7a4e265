package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// owner is who the images' programs run as: nobody that a distribution knows.
const owner = 65532

// file is one entry of an image, by its absolute path.
type file struct {
	path string
	mode int64
	// from is a file of this machine; without it, content.
	from    string
	content []byte
	folder  bool
	mine    bool // belongs to the owner, not to root
}

// common is in every image: folders that volumes take their owner and mode from, authorities, one user.
func common() []file {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		// Writing into memory can't fail.
		_ = pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
	}
	return []file{
		{path: "/data", mode: 0o700, folder: true, mine: true},
		{path: "/run/fairlead", mode: 0o755, folder: true, mine: true},
		{path: "/tmp", mode: 0o1777, folder: true},
		{path: "/etc/passwd", mode: 0o644, content: fmt.Appendf(nil, "fairlead:x:%d:%[1]d:fairlead:/data:/nologin\n", owner)},
		{path: "/etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: roots.Bytes()},
	}
}

// newLayer packs files so that the same files give the same bytes.
func newLayer(files []file, made time.Time) (v1.Layer, error) {
	packed, err := pack(files, made)
	if err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil },
		tarball.WithCompressionLevel(gzip.BestSpeed))
}

func pack(files []file, made time.Time) ([]byte, error) {
	var out bytes.Buffer
	if err := packTo(&out, files, made); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// packTo writes a tar archive: the same files give the same bytes.
func packTo(out io.Writer, files []file, made time.Time) error {
	w := tar.NewWriter(out)
	for _, f := range withParents(files) {
		if err := f.write(w, made); err != nil {
			return fmt.Errorf("pack %s: %w", f.path, err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	return nil
}

// withParents adds the folders that files are in, and sorts all by path. Of two with one path the first counts.
func withParents(files []file) []file {
	known := map[string]bool{}
	var all []file
	add := func(f file) {
		if !known[f.path] {
			known[f.path] = true
			all = append(all, f)
		}
	}
	for _, f := range files {
		add(f)
	}
	for _, f := range files {
		for dir := path.Dir(f.path); dir != "/"; dir = path.Dir(dir) {
			add(file{path: dir, mode: 0o755, folder: true})
		}
	}
	slices.SortFunc(all, func(a, b file) int { return cmp.Compare(a.path, b.path) })
	return all
}

func (f file) write(w *tar.Writer, made time.Time) error {
	header := &tar.Header{Name: f.path[1:], Mode: f.mode, ModTime: made, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
	if f.mine {
		header.Uid, header.Gid = owner, owner
	}
	if f.folder {
		header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
		return w.WriteHeader(header)
	}
	content := f.content
	if f.from != "" {
		var err error
		if content, err = os.ReadFile(f.from); err != nil {
			return err
		}
	}
	header.Size = int64(len(content))
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}
