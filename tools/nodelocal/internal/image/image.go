// Package image writes container images of one static program, as `docker save` writes them.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// Write makes an image that holds one program at its root and runs it, as user 65532.
func Write(out, tag, program string) error {
	layer, err := layerOf(program)
	if err != nil {
		return fmt.Errorf("read %s: %w", program, err)
	}
	path := "/" + filepath.Base(program)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{path}, "User": "65532:65532", "WorkingDir": "/"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
	})
	if err != nil {
		return fmt.Errorf("encode the configuration: %w", err)
	}
	configFile, layerFile := digest(config)+".json", digest(layer)+".tar"
	manifest, err := json.Marshal([]map[string]any{{"Config": configFile, "RepoTags": []string{tag}, "Layers": []string{layerFile}}})
	if err != nil {
		return fmt.Errorf("encode the manifest: %w", err)
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err = errors.Join(
		add(w, layerFile, 0o644, layer), add(w, configFile, 0o644, config), add(w, "manifest.json", 0o644, manifest), w.Close())
	if err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return os.WriteFile(out, archive.Bytes(), 0o644) //nolint:gosec // public
}

func layerOf(program string) ([]byte, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	// A writable /tmp, as distributions have it.
	err = errors.Join(
		w.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}),
		add(w, filepath.Base(program), 0o755, content), w.Close())
	return layer.Bytes(), err
}

func add(w *tar.Writer, name string, mode int64, content []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
