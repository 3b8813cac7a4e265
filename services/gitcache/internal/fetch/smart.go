package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

const (
	listMediaType = "application/x-git-upload-pack-advertisement"
	askMediaType  = "application/x-git-upload-pack-request"
	packMediaType = "application/x-git-upload-pack-result"
)

// HTTP is a Fetcher that speaks Git's smart HTTP protocol: version 2 where the host has it, else version 0.
type HTTP struct {
	client   *Client
	apps     *apps
	versions *versions
}

// NewHTTP makes a fetcher that sends its requests by a client. Close ends what waits for tokens, and leaves the client open.
func NewHTTP(c *Client) *HTTP { return &HTTP{client: c, apps: newApps(c), versions: newVersions()} }

// Close ends what waits for tokens.
func (h *HTTP) Close() { h.apps.close() }

// exchange is a request of Git.
type exchange struct {
	*Exchange

	r        Remote
	limits   Limits
	versions *versions
}

func (h *HTTP) newExchange(r Remote, at *url.URL) *exchange {
	return &exchange{h.client.newExchange(r, at), r, h.client.Limits(), h.versions}
}

// List asks where the refs point.
func (h *HTTP) List(ctx context.Context, r Remote, names Names) (*Listing, error) {
	return withLogin(ctx, h, r, func(r Remote) (*Listing, error) { return h.list(ctx, r, names) })
}

func (h *HTTP) list(ctx context.Context, r Remote, names Names) (*Listing, error) {
	x := h.newExchange(r, r.URL)
	leave, err := x.enter(ctx, lists)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeoutCause(ctx, x.limits.ListTime, errDeadline)
	defer cancel()
	if h.versions.speaksTwo(r) {
		l := newListing2(r.URL, names)
		if err = x.listRefs(ctx, l, names); err == nil {
			return l, nil
		}
		h.versions.forgetHost(r)
		if !isSurprising(err) {
			return nil, err
		}
	}
	if h.versions.failsTwo(r) {
		return x.readAdvertised(ctx, names, "")
	}
	return x.lookAtHost(ctx, names)
}

// lookAtHost asks what the host can do. One of version 0 answers with its list at once.
func (x *exchange) lookAtHost(ctx context.Context, names Names) (*Listing, error) {
	l, err := x.readAdvertised(ctx, names, askVersion2)
	switch {
	case err == nil && !l.version2:
		return l, nil
	case err == nil:
		if err = x.listRefs(ctx, l, names); err == nil {
			if l.base.String() == strings.TrimRight(x.r.URL.String(), "/") { // no redirect led there
				x.versions.noteSpeaks(x.r)
			}
			return l, nil
		}
		if !isSurprising(err) && !isHostFailure(err) {
			return nil, err
		}
	case !isRefusal(err):
		return nil, err
	}
	old, failed := x.readAdvertised(ctx, names, "")
	if _, no := errors.AsType[unfit](failed); no {
		return nil, unfit(fmt.Sprintf("it speaks only version 2 of Git's protocol, and in a way that Fairlead does not know: %s", cleanLine(err.Error())))
	}
	if failed != nil {
		return nil, failed
	}
	x.versions.noteFails(x.r)
	return old, nil
}

// isRefusal tells whether a host finds a request malformed.
func isRefusal(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.status == http.StatusBadRequest || e.status == http.StatusNotImplemented)
}

// readAdvertised asks for what the host says first: in version 0 its refs, in version 2 only what it can do.
func (x *exchange) readAdvertised(ctx context.Context, names Names, version string) (l *Listing, err error) {
	u := x.r.URL.JoinPath("info", "refs")
	u.RawQuery = "service=" + uploadPack
	req, err := newRequest(ctx, x.r, http.MethodGet, u, nil)
	if err != nil {
		return nil, err
	}
	if version != "" {
		req.Header.Set(protocolHeader, version)
	}
	err = x.askList(ctx, x.followingClient(), req, listMediaType, func(resp *http.Response) error {
		body := x.limits.capList(resp.Body)
		got, err := decodeAdvertised(newLines(body), names)
		if err != nil {
			return err
		}
		if got.version2 && version == "" {
			return onlyVersion2
		}
		l = got
		l.base, l.Bytes = afterRedirect(resp.Request.URL, x.r.URL), body.bytesTaken()
		return nil
	})
	return l, err
}

// listRefs asks for the refs of a listing in version 2.
func (x *exchange) listRefs(ctx context.Context, l *Listing, names Names) error {
	err := x.sendCommand(ctx, l, names, func(lines lines) error { return lines.listRefs(l, names) })
	if err != nil || len(l.Refs) > 0 || !l.partial {
		return err
	}
	// Is nothing there, or none of the names?
	return x.sendCommand(ctx, l, Names{}, func(lines lines) (err error) {
		l.others, err = lines.anyRef()
		return err
	})
}

