package gitwire

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"

	"fairlead.dev/services/gitcache/internal/upstream"
)

// decode gives the pack within an answer to an ask that ended with "done". Before the pack come acknowledgements, one
// or many depending on what was agreed. Acknowledgements tell us nothing that we need, and in no dialect does a pack
// begin like one.
func (ask ask0) decode(body io.Reader) (pack io.Reader, err error) {
	defer recoverTo(&err)
	br := bufio.NewReader(body)
	for n := 0; ; n++ {
		line, err := readAcknowledgement(br)
		switch {
		case err != nil:
			return nil, err
		case line == nil && n > 0:
			return ask.demux(br), nil
		case line == nil:
			return nil, Unfit("it answers in a way that Fairlead does not know")
		case n > maxAcknowledgements:
			return nil, errors.New("it acknowledges without end")
		}
	}
}

// maxAcknowledgements is one and a half for each commit that the largest ask says to have, with room.
const maxAcknowledgements = 1 << 12

// readAcknowledgement reads the next one; nil: something else follows.
func readAcknowledgement(br *bufio.Reader) ([]byte, error) {
	head, err := br.Peek(7)
	if len(head) < 7 {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("the answer ends early: %w", io.ErrUnexpectedEOF)
		}
		return nil, err
	}
	var size [2]byte
	if _, err := hex.Decode(size[:], head[:4]); err != nil {
		return nil, nil //nolint:nilerr // something else
	}
	length := int(size[0])<<8 | int(size[1])
	word := string(head[4:])
	if word == "ERR" {
		text, _ := io.ReadAll(io.LimitReader(br, 1<<10))
		return nil, saysNo(string(text[7:]))
	}
	if word != "ACK" && word != "NAK" || length < 7 || length > maxAcknowledgement {
		return nil, nil
	}
	line := make([]byte, length)
	if _, err := io.ReadFull(br, line); err != nil {
		return nil, fmt.Errorf("the answer ends early: %w", err)
	}
	return bytes.TrimSuffix(line[4:], []byte("\n")), nil
}

// maxAcknowledgement is the length of the longest, with room.
const maxAcknowledgement = 100

func (ask ask0) demux(r io.Reader) io.Reader {
	switch {
	case ask.Capabilities.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, r)
	case ask.Capabilities.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, r)
	}
	return r
}

// saysNo is for words in which upstream says why there is nothing. The words are not clean yet: that is for
// BrokenError, which takes out credentials first.
func saysNo(text string) error { return saidNo(text) }

type saidNo string

func (s saidNo) Error() string { return "upstream says: " + string(s) }

// MisunderstoodError is for a host that finds what Fairlead asks for malformed.
func MisunderstoodError(r upstream.Remote, said io.Reader) error {
	text, _ := io.ReadAll(io.LimitReader(said, 1<<10))
	if words := upstream.CleanLine(r.RedactText(string(text))); words != "" && words[0] != '<' {
		return Unfit("it does not take what Fairlead asks for, and says: " + upstream.TrimStop(words))
	}
	return Unfit("it does not take what Fairlead asks for")
}
