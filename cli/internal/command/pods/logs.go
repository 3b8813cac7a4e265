package pods

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/kubectl"
	"fairlead.dev/cli/internal/object"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/plural"
)

const (
	// logsPause is how often pods are looked for that came while their logs are followed.
	logsPause = 2 * time.Second
	// logLine bounds what is read at once of a line, in bytes. Where containers are told apart each part of a longer
	// line has a line of its own.
	logLine = 64 << 10
	// mostLogs bounds the streams of one command.
	mostLogs = 200
)

// logging is what a person wants to see of the logs of a service.
type logging struct {
	object.Workload

	follow, previous, timestamps bool
	since                        time.Duration
	tail                         int64
	container                    string
	several                      bool // clusters
	// bare has lines stand without their pod and container, as kubectl prints them.
	bare bool

	mu sync.Mutex // guards what is printed and seen
	// seen is when the last line was written that was printed of a container, open since when a container is being read,
	// and begun when it was read for the first time, of those whose stream has ended.
	seen        map[string]string
	open, begun map[string]time.Time

	// found are the services whose cluster was asked, and away those whose cluster could not be asked the last time;
	// asked are the pods that a service had the first time. They are of the goroutine that looks for pods.
	found, away, asked map[string]bool
}

func logsCommand(a *app.App) *cobra.Command {
	l := &logging{
		Workload: object.Workload{App: a},
		seen:     map[string]string{}, open: map[string]time.Time{},
		begun: map[string]time.Time{}, asked: map[string]bool{}, found: map[string]bool{},
	}
	cmd := &cobra.Command{
		Use:         "logs CLUSTER [FLAGS OF KUBECTL] POD | logs service/NAME",
		Annotations: map[string]string{resource.ReadsReferences: "yes"},
		Short:       "Show what the pods of a service write, or a pod of a cluster",
		Long: `Show the logs of a service: of all its pods and containers, each line with the pod and container before it; of a global
service from all clusters. With -f the output goes on, also with pods that come later.

With a cluster it is kubectl logs: all arguments behind the cluster are kubectl's. The logs of one pod with -f, and no other
flags than -n, -c, --since, --tail and --timestamps, go on after a restart of the hub; kubectl ends with the hub.`,
		Example: `  fairlead logs service/web -f --since 10m
  fairlead logs globalservice/ingress --tail 20
  fairlead logs edge-1 -n shop deployment/web -f`,
		Args: app.WantArgs(1, app.Unlimited),
	}
	fs := cmd.Flags()
	fs.SetInterspersed(false)
	fs.BoolVarP(&l.follow, "follow", "f", false, "go on with what is written, until interrupted")
	fs.DurationVar(&l.since, "since", 0, "only what is not older than this, such as 10m")
	fs.Int64Var(&l.tail, "tail", -1, "at most so many lines of each container; -1: all")
	fs.StringVarP(&l.container, "container", "c", "", "only containers of this `name`")
	fs.BoolVarP(&l.previous, "previous", "p", false, "of the containers that ran before, if they were started again")
	fs.BoolVar(&l.timestamps, "timestamps", false, "with the time of each line")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ref, ok := resource.SplitReference(args[0])
		if !ok {
			p, follows := l.followedPod(args[0], args[1:])
			if err := l.checkBounds(); follows && err != nil {
				return err
			}
			return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
				if follows {
					l.Hub = h
					return l.followPod(ctx, p)
				}
				return kubectl.Run(ctx, a, h, args[0],
					append(append([]string{"logs"}, changedFlags(cmd)...), args[1:]...))
			})(cmd, args)
		}
		if done, err := parseRest(cmd, args[1:]); done || err != nil {
			return err
		}
		if err := l.checkBounds(); err != nil {
			return err
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
			l.Hub = h
			return l.showLogs(ctx, ref)
		})(cmd, nil)
	}
	return cmd
}

// checkBounds refuses bounds that would bound nothing.
func (l *logging) checkBounds() error {
	return errors.Join(app.CheckLeast("since", l.since, 0), app.CheckLeast("tail", l.tail, -1))
}

