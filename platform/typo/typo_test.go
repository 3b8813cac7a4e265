package typo_test

import (
	"strings"
	"testing"

	"fairlead.dev/platform/typo"
)

func TestSuggestionNamesWhatWasProbablyMeant(t *testing.T) {
	t.Parallel()
	known := []string{"service.healthy", "service.failed", "cluster.lost"}
	for got, want := range map[string]string{
		"service.helthy":         `; did you mean "service.healthy"?`,
		"Service.Failed":         `; did you mean "service.failed"?`,
		"sink":                   "; known are: service.healthy, service.failed, cluster.lost",
		strings.Repeat("x", 999): "; known are: service.healthy, service.failed, cluster.lost",
	} {
		if is := typo.Suggest(got, known); is != want {
			t.Errorf("%q: got %q, want %q", got, is, want)
		}
	}
}
