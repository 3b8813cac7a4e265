package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/go-git/go-git/v5/plumbing"
)

// transferPack brings one pack, whatever carries it: send sends what it is given and returns the answer. A noPack is not
// for callers of the package.
func transferPack(ctx context.Context, limits Limits, r Remote, l *Listing, wants []plumbing.Hash, into Target,
	send func(ctx context.Context, dog *watchdog, ask packAsk) (io.ReadCloser, error),
) (int64, error) {
	haves, err := into.Haves()
	if err != nil {
		return 0, &Error{Kind: KindStorage, Message: "read the mirror: " + cleanLine(err.Error()), cause: err}
	}
	ask, err := newAsk(l, wants, haves)
	if err != nil {
		return 0, err
	}
	limited, stop := context.WithTimeoutCause(ctx, limits.FetchTime, errDeadline)
	defer stop()
	limited, cancel := context.WithCancelCause(limited)
	defer cancel(nil)
	dog := newWatchdog(limits.IdleTime, cancel)
	defer dog.stopTimer()

	answer, err := send(limited, dog, ask)
	if err != nil {
		return 0, noPack{fetchError(ctx, limited, limits, r, err)}
	}
	defer answer.Close()
	dog.watch(answer)
	pack, err := ask.decode(dog)
	if err != nil {
		return 0, noPack{fetchError(ctx, limited, limits, r, err)}
	}
	n, err := into.AddPack(limited, limits.capPack(&ending{pack, dog.stopTimer}))
	if err != nil {
		return 0, fetchError(ctx, limited, limits, r, err)
	}
	return n, nil
}

// noPack is why an ask got no answer, or one without a pack. The target has taken in nothing.
type noPack struct{ error }

func (n noPack) Unwrap() error { return n.error }

// worthVersion0 tells whether an ask in version 2 failed in a way that the same ask in version 0 may not.
// A host that says no in words has understood the ask.
func worthVersion0(err error) bool {
	_, early := errors.AsType[noPack](err)
	_, no := errors.AsType[saidNo](err)
	_, strange := errors.AsType[unfit](err)
	return early && !no && (strange || isSurprising(err) || isHostFailure(err))
}

// isSurprising tells whether an answer in version 2 is such that to ask in another way may do: what is wrong is
// neither the network, nor the load, nor the login.
func isSurprising(err error) bool {
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok, e.Kind == KindThrottled, e.Kind == KindCredentials:
		return false
	case e.Kind == KindContent, e.Kind == KindNotGit:
		return !e.limit // in version 0 there is more
	}
	return e.status >= 300 && e.status < 500
}

// isHostFailure tells whether a host broke over a request.
func isHostFailure(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.status == http.StatusInternalServerError || e.status == http.StatusNotImplemented)
}

// withoutNoPack returns the error in a noPack, and any other one as it is.
func withoutNoPack(err error) error {
	if early, ok := errors.AsType[noPack](err); ok {
		return early.error
	}
	return err
}

// fetchError says why a fetch did not go through. own is the caller's context, limited ours.
func fetchError(own, limited context.Context, limits Limits, r Remote, err error) error {
	if own.Err() != nil {
		return own.Err()
	}
	if limited.Err() != nil {
		e := &Error{Kind: KindTimeout, cause: err}
		e.Message = fmt.Sprintf("%s sent nothing for %s in the middle of a fetch. Fairlead tries again", r.URL.Host, limits.IdleTime)
		if !errors.Is(context.Cause(limited), errIdle) {
			e.Message = fmt.Sprintf("the fetch from %s was not done after %s. Fairlead tries again", r.URL.Host, limits.FetchTime)
		}
		return e
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	if cause := ofDisk(err); cause != nil {
		return &Error{Kind: KindStorage, cause: err, Message: fmt.Sprintf("the pack can't be kept: %s. Check the gitcache's disk", cause)}
	}
	var op interface{ Timeout() bool }
	var network *url.Error
	if errors.As(err, &network) || errors.As(err, &op) {
		return transportError(limited, r.URL.Host, limits.IdleTime, err)
	}
	return brokenError(r, "pack", err)
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
