// Package githttp fetches from Git hosts by http: with a builtin client, or with the git executable behind a relay that
// keeps every secret from it. GitHub Apps get their tokens here.
package githttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/upstream"
)

const (
	listMediaType = "application/x-git-upload-pack-advertisement"
	askMediaType  = "application/x-git-upload-pack-request"
	packMediaType = "application/x-git-upload-pack-result"
)

// HTTP is a Fetcher that speaks Git's smart HTTP protocol: version 2 where the host has it, else version 0.
type HTTP struct {
	client   *upstream.Client
	apps     *apps
	versions *gitwire.Versions
}

// New makes a fetcher that sends its requests by a client. Close ends what waits for tokens, and leaves the client
// open.
func New(c *upstream.Client) *HTTP {
	return &HTTP{client: c, apps: newApps(c), versions: gitwire.NewVersions()}
}

// Close ends what waits for tokens.
func (h *HTTP) Close() { h.apps.close() }

// exchange is a request of Git.
type exchange struct {
	*upstream.Exchange

	r        upstream.Remote
	limits   upstream.Limits
	versions *gitwire.Versions
}

func (h *HTTP) newExchange(r upstream.Remote, at *url.URL) *exchange {
	return &exchange{h.client.NewExchange(r, at), r, h.client.Limits(), h.versions}
}

// List asks where the refs point.
func (h *HTTP) List(ctx context.Context, r upstream.Remote, names gitwire.Names) (*gitwire.Listing, error) {
	return withLogin(ctx, h, r, func(r upstream.Remote) (*gitwire.Listing, error) { return h.list(ctx, r, names) })
}

func (h *HTTP) list(ctx context.Context, r upstream.Remote, names gitwire.Names) (*gitwire.Listing, error) {
	x := h.newExchange(r, r.URL)
	leave, err := x.Enter(ctx, upstream.Lists)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeoutCause(ctx, x.limits.ListTime, upstream.ErrDeadline)
	defer cancel()
	if h.versions.SpeaksTwo(r) {
		l := gitwire.NewListing2(r.URL, names)
		if err = x.listRefs(ctx, l, names); err == nil {
			return l, nil
		}
		h.versions.ForgetHost(r)
		if !gitwire.IsSurprising(err) {
			return nil, err
		}
	}
	if h.versions.FailsTwo(r) {
		return x.readAdvertised(ctx, names, "")
	}
	return x.lookAtHost(ctx, names)
}

// lookAtHost asks what the host can do. One of version 0 answers with its list at once.
func (x *exchange) lookAtHost(ctx context.Context, names gitwire.Names) (*gitwire.Listing, error) {
	l, err := x.readAdvertised(ctx, names, gitwire.AskVersion2)
	switch {
	case err == nil && !l.Version2:
		return l, nil
	case err == nil:
		if err = x.listRefs(ctx, l, names); err == nil {
			if l.Base.String() == strings.TrimRight(x.r.URL.String(), "/") { // no redirect led there
				x.versions.NoteSpeaks(x.r)
			}
			return l, nil
		}
		if !gitwire.IsSurprising(err) && !gitwire.IsHostFailure(err) {
			return nil, err
		}
	case !isRefusal(err):
		return nil, err
	}
	old, failed := x.readAdvertised(ctx, names, "")
	if _, no := errors.AsType[gitwire.Unfit](failed); no {
		return nil, gitwire.Unfit(fmt.Sprintf("it speaks only version 2 of Git's protocol, and in a way that Fairlead does not know: %s", upstream.CleanLine(err.Error())))
	}
	if failed != nil {
		return nil, failed
	}
	x.versions.NoteFails(x.r)
	return old, nil
}

// isRefusal tells whether a host finds a request malformed.
func isRefusal(err error) bool {
	e, ok := errors.AsType[*upstream.Error](err)
	return ok && (e.Status == http.StatusBadRequest || e.Status == http.StatusNotImplemented)
}

// readAdvertised asks for what the host says first: in version 0 its refs, in version 2 only what it can do.
func (x *exchange) readAdvertised(
	ctx context.Context, names gitwire.Names, version string,
) (l *gitwire.Listing, err error) {
	u := x.r.URL.JoinPath("info", "refs")
	u.RawQuery = "service=" + gitwire.UploadPack
	req, err := upstream.NewRequest(ctx, x.r, http.MethodGet, u, nil)
	if err != nil {
		return nil, err
	}
	if version != "" {
		req.Header.Set(gitwire.ProtocolHeader, version)
	}
	err = x.askList(ctx, x.FollowingClient(), req, listMediaType, func(resp *http.Response) error {
		body := x.limits.CapList(resp.Body)
		got, err := gitwire.DecodeAdvertised(gitwire.NewLines(body), names)
		if err != nil {
			return err
		}
		if got.Version2 && version == "" {
			return gitwire.OnlyVersion2
		}
		l = got
		l.Base, l.Bytes = afterRedirect(resp.Request.URL, x.r.URL), body.BytesTaken()
		return nil
	})
	return l, err
}

// ListRefs asks for the refs of a listing in version 2.
func (x *exchange) listRefs(ctx context.Context, l *gitwire.Listing, names gitwire.Names) error {
	err := x.sendCommand(ctx, l, names, func(lines gitwire.Lines) error { return lines.ListRefs(l, names) })
	if err != nil || len(l.Refs) > 0 || !l.Partial {
		return err
	}
	// Is nothing there, or none of the names?
	return x.sendCommand(ctx, l, gitwire.Names{}, func(lines gitwire.Lines) (err error) {
		l.Others, err = lines.AnyRef()
		return err
	})
}

