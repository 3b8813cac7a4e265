package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"

	"fairlead.dev/cli/internal/hub"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
)

const (
	// mostRefFiles bounds the files that are read of a ref: each is a question to a gitcache.
	mostRefFiles = 2000
	// refReaders bounds the questions at a time.
	refReaders = 8
)

// checkOut writes what a service could be made of at a ref into a folder, as a gitcache shows it to the caller: the service's own folder, or all of the repository.
// It returns the commit that the ref stood for at the beginning: all files are of that one.
func checkOut(ctx context.Context, h *hub.Hub, spec *consolev1.ServiceSpec, ref, at, dir string) (commit string, err error) {
	root, err := os.OpenRoot(dir) // names are of a repository: none leads out
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	c := &checkout{h: h, source: spec.GetSource(), revision: ref, root: root, links: map[string]string{}}
	if err := c.list(ctx, at); err != nil {
		return "", err
	}
	reading, ctx := errgroup.WithContext(ctx)
	reading.SetLimit(refReaders)
	for _, name := range c.files {
		reading.Go(func() error { return c.read(ctx, name) })
	}
	if err := reading.Wait(); err != nil {
		return "", err
	}
	for name, target := range c.links { // last, so that nothing is written through one
		if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
			return "", err
		}
		if err := root.Symlink(filepath.FromSlash(target), filepath.FromSlash(name)); err != nil {
			return "", err
		}
	}
	return c.revision, nil
}

// checkout reads one commit.
type checkout struct {
	h        *hub.Hub
	source   string
	revision string
	root     *os.Root
	files    []string

	mu    sync.Mutex // guards links
	links map[string]string
}

// list finds the files below a folder.
func (c *checkout) list(ctx context.Context, folder string) error {
	for token := ""; ; {
		request := &gitcachev1.ListTreeRequest{Source: c.source, Revision: c.revision, Path: folder, PageToken: token}
		page, err := atGitcache(ctx, c.h, callTimeout, func(ctx context.Context, g hub.Gitcache) (*gitcachev1.ListTreeResponse, error) {
			return g.Sources.ListTree(ctx, request)
		})
		if err != nil {
			return err
		}
		if commit := page.GetRevision().GetCommit(); commit != "" {
			c.revision = commit // whatever the ref becomes meanwhile
		}
		for _, entry := range page.GetEntries() {
			if err := c.note(ctx, path.Join(folder, entry.GetName()), entry); err != nil {
				return err
			}
		}
		if token = page.GetNextPageToken(); token == "" {
			return nil
		}
	}
}

func (c *checkout) note(ctx context.Context, name string, entry *gitcachev1.TreeEntry) error {
	switch entry.GetKind() {
	case gitcachev1.TreeEntry_KIND_FOLDER, gitcachev1.TreeEntry_KIND_SUBMODULE:
		return c.list(ctx, name)
	}
	if c.files = append(c.files, name); len(c.files) > mostRefFiles {
		return fmt.Errorf("there are more than %d files at %.8s: check it out, and use --from", mostRefFiles, c.revision)
	}
	return nil
}

// read writes a file, or notes a link.
func (c *checkout) read(ctx context.Context, name string) error {
	got, err := atGitcache(ctx, c.h, callTimeout, func(ctx context.Context, g hub.Gitcache) (*gitcachev1.ReadFileResponse, error) {
		return g.Sources.ReadFile(ctx, &gitcachev1.ReadFileRequest{Source: c.source, Revision: c.revision, Path: name})
	})
	if err != nil {
		return err
	}
	mode := os.FileMode(0o600)
	switch got.GetEntry().GetKind() {
	case gitcachev1.TreeEntry_KIND_LINK:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.links[name] = string(got.GetContent())
		return nil
	case gitcachev1.TreeEntry_KIND_EXECUTABLE:
		mode = 0o700
	}
	if err := c.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	return c.root.WriteFile(filepath.FromSlash(name), got.GetContent(), mode)
}
