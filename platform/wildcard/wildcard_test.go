package wildcard_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"fairlead.dev/platform/wildcard"
)

func TestStarIsAnyText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`[ab*]{0,6}`).Draw(t, "pattern")
		text := rapid.StringMatching(`[ab]{0,6}`).Draw(t, "text")
		want := regexp.MustCompile("^" + strings.ReplaceAll(pattern, "*", ".*") + "$").MatchString(text)
		if got := wildcard.Match(pattern, text); got != want {
			t.Errorf("%q on %q: got %v", pattern, text, got)
		}
	})
}

func TestAnyPatternIsEnough(t *testing.T) {
	t.Parallel()
	if !wildcard.Any([]string{"ConfigMap", "*.apps"}, "Deployment.apps") ||
		wildcard.Any([]string{"ConfigMap", "*.apps"}, "Job.batch") || wildcard.Any(nil, "") {
		t.Error("the wrong ones fit")
	}
}