func (x *exchange) sendCommand(
	ctx context.Context, l *gitwire.Listing, names gitwire.Names, read func(gitwire.Lines) error,
) error {
	var body bytes.Buffer
	if err := gitwire.EncodeListRefs(&body, names); err != nil {
		return err
	}
	req, err := upstream.NewRequest(ctx, x.r, http.MethodPost, l.Base.JoinPath(gitwire.UploadPack), body.Bytes())
	if err != nil {
		return err
	}
	req.Header.Set(gitwire.ProtocolHeader, gitwire.AskVersion2)
	req.Header.Set("Content-Type", askMediaType)
	req.Header.Set("Accept", packMediaType)
	// Empty, so that it is not sent: it tells the transport that the request may be sent again when the host closes
	// the connection that was kept from the last poll.
	req.Header["X-Idempotency-Key"] = []string{}
	return x.askList(ctx, x.StayingClient(), req, packMediaType, func(resp *http.Response) error {
		body := x.limits.CapList(resp.Body)
		err := read(gitwire.NewLines(body))
		l.Bytes += body.BytesTaken()
		return err
	})
}

// askList sends a request of a list and has its answer read.
func (x *exchange) askList(
	ctx context.Context, client *http.Client, req *http.Request, mediaType string, read func(*http.Response) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := client.Do(req.WithContext(ctx))
	if err != nil {
		return upstream.TransportError(ctx, x.r.URL.Host, x.limits.ListTime, err)
	}
	defer resp.Body.Close()
	defer upstream.DrainBody(resp.Body, cancel)
	if err := checkAnswer(x.r, resp, mediaType); err != nil {
		return err
	}
	if err = read(resp); err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return upstream.TransportError(ctx, x.r.URL.Host, x.limits.ListTime, err)
	}
	return gitwire.BrokenError(x.r, "list of refs", err)
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
func (h *HTTP) Fetch(
	ctx context.Context, r upstream.Remote, l *gitwire.Listing, wants []git.Hash, into upstream.Target,
) (int64, error) {
	return withLogin(ctx, h, r, func(r upstream.Remote) (int64, error) { return h.fetch(ctx, r, l, wants, into) })
}

func (h *HTTP) fetch(
	ctx context.Context, r upstream.Remote, l *gitwire.Listing, wants []git.Hash, into upstream.Target,
) (int64, error) {
	x := h.newExchange(r, l.Base)
	leave, err := x.Enter(ctx, upstream.Packs)
	if err != nil {
		return 0, err
	}
	defer leave()
	into = x.Unload(into, leave)
	n, err := x.transferPack(ctx, l, wants, into)
	if !l.Version2 || !gitwire.WorthVersion0(err) {
		return n, gitwire.WithoutNoPack(err)
	}
	// The host lists in version 2, and can't fetch in it. Its capabilities in version 0 stand above its list.
	limited, cancel := context.WithTimeoutCause(ctx, x.limits.ListTime, upstream.ErrDeadline)
	old, failed := x.readAdvertised(limited, gitwire.Names{}, "")
	cancel()
	if failed != nil {
		return n, gitwire.WithoutNoPack(err)
	}
	if n, err = x.transferPack(ctx, old, wants, into); err != nil {
		return n, gitwire.WithoutNoPack(err)
	}
	h.versions.NoteFetchFails(r)
	return n, nil
}

func (x *exchange) transferPack(
	ctx context.Context, l *gitwire.Listing, wants []git.Hash, into upstream.Target,
) (int64, error) {
	return gitwire.TransferPack(ctx, x.limits, x.r, l, wants, into, func(ctx context.Context, _ *upstream.Watchdog, ask gitwire.Ask) (io.ReadCloser, error) {
		return x.askPack(ctx, l, ask)
	})
}

func (x *exchange) askPack(ctx context.Context, l *gitwire.Listing, ask gitwire.Ask) (io.ReadCloser, error) {
	var body bytes.Buffer
	if err := ask.Encode(&body); err != nil {
		return nil, err
	}
	req, err := upstream.NewRequest(ctx, x.r, http.MethodPost, l.Base.JoinPath(gitwire.UploadPack), body.Bytes())
	if err != nil {
		return nil, err
	}
	if l.Version2 {
		req.Header.Set(gitwire.ProtocolHeader, gitwire.AskVersion2)
	}
	req.Header.Set("Content-Type", askMediaType)
	req.Header.Set("Accept", packMediaType)
	resp, err := x.StayingClient().Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusBadRequest {
		defer resp.Body.Close()
		return nil, gitwire.MisunderstoodError(x.r, resp.Body)
	}
	if err := checkAnswer(x.r, resp, packMediaType); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return resp.Body, nil
}

// checkAnswer checks status and type of an answer. The media type is how a Git server tells itself from
// a web page that says 200 to everything.
func checkAnswer(r upstream.Remote, resp *http.Response, mediaType string) error {
	answered := r.URL
	if resp.Request != nil {
		answered = resp.Request.URL
	}
	if resp.StatusCode != http.StatusOK {
		return upstream.StatusError(r, answered, resp)
	}
	got, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if strings.TrimSpace(got) != mediaType {
		return &upstream.Error{Kind: upstream.KindNotGit, Message: fmt.Sprintf(
			"%s does not answer as a Git repository does. Check the source's url", upstream.ShowURL(r.URL))}
	}
	return nil
}
