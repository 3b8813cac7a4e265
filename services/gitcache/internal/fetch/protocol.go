package fetch

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
)

// Git's protocol, version 0, as it goes over http and ssh alike: a list of refs comes, an ask goes, an
// answer with a pack comes.

const refPrefixHead = "HEAD"

// decodeListing reads an advertisement of refs. go-git's decoder trusts its input here and there.
func decodeListing(body io.Reader) (l *Listing, err error) {
	defer recoverTo(&err)
	r := bufio.NewReaderSize(body, 8<<10)
	head := firstLines(r)
	if text, ok := serverError(head); ok {
		return nil, saysNo(text)
	}
	if onlyVersion2(head) {
		return nil, unfit("it speaks only version 2 of Git's protocol")
	}
	if bytes.Contains(head, []byte("object-format=sha256")) {
		return nil, errSHA256
	}
	adv := packp.NewAdvRefs()
	l = &Listing{Refs: map[string]plumbing.Hash{}, capabilities: adv.Capabilities}
	if err := adv.Decode(r); err != nil && !errors.Is(err, packp.ErrEmptyAdvRefs) {
		return nil, fmt.Errorf("decode: %s", clean(err.Error()))
	}
	adv.Capabilities.Delete(capability.ThinPack) // the mirror takes packs that stand for themselves
	l.Refs, l.Peeled = adv.References, adv.Peeled
	if adv.Head != nil {
		l.Refs[refPrefixHead] = *adv.Head
	}
	maps.DeleteFunc(l.Refs, func(name string, id plumbing.Hash) bool { return id.IsZero() || !validRef(name) })
	maps.DeleteFunc(l.Peeled, func(name string, _ plumbing.Hash) bool { _, listed := l.Refs[name]; return !listed })
	return l, nil
}

// firstLines are the beginning of a list, up to the first ref. No more is waited for: over ssh no more
// may come.
func firstLines(r *bufio.Reader) []byte {
	end, announced := 0, false
	for {
		head, err := r.Peek(end + 4)
		var size [2]byte
		if err != nil {
			return head
		}
		if _, err := hex.Decode(size[:], head[end:]); err != nil {
			return head
		}
		length := max(4, int(size[0])<<8|int(size[1]))
		head, err = r.Peek(end + length)
		switch {
		case err != nil:
			return head
		case !announced && length > 4 && head[end+4] == '#': // over http the service comes first, and a flush
			announced = true
		case announced && length == 4:
			announced = false
		default:
			return head
		}
		end += length
	}
}

// errSHA256 is for repositories with other object names.
var errSHA256 = errors.New("the repository uses SHA-256 object names, which Fairlead can't read yet")

// onlyVersion2 tells whether upstream answers in a version that was not asked for.
func onlyVersion2(head []byte) bool {
	at := bytes.Index(head, []byte("000eversion 2"))
	return at == 0 || at > 4 && string(head[at-4:at]) == "0000"
}

// serverError finds Git's way to say in words why there is no list.
func serverError(head []byte) (string, bool) {
	_, text, ok := bytes.Cut(head, []byte("ERR "))
	if !ok || bytes.ContainsRune(head[:len(head)-len(text)], 0) {
		return "", false
	}
	return string(text), true
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

// encodeAsk writes what upstream is asked for: all that is there is named at once, and nothing has to be
// read in between. That is good for some hundred commits, and spares round trips.
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

// broken is for an answer that can't be read.
func broken(r Remote, what string, err error) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	text := clean(r.redact(err.Error()))
	return &Error{Kind: KindContent, cause: err, Message: fmt.Sprintf(
		"the %s from %s can't be used: %s", what, r.URL.Host, text)}
}

// recoverTo turns a panic in a decoder of foreign bytes into an error.
func recoverTo(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("decoder gave up: %v", p)
	}
}
