package gitcache

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/retry"
)

const (
	// attemptTime is how long one replica is waited for before the next is asked.
	attemptTime = 3 * time.Second
	// answerTime is how long a request goes round all replicas, on a machine that may be very busy. Only a commit that
	// was published a moment before its only holder died needs more than one round.
	answerTime = 2 * time.Minute
)

// Answered counts requests of a Reader.
type Answered struct {
	Requests  int
	Elsewhere int           // not by the first replica that was asked
	Waited    int           // not in the first round
	Longest   time.Duration // until the answer
	// Replaced: the commit had been a head, but was taken out of the branch by a forced push, and nobody has
	// it any more. The commit can be lost with the only gitcache that saw it.
	Replaced int
	Why      map[string]int
}

// Reader asks for artifacts as distributors do, and judges every byte.
type Reader struct {
	fleet *Fleet
	watch *Watch

	mu    sync.Mutex // guards what follows
	count Answered
	wrong []error
}

// Read keeps so many readers busy until the function is called.
func (f *Fleet) Read(ctx context.Context, w *Watch, seed uint64, readers int) (r *Reader, end func() (Answered, error)) {
	r = &Reader{fleet: f, watch: w, count: Answered{Why: map[string]int{}}}
	stop := make(chan struct{})
	var running sync.WaitGroup
	for i := range readers {
		random := rand.New(rand.NewPCG(seed, uint64(i))) //nolint:gosec // a test's choices
		running.Go(func() {
			for ctx.Err() == nil {
				select {
				case <-stop:
					return
				default:
					r.one(ctx, random)
				}
				retry.Sleep(ctx, time.Duration(random.IntN(100))*time.Millisecond)
			}
		})
	}
	return r, func() (Answered, error) {
		close(stop)
		running.Wait()
		return r.Count()
	}
}

// Count is what was seen until now.
func (r *Reader) Count() (Answered, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := r.count
	count.Why = maps.Clone(r.count.Why)
	return count, errors.Join(r.wrong...)
}

// question is a request for the folder of one repository.
type question struct {
	repo     *Repo
	revision string // a commit, or HEAD
	number   int    // of the commit; -1: any
	// attempt is how long one replica may take for each step; 0: attemptTime.
	attempt time.Duration
}

func (q question) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, cmp.Or(q.attempt, attemptTime))
}

func (r *Reader) one(ctx context.Context, random *rand.Rand) {
	repos := r.fleet.Repos()
	repo := repos[random.IntN(len(repos))]
	heads := r.watch.Heads(repo.Name)
	if len(heads) == 0 {
		return
	}
	q := question{repo: repo, revision: "HEAD", number: -1}
	switch head := heads[len(heads)-1]; random.IntN(10) {
	case 0, 1:
	case 2:
		head = heads[random.IntN(len(heads))]
		fallthrough
	default:
		q.revision, q.number = head.Commit, head.Number
	}
	err := r.Ask(ctx, q, random)
	if err == nil || ctx.Err() != nil {
		return
	}
	replaced := errors.Is(err, errNoAnswer) && q.number >= 0 && repo.replaced(ctx, q.revision)
	r.mu.Lock()
	defer r.mu.Unlock()
	if replaced {
		r.count.Replaced++
	} else {
		r.wrong = append(r.wrong, err)
	}
}

// Ask goes round the replicas until one answers.
func (r *Reader) Ask(ctx context.Context, q question, random *rand.Rand) error {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var failed []error
	for round := 0; ; round++ {
		caches := r.fleet.Caches()
		random.Shuffle(len(caches), func(i, j int) { caches[i], caches[j] = caches[j], caches[i] })
		for i, c := range caches {
			err := r.fleet.ask(limited, q, c, caches)
			if err == nil {
				r.answered(i, round, time.Since(began), failed)
				return nil
			}
			if errors.Is(err, errWrong) {
				return fmt.Errorf("%s of %s by %s: %w", q.revision, q.repo.Name, c.Name, err)
			}
			if limited.Err() != nil {
				return fmt.Errorf("%s (push %d) of %s: %w within %s: %w", q.revision, q.number, q.repo.Name, errNoAnswer, answerTime, errors.Join(failed...))
			}
			failed = append(failed, fmt.Errorf("until %.1f s %s: %w", time.Since(began).Seconds(), c.Name, err))
		}
		retry.Sleep(limited, time.Second)
	}
}