// parseRest reads flags behind the first argument. done: help was asked for, and shown.
func parseRest(cmd *cobra.Command, args []string) (done bool, err error) {
	fs := cmd.Flags()
	fs.SetInterspersed(true)
	if err := fs.Parse(args); err != nil {
		return false, cmd.FlagErrorFunc()(cmd, err)
	}
	if help, _ := fs.GetBool("help"); help {
		return true, cmd.Help()
	}
	if fs.NArg() > 0 {
		return false, fmt.Errorf("%q is too much: name one service, as service/NAME", fs.Arg(0))
	}
	return false, nil
}

// changedFlags are the flags that a person wrote before a cluster, for kubectl, which calls them alike.
func changedFlags(cmd *cobra.Command) (flags []string) {
	for _, name := range []string{"follow", "since", "tail", "container", "previous", "timestamps", "stdin", "tty"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			flags = append(flags, "--"+name+"="+f.Value.String())
		}
	}
	return flags
}

func (l *logging) showLogs(ctx context.Context, ref resource.Reference) error {
	services, err := l.ListServices(ctx, ref)
	if err != nil {
		return err
	}
	l.several = len(services) > 1
	find := func() ([]object.Pod, error) { return l.findPods(ctx, services) }
	pods, err := find()
	switch {
	case err != nil:
		return err
	case len(pods) == 0 && !l.follow && len(l.away) == 0:
		return fmt.Errorf("%s %q has no pods now: `fairlead tree %s %s` shows what it has", ref.Kind, ref.Name,
			ref.Kind, ref.Name)
	}
	if err := l.requireContainer(pods); err != nil {
		return err
	}
	if !l.follow {
		err := l.readAll(ctx, pods)
		if err == nil && len(l.away) > 0 {
			err = fmt.Errorf("the logs of %s can't be read, as said above", plural.Part(len(l.away), len(services), "service"))
		}
		return err
	}
	var streams sync.WaitGroup
	defer streams.Wait()
	l.startStreams(ctx, &streams, pods, true)
	tick := time.NewTicker(logsPause)
	defer tick.Stop()
	l.followPods(ctx, tick.C, find, func(pods []object.Pod) { l.startStreams(ctx, &streams, pods, false) })
	return nil
}

// findPods returns the pods of the services whose clusters can be asked, and names the others, once. That none can be
// asked is an error.
func (l *logging) findPods(ctx context.Context, services []*consolev1.Service) ([]object.Pod, error) {
	var pods []object.Pod
	away := map[string]bool{}
	for _, s := range services {
		name := s.GetMetadata().GetName()
		some, err := l.ListPods(ctx, []*consolev1.Service{s})
		switch {
		case err != nil && (len(services) == 1 || ctx.Err() != nil):
			return nil, err
		case err != nil:
			away[name] = true
			if !l.away[name] {
				l.App.Notef("service/%s: %v\n", name, err)
			}
			continue
		case !l.found[name]:
			l.found[name] = true
			for _, p := range some {
				l.asked[p.String()] = true
			}
		}
		pods = append(pods, some...)
	}
	l.away = away
	if len(away) < len(services) || len(services) == 0 {
		return pods, nil
	}
	return nil, fmt.Errorf("none of %s can be asked, as said above", plural.Of(len(services), "service"))
}

// followPods looks for pods at each tick until the person interrupts it: for those that came, and for those whose
// stream has ended, as with a restart of the hub. Of several looks that fail the error of the first is printed.
func (l *logging) followPods(
	ctx context.Context, ticks <-chan time.Time, find func() ([]object.Pod, error), start func([]object.Pod),
) {
	outageSaid := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		pods, err := find()
		if err == nil {
			outageSaid = false
			start(pods)
			continue
		}
		if ctx.Err() == nil && !outageSaid {
			outageSaid = true
			l.App.Notef("the pods are looked for again: %v\n", err) // logs that are being read go on
		}
	}
}

