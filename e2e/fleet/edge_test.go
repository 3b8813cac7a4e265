package fleet_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/e2e/fleet"
	"fairlead.dev/e2e/gitcache"
	"fairlead.dev/e2e/process"
	"fairlead.dev/platform/artifact"
)

// An artifact for another cluster, from the same source or another, and one that was never made, is not found: at the
// distributor, and with it gone at the gitcache, whatever ticket is shown. The console's audit trail says who asked for
// what. A cluster gets its own artifacts from either.
func TestOthersDownloadsAreRefusedAndAudited(t *testing.T) {
	t.Parallel()
	bins, err := gitcache.Bins("../..")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	progress := &strings.Builder{}
	e, err := fleet.OpenEdge(ctx, fleet.Config{
		Bins: bins, Dir: t.TempDir(), Clusters: 2, Services: 3, Sources: 2, NextPoll: time.Minute,
	}, progress)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	mine, err := e.Delivered(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := e.Delivered(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	forged := artifact.SumDigest(make([]byte, 32))
	var want []string
	ask := func(where string) {
		for _, s := range mine {
			if err := e.Download(ctx, 0, artifact.Digest(s.GetArtifact().GetDigest()), s.GetTicket()); err != nil {
				t.Errorf("%s: what is meant for a cluster: %v", where, err)
			}
		}
		refused := map[artifact.Digest]string{forged: mine[1].GetTicket()}
		for _, s := range theirs[1:] { // the first is in the same folder as ours
			refused[artifact.Digest(s.GetArtifact().GetDigest())] = s.GetTicket()
		}
		for d, ticket := range refused {
			if err := e.Download(ctx, 0, d, ticket); !errors.Is(err, artifact.ErrNotFound) {
				t.Errorf("%s: what is not meant for a cluster: %v", where, err)
			}
			want = append(want, "edge-00000 "+string(d))
		}
	}
	ask("distributor")
	if err := e.Kill("distributor"); err != nil {
		t.Fatal(err)
	}
	ask("gitcache")
	if err := e.Download(ctx, 0, artifact.Digest(mine[0].GetArtifact().GetDigest()), ""); err == nil {
		t.Error("the gitcache gives without a ticket")
	}
	err = process.Await(ctx, "the audit trail has all that was refused", func(ctx context.Context) error {
		got, err := e.Refused(ctx)
		for _, w := range want {
			if !slices.Contains(got, w) {
				err = errors.Join(err, errors.New("it lacks "+w))
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if t.Failed() {
		t.Log(progress)
	}
}
