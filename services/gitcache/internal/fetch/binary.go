package fetch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
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
	git, err := findGit(dir, h.client.Limits())
	if err != nil {
		return nil, err
	}
	return &Binary{http: h, git: git}, nil
}

// List asks where all refs point: git ls-remote knows no prefixes. A list costs a process.
func (b *Binary) List(ctx context.Context, r Remote, _ Names) (*Listing, error) {
	return withLogin(ctx, b.http, r, func(r Remote) (*Listing, error) { return b.list(ctx, r) })
}

func (b *Binary) list(ctx context.Context, r Remote) (l *Listing, err error) {
	leave, err := b.http.newExchange(r, r.URL).enter(ctx, lists)
	if err != nil {
		return nil, err
	}
	defer leave()
	limits := b.http.client.Limits()
	limited, cancel := context.WithTimeoutCause(ctx, limits.ListTime, errDeadline)
	defer cancel()
	relay := newRelay(b.http, r, r.URL, limits.capList)
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
		return nil, brokenError(r, "list of refs", err)
	}
	l.base, l.binary, l.Bytes = relay.upstreamURL(), true, relay.bytes.Load()
	return l, nil
}

const sha256Digits = 64

// parseLsRemote reads what git ls-remote prints.
func parseLsRemote(out io.Reader) (*Listing, error) {
	l := &Listing{Refs: map[string]plumbing.Hash{}, Peeled: map[string]plumbing.Hash{}, capabilities: capability.NewList()}
	// The objects that upstream hands out show only when it is asked.
	if err := l.capabilities.Set(allowAny); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		text, name, ok := strings.Cut(lines.Text(), "\t")
		var id plumbing.Hash
		if len(text) == sha256Digits {
			return nil, errSHA256
		}
		if !ok || len(text) != idDigits {
			return nil, errors.New("git prints something else than refs")
		}
		if _, err := hex.Decode(id[:], []byte(text)); err != nil {
			return nil, errors.New("git prints something else than refs")
		}
		into := l.Refs
		if tag, peeled := strings.CutSuffix(name, "^{}"); peeled {
			into, name = l.Peeled, tag
		}
		if validRef(name) && !id.IsZero() {
			into[name] = id
		}
	}
	return l, lines.Err()
}

// Fetch brings wants and all that they reach.
func (b *Binary) Fetch(ctx context.Context, r Remote, l *Listing, wants []plumbing.Hash, into Target) (int64, error) {
	return withLogin(ctx, b.http, r, func(r Remote) (int64, error) { return b.fetch(ctx, r, l, wants, into) })
}

func (b *Binary) fetch(ctx context.Context, r Remote, l *Listing, wants []plumbing.Hash, into Target) (n int64, err error) {
	haves, err := into.Haves()
	if err != nil {
		return 0, &Error{Kind: KindStorage, Message: "read the mirror: " + cleanLine(err.Error()), cause: err}
	}
	x := b.http.newExchange(r, l.base)
	leave, err := x.enter(ctx, packs)
	if err != nil {
		return 0, err
	}
	defer leave()
	limits := b.http.client.Limits()
	limited, stop := context.WithTimeoutCause(ctx, limits.FetchTime, errDeadline)
	defer stop()
	limited, cancel := context.WithCancelCause(limited)
	defer cancel(nil)
	relay := newRelay(b.http, r, l.base, limits.capPack)
	relay.idle = func() *watchdog { return newWatchdog(limits.IdleTime, cancel) }
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
		n, err = s.handOver(limited, limits, x.unload(into, leave))
	}
	if err != nil {
		if relay.firstError() != nil && limited.Err() == nil {
			err = relay.firstError()
		}
		return 0, fetchError(ctx, limited, limits, r, err)
	}
	return n, nil
}

func wantLines(wants []plumbing.Hash) io.Reader {
	var b bytes.Buffer
	for _, id := range wants {
		b.WriteString(id.String() + "\n")
	}
	return &b
}

// handOver gives the Target the packs that git brought.
func (s *scratch) handOver(ctx context.Context, limits Limits, into Target) (total int64, err error) {
	packs, err := filepath.Glob(filepath.Join(s.dir, "objects", "pack", "*.pack"))
	if err != nil {
		return 0, markStorage(err)
	}
	for _, path := range packs {
		f, err := os.Open(path)
		if err != nil {
			return total, markStorage(err)
		}
		n, err := into.AddPack(ctx, limits.capPack(f))
		total += n
		if err = errors.Join(err, f.Close()); err != nil {
			return total, err
		}
	}
	return total, nil
}

func markStorage(err error) *Error {
	return &Error{Kind: KindStorage, cause: err, Message: fmt.Sprintf("the disk for fetches can't be used: %s. Check the gitcache's disk", plainCause(err))}
}
