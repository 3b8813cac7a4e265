package delivery_test

import (
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"fairlead.dev/platform/delivery"
)

// Agents and distributors of different releases must agree: these digests may never change.
func TestDigestsAreGolden(t *testing.T) {
	t.Parallel()
	s := delivery.Service{Name: "hello", Namespace: "default", Path: "apps/hello", Artifact: "sha256:aa", Config: "7"}
	if got, want := delivery.ServiceDigest(s), "sha256:498f7435f57c1d568d699fe076a0ecdae24005bf60acc8d8f0c1bf2c62dbd1f8"; got != want {
		t.Errorf("service digest %s, want %s", got, want)
	}
	if got, want := delivery.SetDigest(map[string]string{
		"b": "2", "a": "1",
	}), "sha256:df9d7c8b5d61073c1f63845a5faa9d20f7a545a1d1d96572cf2e398fa4e947d1"; got != want {
		t.Errorf("set digest %s, want %s", got, want)
	}
	if got := delivery.SetDigest(nil); got != "" {
		t.Errorf("digest of nothing: %q", got)
	}
}

func TestOptionsChangeTheDigestAndGoldenStays(t *testing.T) {
	t.Parallel()
	s := delivery.Service{Name: "hello", Namespace: "default", Path: "apps/hello", Artifact: "sha256:aa", Config: "7"}
	without := delivery.ServiceDigest(s)
	s.Options = "\x4a\x02\x08\x02"
	if got, want := delivery.ServiceDigest(s), "sha256:5a8a4a7fa5f7f361a9ee1b2ce93e8bde78e53f1d72cbb4f79e666273dd5f9ca5"; got != want {
		t.Errorf("service digest with options %s, want %s", got, want)
	}
	if delivery.ServiceDigest(s) == without {
		t.Error("options don't count")
	}
}

func TestEveryFieldCountsInAServiceDigest(t *testing.T) {
	t.Parallel()
	field := rapid.StringN(0, 3, -1)
	services := rapid.Custom(func(t *rapid.T) delivery.Service {
		return delivery.Service{
			Name: field.Draw(t, "name"), Namespace: field.Draw(t, "namespace"), Path: field.Draw(t, "path"),
			Artifact: field.Draw(t, "artifact"), Config: field.Draw(t, "config"),
			Options: field.Draw(t, "options"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := services.Draw(t, "a"), services.Draw(t, "b")
		if (delivery.ServiceDigest(a) == delivery.ServiceDigest(b)) != (a == b) {
			t.Fatalf("%+v and %+v", a, b)
		}
	})
}

func TestSetDigestTellsSetsApart(t *testing.T) {
	t.Parallel()
	sets := rapid.MapOfN(rapid.StringMatching("[ab]{1,2}"), rapid.StringMatching("[ab]{0,2}"), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		a, b := sets.Draw(t, "a"), sets.Draw(t, "b")
		if (delivery.SetDigest(a) == delivery.SetDigest(b)) != maps.Equal(a, b) {
			t.Fatalf("%v and %v", a, b)
		}
	})
}

func TestADigestIsReadBackAndNothingElse(t *testing.T) {
	t.Parallel()
	d := delivery.DigestOf(delivery.Service{Name: "hello"})
	if got, ok := delivery.ParseDigest(d.String()); !ok || got != d {
		t.Errorf("got %s of %s", got, d)
	}
	for _, text := range []string{"", "d1", "sha256:", d.String()[1:], d.String() + "0", strings.ToUpper(d.String()), d.String()[:70], d.String()[:70] + "g"} {
		if got, ok := delivery.ParseDigest(text); ok {
			t.Errorf("got %s of %q", got, text)
		}
	}
}
