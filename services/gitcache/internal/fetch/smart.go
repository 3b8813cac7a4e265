package fetch

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
)

const (
	uploadPack    = "git-upload-pack"
	listMediaType = "application/x-git-upload-pack-advertisement"
	askMediaType  = "application/x-git-upload-pack-request"
	packMediaType = "application/x-git-upload-pack-result"
)

// List asks where the refs point.
func (h *HTTP) List(ctx context.Context, r Remote) (*Listing, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.limits.ListTime, errDeadline)
	defer cancel()
	u := r.URL.JoinPath("info", "refs")
	u.RawQuery = "service=" + uploadPack
	req, err := h.request(ctx, r, http.MethodGet, u, nil)
	if err != nil {
		return nil, err
	}
	resp, err := h.client(true).Do(req)
	if err != nil {
		return nil, transportError(ctx, r.URL.Host, h.limits.ListTime, err)
	}
	defer resp.Body.Close()
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
	return transfer(ctx, h.limits, r, l, wants, into, func(ctx context.Context, _ *watchdog, ask *packp.UploadPackRequest) (io.ReadCloser, error) {
		return h.askPack(ctx, r, l, ask)
	})
}

func (h *HTTP) askPack(ctx context.Context, r Remote, l *Listing, ask *packp.UploadPackRequest) (io.ReadCloser, error) {
	var body bytes.Buffer
	if err := encodeAsk(&body, ask); err != nil {
		return nil, err
	}
	req, err := h.request(ctx, r, http.MethodPost, l.base.JoinPath(uploadPack), body.Bytes())
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", askMediaType)
	req.Header.Set("Accept", packMediaType)
	resp, err := h.client(false).Do(req)
	if err != nil {
		return nil, err
	}
	if err := expect(r, resp, packMediaType); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return resp.Body, nil
}
