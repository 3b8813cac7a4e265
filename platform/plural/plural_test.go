package plural_test

import (
	"testing"

	"fairlead.dev/platform/plural"
)

func TestNumbersAgreeWithTheirNouns(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"1 service":                plural.Of(1, "service"),
		"2 services":               plural.Of(2, "service"),
		"0 services":               plural.Of(int32(0), "service"),
		"2 entries":                plural.Of(int64(2), "entry"),
		"2 days":                   plural.Of(uint64(2), "day"),
		"0 of 1 object is healthy": plural.Part(0, 1, "object") + " " + plural.Are(1) + " healthy",
		"1 of 3 objects":           plural.Part(1, 3, "object"),
		"are":                      plural.Are(0),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
