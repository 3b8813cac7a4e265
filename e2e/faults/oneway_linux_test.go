package faults

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/client"
)

const (
	redisPort, postgresPort, gitPort = 6379, 5432, 3000
	// told is the longest until a part says that it hears nothing: the catalog's three heartbeats (45 s) are the
	// longest silence that counts as life, and the machine may be busy.
	told = 2 * time.Minute
	// recovered is the longest until a commit arrives after a link is whole again.
	recovered = 2 * time.Minute
)

// Flags of `make faults`.
var (
	long = flag.Bool("long", false, "cut the links of all pairs, as `make faults` does")
	only = flag.String("only", "", "cut the ways alone that this regular expression fits, such as 'redis to'")
)

// cut is a link of which one direction is lost.
type cut struct {
	way
	// delivers says that a commit arrives all the same, by another replica or another way.
	delivers bool
	// says fits a line that the part logs of it; empty: nothing is lost that the part would have to say.
	says string
	// unready says that the part's /readyz tells balancers to ask the other replica.
	unready bool
	// short is for `make test`.
	short bool
}

// cuts are of all pairs that talk to each other, each in both directions.
func cuts() []cut {
	var all []cut
	for _, c := range []cut{
		{
			way: way{part: "console", peer: "postgres", port: postgresPort}, says: "database does not answer",
			unready: true,
		},
		{
			way: way{part: "agent-a", peer: "tunnel"}, delivers: true, says: "tunnel session ended; dialling again",
			short: true,
		},
		{way: way{part: "agent-a", peer: "console"}, delivers: true},
		{
			way: way{part: "agent-a", peer: inUse}, delivers: true,
			says: "the stream of nudges ended|the hub did not say what to apply",
		},
		{way: way{part: "agent-a", peer: "kubernetes"}},
		{
			way: way{part: "gitcache", peer: "redis", port: redisPort}, delivers: true,
			says: "coordination fails: trying on", short: true,
		},
		// The other gitcache reaches the console, so it gets the sources and publishes their commits.
		{way: way{part: "gitcache", peer: "console"}, delivers: true, says: "the console is not reached from here"},
		{way: way{part: "gitcache", peer: "gitcache-2"}, delivers: true},
		{way: way{part: "gitcache", peer: "git", port: gitPort}},
		{way: way{part: "distributor", peer: "redis", port: redisPort}, delivers: true},
		{way: way{part: "distributor", peer: "console"}},
		{way: way{part: "distributor", peer: "gitcache"}, delivers: true},
		{way: way{part: "distributor", peer: "gitcache-2"}, delivers: true},
		{way: way{part: "tunnel", peer: "redis", port: redisPort}, delivers: true},
		{way: way{part: "tunnel", peer: "console"}, delivers: true},
		{way: way{part: "tunnel", peer: "tunnel-2"}, delivers: true},
	} {
		back := c
		back.toPart = true
		all = append(all, c, back)
	}
	return all
}

// inUse is the distributor that the agent asks.
const inUse = "the agent's distributor"

type world struct {
	*stack.Stack
	t        *testing.T
	n        *network
	ship     *stack.Ship
	hub      *http.Client
	database string // URL
}

func start(ctx context.Context, t *testing.T) *world {
	t.Helper()
	if why := missing(); why != "" {
		t.Skip(why)
	}
	bins, err := stack.FindBinaries(ctx, "../..")
	if err != nil {
		t.Fatal(err)
	}
	n := newNetwork(t)
	s, servers := stack.Networked(ctx, t, bins, n)
	hub, err := client.New(client.Config{CAFile: s.CAFile})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hub.CloseIdleConnections)
	return &world{Stack: s, t: t, n: n, hub: hub, database: servers.Database}
}

