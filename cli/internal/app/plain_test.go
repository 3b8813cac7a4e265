package app

import (
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// protojson puts spaces in at random, but the same all the time in one program: only this one's are known.
func TestJSONHasTheSameSpacesInEveryBuild(t *testing.T) {
	t.Parallel()
	got, err := JSONLine(&consolev1.Metadata{Name: "a", Uid: "b"})
	if want := `{"name":"a","uid":"b"}`; err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}
