package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"fairlead.dev/platform/retry"
)

// Spec is what one simulator runs.
type Spec struct {
	CAFile       string
	Distributors []string
	Gitcaches    []string
	// Balanced is the URL of a balancer that every second agent uses, with a connection for each request; empty:
	// none does.
	Balanced string
	Tunnel   string
	// Tokens are the agents' credentials, by cluster.
	Tokens    map[string]string
	Downloads float64
	Tunnels   float64
	// Spread is the time over which agents start.
	Spread time.Duration
}

// question is what the simulator is asked, one per line.
type question struct {
	// Since is for Stats.Synced, in Unix nanoseconds.
	Since int64
	// Measuring has arrivals kept until the next question.
	Measuring bool
	// Digests asks for what each agent has.
	Digests bool
	// Views has agents push views; nil: as before.
	Views *pushAsked
	// Download has each agent download what it was delivered last, all at once, and waits for that.
	Download bool
}

// answer is one line back.
type answer struct {
	Stats *Stats
	// Digests are the agents' set digests, by cluster.
	Digests map[string]string
}

// simulator runs agents in this process.
type simulator struct {
	stats  *recorder
	agents []*agent
	stop   context.CancelFunc
	ended  sync.WaitGroup
	ctx    context.Context //nolint:containedctx // of the agents' life
	// changing ends pushes of views; nil: there are none.
	changing context.CancelFunc
}

// startSimulator starts agents, spread over the spec's time.
func startSimulator(ctx context.Context, spec Spec) (*simulator, error) {
	s := &simulator{stats: newRecorder()}
	names := slices.Sorted(maps.Keys(spec.Tokens))
	for i, name := range names {
		of := spec
		if of.Balanced = ""; i%2 == 1 && spec.Balanced != "" {
			of.Distributors, of.Balanced = []string{spec.Balanced}, spec.Balanced
		}
		a, err := newAgent(name, spec.Tokens[name], &of, s.stats)
		if err != nil {
			return nil, err
		}
		s.agents = append(s.agents, a)
	}
	ctx, s.stop = context.WithCancel(ctx)
	s.ctx = ctx
	s.ended.Go(func() {
		for i, a := range s.agents {
			s.ended.Go(func() {
				tunnel := float64(i%1000) < spec.Tunnels*1000
				if err := a.run(ctx, spec.Tokens[a.name], tunnel); err != nil {
					s.stats.called(ctx, "agent", 0, err)
				}
			})
			if !retry.Sleep(ctx, spec.Spread/time.Duration(len(s.agents))) {
				return
			}
		}
	})
	return s, nil
}

func (s *simulator) ask(ctx context.Context, q question) (answer, error) {
	if q.Download {
		var all sync.WaitGroup
		for _, a := range s.agents {
			all.Go(func() { a.again(ctx) })
		}
		all.Wait()
	}
	if q.Views != nil {
		if q.Views.First {
			s.pushFirst(ctx)
		}
		s.pushChanges(s.ctx, q.Views.PerSecond)
	}
	out := answer{Stats: s.stats.take(q.Measuring)}
	if q.Digests {
		out.Digests = make(map[string]string, len(s.agents))
	}
	out.Stats.Agents = len(s.agents)
	for _, a := range s.agents {
		if a.synced.Load() > q.Since {
			out.Stats.Synced++
		}
		out.Stats.Pending += a.reports.left()
		a.mu.Lock()
		out.Stats.Services += len(a.have)
		a.mu.Unlock()
		if q.Digests {
			out.Digests[a.name] = a.digest()
		}
	}
	return out, nil
}

func (s *simulator) close(context.Context) error {
	s.stop()
	s.ended.Wait()
	return nil
}

// Agents runs a simulator as a process of its own: the first line of in is its Spec, each line after it a
// question that gets a line of answer. With the end of in it ends.
func Agents(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	lines := bufio.NewReader(in)
	var spec Spec
	if err := readLine(lines, &spec); err != nil {
		return fmt.Errorf("read what to simulate: %w", err)
	}
	s, err := startSimulator(ctx, spec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	for {
		var q question
		if err := readLine(lines, &q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a question: %w", err)
		}
		answer, err := s.ask(ctx, q)
		if err != nil {
			return err
		}
		if err := writeLine(out, answer); err != nil {
			return err
		}
	}
}

func readLine(r *bufio.Reader, v any) error {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}

func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}
