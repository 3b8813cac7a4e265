package fetch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// Git's protocol, version 0, as it goes over http and ssh alike: a list of refs comes, an ask goes, an
// answer with a pack comes.

const refPrefixHead = "HEAD"

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

// encodeAsk writes what upstream is asked for. Over http and over ssh it is the same: with no
// multi_ack, nothing has to be read in between.
func encodeAsk(w io.Writer, ask *packp.UploadPackRequest) error {
	if err := ask.UploadRequest.Encode(w); err != nil {
		return fmt.Errorf("send wants: %w", err)
	}
	if err := ask.UploadHaves.Encode(w, false); err != nil {
		return fmt.Errorf("send haves: %w", err)
	}
	if err := pktline.NewEncoder(w).EncodeString("done\n"); err != nil {
		return fmt.Errorf("send request: %w", err)
	}
	return nil
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

// recoverTo turns a panic in a decoder of foreign bytes into an error.
func recoverTo(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("decoder gave up: %v", p)
	}
}