func (r *Reader) answered(place, round int, took time.Duration, failed []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count.Requests++
	r.count.Longest = max(r.count.Longest, took)
	if place > 0 {
		r.count.Elsewhere++
	}
	if round == 0 {
		return
	}
	r.count.Waited++
	for _, err := range failed {
		r.count.Why[reasonOf(err)]++
	}
}

// reason is why a replica has no answer.
type reason string

func (r reason) Error() string { return string(r) }

func reasonOf(err error) string {
	if r, ok := errors.AsType[reason](err); ok {
		return string(r)
	}
	if errors.Is(err, artifact.ErrNotFound) {
		return "artifact not found"
	}
	return code(err)
}

var (
	// errWrong is for answers that must not be.
	errWrong    = errors.New("wrong answer")
	errNoAnswer = errors.New("no answer")
)

// ask resolves at one replica and downloads at any.
func (f *Fleet) ask(ctx context.Context, q question, c *Cache, all []*Cache) error {
	resolved, err := f.resolve(ctx, q, c)
	if err != nil {
		return err
	}
	number, ok := q.repo.Number(resolved.GetRevision().GetCommit())
	if !ok || q.number >= 0 && number != q.number {
		return fmt.Errorf("%w: resolved to %s, push %d", errWrong, resolved.GetRevision().GetCommit(), number)
	}
	digest, err := artifact.ParseDigest(resolved.GetArtifact().GetDigest())
	if err != nil {
		return fmt.Errorf("%w: %w", errWrong, err)
	}
	var failed error
	for i := range all {
		// The one that resolved comes last: the others must have it from there.
		at := all[(slices.Index(all, c)+1+i)%len(all)]
		err := f.download(ctx, q, at, digest, q.repo.marker(number))
		if err == nil || errors.Is(err, errWrong) {
			return err
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

func (f *Fleet) resolve(ctx context.Context, q question, c *Cache) (*artifactv1.Resolved, error) {
	ctx, cancel := q.limit(ctx)
	defer cancel()
	resp, err := f.api.artifacts(c.URL).Resolve(ctx, &artifactv1.ResolveRequest{
		Queries: []*artifactv1.Query{{Source: q.repo.Name, Revision: q.revision, Path: Folder}},
	})
	if err != nil {
		return nil, fmt.Errorf("resolve: %w", err)
	}
	if e := resp.GetResults()[0].GetError(); e != nil {
		return nil, fmt.Errorf("resolve: %w: %s", reason(e.GetReason().String()), e.GetMessage())
	}
	return resp.GetResults()[0].GetResolved(), nil
}

// download reads an artifact to its end: its bytes hash to the digest, by our own count as well, and it
// holds the file that tells where it is from.
func (f *Fleet) download(ctx context.Context, q question, c *Cache, d artifact.Digest, marker string) error {
	ctx, cancel := q.limit(ctx)
	defer cancel()
	r, err := artifact.Fetch(ctx, f.api.bytes(), c.URL, d, 0)
	if err != nil {
		return fmt.Errorf("download from %s: %w", c.Name, err)
	}
	defer r.Close()
	sum := &summing{r: r, h: sha256.New()}
	found := ""
	err = artifact.Walk(sum, artifact.Limits{}, func(e artifact.Entry, content io.Reader) error {
		if e.Path != Marker {
			return nil
		}
		b, err := io.ReadAll(content)
		found = string(b)
		return err
	})
	if err == nil {
		_, err = io.Copy(io.Discard, sum)
	}
	switch {
	case errors.Is(err, artifact.ErrCorrupt):
		return fmt.Errorf("%w: %w", errWrong, err)
	case err != nil:
		return fmt.Errorf("download from %s: %w", c.Name, err)
	case found != marker:
		return fmt.Errorf("%w: the artifact says %q, want %q", errWrong, found, marker)
	case "sha256:"+hex.EncodeToString(sum.h.Sum(nil)) != string(d):
		return fmt.Errorf("%w: the bytes hash to %x, not to %s", errWrong, sum.h.Sum(nil), d)
	}
	return nil
}

type summing struct {
	r io.Reader
	h hash.Hash
}

func (s *summing) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	_, _ = s.h.Write(p[:n]) // a hash never fails
	return n, err
}