// requireContainer fails if no pod has the container that is wanted.
func (l *logging) requireContainer(pods []object.Pod) error {
	var names []string
	for _, p := range pods {
		names = append(names, p.Containers...)
	}
	if l.container == "" || len(pods) == 0 || slices.Contains(names, l.container) {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("no pod has a container %q: they have %s", l.container, strings.Join(slices.Compact(names), ", "))
}

// startStreams reads the containers that are not being read: as the person asked for, or from the beginning those of
// pods that came later. first: it is the first look.
func (l *logging) startStreams(ctx context.Context, streams *sync.WaitGroup, pods []object.Pod, first bool) {
	total := 0
	for p, container := range l.wantedContainers(pods) {
		total++
		key := p.String() + " " + container
		if !l.beginStream(key) {
			continue
		}
		asked := l.asked[p.String()]
		streams.Go(func() {
			defer l.endStream(key)
			err := l.readStream(ctx, p, container, key, asked)
			if err != nil && ctx.Err() == nil && first {
				l.App.Notef("%s: %v\n", key, err)
			}
		})
	}
	if first && total > mostLogs {
		l.App.Notef("of %d containers, %d are followed at once, and the others when one of these ends: --container chooses\n",
			total, mostLogs)
	}
}

// wantedContainers are the containers of pods whose logs the person wants.
func (l *logging) wantedContainers(pods []object.Pod) iter.Seq2[object.Pod, string] {
	return func(yield func(object.Pod, string) bool) {
		for _, p := range pods {
			for _, container := range p.Containers {
				if (l.container == "" || l.container == container) && !yield(p, container) {
					return
				}
			}
		}
	}
}

// readAll reads the containers to what they wrote last, mostLogs of them at a time. A container that can't be read does
// not keep the others from it, and is an error behind them; of containers that ran before only if none can: most were
// never started again.
func (l *logging) readAll(ctx context.Context, pods []object.Pod) error {
	var streams errgroup.Group
	streams.SetLimit(mostLogs)
	total, failed := 0, 0 // failed is guarded by l.mu
	for p, container := range l.wantedContainers(pods) {
		total++
		streams.Go(func() error {
			key := p.String() + " " + container
			l.beginStream(key)
			defer l.endStream(key)
			if err := l.readStream(ctx, p, container, key, true); err != nil && ctx.Err() == nil {
				l.mu.Lock()
				defer l.mu.Unlock()
				failed++
				l.App.Notef("%s: %v\n", key, err)
			}
			return nil
		})
	}
	_ = streams.Wait() // no function has an error
	if failed > 0 && (failed == total || !l.previous) {
		return fmt.Errorf("the logs of %s can't be read, as said above", plural.Part(failed, total, "container"))
	}
	return ctx.Err()
}

func (l *logging) beginStream(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, isOpen := l.open[key]; isOpen || len(l.open) >= mostLogs {
		return false
	}
	l.open[key] = time.Now()
	return true
}

func (l *logging) endStream(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, again := l.begun[key]; !again {
		l.begun[key] = l.open[key]
	}
	delete(l.open, key)
}

// readStream reads what a container writes until the stream ends. A stream that breaks while it is followed is no error:
// it is opened again.
func (l *logging) readStream(ctx context.Context, p object.Pod, container, key string, first bool) error {
	stream, err := l.openStream(ctx, p, container, key, first)
	if err != nil {
		return err
	}
	err = l.printLines(stream, p, container, key)
	if l.follow && connect.CodeOf(err) == connect.CodeUnavailable {
		return nil
	}
	return err
}

func (l *logging) openStream(
	ctx context.Context, p object.Pod, container, key string, first bool,
) (io.ReadCloser, error) {
	query := l.buildQuery(container, key, first).Encode()
	resp, err := l.SendRequest(ctx, http.MethodGet, p.Cluster, object.PodPath(p)+"/log?"+query, nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// printLines prints the lines of a stream until it ends, and closes it; the error of a stream that breaks is of the code Unavailable.
func (l *logging) printLines(stream io.ReadCloser, p object.Pod, container, key string) error {
	defer func() { _ = stream.Close() }()
	lines := bufio.NewReaderSize(stream, logLine)
	printed := l.lastSeen(key)
	for first, isNew := true, false; ; {
		text, last, err := readPart(lines)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return l.Hub.ExplainTunnel(err)
		}
		if first {
			text, isNew = l.takeLine(key, text, printed)
		}
		if isNew {
			printed = time.Time{} // what follows is new, whatever its time
			if err := l.printPart(p, container, text, last); err != nil {
				return err
			}
		}
		first = last
	}
}

// readPart reads a line, or as much of a line as logLine allows, and whether that is the last part of it. The cut last
// line of a broken stream is left out: the stream that follows has all of the line.
func readPart(lines *bufio.Reader) (text string, last bool, err error) {
	part, err := lines.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return string(part), false, nil
	case err != nil && (!errors.Is(err, io.EOF) || len(part) == 0):
		return "", false, err
	}
	return strings.TrimRight(string(part), "\r\n"), true, nil
}

// buildQuery asks for times, by which lines are known that were printed before. first: the pod was there at the
// beginning, so that the person's flags are for it. A stream that is opened again goes on after the last line, or where
// the first one began: the flags are about that moment.
func (l *logging) buildQuery(container, key string, first bool) url.Values {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := url.Values{"container": {container}, "timestamps": {"true"}}
	if l.follow {
		q.Set("follow", "true")
	}
	if l.previous {
		q.Set("previous", "true")
	}
	begun, again := l.begun[key]
	switch since := l.seen[key]; {
	case since != "":
		q.Set("sinceTime", since)
		return q
	case first && again && (l.since > 0 || l.tail >= 0):
		q.Set("sinceTime", begun.Add(-l.since).UTC().Format(time.RFC3339Nano))
		return q
	case first && l.since > 0:
		q.Set("sinceSeconds", strconv.FormatInt(max(1, int64(l.since.Seconds())), 10))
	}
	if first && l.tail >= 0 {
		q.Set("tailLines", strconv.FormatInt(l.tail, 10))
	}
	return q
}

// lastSeen is when the last line was written that was printed of a container; zero: none was.
func (l *logging) lastSeen(key string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, _ := time.Parse(time.RFC3339Nano, l.seen[key]) // takeLine has parsed it
	return at
}

// takeLine takes the time off the beginning of a line, unless the person wants it. isNew: the line was not printed
// before, as it is later than printed, or nothing was. Times are compared and not their texts: these go back when summer
// time ends.
func (l *logging) takeLine(key, line string, printed time.Time) (text string, isNew bool) {
	at, text, _ := strings.Cut(line, " ")
	written, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		return line, true
	}
	if !printed.IsZero() && !written.After(printed) {
		return "", false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[key] = at
	if l.timestamps {
		return line, true
	}
	return text, true
}

// printPart prints a part of a line, with its pod and container before it where several are told apart.
func (l *logging) printPart(p object.Pod, container, text string, last bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bare && !last {
		return l.App.Printf("%s", text)
	}
	if l.bare {
		return l.App.Printf("%s\n", text)
	}
	who := p.Name + " " + container
	if l.several {
		who = p.Cluster + " " + who
	}
	if app.IsTerminal(l.App.Stdout) {
		text = table.CleanText(text)
	}
	if l.App.HasColours() {
		who = table.Paint(podColour(p.Name), who)
	}
	return l.App.Printf("%s | %s\n", who, text)
}

// podColour is one of a few, the same for a pod each time.
func podColour(name string) table.Colour {
	all := []table.Colour{
		"\x1b[36m", "\x1b[35m", "\x1b[34m", table.Green, table.Yellow, "\x1b[96m", "\x1b[95m", "\x1b[94m",
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name)) // a hash never fails
	return all[sum.Sum32()%uint32(len(all))]
}
