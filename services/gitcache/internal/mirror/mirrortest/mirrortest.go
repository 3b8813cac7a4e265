// Package mirrortest makes mirrors for tests of what reads them.
package mirrortest

import (
	"log/slog"
	"net/netip"
	"testing"

	"fairlead.dev/services/gitcache/internal/fetch/githttp"
	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// New is a mirror with one commit of files in one pack.
func New(t *testing.T, files gittest.Files) (*mirror.Mirror, git.Hash) {
	t.Helper()
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	commit := git.HashOf(repo.Commit("one", files))
	mirrors, err := mirror.Open(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(mirrors.Close)
	m, err := mirrors.Mirror("u1")
	if err != nil {
		t.Fatal(err)
	}
	client := upstream.NewClient(upstream.Options{Addresses: upstream.NewPolicy([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})})
	t.Cleanup(client.Close)
	http := githttp.New(client)
	t.Cleanup(http.Close)
	u, err := upstream.ParseURL(repo.URL())
	if err != nil {
		t.Fatal(err)
	}
	l, err := http.List(t.Context(), upstream.Remote{URL: u}, gitwire.Names{})
	if err == nil {
		_, err = http.Fetch(t.Context(), upstream.Remote{URL: u}, l, []git.Hash{commit}, m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m, commit
}
