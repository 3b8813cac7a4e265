package rpc

import (
	"path/filepath"
	"slices"
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/removals"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/guard"
)

// While the database is away a follower hears of the clusters that it was told of, as long as nobody has confirmed them.
func TestClustersThatWaitAreToldOnUntilTheyAreConfirmed(t *testing.T) {
	t.Parallel()
	away, err := store.New("sqlite:"+filepath.Join(t.TempDir(), "console.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := away.Close(); err != nil {
		t.Fatal(err)
	}
	s := &followers{Deps{Removals: &removals.Desk{Store: away}}}
	told := &consolev1.Removals{Confirmation: "c1", Clusters: []string{"edge-1"}}
	for _, tc := range []struct {
		name string
		is   guard.Removals
		want []string
	}{
		{"the same confirmation", guard.Removals{Confirmation: "c1"}, []string{"edge-1"}},
		{"a new confirmation", guard.Removals{Confirmation: "c2"}, nil},
	} {
		got, err := s.removals(t.Context(), tc.is, told)
		if err != nil || got.GetConfirmation() != tc.is.Confirmation || !slices.Equal(got.GetClusters(), tc.want) {
			t.Errorf("%s: got %v, %v", tc.name, got, err)
		}
	}
	if got, err := s.removals(t.Context(), guard.Removals{Confirmation: "c1"}, nil); err == nil {
		t.Errorf("a follower that was told nothing yet gets %v", got)
	}
}
