// Package render turns the folder of a service into objects.
//
// Plain manifests of usual size are read right here, file by file. Everything that runs a language of
// its own, or may be large, is done by a child process with limits: what is in a folder was written by
// anybody, and must not take the agent along.
package render

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/manifest"
)

// Input is what is rendered.
type Input struct {
	Service desired.Service
	// Open gives the folder, a verified tar. It is called more than once.
	Open func() (io.ReadCloser, error)
	// Memo may be nil.
	Memo manifest.Memo
}

// Renderer renders folders.
type Renderer struct{}

// New returns a renderer.
func New() *Renderer { return &Renderer{} }

// Render gives the objects of a service to add, in the order in which they are written down. A
// *manifest.Error is a mistake in the folder.
func (r *Renderer) Render(ctx context.Context, in Input, add manifest.Add) error {
	folder, err := scan(in)
	if err != nil {
		return err
	}
	if err := folder.plain(); err != nil {
		return err
	}
	return raw(in, add)
}

// raw reads plain manifests.
func raw(in Input, add manifest.Add) error {
	reader := manifest.NewReader(add, in.Memo)
	err := walk(in, func(entry artifact.Entry, content io.Reader) error {
		if entry.Link != "" || !wanted(entry.Path) {
			return nil
		}
		data, err := io.ReadAll(io.LimitReader(content, manifest.MaxFileBytes+1))
		if err != nil {
			return err
		}
		if !reader.Read(path.Join(in.Service.Path, entry.Path), data) {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	return reader.Err()
}

// errEnough ends a walk early; what follows is not needed.
var errEnough = errors.New("enough")

// walk reads the folder once.
func walk(in Input, visit func(artifact.Entry, io.Reader) error) error {
	content, err := in.Open()
	if err != nil {
		return err
	}
	err = artifact.Walk(content, artifact.Limits{}, visit)
	if closeErr := content.Close(); err == nil && closeErr != nil {
		err = closeErr
	}
	if err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("read artifact: %w", err)
	}
	return err
}

// mistake is an error at a file of the folder.
func mistake(service desired.Service, file, problem string) error {
	return &manifest.Error{Position: manifest.Position{File: path.Join(service.Path, file)}, Problem: problem}
}

// wanted tells the files that hold plain manifests. Names that begin with a dot are left out (.github/, .sops.yaml).
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
