package replicas

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"fairlead.dev/e2e/process"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/postgrestest"
)

const (
	writers = 4
	// patience is how long it may take on a busy machine until all is seen.
	patience = 3 * time.Minute
	// Rounds of faults; the long form is that of `make replicas`.
	shortRounds, longRounds = 3, 30
)

func TestMain(m *testing.M) {
	flag.Bool("long", false, fmt.Sprintf("%d rounds of faults, as `make replicas` does", longRounds))
	flag.Parse()
	os.Exit(m.Run())
}

// TestNothingIsLostWhoeverDies kills consoles and, in the long form, pauses them and kills PostgreSQL, while clients
// write.
func TestNothingIsLostWhoeverDies(t *testing.T) {
	t.Parallel()
	rounds := shortRounds
	if flag.Lookup("long").Value.String() == "true" {
		rounds = longRounds
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience+time.Duration(rounds)*time.Minute)
	defer cancel()
	database := &postgrestest.Server{}
	p := startPair(ctx, t, database)
	told := &Told{pins: map[string][]pin{}}
	prepare(ctx, t, p, told)
	resume, err := p.Replicas[0].events.ListEvents(ctx, &consolev1.ListEventsRequest{PageSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	catalogs := []*view{newView("hub service 0"), newView("hub service 1"), newView("hub service 2")}
	people := []*view{newView("person 0"), newView("person 1")}
	readers := []*eventView{{seen: newView("reader 0")}, {seen: newView("reader 1")}}
	watching, end := context.WithCancel(ctx)
	var watchers, clients sync.WaitGroup
	defer watchers.Wait()
	defer end()
	for _, v := range catalogs {
		watchers.Go(func() { v.followCatalog(watching, p) })
	}
	for _, v := range people {
		watchers.Go(func() { v.followLive(watching, p) })
	}
	for _, v := range readers {
		watchers.Go(func() { v.follow(watching, p, resume.GetResumeToken()) })
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	for i := range writers {
		w := &Writer{pair: p, told: told, id: i}
		clients.Go(func() { w.Run(working) })
	}
	for round := range rounds {
		fault(ctx, t, p, database, told, round)
	}
	stop()
	clients.Wait()
	t.Log(told.describe())
	finish(ctx, t, p)
	views := append(catalogs, people...)
	await(ctx, t, append(views, readers[0].seen, readers[1].seen)...)
	settle(ctx, t, p, people)
	end()
	watchers.Wait()
	judge(t, p, told, views, readers, rounds)
}

func startPair(ctx context.Context, t *testing.T, database *postgrestest.Server) *Pair {
	t.Helper()
	binary, err := filepath.Abs("../../bin/console")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("no console: run `make build`: %v", err)
	}
	t.Cleanup(func() {
		if err := database.Stop(); err != nil {
			t.Error(err)
		}
	})
	p, err := Start(ctx, binary, t.TempDir(), database.Database(t))
	if p != nil {
		t.Cleanup(func() {
			if err := p.Stop(); err != nil {
				t.Error(err)
			}
			for _, r := range p.Replicas {
				if t.Failed() && r != nil {
					t.Logf("last words of %s:\n%s", r.Name, r.Tail())
				}
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// prepare makes what writers begin with.
func prepare(ctx context.Context, t *testing.T, p *Pair, told *Told) {
	t.Helper()
	source := &consolev1.Source{
		Metadata: &consolev1.Metadata{Name: sourceName},
		Spec:     &consolev1.SourceSpec{Git: &consolev1.GitSource{Url: "https://git.example.com/shop.git"}},
	}
	req := &consolev1.ApplyRequest{
		Resources: []*consolev1.Resource{{Resource: &consolev1.Resource_Source{Source: source}}},
	}
	for i := range counters {
		told.increments[i] = map[string]outcome{}
		req.Resources = append(req.Resources, &consolev1.Resource{
			Resource: &consolev1.Resource_Cluster{Cluster: clusterOf(counterName(i), "0 by nobody", "")},
		})
	}
	for i := range writers {
		req.Resources = append(req.Resources, &consolev1.Resource{
			Resource: &consolev1.Resource_Service{Service: &consolev1.Service{
				Metadata: &consolev1.Metadata{Name: pinnedService(i)},
				Spec:     &consolev1.ServiceSpec{Source: sourceName, Cluster: counterName(0)},
			}},
		})
	}
	if _, err := p.Replicas[0].applies.Apply(ctx, req); err != nil {
		t.Fatal(err)
	}
}

// fault waits until clients have written some more, and takes something away.
func fault(ctx context.Context, t *testing.T, p *Pair, database *postgrestest.Server, told *Told, round int) {
	t.Helper()
	told.await(ctx, t, 12)
	victim := p.Replicas[round%2]
	name := victim.Name
	var err error
	switch long := round >= shortRounds; {
	case long && round%5 == 4:
		name = "PostgreSQL"
		database.Kill(t)
		database.Restart(t)
	case round%3 == 2:
		name = "both"
		for _, r := range p.Replicas {
			err = orErr(err, r.Kill())
		}
		for _, r := range p.Replicas {
			err = orErr(err, r.Start())
		}
	default:
		err = victim.Kill()
		told.await(ctx, t, 6) // with the other one alone
		err = orErr(err, victim.Start())
	}
	for _, r := range p.Replicas {
		err = orErr(err, p.Ready(ctx, r))
	}
	if err != nil {
		t.Fatalf("round %d: %s: %v", round, name, err)
	}
	t.Logf("round %d: %s was killed and came back", round, name)
}

func orErr(err, next error) error {
	if err != nil {
		return err
	}
	return next
}

// await returns when clients have begun so many groups more.
func (t *Told) await(ctx context.Context, tb testing.TB, more int) {
	tb.Helper()
	count := func() int {
		t.mu.Lock()
		defer t.mu.Unlock()
		return len(t.groups)
	}
	want := count() + more
	err := process.Await(ctx, "clients write", func(context.Context) error {
		if got := count(); got < want {
			return fmt.Errorf("%d groups, want %d", got, want)
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// finish writes what watchers know the end by. Writes that a console that died had under way are decided before that:
// all writes take turns in the database.
func finish(ctx context.Context, t *testing.T, p *Pair) {
	t.Helper()
	r := p.Replicas[0]
	if _, err := r.levers.PinService(ctx, &consolev1.PinServiceRequest{
		Name: pinnedService(0), Commit: endCommit,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.clusters.UpdateCluster(ctx, &consolev1.UpdateClusterRequest{
		AllowMissing: true, Cluster: clusterOf(endName, "", ""),
	}); err != nil {
		t.Fatal(err)
	}
}

func await(ctx context.Context, t *testing.T, views ...*view) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, v := range views {
		err := process.Await(ctx, v.name+" has seen the end", func(context.Context) error {
			if !v.ended() {
				return errors.New("it has not")
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// settle waits until people see what there is: they may be shown the last write before others.
func settle(ctx context.Context, t *testing.T, p *Pair, people []*view) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	is, err := truth(ctx, p.Replicas[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range people {
		if err := process.Await(ctx, v.name+" sees all",
			func(context.Context) error { return v.judge(is) }); err != nil {
			t.Error(err)
		}
	}
}

func judge(t *testing.T, p *Pair, told *Told, views []*view, readers []*eventView, rounds int) {
	t.Helper()
	for _, r := range p.Replicas {
		is, err := truth(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if err := told.judgeGroups(is); err != nil {
			t.Errorf("%s:\n%v", r.Name, err)
		}
		for _, v := range views {
			if err := v.judge(is); err != nil {
				t.Errorf("%s:\n%v", r.Name, err)
			}
			if v.hops < rounds {
				t.Errorf("%s went elsewhere %d times only: it shows nothing", v.name, v.hops)
			}
		}
		if err := told.judgeCounters(t.Context(), r); err != nil {
			t.Errorf("%s:\n%v", r.Name, err)
		}
		list, err := events(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if err := told.judgeEvents(list, readers...); err != nil {
			t.Errorf("%s:\n%v", r.Name, err)
		}
	}
}
