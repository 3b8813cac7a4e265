package owner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace/noop"

	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/mirror/mirrortest"
	"fairlead.dev/services/gitcache/internal/source"
)

// A disk that fails for a moment must not let through what nobody has looked at.
func TestWhatCanNotBeReadToBeVerifiedIsNotTaken(t *testing.T) {
	t.Parallel()
	m, commit := mirrortest.New(t, gittest.Files{"a": "1"})
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
