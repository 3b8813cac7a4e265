package combination

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace/noop"

	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/source"
)

// TestTheIDOfACombinationStays: with another id the next release would make the commits of all combinations anew.
func TestTheIDOfACombinationStays(t *testing.T) {
	t.Parallel()
	parts := []source.Part{
		{UID: "u1", Head: mirror.Head{Commit: git.Hash{0: 1, 19: 2}}},
		{UID: "u2", Head: mirror.Head{Commit: git.Hash{0: 255, 10: 16}}, Submodules: true, Dependencies: true},
	}
	for isSealed, want := range map[bool]string{
		false: "3213ca99dfd18b154ceb0b151eb4916d284f577a",
		true:  "7c560500b877bc566777571903e7b5e0c0dde3fa",
	} {
		if got := ID(catalog.CombinationPrefix+"1", parts, isSealed).String(); got != want {
			t.Errorf("sealed %t: the id is %s", isSealed, got)
		}
	}
}

// A seal is for the one source that it was made for, and counts while the key that signed the commit is trusted.
func TestASealIsOfItsSourceAndItsSigner(t *testing.T) {
	t.Parallel()
	mirrors, err := mirror.Open(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(mirrors.Close)
	m, err := mirrors.Mirror("u1")
	if err != nil {
		t.Fatal(err)
	}
	seal := Seal{Secret: hubsecret.Text("the hub secret of this test"), UID: "u1"}
	other := Seal{Secret: seal.Secret, UID: "u2"}
	b := Builder{Dir: t.TempDir(), Seal: seal, Tracer: noop.NewTracerProvider().Tracer("")}
	defer b.Close()
	parts := []source.Part{
		{Name: "shop", Source: "shop", UID: "u1", Head: mirror.Head{Commit: git.Hash{1}, SignedBy: "ada"}},
		{Name: "values", Source: "values", UID: "u2", Head: mirror.Head{Commit: git.Hash{2}}},
	}
	var made [2]git.Hash
	for i, isSealed := range []bool{false, true} {
		if made[i], err = b.MakeCommit(t.Context(), catalog.CombinationPrefix+"1", "", parts, isSealed); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := b.PackObjects()
	if err == nil {
		_, err = m.AddPack(t.Context(), objects)
	}
	if err != nil {
		t.Fatal(err)
	}
	trusts := func(key string) func(string) bool { return func(by string) bool { return by == key } }
	for name, tc := range map[string]struct {
		seal   Seal
		commit git.Hash
		key    string
		want   string
	}{
		"sealed":             {seal: seal, commit: made[1], key: "ada"},
		"not sealed":         {seal: seal, commit: made[0], key: "ada", want: "has no seal of the hub"},
		"of another source":  {seal: other, commit: made[1], key: "ada", want: "has no seal of the hub"},
		"by another key now": {seal: seal, commit: made[1], key: "eve", want: "by key ada"},
	} {
		got := fmt.Sprint(tc.seal.CheckCommit(m, tc.commit, trusts(tc.key)))
		if tc.want == "" && got != "<nil>" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	s := source.Source{UID: "u1", Verification: source.Verification{Commit: true}}
	if !IsNeeded(s, parts, trusts("ada")) || IsNeeded(s, parts, trusts("eve")) ||
		IsNeeded(source.Source{UID: "u1"}, parts, trusts("ada")) {
		t.Error("a seal is for signed commits of sources that want these")
	}
}
