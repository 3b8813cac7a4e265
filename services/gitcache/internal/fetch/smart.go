package fetch

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
)

const (
	uploadPack    = "git-upload-pack"
	listMediaType = "application/x-git-upload-pack-advertisement"
	askMediaType  = "application/x-git-upload-pack-request"
	packMediaType = "application/x-git-upload-pack-result"

	// What is read to keep a connection costs less than a new one does.
	maxDrain, drainTime = 16 << 10, 250 * time.Millisecond
)

// List asks where the refs point.
func (h *HTTP) List(ctx context.Context, r Remote) (*Listing, error) {
	return authenticated(ctx, h, r, func(r Remote) (*Listing, error) { return h.list(ctx, r) })
}

func (h *HTTP) list(ctx context.Context, r Remote) (*Listing, error) {
	x := &exchange{h: h, r: r, door: r.door(r.URL)}
	leave, err := h.budget.enter(ctx, x.door, lists)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeoutCause(ctx, h.limits.ListTime, errDeadline)
	defer cancel()
	u := r.URL.JoinPath("info", "refs")
	u.RawQuery = "service=" + uploadPack
	req, err := request(ctx, r, http.MethodGet, u, nil)
	if err != nil {
		return nil, err
	}
	resp, err := x.follow().Do(req)
	if err != nil {
		return nil, transportError(ctx, r.URL.Host, h.limits.ListTime, err)
	}
	defer resp.Body.Close()
	defer drain(resp.Body, cancel)
	if err := expect(r, resp, listMediaType); err != nil {
		return nil, err
	}
	l, err := decodeListing(h.limits.list(resp.Body))
	if err != nil {
		if ctx.Err() != nil {
			return nil, transportError(ctx, r.URL.Host, h.limits.ListTime, err)
		}
		return nil, broken(r, "list of refs", err)
	}
	l.base = afterRedirect(resp.Request.URL, r.URL)
	return l, nil
}

// drain reads what little may be left of a body: only then the connection is used again.
// cancel is of its request.
func drain(body io.Reader, cancel context.CancelFunc) {
	slow := time.AfterFunc(drainTime, cancel)
	_, _ = io.CopyN(io.Discard, body, maxDrain)
	slow.Stop()
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
	return authenticated(ctx, h, r, func(r Remote) (int64, error) { return h.fetch(ctx, r, l, wants, into) })
}

func (h *HTTP) fetch(ctx context.Context, r Remote, l *Listing, wants []plumbing.Hash, into Target) (int64, error) {
	x := &exchange{h: h, r: r, door: r.door(l.base)}
	leave, err := h.budget.enter(ctx, x.door, packs)
	if err != nil {
		return 0, err
	}
	defer leave()
	return transfer(ctx, h.limits, r, l, wants, h.budget.unload(x.door, into, leave), func(ctx context.Context, _ *watchdog, ask *packp.UploadPackRequest) (io.ReadCloser, error) {
		return x.askPack(ctx, l, ask)
	})
}

func (x *exchange) askPack(ctx context.Context, l *Listing, ask *packp.UploadPackRequest) (io.ReadCloser, error) {
	var body bytes.Buffer
	if err := encodeAsk(&body, ask); err != nil {
		return nil, err
	}
	req, err := request(ctx, x.r, http.MethodPost, l.base.JoinPath(uploadPack), body.Bytes())
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", askMediaType)
	req.Header.Set("Accept", packMediaType)
	resp, err := x.stay().Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusBadRequest {
		defer resp.Body.Close()
		return nil, misunderstood(x.r, resp.Body)
	}
	if err := expect(x.r, resp, packMediaType); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return resp.Body, nil
}
