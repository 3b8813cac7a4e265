package upstream

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Limits of one exchange with a Git host. Zero fields mean the defaults.
type Limits struct {
	ListTime  time.Duration // for a whole list of refs
	IdleTime  time.Duration // without a byte while a pack is made or comes
	FetchTime time.Duration // for a whole fetch
	ListBytes int64         // of each answer that is part of one
	PackBytes int64         // of one pack
}

const (
	defaultListTime  = 30 * time.Second
	defaultIdleTime  = 60 * time.Second // git's server side sends a sign of life every 5 s
	defaultFetchTime = 30 * time.Minute // first clone of a large repository over a slow line
	defaultListBytes = 64 << 20         // about 10^6 refs
	defaultPackBytes = 4 << 30          // a first clone of a large repository

	dialTime     = 10 * time.Second
	keepAlive    = 30 * time.Second
	maxRedirects = 5
)

// WithDefaults are the limits with the default for each that is 0.
func (l Limits) WithDefaults() Limits {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&l.ListTime, defaultListTime)
	set(&l.IdleTime, defaultIdleTime)
	set(&l.FetchTime, defaultFetchTime)
	if l.ListBytes == 0 {
		l.ListBytes = defaultListBytes
	}
	if l.PackBytes == 0 {
		l.PackBytes = defaultPackBytes
	}
	return l
}

// Options of fetchers.
type Options struct {
	RootCAs *x509.CertPool // nil: the system's
	Limits  Limits
	// Addresses that may be dialled; nil: public ones.
	Addresses *Policy
	// Budget of requests per host, shared with other fetchers; nil: one of its own.
	Budget *Budget
	// Git is "auto", "builtin" or "binary": see fetch.New. Empty: "auto".
	Git string
	// Dir is for what lasts as long as a fetch; what is in it at the start is removed. Empty: a folder
	// in the system's own for temporary files.
	Dir string
}

// Client makes requests by http, for whatever is upstream. A Client may be used by many goroutines.
type Client struct {
	limits     Limits
	budget     *Budget
	transports *transports
}

// NewClient makes a client. Close releases its idle connections.
func NewClient(o Options) *Client {
	if o.Budget == nil {
		o.Budget = NewBudget()
	}
	return &Client{limits: o.Limits.WithDefaults(), budget: o.Budget, transports: newTransports(o.RootCAs, o.Addresses)}
}

// Close releases idle connections.
func (c *Client) Close() { c.transports.closeIdle() }

// Limits are those of the client's options, or the defaults.
func (c *Client) Limits() Limits { return c.limits }

// Exchange is one request of a source, with those that redirects make of it.
type Exchange struct {
	client *Client
	remote Remote
	// door is where the budget has let this exchange in already.
	door string
}

// NewExchange makes an exchange that begins at a URL of a source. The budget has not let it in yet.
func (c *Client) NewExchange(r Remote, at *url.URL) *Exchange {
	return &Exchange{client: c, remote: r, door: r.DoorOf(at)}
}

// Enter waits until the host may be asked. leave must be called once.
func (x *Exchange) Enter(ctx context.Context, l Lane) (leave func(), err error) {
	return x.client.budget.EnterHost(ctx, x.door, l)
}

// Unload is a Target that gives the host's place back once a pack is here: see Budget.
func (x *Exchange) Unload(into Target, leave func()) Target {
	return x.client.budget.UnloadTarget(x.door, into, leave)
}

// RoundTrip sends a request on the source's way: its authority and its proxy. Each counts, and each other
// host has to be asked by its own budget.
func (x *Exchange) RoundTrip(req *http.Request) (*http.Response, error) {
	t, err := x.client.transports.transportFor(x.remote, req)
	if err != nil {
		return nil, err
	}
	leave, to := func() {}, x.remote.DoorOf(req.URL)
	if to != x.door {
		if leave, err = x.client.budget.EnterHost(req.Context(), to, Lists); err != nil {
			return nil, err
		}
	}
	CountRequest(req.Context())
	resp, err := t.RoundTrip(req)
	if err != nil {
		leave()
		return nil, err
	}
	x.client.budget.notePauses(to, resp)
	resp.Body = &leaving{resp.Body, leave}
	return resp, nil
}

// leaving is the body of an answer that ends an exchange.
type leaving struct {
	io.ReadCloser
	leave func()
}

func (l *leaving) Close() error {
	defer l.leave()
	return l.ReadCloser.Close()
}

// FollowingClient is a client that goes along with redirects as far as the rules allow.
func (x *Exchange) FollowingClient() *http.Client {
	return &http.Client{Transport: x, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return http.ErrUseLastResponse
		}
		if first := via[0].URL; x.remote.Registry.Insecure && OriginOf(next.URL) == OriginOf(first) && next.URL.User == nil {
			return nil // without TLS, as the source says
		}
		return checkRedirect(next, via[0].URL)
	}}
}

// StayingClient is a client that does not go along with redirects.
func (x *Exchange) StayingClient() *http.Client {
	return &http.Client{Transport: x, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// checkRedirect drops the credentials of a request that goes to another place than first, and refuses
// places that a source could not name.
func checkRedirect(next *http.Request, first *url.URL) error {
	if OriginOf(next.URL) != OriginOf(first) {
		next.Header.Del("Authorization")
		next.Header.Del("Cookie")
	}
	to := *next.URL
	to.RawQuery, to.ForceQuery = "", false
	if _, err := ParseURL(to.String()); err != nil {
		return Refusal("%s redirects to a place that is not allowed: %s", first.Host, err.Error())
	}
	if first.Scheme == "https" && next.URL.Scheme != "https" {
		return Refusal("%s redirects from https to http. Check the source's url", first.Host)
	}
	if !IsLoopback(first.Hostname()) && IsLoopback(next.URL.Hostname()) {
		return Refusal("%s redirects to the hub itself. Check the source's url", first.Host)
	}
	return nil
}

// NewRequest makes a request of a source, with the password if it goes to the place that has been given one.
func NewRequest(ctx context.Context, r Remote, method string, u *url.URL, body []byte) (*http.Request, error) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), reader)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	// Some hosts answer Git only to agents that begin like this.
	req.Header.Set("User-Agent", "git/fairlead")
	if r.Credentials.Password != "" && OriginOf(u) == OriginOf(r.URL) {
		req.SetBasicAuth(r.Credentials.Username, r.Credentials.Password)
	}
	return req, nil
}
