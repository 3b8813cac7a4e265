package pods

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/object"
)

// The first look at a container asks for what the person wants, a later one for the lines since the last one that was
// printed.
func TestLogsAreAskedForSinceTheLastLine(t *testing.T) {
	t.Parallel()
	const key, last = "edge-1 shop/web-0 web", "2026-01-31T12:00:00.000000001Z"
	begun := map[string]time.Time{key: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}
	for name, test := range map[string]struct {
		logging *logging
		first   bool
		want    string
	}{
		"all": {&logging{tail: -1}, true, "container=web&timestamps=true"},
		"ten minutes": {
			&logging{tail: -1, since: 10 * time.Minute, follow: true}, true,
			"container=web&follow=true&sinceSeconds=600&timestamps=true",
		},
		"less than a second": {
			&logging{tail: -1, since: time.Millisecond}, true, "container=web&sinceSeconds=1&timestamps=true",
		},
		"the end of before": {
			&logging{tail: 20, previous: true}, true, "container=web&previous=true&tailLines=20&timestamps=true",
		},
		"a pod that came later": {
			&logging{tail: 20, since: time.Hour, follow: true}, false, "container=web&follow=true&timestamps=true",
		},
		"a stream that ended": {
			&logging{tail: 20, since: time.Hour, follow: true, seen: map[string]string{key: last}}, false,
			"container=web&follow=true&sinceTime=2026-01-31T12%3A00%3A00.000000001Z&timestamps=true",
		},
		"a stream of the beginning that ended": {
			&logging{tail: 20, since: time.Hour, follow: true, seen: map[string]string{key: last}}, true,
			"container=web&follow=true&sinceTime=2026-01-31T12%3A00%3A00.000000001Z&timestamps=true",
		},
		"a stream that ended without a line, of an hour": {
			&logging{tail: -1, since: time.Hour, follow: true, begun: begun}, true,
			"container=web&follow=true&sinceTime=2026-01-31T11%3A00%3A00Z&timestamps=true",
		},
		"a stream that ended without a line, of what is new": {
			&logging{follow: true, begun: begun}, true,
			"container=web&follow=true&sinceTime=2026-01-31T12%3A00%3A00Z&timestamps=true",
		},
		"a stream that ended without a line, of all": {
			&logging{tail: -1, follow: true, begun: begun}, true, "container=web&follow=true&timestamps=true",
		},
	} {
		if got := test.logging.buildQuery("web", key, test.first).Encode(); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// A line has its pod before it, and its cluster if there are several. All lines of a stream are printed, also those that
// have the time of the line before and those behind the end of summer time; a line that the next stream repeats is
// printed once.
func TestLinesOfLogsAreToldApartAndPrintedOnce(t *testing.T) {
	t.Parallel()
	const first = `2026-10-25T02:59:59+02:00 one
2026-10-25T02:00:00+01:00 two
2026-10-25T02:00:00+01:00 two again
the rest of a long line
`
	const resumed = `2026-10-25T02:00:00+01:00 two
2026-10-25T02:00:00+01:00 two again
2026-10-25T01:00:01Z three
2026-10-25T00:59:00Z four, after the clock was set back
`
	for name, test := range map[string]struct {
		logging *logging
		want    string
	}{
		"one cluster": {&logging{}, `web-0 web | one
web-0 web | two
web-0 web | two again
web-0 web | the rest of a long line
web-0 web | three
web-0 web | four, after the clock was set back
`},
		"several": {&logging{several: true, timestamps: true}, `edge-1 web-0 web | 2026-10-25T02:59:59+02:00 one
edge-1 web-0 web | 2026-10-25T02:00:00+01:00 two
edge-1 web-0 web | 2026-10-25T02:00:00+01:00 two again
edge-1 web-0 web | the rest of a long line
edge-1 web-0 web | 2026-10-25T01:00:01Z three
edge-1 web-0 web | 2026-10-25T00:59:00Z four, after the clock was set back
`},
	} {
		var out bytes.Buffer
		l := test.logging
		l.Workload = object.Workload{App: &app.App{IO: app.IO{Stdout: &out, Getenv: func(string) string { return "" }}}}
		l.seen = map[string]string{}
		for _, stream := range []string{first, resumed} {
			err := l.printLines(io.NopCloser(strings.NewReader(stream)), object.Pod{Cluster: "edge-1", Name: "web-0"}, "web", "key")
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := out.String(); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// A stream that breaks in the middle of a line is opened again from the line before, without an error.
func TestABrokenStreamOfLogsGoesOnAtTheLastWholeLine(t *testing.T) {
	t.Parallel()
	const one, two = "2026-01-31T12:00:00Z one\n", "2026-01-31T12:00:01Z two\n"
	var asked []string
	tunnel := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked = append(asked, r.URL.Query().Get("sinceTime")); len(asked) > 1 {
			_, _ = io.WriteString(w, one+two)
			return
		}
		_, _ = io.WriteString(w, one+two[:len(two)-2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer tunnel.Close()
	var out bytes.Buffer
	hub := &hubclient.Hub{HTTP: tunnel.Client()}
	hub.Context.Endpoints.Tunnels = []string{tunnel.URL}
	l := &logging{follow: true, tail: -1, seen: map[string]string{}}
	streams := app.IO{Stdout: &out, Getenv: func(string) string { return "" }}
	l.Workload = object.Workload{App: &app.App{IO: streams}, Hub: hub}
	pod := object.Pod{Cluster: "edge-1", Name: "web-0"}
	for range 2 {
		if err := l.readStream(t.Context(), pod, "web", "key", true); err != nil {
			t.Fatal(err)
		}
	}
	if want := "web-0 web | one\nweb-0 web | two\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if !slices.Equal(asked, []string{"", "2026-01-31T12:00:00Z"}) {
		t.Errorf("asked since %q", asked)
	}
}

// Of a pod that is followed alone a line stays one, however long it is; it is printed once.
func TestALongLineOfAPodStaysWhole(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2*logLine) + " 2026-01-31T12:00:09Z"
	text := "2026-01-31T12:00:00Z " + long + "\n2026-01-31T12:00:01Z two\n"
	var out bytes.Buffer
	l := &logging{bare: true, seen: map[string]string{}}
	l.Workload = object.Workload{App: &app.App{IO: app.IO{Stdout: &out}}}
	for range 2 {
		if err := l.printLines(io.NopCloser(strings.NewReader(text)), object.Pod{}, "web", "key"); err != nil {
			t.Fatal(err)
		}
	}
	if out.String() != long+"\ntwo\n" {
		t.Errorf("got %d bytes, want %d", out.Len(), len(long)+len("\ntwo\n"))
	}
}

// An error of several looks for pods is printed once, and the look that succeeds starts their streams.
func TestAnOutageIsSaidOnceWhileLogsAreFollowed(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	ticks := make(chan time.Time, 4)
	for range cap(ticks) {
		ticks <- time.Time{}
	}
	looks, started := 0, 0
	find := func() ([]object.Pod, error) {
		if looks++; looks < cap(ticks) {
			return nil, fmt.Errorf("the hub is away for %ds", looks)
		}
		return []object.Pod{{Name: "web-0"}}, nil
	}
	var said bytes.Buffer
	l := &logging{Workload: object.Workload{App: &app.App{IO: app.IO{Stderr: &said}}}}
	l.followPods(ctx, ticks, find, func(pods []object.Pod) {
		started += len(pods)
		stop()
	})
	if want := "the pods are looked for again: the hub is away for 1s\n"; said.String() != want || started != 1 {
		t.Errorf("said %q, and started %d streams", said.String(), started)
	}
}

// A line that fairlead does not know all of is left to kubectl.
func TestOnlyAPodThatIsFollowedIsNotLeftToKubectl(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"web-0 -f":                             "edge-1 default/web-0",
		"-f pod/web-0 -n shop":                 "edge-1 shop/web-0",
		"pods/web-0 --namespace=shop --follow": "edge-1 shop/web-0",
		"po/web-0 -f --tail 5 --since=10m --timestamps -c web": "edge-1 default/web-0",
		"web-0": "", "-f": "", "deployment/web -f": "", "-f -l app=web": "", "-f web-0 web": "", "-f web-0 -p": "",
		"-f -- web-0": "", "-f web-0 --prefix": "", "-f web-0 --since=soon": "", "web-0 --follow=false": "",
		"-f web-0 --help": "",
	} {
		p, ok := (&logging{tail: -1}).followedPod("edge-1", strings.Fields(line))
		if ok != (want != "") || ok && p.String() != want {
			t.Errorf("%s: %v, %v", line, p, ok)
		}
	}
	if _, ok := (&logging{follow: true, previous: true}).followedPod("edge-1", []string{"web-0"}); ok {
		t.Error("with --previous before the cluster")
	}
}

// A negative time or number of lines must not show all.
func TestLogsOfLessThanNothingAreRefused(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"service/web --since -1h":   "--since -1h0m0s: must be at least 0s",
		"service/web --tail -5":     "--tail -5: must be at least -1",
		"edge-1 -f web-0 --tail -5": "--tail -5: must be at least -1",
	} {
		cmd := logsCommand(&app.App{IO: app.IO{Getenv: func(string) string { return "" }}})
		cmd.SetArgs(strings.Fields(line))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.ExecuteContext(t.Context()); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

func TestAPodKeepsItsColour(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, name := range []string{"web-0", "web-1", "web-2", "web-3", "db-0"} {
		first, again := podColour(name), podColour(name)
		if first != again || first == "" {
			t.Errorf("pod %s has the colours %q and %q", name, first, again)
		}
		seen[string(first)] = true
	}
	if len(seen) < 2 {
		t.Errorf("all pods have the colour %v", seen)
	}
}

// A script has to see that a log is not whole: of a container that can't be read, and of more containers than are read
// at once. Of containers that ran before most were never started again.
func TestLogsThatCantBeReadAreAnError(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range mostLogs + 50 {
		many = append(many, fmt.Sprintf("web-%d", i))
	}
	tunnel := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("container") == "bad" {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"message": "the container is waiting to start"}`)
			return
		}
		_, _ = io.WriteString(w, "2026-01-31T12:00:00Z one\n")
	}))
	defer tunnel.Close()
	for name, test := range map[string]struct {
		containers []string
		previous   bool
		lines      int
		fails      string
	}{
		"all are read":          {many, false, len(many), ""},
		"one is not":            {[]string{"web", "bad"}, false, 1, "the logs of 1 of 2 containers can't be read, as said above"},
		"one was never started": {[]string{"web", "bad"}, true, 1, ""},
		"none was":              {[]string{"bad"}, true, 0, "the logs of 1 of 1 container can't be read, as said above"},
	} {
		var out, said bytes.Buffer
		hub := &hubclient.Hub{HTTP: tunnel.Client()}
		hub.Context.Endpoints.Tunnels = []string{tunnel.URL}
		l := &logging{
			previous: test.previous, tail: -1, seen: map[string]string{}, open: map[string]time.Time{},
			begun: map[string]time.Time{},
		}
		l.Workload = object.Workload{Hub: hub, App: &app.App{IO: app.IO{
			Stdout: &out, Stderr: &said, Getenv: func(string) string { return "" },
		}}}
		err := l.readAll(t.Context(), []object.Pod{{Cluster: "edge-1", Name: "web-0", Containers: test.containers}})
		if got := strings.Count(out.String(), "| one\n"); got != test.lines {
			t.Errorf("%s: %d lines, want %d", name, got, test.lines)
		}
		if (err == nil) != (test.fails == "") || err != nil && err.Error() != test.fails {
			t.Errorf("%s: %v, want %q", name, err, test.fails)
		}
		if waits := strings.Contains(said.String(), "is waiting to start"); waits != slices.Contains(test.containers, "bad") {
			t.Errorf("%s: said %q", name, said.String())
		}
	}
}
