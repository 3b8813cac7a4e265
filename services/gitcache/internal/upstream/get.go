package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// GetURL makes one request, goes along with redirects, and has the answer read: within the time for a fetch, and
// without a pause longer than an idle one.
func (c *Client) GetURL(ctx context.Context, r Remote, u *url.URL, l Lane, prepare func(*http.Request), read func(*http.Response, io.Reader) error) error {
	x := c.NewExchange(r, u)
	leave, err := x.Enter(ctx, l)
	if err != nil {
		return err
	}
	defer leave()
	return x.SendRequest(ctx, x.FollowingClient(), u, prepare, read)
}

// SendRequest is GetURL for what the budget has let in.
func (x *Exchange) SendRequest(ctx context.Context, hc *http.Client, u *url.URL, prepare func(*http.Request), read func(*http.Response, io.Reader) error) error {
	limits := x.client.limits
	limited, stop := context.WithTimeoutCause(ctx, limits.FetchTime, ErrDeadline)
	defer stop()
	limited, cancel := context.WithCancelCause(limited)
	defer cancel(nil)
	dog := NewWatchdog(limits.IdleTime, cancel)
	defer dog.StopTimer()

	req, err := NewRequest(limited, x.remote, http.MethodGet, u, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "fairlead")
	prepare(req)
	resp, err := hc.Do(req)
	if err == nil {
		defer resp.Body.Close()
		defer DrainBody(resp.Body, func() { cancel(nil) })
		dog.Watch(resp.Body)
		err = read(resp, dog)
	}
	if err == nil {
		return nil
	}
	return x.client.AnswerError(ctx, limited, x.remote, u, err)
}

// AnswerError says why a chart repository could not be read.
func (c *Client) AnswerError(own, limited context.Context, r Remote, u *url.URL, err error) error {
	if own.Err() != nil {
		return own.Err()
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	if limited.Err() != nil {
		e := &Error{Kind: KindTimeout, Cause: err}
		e.Message = fmt.Sprintf("%s sent nothing for %s. Check that the host is up and not behind a firewall", u.Host, c.limits.IdleTime)
		if !errors.Is(context.Cause(limited), ErrIdle) {
			e.Message = fmt.Sprintf("%s had not sent everything after %s. Fairlead tries again", u.Host, c.limits.FetchTime)
		}
		return e
	}
	if cause := DiskCause(err); cause != nil {
		return &Error{Kind: KindStorage, Cause: err, Message: fmt.Sprintf("what came can't be kept: %s. Check the gitcache's disk", cause)}
	}
	var op interface{ Timeout() bool }
	var network *url.Error
	switch {
	case errors.As(err, &network), errors.As(err, &op):
		return TransportError(limited, u.Host, c.limits.IdleTime, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{Kind: KindUnreachable, Cause: err, Message: fmt.Sprintf("what %s sent ends early. Fairlead tries again", u.Host)}
	}
	return &Error{Kind: KindContent, Cause: err, Message: fmt.Sprintf("%s does not answer as a chart repository does: %s. Check the source's url", u.Host, CleanLine(r.RedactText(err.Error())))}
}

// PackageError keeps what get can put into words, and says of anything else that it is the package's own fault. So is
// an early end of a package of which all has come: it would end so the next time, too.
func PackageError(err error, allCame bool) error {
	var op interface{ Timeout() bool }
	known, _ := errors.AsType[*Error](err)
	if known != nil || DiskCause(err) != nil || errors.As(err, &op) || errors.Is(err, io.ErrUnexpectedEOF) && !allCame || errors.Is(err, context.Canceled) {
		return err
	}
	return &Error{Kind: KindContent, Cause: err, Message: "the package can't be used: " + CleanLine(err.Error())}
}
