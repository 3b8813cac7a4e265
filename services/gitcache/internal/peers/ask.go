package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/gen/fairlead/artifact/v1/artifactv1connect"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/services/gitcache/internal/origin"
	"fairlead.dev/services/gitcache/internal/rpc/wire"
)

const (
	// askTime bounds a question to the peers; one may have to build.
	askTime = time.Minute
	// askNext: after this silence the next peer is asked as well. Longer than most builds take, so that
	// seldom two build the same.
	askNext = 3 * time.Second
	// mostAsked bounds what a question costs that nobody can answer.
	mostAsked = 4
)

// Resolve asks the owner of a source, then those that may have a copy, until all is answered. A replica that does not
// answer delays nobody for long.
func (p *Peers) Resolve(ctx context.Context, uid string, queries []origin.Query) ([]origin.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	members, best := p.Holders(ctx, uid), &best{}
	err := inTurn(ctx, members[:min(mostAsked, len(members))], func(ctx context.Context, m coordination.Member) error {
		answers, err := p.ask(ctx, m, queries)
		if err != nil {
			return err
		}
		if !best.take(answers) {
			return errOpen
		}
		return nil
	})
	if answers := best.all(); answers != nil {
		return answers, nil
	}
	return nil, errors.Join(origin.ErrNoOwner, err)
}

// ask asks one peer. The peer answers from what it has.
func (p *Peers) ask(ctx context.Context, m coordination.Member, queries []origin.Query) ([]origin.Answer, error) {
	client := artifactv1connect.NewArtifactServiceClient(p.HTTP(m), m.URL, connect.WithReadMaxBytes(wire.MaxAnswerBytes))
	resp, err := client.Resolve(ctx, wire.Request(queries))
	if err == nil && len(resp.GetResults()) != len(queries) {
		err = fmt.Errorf("%d answers to %d questions", len(resp.GetResults()), len(queries))
	}
	if err != nil {
		if ctx.Err() == nil {
			p.deps.Log.WarnContext(ctx, "replica does not answer", "replica", m.ID, "err", err)
		}
		return nil, fmt.Errorf("ask replica %q: %w", m.ID, err)
	}
	return wire.Answers(resp), nil
}

// errOpen: a peer has answered, and another one may know more.
var errOpen = errors.New("not everything is fetched")

// best keeps the best answer to each of several questions.
type best struct {
	mu      sync.Mutex // guards answers
	answers []origin.Answer
}

// take adds the answers of a peer, and tells whether nothing is open.
func (b *best) take(more []origin.Answer) (complete bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.answers == nil {
		b.answers = more
	}
	complete = true
	for i, a := range more {
		if open(b.answers[i]) && !open(a) {
			b.answers[i] = a
		}
		complete = complete && !open(b.answers[i])
	}
	return complete
}

func (b *best) all() []origin.Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.answers
}

// open tells whether another replica may answer better: this one has not fetched it, is not up to date,
// or its copy is damaged.
func open(a origin.Answer) bool {
	return a.Err != nil && a.Err.Reason != origin.PathNotFound && a.Err.Reason != origin.Refused
}

// Open finds an artifact at any other replica, as an artifact.FetchFunc. A replica that does not answer delays nobody
// for long.
func (p *Peers) Open(ctx context.Context, d artifact.Digest) (io.ReadCloser, error) {
	// The answer that is being read must not be cut off with the slower ones.
	life, end := context.WithCancel(ctx)
	var mu sync.Mutex // guards found
	var found io.ReadCloser
	_ = inTurn(ctx, p.Others(), func(asking context.Context, m coordination.Member) error {
		one, cut := context.WithCancel(life)
		keep := context.AfterFunc(asking, cut)
		r, err := artifact.Fetch(one, p.HTTP(m), m.URL, d, 0)
		if err != nil {
			cut()
			if !errors.Is(err, artifact.ErrNotFound) && asking.Err() == nil {
				p.deps.Log.WarnContext(asking, "replica does not hand out an artifact", "replica", m.ID, "digest", d, "err", err)
			}
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if found != nil || !keep() {
			cut()
			return r.Close()
		}
		found = closing{r, cut}
		return nil
	})
	if found != nil {
		return closing{found, end}, nil
	}
	end()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, artifact.ErrNotFound
}

// closing ends a context with its reader.
type closing struct {
	io.ReadCloser
	end context.CancelFunc
}

func (c closing) Close() error {
	defer c.end()
	return c.ReadCloser.Close()
}

// inTurn asks one member after the other until one gives no error: the next when one has failed, or has
// not answered for a while. inTurn returns when all questions have ended; questions that are not needed any more are
// cut short. The error is the last one; with no members there is one, too.
func inTurn(ctx context.Context, members []coordination.Member, ask func(context.Context, coordination.Member) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	answers := make(chan error, len(members))
	err := errors.New("there is no other replica")
	for asked, running := 0, 0; ; {
		if asked < len(members) {
			m := members[asked]
			asking.Go(func() { answers <- ask(ctx, m) })
			asked++
			running++
		}
		if running == 0 {
			return err
		}
		patience := time.NewTimer(askNext)
		select {
		case err = <-answers:
			running--
			if err == nil {
				patience.Stop()
				return nil
			}
		case <-patience.C:
		case <-ctx.Done():
			patience.Stop()
			return ctx.Err()
		}
		patience.Stop()
	}
}
