package views

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/viewset"
)

func delivered(sets ...*deliveryv1.NamedViewSet) *deliveryv1.ViewSetDelivery {
	return &deliveryv1.ViewSetDelivery{Digest: viewset.Digest(sets), Sets: sets}
}

// names of the sets that a view has.
func (v *View) names() (names []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range v.sets {
		names = append(names, s.is.GetName())
	}
	return names
}

func opened(t *testing.T, dir string) (*Kept, *View) {
	t.Helper()
	v := plain()
	k, err := OpenKept(dir, v, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return k, v
}

func TestAnAgentKeepsItsSetsOverAStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k, v := opened(t, dir)
	if k.Digest() != "" || v.names() != nil {
		t.Errorf("begins with %s %v", k.Digest(), v.names())
	}
	both := delivered(certificates("a", "a.example.com"), certificates("b", "b.example.com"))
	k.Take(both)
	k.Take(nil) // nothing new
	k, v = opened(t, dir)
	if k.Digest() != both.GetDigest() || !slices.Equal(v.names(), []string{"a", "b"}) {
		t.Errorf("after a start %s %v", k.Digest(), v.names())
	}
	k.Take(delivered())
	if k, v = opened(t, dir); k.Digest() != "" || v.names() != nil {
		t.Errorf("after all went %s %v", k.Digest(), v.names())
	}
}

func TestADamagedRecordOfSetsIsLeft(t *testing.T) {
	t.Parallel()
	for what, damage := range map[string]func([]byte) []byte{
		"cut":     func(b []byte) []byte { return b[:len(b)/2] },
		"changed": func(b []byte) []byte { b[len(b)-3]++; return b },
	} {
		dir := t.TempDir()
		k, _ := opened(t, dir)
		k.Take(delivered(certificates("a", "a.example.com")))
		path := filepath.Join(dir, "viewsets")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, damage(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if k, v := opened(t, dir); k.Digest() != "" || v.names() != nil {
			t.Errorf("%s: %s %v", what, k.Digest(), v.names())
		}
	}
}

func TestSetsThatCanNotBeWrittenAreKeptWhileTheAgentRuns(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "gone")
	k, v := opened(t, dir)
	sent := delivered(certificates("a", "a.example.com"))
	k.Take(sent)
	if k.Digest() != sent.GetDigest() || !slices.Equal(v.names(), []string{"a"}) {
		t.Errorf("got %s %v", k.Digest(), v.names())
	}
}
