// Package backendtest holds backends to the contract that backend.Backend puts in words.
package backendtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"fairlead.dev/services/console/internal/backend"
)

// Subject is a backend, and how a test writes to what it reads.
type Subject struct {
	Backend backend.Backend
	// Path of a name.
	Path func(name string) string
	// Put writes all values of a place. Put fails if the server of the backend takes no more.
	Put func(ctx context.Context, path string, values backend.Values) error
	// Remove has nothing be at a path any more.
	Remove func(ctx context.Context, path string) error
	// Credentials are in no error.
	Credentials []string
}

// soon is how long something that is cancelled may go on.
const soon = 5 * time.Second

// Run tests a backend. Run opens the backend once; the tests keep to places of their own.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	t.Helper()
	s := open(t)
	for name, test := range map[string]func(t *testing.T, s Subject){
		"WhatIsWrittenIsRead":           written,
		"WhatIsNotThereIsNotFound":      missing,
		"PathsLeadNowhereElse":          paths,
		"NothingIsReadByHalf":           atomic,
		"WhatIsTooLargeIsRefused":       large,
		"WhatIsCancelledEndsSoon":       cancelled,
		"ItLetsUsIn":                    func(t *testing.T, s Subject) { must(t, s.Backend.Check(t.Context())) },
		"SeveralMayReadAtTheSameTime":   parallel,
		"ErrorsTellNothingThatIsInThem": secrecy,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s Subject) expect(t *testing.T, path string, want backend.Values) {
	t.Helper()
	got, err := s.Backend.Read(t.Context(), path)
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%s: got %q, %v, want %q", path, got, err, want)
	}
}

func written(t *testing.T, s Subject) {
	path := s.Path("written")
	for _, values := range []backend.Values{
		{"user": "app", "password": "pa$$ ${word} \"'\n ü 中"}, //nolint:gosec // nobody's
		{"user": "app", "password": "another", "empty.not": "true"},
		{"only": "01"},
	} {
		must(t, s.Put(t.Context(), path, values))
		s.expect(t, path, values) // at once
	}
}

func missing(t *testing.T, s Subject) {
	path := s.Path("missing")
	for _, step := range []func() error{
		func() error { return nil },
		func() error {
			return errors.Join(s.Put(t.Context(), path, backend.Values{"a": "1"}), s.Remove(t.Context(), path))
		},
	} {
		must(t, step())
		if got, err := s.Backend.Read(t.Context(), path); !errors.Is(err, backend.ErrNotFound) || got != nil {
			t.Errorf("got %v, %v", got, err)
		}
	}
	must(t, s.Put(t.Context(), path, backend.Values{"a": "2"}))
	s.expect(t, path, backend.Values{"a": "2"})
}

func paths(t *testing.T, s Subject) {
	at := s.Path("there")
	must(t, s.Put(t.Context(), at, backend.Values{"a": "1"}))
	for _, path := range []string{
		"", "/", ".", "..", "/" + at, at + "/", "../" + at, at + "/..", "./" + at, at + "/../" + at, "a//b", "..\\x",
		"\x00", at + "\x00", at + "\n", "%2e%2e/x", at + "?x=1", at + "#x",
		"ü", "\xff", strings.Repeat("a/", 2000) + "a", "http://127.0.0.1:1/x", "*",
	} {
		got, err := s.Backend.Read(t.Context(), path)
		if !errors.Is(err, backend.ErrPath) && !errors.Is(err, backend.ErrNotFound) || got != nil {
			t.Errorf("%.40q: got %v, %v", path, got, err)
		}
	}
}

// atomic has somebody write while others read.
func atomic(t *testing.T, s Subject) {
	path := s.Path("atomic")
	of := func(i int) backend.Values {
		out := backend.Values{}
		for _, key := range []string{"a", "b", "c"} {
			out[key] = strings.Repeat(fmt.Sprint(i%10), 5000)
		}
		return out
	}
	must(t, s.Put(t.Context(), path, of(0)))
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := s.Put(t.Context(), path, of(i)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 50 {
		got, err := s.Backend.Read(t.Context(), path)
		if err != nil || len(got) != 3 || got["a"] != got["b"] || got["b"] != got["c"] {
			t.Errorf("got %d values, %v", len(got), err)
			break
		}
	}
	close(stop)
	writer.Wait()
}

func large(t *testing.T, s Subject) {
	for name, values := range map[string]backend.Values{
		"bytes": {"a": strings.Repeat("x", backend.MaxBytes/2), "b": strings.Repeat("y", backend.MaxBytes/2+1)},
		"keys":  many(3000),
	} {
		path := s.Path("large-" + name)
		if s.Put(t.Context(), path, values) != nil {
			continue // the server itself takes no more
		}
		if got, err := s.Backend.Read(t.Context(), path); !errors.Is(err, backend.ErrTooLarge) || got != nil {
			t.Errorf("%s: got %d values, %v", name, len(got), err)
		}
	}
	path := s.Path("large-enough")
	fits := backend.Values{"a": strings.Repeat("x", 200<<10)}
	must(t, s.Put(t.Context(), path, fits))
	s.expect(t, path, fits)
}

func many(n int) backend.Values {
	out := backend.Values{}
	for i := range n {
		out[fmt.Sprintf("key%d", i)] = "x"
	}
	return out
}

func cancelled(t *testing.T, s Subject) {
	path := s.Path("cancelled")
	must(t, s.Put(t.Context(), path, backend.Values{"a": "1"}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	if got, err := s.Backend.Read(ctx, path); !errors.Is(err, context.Canceled) || got != nil || time.Since(began) > soon {
		t.Errorf("got %v, %v after %s", got, err, time.Since(began))
	}
}

func parallel(t *testing.T, s Subject) {
	var group errgroup.Group
	for i := range 8 {
		path, values := s.Path(fmt.Sprintf("parallel-%d", i)), backend.Values{"i": fmt.Sprint("n", i)}
		must(t, s.Put(t.Context(), path, values))
		for range 4 {
			group.Go(func() error {
				got, err := s.Backend.Read(t.Context(), path)
				if err == nil && !maps.Equal(got, values) {
					err = fmt.Errorf("got %v, want %v", got, values)
				}
				return err
			})
		}
	}
	must(t, group.Wait())
}

func secrecy(t *testing.T, s Subject) {
	const planted = "planted-zq81x7"
	path := s.Path("secrecy")
	must(t, s.Put(t.Context(), path, backend.Values{"a": planted}))
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	_, gone := s.Backend.Read(dead, path)
	_, bad := s.Backend.Read(t.Context(), "../"+path)
	_, none := s.Backend.Read(t.Context(), s.Path("secrecy-none"))
	for _, err := range []error{gone, bad, none} {
		for _, secret := range append(s.Credentials, planted) {
			if err == nil || strings.Contains(err.Error(), secret) {
				t.Errorf("got %v", err)
			}
		}
	}
}