func (x *exchange) sendCommand(ctx context.Context, l *Listing, names Names, read func(lines) error) error {
	var body bytes.Buffer
	if err := encodeListRefs(&body, names); err != nil {
		return err
	}
	req, err := newRequest(ctx, x.r, http.MethodPost, l.base.JoinPath(uploadPack), body.Bytes())
	if err != nil {
		return err
	}
	req.Header.Set(protocolHeader, askVersion2)
	req.Header.Set("Content-Type", askMediaType)
	req.Header.Set("Accept", packMediaType)
	// Empty, so that it is not sent: it tells the transport that the request may be sent again when the host closes
	// the connection that was kept from the last poll.
	req.Header["X-Idempotency-Key"] = []string{}
	return x.askList(ctx, x.stayingClient(), req, packMediaType, func(resp *http.Response) error {
		body := x.limits.capList(resp.Body)
		err := read(newLines(body))
		l.Bytes += body.bytesTaken()
		return err
	})
}

// askList sends a request of a list and has its answer read.
func (x *exchange) askList(ctx context.Context, client *http.Client, req *http.Request, mediaType string, read func(*http.Response) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := client.Do(req.WithContext(ctx))
	if err != nil {
		return transportError(ctx, x.r.URL.Host, x.limits.ListTime, err)
	}
	defer resp.Body.Close()
	defer drainBody(resp.Body, cancel)
	if err := checkAnswer(x.r, resp, mediaType); err != nil {
		return err
	}
	if err = read(resp); err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return transportError(ctx, x.r.URL.Host, x.limits.ListTime, err)
	}
	return brokenError(x.r, "list of refs", err)
}

// afterRedirect is where the repository is, judged by where its list of refs was found.
func afterRedirect(list, asked *url.URL) *url.URL {
	base := *list
	base.RawQuery, base.RawPath = "", ""
	path, ok := strings.CutSuffix(list.Path, "/info/refs")
	if !ok {
		return asked
	}
	base.Path = path
	return &base
}

// Fetch brings wants and all that they reach.
func (h *HTTP) Fetch(ctx context.Context, r Remote, l *Listing, wants []plumbing.Hash, into Target) (int64, error) {
	return withLogin(ctx, h, r, func(r Remote) (int64, error) { return h.fetch(ctx, r, l, wants, into) })
}

func (h *HTTP) fetch(ctx context.Context, r Remote, l *Listing, wants []plumbing.Hash, into Target) (int64, error) {
	x := h.newExchange(r, l.base)
	leave, err := x.enter(ctx, packs)
	if err != nil {
		return 0, err
	}
	defer leave()
	into = x.unload(into, leave)
	n, err := x.transferPack(ctx, l, wants, into)
	if !l.version2 || !worthVersion0(err) {
		return n, withoutNoPack(err)
	}
	// The host lists in version 2, and can't fetch in it. Its capabilities in version 0 stand above its list.
	limited, cancel := context.WithTimeoutCause(ctx, x.limits.ListTime, errDeadline)
	old, failed := x.readAdvertised(limited, Names{}, "")
	cancel()
	if failed != nil {
		return n, withoutNoPack(err)
	}
	if n, err = x.transferPack(ctx, old, wants, into); err != nil {
		return n, withoutNoPack(err)
	}
	h.versions.noteFetchFails(r)
	return n, nil
}

func (x *exchange) transferPack(ctx context.Context, l *Listing, wants []plumbing.Hash, into Target) (int64, error) {
	return transferPack(ctx, x.limits, x.r, l, wants, into, func(ctx context.Context, _ *watchdog, ask packAsk) (io.ReadCloser, error) {
		return x.askPack(ctx, l, ask)
	})
}

func (x *exchange) askPack(ctx context.Context, l *Listing, ask packAsk) (io.ReadCloser, error) {
	var body bytes.Buffer
	if err := ask.encode(&body); err != nil {
		return nil, err
	}
	req, err := newRequest(ctx, x.r, http.MethodPost, l.base.JoinPath(uploadPack), body.Bytes())
	if err != nil {
		return nil, err
	}
	if l.version2 {
		req.Header.Set(protocolHeader, askVersion2)
	}
	req.Header.Set("Content-Type", askMediaType)
	req.Header.Set("Accept", packMediaType)
	resp, err := x.stayingClient().Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusBadRequest {
		defer resp.Body.Close()
		return nil, misunderstoodError(x.r, resp.Body)
	}
	if err := checkAnswer(x.r, resp, packMediaType); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return resp.Body, nil
}

// checkAnswer checks status and type of an answer. The media type is how a Git server tells itself from
// a web page that says 200 to everything.
func checkAnswer(r Remote, resp *http.Response, mediaType string) error {
	answered := r.URL
	if resp.Request != nil {
		answered = resp.Request.URL
	}
	if resp.StatusCode != http.StatusOK {
		return statusError(r, answered, resp)
	}
	got, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if strings.TrimSpace(got) != mediaType {
		return &Error{Kind: KindNotGit, Message: fmt.Sprintf(
			"%s does not answer as a Git repository does. Check the source's url", showURL(r.URL))}
	}
	return nil
}
