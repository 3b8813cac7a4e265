package fetch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

const (
	uploadPack    = "git-upload-pack"
	listMediaType = "application/x-git-upload-pack-advertisement"
	askMediaType  = "application/x-git-upload-pack-request"
	packMediaType = "application/x-git-upload-pack-result"

	refPrefixHead = "HEAD"
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
	l, err := decodeListing(&capped{r: resp.Body, left: h.limits.ListBytes + 1, most: h.limits.ListBytes, what: "list of refs"})
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

// decodeListing reads an advertisement of refs. go-git's decoder trusts its input here and there.
func decodeListing(body io.Reader) (l *Listing, err error) {
	defer recoverTo(&err)
	r := bufio.NewReaderSize(body, 8<<10)
	head, _ := r.Peek(4 << 10)
	if text, ok := serverError(head); ok {
		return nil, fmt.Errorf("upstream says: %s", text)
	}
	if bytes.Contains(head, []byte("object-format=sha256")) {
		return nil, errors.New("the repository uses SHA-256 object names, which Fairlead can't read yet")
	}
	adv := packp.NewAdvRefs()
	l = &Listing{Refs: map[string]plumbing.Hash{}, capabilities: adv.Capabilities}
	if err := adv.Decode(r); err != nil && !errors.Is(err, packp.ErrEmptyAdvRefs) {
		return nil, fmt.Errorf("decode: %s", clean(err.Error()))
	}
	transport.FilterUnsupportedCapabilities(adv.Capabilities)
	l.Refs, l.Peeled = adv.References, adv.Peeled
	if adv.Head != nil {
		l.Refs[refPrefixHead] = *adv.Head
	}
	for name, id := range l.Refs {
		if id.IsZero() {
			delete(l.Refs, name)
		}
	}
	return l, nil
}

// serverError finds Git's way to say in words why there is no list.
func serverError(head []byte) (string, bool) {
	_, text, ok := bytes.Cut(head, []byte("ERR "))
	if !ok || bytes.ContainsRune(head[:len(head)-len(text)], 0) {
		return "", false
	}
	return clean(string(text)), true
}

// Fetch brings wants and all that they reach.
func (h *HTTP) Fetch(ctx context.Context, r Remote, l *Listing, wants []plumbing.Hash, into Target) (int64, error) {
	haves, err := into.Haves()
	if err != nil {
		return 0, &Error{Kind: KindStorage, Message: "read the mirror: " + clean(err.Error()), cause: err}
	}
	ask, err := newAsk(l, wants, haves)
	if err != nil {
		return 0, err
	}
	limited, stop := context.WithTimeoutCause(ctx, h.limits.FetchTime, errDeadline)
	defer stop()
	limited, cancel := context.WithCancelCause(limited)
	defer cancel(nil)
	dog := newWatchdog(h.limits.IdleTime, cancel)
	defer dog.stop()

	resp, err := h.askPack(limited, r, l, ask)
	if err != nil {
		return 0, h.fetchError(ctx, limited, r, err)
	}
	defer resp.Body.Close()
	dog.r = resp.Body
	pack, err := decodePack(ask, dog)
	if err != nil {
		return 0, h.fetchError(ctx, limited, r, err)
	}
	whole := &ending{pack, dog.stop}
	n, err := into.AddPack(limited, &capped{r: whole, left: h.limits.PackBytes + 1, most: h.limits.PackBytes, what: "pack"})
	if err != nil {
		return 0, h.fetchError(ctx, limited, r, err)
	}
	return n, nil
}

func newAsk(l *Listing, wants, haves []plumbing.Hash) (*packp.UploadPackRequest, error) {
	ask := packp.NewUploadPackRequestFromCapabilities(l.capabilities)
	if l.capabilities.Supports(capability.NoProgress) {
		if err := ask.Capabilities.Set(capability.NoProgress); err != nil {
			return nil, fmt.Errorf("set capability: %w", err)
		}
	}
	ask.Wants, ask.Haves = wants, haves
	if err := ask.Validate(); err != nil {
		return nil, fmt.Errorf("ask for a pack: %w", err)
	}
	return ask, nil
}

func (h *HTTP) askPack(ctx context.Context, r Remote, l *Listing, ask *packp.UploadPackRequest) (*http.Response, error) {
	var body bytes.Buffer
	if err := ask.UploadRequest.Encode(&body); err != nil {
		return nil, fmt.Errorf("encode wants: %w", err)
	}
	if err := ask.UploadHaves.Encode(&body, false); err != nil {
		return nil, fmt.Errorf("encode haves: %w", err)
	}
	if err := pktline.NewEncoder(&body).EncodeString("done\n"); err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
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
	return resp, nil
}

// decodePack gives the pack within an answer.
func decodePack(ask *packp.UploadPackRequest, body io.Reader) (pack io.Reader, err error) {
	defer recoverTo(&err)
	br := bufio.NewReader(body)
	if head, _ := br.Peek(8); len(head) == 8 && string(head[4:]) == "ERR " {
		text, _ := io.ReadAll(io.LimitReader(br, 1<<10))
		return nil, fmt.Errorf("upstream says: %s", clean(string(text[8:])))
	}
	answer := packp.NewUploadPackResponse(ask)
	if err := answer.Decode(io.NopCloser(br)); err != nil {
		return nil, fmt.Errorf("decode answer: %w", err)
	}
	switch {
	case ask.Capabilities.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, answer), nil
	case ask.Capabilities.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, answer), nil
	}
	return answer, nil
}

// fetchError says why a fetch did not go through. own is the caller's context, limited ours.
func (h *HTTP) fetchError(own, limited context.Context, r Remote, err error) error {
	if own.Err() != nil {
		return own.Err()
	}
	if limited.Err() != nil {
		e := &Error{Kind: KindTimeout, cause: err}
		e.Message = fmt.Sprintf("%s sent nothing for %s in the middle of a fetch. Fairlead tries again", r.URL.Host, h.limits.IdleTime)
		if !errors.Is(context.Cause(limited), errIdle) {
			e.Message = fmt.Sprintf("the fetch from %s was not done after %s. Fairlead tries again", r.URL.Host, h.limits.FetchTime)
		}
		return e
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	var op interface{ Timeout() bool }
	var network *url.Error
	if errors.As(err, &network) || errors.As(err, &op) {
		return transportError(limited, r.URL.Host, h.limits.IdleTime, err)
	}
	return broken(r, "pack", err)
}

// broken is for an answer that can't be read.
func broken(r Remote, what string, err error) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	text := clean(err.Error())
	if p := r.Credentials.Password; p != "" {
		text = strings.ReplaceAll(text, p, "redacted")
	}
	return &Error{Kind: KindContent, cause: err, Message: fmt.Sprintf(
		"the %s from %s can't be used: %s", what, r.URL.Host, text)}
}

// capped fails, naming the limit, where io.LimitReader would end quietly.
type capped struct {
	r    io.Reader
	left int64 // most and one: only what is really larger fails
	most int64
	what string
}

func (c *capped) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, &Error{Kind: KindContent, Message: fmt.Sprintf("the %s is larger than the limit of %d MiB", c.what, c.most>>20)}
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
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

// recoverTo turns a panic in a decoder of foreign bytes into an error.
func recoverTo(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("decoder gave up: %v", p)
	}
}
