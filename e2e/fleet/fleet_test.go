package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/e2e/fleet"
	"fairlead.dev/e2e/gitcache"
)

// The processes of a run are this program.
func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	if known, err := fleet.Part(ctx, os.Args[1:], os.Stdin, os.Stdout); known {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	stop()
	os.Exit(m.Run())
}

// A fleet in small: everything is delivered, pushes arrive, nobody meets an error, and what agents have is
// what the console says, also after the distributor was killed.
func TestFleetConverges(t *testing.T) {
	t.Parallel()
	bins, err := gitcache.Bins("../..")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	progress := &strings.Builder{}
	seen, err := fleet.Do(ctx, fleet.Config{
		Bins: bins, Dir: t.TempDir(), Clusters: 100, Services: 5, Sources: 2, NextPoll: 2 * time.Second,
		Duration: 3 * time.Second, ChangesPerHour: 2, Downloads: 1, Tunnels: 0.1, Reconnect: true,
	}, progress)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}
	if err := seen.Fault(); err != nil {
		t.Error(err)
	}
	if f := seen.First; f.Written == 0 || f.Database == 0 || f.Applies.Count == 0 || len(f.ApplyErrors) > 0 {
		t.Errorf("the first delivery cost %+v", f)
	}
	if o := seen.Pushed; o.Downloads != 100 || o.Misses != 0 || o.Builds == 0 || o.Transfers == 0 {
		t.Errorf("after a push agents should find its content at the distributor: %+v", o)
	}
	if seen.Wave.Arrived != 100 || len(seen.Pushes) == 0 || seen.Stats.Calls["sync unchanged"].Quantile(0.5) == 0 ||
		seen.Reconnected == 0 {
		t.Errorf("saw %+v", seen)
	}
	if t.Failed() {
		seen.Print(progress)
		t.Log(progress)
	}
}

// Console and distributor are killed while half is delivered for the first time: all arrives, and is what the console
// says.
func TestFirstDeliverySurvivesAKill(t *testing.T) {
	t.Parallel()
	bins, err := gitcache.Bins("../..")
	if err != nil {
		t.Fatal(err)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	progress := &strings.Builder{}
	cfg := fleet.Config{
		Bins: bins, Dir: t.TempDir(), Clusters: 200, Services: 5, Sources: 2, NextPoll: 2 * time.Second,
		Disturb: fleet.DisturbKill, Executable: executable,
	}
	seen, err := fleet.Do(ctx, cfg, progress)
	if err == nil {
		err = seen.Fault()
	}
	if err != nil || !strings.Contains(progress.String(), "half is delivered: kill") {
		t.Errorf("%v\n%s", err, progress)
	}
	for _, u := range seen.SettledUsage {
		if u.CPU < 0 {
			t.Errorf("%s took %s of CPU", u.Name, u.CPU)
		}
	}
}

// A server that does nothing has the same agents, and costs something.
func TestAServerThatDoesNothingHoldsTheFleet(t *testing.T) {
	t.Parallel()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg := fleet.Config{
		Dir: t.TempDir(), Clusters: 50, Services: 1, Sources: 1, NextPoll: 100 * time.Millisecond,
		Duration: time.Second, Executable: executable,
	}
	cores, err := fleet.Floor(t.Context(), cfg, io.Discard)
	if err != nil || cores <= 0 {
		t.Errorf("it took %f cores: %v", cores, err)
	}
}

// Console, Redis, gitcache and Git host fail, one after another and all together; then cache files go bad, a disk is
// full, and distributors are replaced. Agents get no error for what is unchanged and cached, no wrong bytes
// ever, and have what the console says in the end. Half of them hit another distributor with each request.
func TestFleetKeepsGoingThroughFaults(t *testing.T) {
	t.Parallel()
	bins, err := gitcache.Bins("../..")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	progress := &strings.Builder{}
	seen, err := fleet.Do(ctx, fleet.Config{
		Bins: bins, Dir: t.TempDir(), Clusters: 60, Services: 3, Sources: 2, NextPoll: time.Second, Downloads: 1,
		Tunnels: 0.05, Faults: true,
	}, progress)
	if err == nil {
		err = seen.Fault()
	}
	if err != nil {
		t.Errorf("%v\n%s", err, progress)
	}
	t.Log(progress)
}

// A folder's state from an earlier run has another size than this one: the services of its other clusters would never
// be shown as healthy.
func TestFolderOfAnotherSizeIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(clusters int) error {
		_, err := fleet.Do(t.Context(),
			fleet.Config{Bins: t.TempDir(), Dir: dir, Clusters: clusters, Services: 3, Sources: 2}, io.Discard)
		return err
	}
	noPrograms := func(err error) bool { return errors.Is(err, fs.ErrNotExist) }
	if err := run(2); !noPrograms(err) {
		t.Fatalf("without programs: %v", err)
	}
	want := dir + " keeps a fleet of 2 clusters with 3 services each from 2 sources, and this one is of 1 clusters with 3 services each from 2 sources: give another folder, or remove this one"
	if err := run(1); err == nil || err.Error() != want {
		t.Errorf("another size: %v\nwant %s", err, want)
	}
	if err := run(2); !noPrograms(err) {
		t.Errorf("the same size: %v", err)
	}
}

func TestQuantilesAreNearTheTruth(t *testing.T) {
	t.Parallel()
	var times fleet.Times
	if times.Quantile(0.5) != 0 {
		t.Error("nothing has a median")
	}
	for i := range 1000 {
		times.Add(time.Duration(i+1) * time.Millisecond)
	}
	for share, want := range map[float64]time.Duration{
		0.5: 500 * time.Millisecond, 0.99: 990 * time.Millisecond, 1: time.Second,
	} {
		if got := times.Quantile(share); got < want || got > want*106/100 {
			t.Errorf("%v: %s, want %s", share, got, want)
		}
	}
}
