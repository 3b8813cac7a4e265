package owner

import "testing"

// A repository whose versions begin with v has the version that a chart wants without it, as for Helm, and the other way round.
func TestVersionsAreTheSameWithAndWithoutV(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		has, wants string
		is         bool
	}{
		{"v1.17.0", "1.17.0", true}, {"1.17.0", "v1.17.0", true}, {"1.17.0", "1.17.0", true},
		{"v1.17.1", "1.17.0", false}, {"1.16.0", "v1.17.0", false}, {"1.17.0+a", "1.17.0+b", false}, {"1.17.0-rc.1", "1.17.0", false},
	} {
		if got := isVersion(tc.has, tc.wants); got != tc.is {
			t.Errorf("%s for %s: %t", tc.has, tc.wants, got)
		}
	}
}
