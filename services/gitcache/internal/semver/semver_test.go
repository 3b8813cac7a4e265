package semver_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/services/gitcache/internal/semver"
)

func tags(names ...string) []string {
	refs := []string{"HEAD", "refs/heads/9.9.9"}
	for _, n := range names {
		refs = append(refs, "refs/tags/"+n)
	}
	return refs
}

func TestTheHighestVersionInTheRangeIsChosen(t *testing.T) {
	t.Parallel()
	all := tags("v1.0.0", "v1.2.0", "1.10.0", "v1.9.9", "v2.0.0", "v2.1.0-rc.1", "v3.0.0-beta.2", "v3.0.0-beta.10",
		"latest", "v1", "v1.11", "release-1.12.0", "v01.0.0", "vv1.50.0", "x/v1.60.0", "v1.2.0.4")
	for text, want := range map[string]string{
		"1.x": "1.10.0", "~1.2": "v1.2.0", "^1.2": "1.10.0", ">=1.0.0 <1.10.0": "v1.9.9", "*": "v2.0.0", ">2.0.0": "",
		"~2.1.0-0": "v2.1.0-rc.1", ">=3.0.0-beta": "v3.0.0-beta.10", "9": "", "1.2.0": "v1.2.0", "1.x || 2.x": "v2.0.0",
	} {
		r, err := semver.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		got := r.Choose(slices.Values(all))
		if got.Tag != want && got.Tag != "refs/tags/"+want {
			t.Errorf("%q chooses %q, want %q", text, got.Tag, want)
		}
		if got.Highest != "refs/tags/v3.0.0-beta.10" {
			t.Errorf("the highest of all is %q", got.Highest)
		}
	}
}

func TestEveryOrderOfTheSameTagsGivesTheSame(t *testing.T) {
	t.Parallel()
	r, err := semver.Parse("1.x")
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]bool{}
	for _, ref := range tags("1.0.0", "v1.0.0", "v1.0.0+b", "1.0.0+c") {
		set[ref] = true
	}
	for range 50 { // maps come in a random order
		if got := r.Choose(maps.Keys(set)).Tag; got != "refs/tags/v1.0.0+b" {
			t.Fatalf("chose %q", got)
		}
	}
}

func TestWhatIsNoRangeSaysHowToWriteOne(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "latest", ">>1", "1.x && 2", "v", "1.2.3.4"} {
		if _, err := semver.Parse(text); err == nil || !strings.Contains(err.Error(), "Write it like") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestLower(t *testing.T) {
	t.Parallel()
	for pair, want := range map[[2]string]bool{
		{"refs/tags/v1.9.0", "refs/tags/1.10.0"}:      true,
		{"refs/tags/v1.10.0", "refs/tags/1.9.0"}:      false,
		{"refs/tags/v1.0.0", "refs/tags/1.0.0"}:       false,
		{"refs/tags/v1.0.0-rc.1", "refs/tags/v1.0.0"}: true,
		{"refs/tags/x", "refs/tags/v1.0.0"}:           false,
	} {
		if got := semver.Lower(pair[0], pair[1]); got != want {
			t.Errorf("%v: %v", pair, got)
		}
	}
}

func FuzzChoose(f *testing.F) {
	f.Add(">=1.0.0-0 <2 || ~3", "refs/tags/v1.0.0-rc.1+x")
	f.Fuzz(func(t *testing.T, text, ref string) {
		r, err := semver.Parse(text)
		if err != nil {
			return
		}
		c := r.Choose(slices.Values([]string{ref, "refs/tags/v1.0.0"}))
		if c.Highest == "" || c.Tag != "" && c.Tag != ref && c.Tag != "refs/tags/v1.0.0" {
			t.Errorf("%q of %q chooses %+v", text, ref, c)
		}
	})
}

func TestANewerTagIsAboveTheChosenOneAndNoPreRelease(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"^1": "v2.1.0", "^2": "", "^3.0.0-0": "", "^4": ""} {
		r, err := semver.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		tags := []string{
			"refs/tags/1.4.0", "refs/tags/v2.0.0", "refs/tags/v2.1.0", "refs/tags/v3.0.0-rc.1",
			"refs/tags/other",
		}
		if got := r.Choose(slices.Values(tags)).Newer(); got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
}
