package fetch

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
)

// Git's protocol, version 0, as it goes over http and ssh alike: a list of refs comes, an ask goes, an
// answer with a pack comes. For version 2 see version2.go.

const (
	uploadPack    = "git-upload-pack"
	refPrefixHead = "HEAD"
)

// packAsk is what a fetch sends, and how its answer is read.
type packAsk interface {
	encode(w io.Writer) error
	// decode gives the pack within an answer.
	decode(body io.Reader) (pack io.Reader, err error)
}

// newAsk asks in the version of the protocol that the listing came in.
func newAsk(l *Listing, wants, haves []plumbing.Hash) (packAsk, error) {
	if l.version2 {
		return ask2{wants, haves}, nil
	}
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
	return ask0{ask}, nil
}

// ask0 is a fetch in version 0.
type ask0 struct{ *packp.UploadPackRequest }

// encode writes what upstream is asked for: all that is there is named at once, and nothing has to be
// read in between. One request is good for some hundred commits, and spares round trips.
func (ask ask0) encode(w io.Writer) error {
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

// brokenError is for an answer that can't be read.
func brokenError(r Remote, what string, err error) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	text := cleanLine(r.redactText(err.Error()))
	return &Error{Kind: KindContent, cause: err, Message: fmt.Sprintf(
		"the %s from %s can't be used: %s", what, r.URL.Host, text)}
}

// recoverTo turns a panic in a decoder of foreign bytes into an error.
func recoverTo(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("decoder gave up: %v", p)
	}
}

// unfit is what the builtin fetchers can't do with a host, and git itself may. No object was taken in yet.
type unfit string

func (u unfit) Error() string { return string(u) }