// TestEachPartLivesThroughALinkThatLosesOneDirection drops what one of a pair sends to the other, without a word to
// either: the part says so, commits arrive by another way where there is one, and all is well soon after the link is
// whole again.
func TestEachPartLivesThroughALinkThatLosesOneDirection(t *testing.T) { // not parallel: tests share the network
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
	defer cancel()
	w := start(ctx, t)
	var err error
	if w.ship, err = w.NewShip(ctx, "ship", "ship"); err != nil {
		t.Fatal(err)
	}
	if err := w.ship.WaitApplied(ctx, "first"); err != nil {
		t.Fatal(err)
	}
	w.consolesOfACutOffOneGoOn(ctx)
	tried := 0
	for _, c := range cuts() {
		if (c.short || *long) && regexp.MustCompile(*only).MatchString(c.String()) {
			w.cut(ctx, c)
			tried++
		}
	}
	if tried == 0 {
		t.Errorf("no way fits %q", *only)
	}
	counts, err := w.ship.Generations(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for cluster, n := range counts {
		if n > w.ship.Pushes() {
			t.Errorf("cluster %s: the Deployment changed %d times for %d commits", cluster, n, w.ship.Pushes())
		}
	}
}

func (w *world) log(part string) string {
	w.t.Helper()
	log, err := w.Process(part).Log()
	if err != nil {
		w.t.Fatal(err)
	}
	return log
}

// distributor is the one that the agent asked last.
func (w *world) distributor() string {
	w.t.Helper()
	last := func(part string) string {
		lines := strings.Split(w.log(part), "\n")
		for _, line := range slices.Backward(lines) {
			if strings.Contains(line, "DeliveryService/Sync") {
				return line // which begins with its time
			}
		}
		return ""
	}
	if last("distributor") > last("distributor-2") {
		return "distributor"
	}
	return "distributor-2"
}

func (w *world) cut(ctx context.Context, c cut) {
	w.t.Helper()
	name := c.String()
	if c.peer == inUse {
		c.peer = w.distributor()
	}
	mark := len(w.log(c.part))
	began := time.Now()
	heal := w.n.drop(c.way)
	during := "during " + name
	if _, err := w.ship.Push(ctx, during); err != nil {
		w.t.Fatal(err)
	}
	limit, cancel := context.WithTimeout(ctx, told)
	defer cancel()
	var arrived, said time.Duration
	if c.delivers {
		if err := w.ship.WaitApplied(limit, during); err != nil {
			w.t.Errorf("%s: %v", name, err)
		}
		arrived = time.Since(began)
	}
	said = w.says(limit, name, c, mark, began)
	if c.unready {
		if err := process.Await(limit, c.part+" is not ready",
			func(ctx context.Context) error { return w.unready(ctx, c.part) }); err != nil {
			w.t.Errorf("%s: %v", name, err)
		}
	}
	heal()
	healed := time.Now()
	limit, cancel = context.WithTimeout(ctx, recovered)
	defer cancel()
	after := "after " + name
	commit, err := w.ship.Push(limit, after)
	if err == nil {
		err = w.ship.WaitApplied(limit, after)
	}
	back := time.Since(healed)
	if err == nil {
		err = w.ship.WaitHealthy(limit, commit)
	}
	if err == nil {
		err = process.Await(limit, "people read it",
			func(ctx context.Context) error { return w.ship.ReadBack(ctx, after) })
	}
	if err != nil {
		w.t.Fatalf("%s: %v", name, err)
	}
	w.t.Logf("%s: arrived after %.1f s, said after %.1f s; whole again: arrived after %.1f s", name, arrived.Seconds(),
		said.Seconds(), back.Seconds())
}

// says waits until the part has said what it has to, and returns how long that took.
func (w *world) says(ctx context.Context, name string, c cut, mark int, began time.Time) time.Duration {
	w.t.Helper()
	if c.says == "" {
		return 0
	}
	words := regexp.MustCompile(c.says)
	err := process.Await(ctx, c.part+" says so", func(context.Context) error {
		if log := w.log(c.part)[mark:]; !words.MatchString(log) {
			return fmt.Errorf("%q is not in its log", c.says)
		}
		return nil
	})
	if err != nil {
		w.t.Errorf("%s: %v. Its warnings: %q", name, err,
			regexp.MustCompile(`level=(WARN|ERROR) .{0,300}`).FindAllString(w.log(c.part)[mark:], -1))
	}
	return time.Since(began)
}

func (w *world) unready(ctx context.Context, part string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.URLs[part]+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := w.hub.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // read or not
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err == nil && resp.StatusCode == http.StatusOK {
		err = fmt.Errorf("%s %s", resp.Status, text)
	}
	return err
}

// consolesOfACutOffOneGoOn cuts a console off from PostgreSQL while it writes: the server holds the lock of the
// transaction that it hears no more of, until it notices, and the other console writes on then.
func (w *world) consolesOfACutOffOneGoOn(ctx context.Context) {
	w.t.Helper()
	token, err := w.Token()
	if err != nil {
		w.t.Fatal(err)
	}
	write := func(ctx context.Context, part, name string) error {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		req := &consolev1.UpdateClusterRequest{AllowMissing: true, Cluster: &consolev1.Cluster{
			Metadata: &consolev1.Metadata{Name: name}, Spec: &consolev1.ClusterSpec{Description: time.Now().String()},
		}}
		clusters := consolev1connect.NewClusterServiceClient(w.hub, w.URLs[part],
			append(client.Options(), client.WithToken(fixed(token)))...)
		_, err := clusters.UpdateCluster(ctx, req)
		return err
	}
	// The test has the lock first, so that the console is cut off with a statement under way.
	holder := exec.CommandContext(ctx, "psql", "--quiet", "--no-psqlrc", w.database)
	stdin, err := holder.StdinPipe()
	if err == nil {
		err = holder.Start()
	}
	if err == nil {
		_, err = io.WriteString(stdin, "BEGIN; SELECT seq FROM log FOR UPDATE;\n")
	}
	if err != nil {
		w.t.Fatal(err)
	}
	cutOff := make(chan error, 1)
	go func() {
		for ctx.Err() == nil { // until the lock is taken
			if err := write(ctx, "console", "cut-off"); err != nil {
				cutOff <- err
				return
			}
		}
	}()
	err = process.Await(ctx, "a write of the console waits", func(ctx context.Context) error {
		out, err := process.Run(ctx, nil, "", "psql", "--quiet", "--no-psqlrc", "--tuples-only", "--command",
			"SELECT count(*) FROM pg_stat_activity WHERE application_name = 'fairlead-console' AND wait_event_type = 'Lock'", w.database)
		if err == nil && strings.TrimSpace(out) == "0" {
			err = errors.New("none does")
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	heal := w.n.drop(way{part: "console", peer: "postgres", port: postgresPort})
	began := time.Now()
	if err := errors.Join(stdin.Close(), holder.Wait()); err != nil {
		w.t.Fatal(err)
	}
	limit, cancel := context.WithTimeout(ctx, told)
	defer cancel()
	err = process.Await(limit, "the other console writes",
		func(ctx context.Context) error { return write(ctx, "console-2", "other") })
	w.t.Logf("the other console writes %.1f s after a console was cut off within a write: %v",
		time.Since(began).Seconds(), err)
	if err != nil {
		w.t.Error(err)
	}
	if err := <-cutOff; err == nil {
		w.t.Error("a write was acknowledged by a console that is cut off")
	}
	heal()
	limit, cancel = context.WithTimeout(ctx, recovered)
	defer cancel()
	if err := process.Await(limit, "the console writes again",
		func(ctx context.Context) error { return write(ctx, "console", "again") }); err != nil {
		w.t.Fatal(err)
	}
}

// fixed is a token that does not change.
type fixed string

// Token implements identity.TokenSource.
func (f fixed) Token(context.Context) (string, error) { return string(f), nil }
