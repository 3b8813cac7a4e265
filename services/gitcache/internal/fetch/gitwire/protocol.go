// Package gitwire holds Git's protocol as it goes over http and ssh alike: lists of refs and asks for packs in versions
// 0 and 2, how their answers are read, and which hosts know which version.
package gitwire

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// Git's protocol, version 0, as it goes over http and ssh alike: a list of refs comes, an ask goes, an
// answer with a pack comes. For version 2 see version2.go.

const (
	// UploadPack is the service that reads.
	UploadPack    = "git-upload-pack"
	refPrefixHead = "HEAD"
)

// Ask is what a fetch sends, and how its answer is read.
type Ask interface {
	// Encode writes what upstream is asked for.
	Encode(w io.Writer) error
	// decode gives the pack within an answer.
	decode(body io.Reader) (pack io.Reader, err error)
}

// newAsk asks in the version of the protocol that the listing came in.
func newAsk(l *Listing, wants, haves []git.Hash) (Ask, error) {
	if l.Version2 {
		return ask2{wants, haves}, nil
	}
	ask := packp.NewUploadPackRequestFromCapabilities(l.Capabilities)
	if l.Capabilities.Supports(capability.NoProgress) {
		if err := ask.Capabilities.Set(capability.NoProgress); err != nil {
			return nil, fmt.Errorf("set capability: %w", err)
		}
	}
	ask.Wants, ask.Haves = plumbingHashes(wants), plumbingHashes(haves)
	if err := ask.Validate(); err != nil {
		return nil, fmt.Errorf("ask for a pack: %w", err)
	}
	return ask0{ask}, nil
}

// plumbingHashes are hashes as go-git has them.
func plumbingHashes(ids []git.Hash) []plumbing.Hash {
	list := make([]plumbing.Hash, len(ids))
	for i, id := range ids {
		list[i] = plumbing.Hash(id)
	}
	return list
}

// ask0 is a fetch in version 0.
type ask0 struct{ *packp.UploadPackRequest }

// Encode writes what upstream is asked for: all that is there is named at once, and nothing has to be
// read in between. One request is good for some hundred commits, and spares round trips.
func (ask ask0) Encode(w io.Writer) error {
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

// BrokenError is for an answer that can't be read.
func BrokenError(r upstream.Remote, what string, err error) *upstream.Error {
	if known, ok := errors.AsType[*upstream.Error](err); ok {
		return known
	}
	text := upstream.CleanLine(r.RedactText(err.Error()))
	return &upstream.Error{Kind: upstream.KindContent, Cause: err, Message: fmt.Sprintf(
		"the %s from %s can't be used: %s", what, r.URL.Host, text)}
}

// recoverTo turns a panic in a decoder of foreign bytes into an error.
func recoverTo(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("decoder gave up: %v", p)
	}
}

// Unfit is what the builtin fetchers can't do with a host, and git itself may. No object was taken in yet.
type Unfit string

// Error is the reason.
func (u Unfit) Error() string { return string(u) }
