package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/singleflight"
)

// FetchFunc brings the uncompressed tar of an artifact from somewhere else: ErrNotFound when nobody
// has it. Fetch makes good ones.
type FetchFunc func(ctx context.Context, d Digest) (io.ReadCloser, error)

// ErrClosed: the store was closed.
var ErrClosed = errors.New("artifact store is closed")

// Close ends the fills that run and waits for them; Fill gives ErrClosed then. Everything else goes on
// working: what is stored is on the disk already.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.filling.Wait()
	return nil
}

// Fill returns the artifact, storing what fetch gives if it is not here. However many callers ask at
// once, fetch runs once, under a context of its own: the end of one caller does not fail the others.
// With ErrNoSpace the caller may fetch for itself.
func (s *Store) Fill(ctx context.Context, d Digest, fetch FetchFunc) (*Blob, error) {
	return s.fillIn(ctx, &s.fills, d, fetch)
}

// fillIn is Fill for those who ask in the same flights.
func (s *Store) fillIn(ctx context.Context, flights *singleflight.Group, d Digest, fetch FetchFunc) (*Blob, error) {
	b, err := s.Open(d)
	if !errors.Is(err, ErrNotFound) {
		return b, err
	}
	done := flights.DoChan(string(d), func() (any, error) {
		if !s.beginFill() {
			return nil, ErrClosed
		}
		defer s.filling.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), FillTimeout)
		defer cancel()
		defer context.AfterFunc(s.life, cancel)() //nolint:contextcheck // the end of the store, not of a caller, ends a fill
		return nil, s.fillOnce(ctx, d, fetch)
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-done:
		if r.Err != nil && !errors.Is(r.Err, ErrNoSpace) {
			return nil, r.Err
		}
		b, err := s.openStored(d)
		switch {
		case !errors.Is(err, ErrNotFound):
			return b, err
		case r.Err != nil:
			return nil, r.Err
		default:
			return nil, fmt.Errorf("%w: it made room for another at once", ErrNoSpace)
		}
	}
}

// beginFill counts a fill, unless the store is closed.
func (s *Store) beginFill() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.filling.Add(1)
	return true
}

func (s *Store) fillOnce(ctx context.Context, d Digest, fetch FetchFunc) (err error) {
	r, err := fetch(ctx, d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return s.Put(ctx, d, r)
}
