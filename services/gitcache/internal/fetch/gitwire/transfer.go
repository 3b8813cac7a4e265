package gitwire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// TransferPack brings one pack, whatever carries it: send sends what it is given and returns the answer. A noPack is
// not for callers of the package.
func TransferPack(ctx context.Context, limits upstream.Limits, r upstream.Remote, l *Listing, wants []git.Hash, into upstream.Target, send func(ctx context.Context, dog *upstream.Watchdog, ask Ask) (io.ReadCloser, error),
) (int64, error) {
	haves, err := into.Haves()
	if err != nil {
		return 0, &upstream.Error{Kind: upstream.KindStorage, Message: "read the mirror: " + upstream.CleanLine(err.Error()), Cause: err}
	}
	ask, err := newAsk(l, wants, haves)
	if err != nil {
		return 0, err
	}
	limited, stop := context.WithTimeoutCause(ctx, limits.FetchTime, upstream.ErrDeadline)
	defer stop()
	limited, cancel := context.WithCancelCause(limited)
	defer cancel(nil)
	dog := upstream.NewWatchdog(limits.IdleTime, cancel)
	defer dog.StopTimer()

	answer, err := send(limited, dog, ask)
	if err != nil {
		return 0, noPack{FetchError(ctx, limited, limits, r, err)}
	}
	defer answer.Close()
	dog.Watch(answer)
	pack, err := ask.decode(dog)
	if err != nil {
		return 0, noPack{FetchError(ctx, limited, limits, r, err)}
	}
	n, err := into.AddPack(limited, limits.CapPack(&ending{pack, dog.StopTimer}))
	if err != nil {
		return 0, FetchError(ctx, limited, limits, r, err)
	}
	return n, nil
}

// noPack is why an ask got no answer, or one without a pack. The target has taken in nothing.
type noPack struct{ error }

func (n noPack) Unwrap() error { return n.error }

// WorthVersion0 tells whether an ask in version 2 failed in a way that the same ask in version 0 may not.
// A host that says no in words has understood the ask.
func WorthVersion0(err error) bool {
	_, early := errors.AsType[noPack](err)
	_, no := errors.AsType[saidNo](err)
	_, strange := errors.AsType[Unfit](err)
	return early && !no && (strange || IsSurprising(err) || IsHostFailure(err))
}

// IsSurprising tells whether an answer in version 2 is such that to ask in another way may do: what is wrong is
// neither the network, nor the load, nor the login.
func IsSurprising(err error) bool {
	e, ok := errors.AsType[*upstream.Error](err)
	switch {
	case !ok, e.Kind == upstream.KindThrottled, e.Kind == upstream.KindCredentials:
		return false
	case e.Kind == upstream.KindContent, e.Kind == upstream.KindNotGit:
		return !e.Limit // in version 0 there is more
	}
	return e.Status >= 300 && e.Status < 500
}

// IsHostFailure tells whether a host broke over a request.
func IsHostFailure(err error) bool {
	e, ok := errors.AsType[*upstream.Error](err)
	return ok && (e.Status == http.StatusInternalServerError || e.Status == http.StatusNotImplemented)
}

// WithoutNoPack returns the error in a noPack, and any other one as it is.
func WithoutNoPack(err error) error {
	if early, ok := errors.AsType[noPack](err); ok {
		return early.error
	}
	return err
}

// FetchError says why a fetch did not go through. own is the caller's context, limited ours.
func FetchError(own, limited context.Context, limits upstream.Limits, r upstream.Remote, err error) error {
	if own.Err() != nil {
		return own.Err()
	}
	if limited.Err() != nil {
		e := &upstream.Error{Kind: upstream.KindTimeout, Cause: err}
		e.Message = fmt.Sprintf("%s sent nothing for %s in the middle of a fetch. Fairlead tries again", r.URL.Host, limits.IdleTime)
		if !errors.Is(context.Cause(limited), upstream.ErrIdle) {
			e.Message = fmt.Sprintf("the fetch from %s was not done after %s. Fairlead tries again", r.URL.Host, limits.FetchTime)
		}
		return e
	}
	if known, ok := errors.AsType[*upstream.Error](err); ok {
		return known
	}
	if cause := upstream.DiskCause(err); cause != nil {
		return &upstream.Error{Kind: upstream.KindStorage, Cause: err, Message: fmt.Sprintf("the pack can't be kept: %s. Check the gitcache's disk", cause)}
	}
	var op interface{ Timeout() bool }
	var network *url.Error
	if errors.As(err, &network) || errors.As(err, &op) {
		return upstream.TransportError(limited, r.URL.Host, limits.IdleTime, err)
	}
	return BrokenError(r, "pack", err)
}

// ending calls end when all was read: what the reader does then is no longer upstream's time.
type ending struct {
	r   io.Reader
	end func()
}

func (e *ending) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if err != nil {
		e.end()
	}
	return n, err
}
