package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// fullDisk takes no packs.
type fullDisk struct{ *mirror.Mirror }

func (fullDisk) AddPack(_ context.Context, pack io.Reader) (int64, error) {
	_, err := io.Copy(io.Discard, pack)
	full := &os.PathError{Op: "write", Path: "/data/mirrors/tmp_1", Err: syscall.ENOSPC}
	return 0, errors.Join(err, fmt.Errorf("receive pack: %w", full))
}

// TestAFullDiskIsNotUpstreamsFault: neither the network nor the content is to blame.
func TestAFullDiskIsNotUpstreamsFault(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "shop.git")
	id := git.HashOf(repo.Commit("one", gittest.Files{"a": "1"}))
	f, r := newFetcher(t, upstream.Options{}), remote(t, repo.URL())
	l, err := f.List(t.Context(), r, gitwire.Names{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Fetch(t.Context(), r, l, []git.Hash{id}, fullDisk{newMirror(t)})
	known, ok := errors.AsType[*upstream.Error](err)
	if !ok || known.Kind != upstream.KindStorage || !strings.Contains(err.Error(), "no space left") ||
		strings.Contains(err.Error(), "/data") {
		t.Errorf("got %v", err)
	}
}
