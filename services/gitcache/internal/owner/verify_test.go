package owner

import (
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace/noop"

	"fairlead.dev/services/gitcache/internal/fetch/githttp"
	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// fetched is a mirror with one commit in one pack.
func fetched(t *testing.T) (*mirror.Mirror, git.Hash) {
	t.Helper()
	return fetchedFiles(t, gittest.Files{"a": "1"})
}

func fetchedFiles(t *testing.T, files gittest.Files) (*mirror.Mirror, git.Hash) {
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

// A disk that fails for a moment must not let through what nobody has looked at.
func TestWhatCanNotBeReadToBeVerifiedIsNotTaken(t *testing.T) {
	t.Parallel()
	m, commit := fetched(t)
	packs, err := filepath.Glob(filepath.Join(m.ObjectsDir(), "pack", "*.pack"))
	if err != nil || len(packs) != 1 {
		t.Fatalf("%q, %v", packs, err)
	}
	if err := os.Rename(packs[0], packs[0]+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(packs[0], 0o700); err != nil { // reads give an error that says nothing about the pack
		t.Fatal(err)
	}
	signer := gittest.NewSSH(t, "ed25519")
	s := source.Source{Name: "shop", Verification: source.Verification{Commit: true, Keys: []string{signer.Public}}}
	tn := &tenure{
		loop: newLoop(New(Config{}, Deps{Tracer: noop.NewTracerProvider().Tracer("")}), s), work: newWork(),
		mirror: m,
	}
	p := &plan{found: map[string]*found{source.RefHead: {object: commit}}}
	if err := tn.dropUnsigned(t.Context(), s, p); err != nil {
		t.Fatal(err)
	}
	if len(p.found) != 0 {
		t.Error("it is taken without having been verified")
	}
	if len(p.troubles) != 1 || !strings.Contains(p.troubles[0].Text, "can't be used") {
		t.Errorf("told %v", p.troubles)
	}
}
