package githttp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// Binary is a Fetcher that has the git executable talk, for hosts that need more of Git's protocol than
// the builtin ones speak.
//
// Git gets no credentials, no certificates, no proxies and no redirects, and dials nobody: it talks to a
// relay in this process, which sends what it asks the way HTTP does, by the same rules. The objects that git brings go
// into a scratch repository, and from there into the Target, which checks it again.
type Binary struct {
	http *HTTP
	git  *gitProgram
}

// NewBinary makes a fetcher that sends its requests as h does.
func NewBinary(h *HTTP, dir string) (*Binary, error) {
	program, err := findGit(dir, h.client.Limits())
	if err != nil {
		return nil, err
	}
	return &Binary{http: h, git: program}, nil
}

// List asks where all refs point: git ls-remote knows no prefixes. A list costs a process.
func (b *Binary) List(ctx context.Context, r upstream.Remote, _ gitwire.Names) (*gitwire.Listing, error) {
	return withLogin(ctx, b.http, r, func(r upstream.Remote) (*gitwire.Listing, error) { return b.list(ctx, r) })
}

func (b *Binary) list(ctx context.Context, r upstream.Remote) (l *gitwire.Listing, err error) {
	leave, err := b.http.newExchange(r, r.URL).Enter(ctx, upstream.Lists)
	if err != nil {
		return nil, err
	}
	defer leave()
	limits := b.http.client.Limits()
	limited, cancel := context.WithTimeoutCause(ctx, limits.ListTime, upstream.ErrDeadline)
	defer cancel()
	relay := newRelay(b.http, r, r.URL, limits.CapList)
	s, err := b.git.makeScratch()
	if err != nil {
		return nil, err
	}
	defer s.removeAll(&err)
	var out bytes.Buffer
	err = relay.serveWhile(limited, func(ctx context.Context, at endpoint) error {
		return s.run(ctx, at, nil, &out, "ls-remote", "--quiet", remoteName)
	})
	if err != nil {
		return nil, relay.explainFailure(limited, err)
	}
	if l, err = parseLsRemote(&out); err != nil {
		return nil, gitwire.BrokenError(r, "list of refs", err)
	}
	l.Base, l.Bytes = relay.upstreamURL(), relay.bytes.Load()
	return l, nil
}

const sha256Digits = 64

// parseLsRemote reads what git ls-remote prints.
func parseLsRemote(out io.Reader) (*gitwire.Listing, error) {
	l := &gitwire.Listing{Refs: map[string]git.Hash{}, Peeled: map[string]git.Hash{}, Binary: true}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		text, name, ok := strings.Cut(lines.Text(), "\t")
		if len(text) == sha256Digits {
			return nil, gitwire.ErrSHA256
		}
		id, isHash := git.ParseHash(text)
		if !ok || !isHash {
			return nil, errors.New("git prints something else than refs")
		}
		into := l.Refs
		if tag, peeled := strings.CutSuffix(name, "^{}"); peeled {
			into, name = l.Peeled, tag
		}
		if gitwire.ValidRef(name) && !id.IsZero() {
			into[name] = id
		}
	}
	return l, lines.Err()
}

// Fetch brings wants and all that they reach.
func (b *Binary) Fetch(
	ctx context.Context, r upstream.Remote, l *gitwire.Listing, wants []git.Hash, into upstream.Target,
) (int64, error) {
	return withLogin(ctx, b.http, r, func(r upstream.Remote) (int64, error) { return b.fetch(ctx, r, l, wants, into) })
}

func (b *Binary) fetch(
	ctx context.Context, r upstream.Remote, l *gitwire.Listing, wants []git.Hash, into upstream.Target,
) (n int64, err error) {
	haves, err := into.Haves()
	if err != nil {
		return 0, &upstream.Error{Kind: upstream.KindStorage, Message: "read the mirror: " + upstream.CleanLine(err.Error()), Cause: err}
	}
	x := b.http.newExchange(r, l.Base)
	leave, err := x.Enter(ctx, upstream.Packs)
	if err != nil {
		return 0, err
	}
	defer leave()
	limits := b.http.client.Limits()
	limited, stop := context.WithTimeoutCause(ctx, limits.FetchTime, upstream.ErrDeadline)
	defer stop()
	limited, cancel := context.WithCancelCause(limited)
	defer cancel(nil)
	relay := newRelay(b.http, r, l.Base, limits.CapPack)
	relay.idle = func() *upstream.Watchdog { return upstream.NewWatchdog(limits.IdleTime, cancel) }
	s, err := b.git.makeScratch()
	if err != nil {
		return 0, err
	}
	defer s.removeAll(&err)
	if err := s.borrowObjects(into.ObjectsDir(), haves); err != nil {
		return 0, err
	}
	err = relay.serveWhile(limited, func(ctx context.Context, at endpoint) error {
		return s.run(ctx, at, wantLines(wants), io.Discard, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head",
			"--no-auto-maintenance", "--no-recurse-submodules", "--refmap=", "--stdin", remoteName)
	})
	if err == nil {
		n, err = s.handOver(limited, limits, x.Unload(into, leave))
	}
	if err != nil {
		if relay.firstError() != nil && limited.Err() == nil {
			err = relay.firstError()
		}
		return 0, gitwire.FetchError(ctx, limited, limits, r, err)
	}
	return n, nil
}

func wantLines(wants []git.Hash) io.Reader {
	var b bytes.Buffer
	for _, id := range wants {
		b.WriteString(id.String() + "\n")
	}
	return &b
}

// handOver gives the Target the packs that git brought.
func (s *scratch) handOver(ctx context.Context, limits upstream.Limits, into upstream.Target) (total int64, err error) {
	packs, err := filepath.Glob(filepath.Join(s.dir, "objects", "pack", "*.pack"))
	if err != nil {
		return 0, markStorage(err)
	}
	for _, path := range packs {
		f, err := os.Open(path)
		if err != nil {
			return total, markStorage(err)
		}
		n, err := into.AddPack(ctx, limits.CapPack(f))
		total += n
		if err = errors.Join(err, f.Close()); err != nil {
			return total, err
		}
	}
	return total, nil
}

func markStorage(err error) *upstream.Error {
	return &upstream.Error{Kind: upstream.KindStorage, Cause: err, Message: fmt.Sprintf("the disk for fetches can't be used: %s. Check the gitcache's disk", upstream.PlainCause(err))}
}
