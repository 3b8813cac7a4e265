package deliveryclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/artifact/ticket"
)

// answerTime is how long one part of the hub may take to begin its answer while another could be asked: an
// artifact that has to be made first takes some seconds.
const answerTime = 30 * time.Second

var errLate = fmt.Errorf("no answer within %s", answerTime)

// Content is where artifacts come from: any distributor, or else any gitcache.
type Content struct {
	Distributors *Distributors
	// Gitcaches are the URLs of those that agents reach; none is fine.
	Gitcaches func() []string
	// HTTP asks them, with the agent's credential.
	HTTP *http.Client
}

// Fetch gives the verified bytes of an artifact. The ticket came with its delivery; without one only
// distributors can be asked.
func (c *Content) Fetch(ctx context.Context, d artifact.Digest, given string) (content io.ReadCloser, err error) {
	err = c.Distributors.Try(ctx, func(ctx context.Context, one Distributor) error {
		content, err = Begin(ctx, ticket.Show(one.HTTP, given), one.URL, d)
		return err
	})
	if err == nil || ctx.Err() != nil || given == "" {
		return content, err
	}
	gitcaches := slices.Clone(c.Gitcaches())
	rand.Shuffle(len(gitcaches), func(i, j int) { gitcaches[i], gitcaches[j] = gitcaches[j], gitcaches[i] }) //nolint:gosec // spread, not secrecy
	for _, url := range gitcaches {
		content, gerr := Begin(ctx, ticket.Show(c.HTTP, given), url, d)
		if gerr == nil {
			return content, nil
		}
		err = errors.Join(err, fmt.Errorf("%s: %w", url, gerr))
	}
	return nil, err
}

// Begin is artifact.Fetch from one part of the hub where another one could be asked: the answer has to begin in time.
func Begin(ctx context.Context, hc *http.Client, url string, d artifact.Digest) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(answerTime, func() { cancel(errLate) })
	body, err := artifact.Fetch(ctx, hc, url, d, 0)
	inTime := late.Stop()
	if inTime && err == nil {
		return &ending{body, cancel}, nil
	}
	if err == nil { // the content came in the very moment in which it was given up
		err = errors.Join(errLate, body.Close())
	} else if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel(nil)
	return nil, err
}

// ending ends a download's context with its reader.
type ending struct {
	io.ReadCloser

	cancel context.CancelCauseFunc
}

func (e *ending) Close() error {
	defer e.cancel(nil)
	return e.ReadCloser.Close()
}
