package gitwire

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"

	"fairlead.dev/services/gitcache/internal/git"
)

// Git's protocol, version 2: the host says what it can do, and then takes commands, each a request and an answer.
// A command is its name, a delimiter, arguments, and an end. Two are used: ls-refs, which takes prefixes of the
// names that are wanted, and fetch. The object format and the agent are left out of both: a host that knows of
// object formats takes SHA-1 for granted, and nothing depends on the agent's name.

// Flush ends a command, a list, and a session in which nothing more is asked.
const Flush = "0000"

const (
	// AskVersion2 is what a client says to be answered in version 2: a header over http, a variable of the
	// environment over ssh. Hosts that know only older versions ignore it.
	AskVersion2        = "version=2"
	ProtocolHeader     = "Git-Protocol"
	ProtocolVariable   = "GIT_PROTOCOL"
	answersVersion2    = "version 2"
	answersVersion1    = "version 1" // like version 0, but for this line
	delimiter          = "0001"
	mostCapabilities   = 1 << 10 // lines of them
	unborn             = "unborn"
	peeledAttribute    = "peeled:"
	sectionPack        = "packfile"
	sectionShallow     = "shallow-info"
	mostShallow        = 1 << 16 // lines of that section
	objectFormatSHA256 = "object-format=sha256"
)

// writeCommand writes a command of version 2.
func writeCommand(w io.Writer, name string, arguments ...string) error {
	e := pktline.NewEncoder(w)
	if err := e.EncodeString("command=" + name + "\n"); err != nil {
		return fmt.Errorf("send command %s: %w", name, err)
	}
	if _, err := io.WriteString(w, delimiter); err != nil {
		return fmt.Errorf("send command %s: %w", name, err)
	}
	for _, argument := range arguments {
		if err := e.EncodeString(argument + "\n"); err != nil {
			return fmt.Errorf("send command %s: %w", name, err)
		}
	}
	if err := e.Flush(); err != nil {
		return fmt.Errorf("send command %s: %w", name, err)
	}
	return nil
}

// EncodeListRefs asks where refs point. Tag objects come with what they stand for.
func EncodeListRefs(w io.Writer, names Names) error {
	arguments := []string{"peel"}
	for _, prefix := range names.refPrefixes() {
		arguments = append(arguments, "ref-prefix "+prefix)
	}
	return writeCommand(w, "ls-refs", arguments...)
}

// NewListing2 is a listing in version 2 that has no refs yet.
func NewListing2(base *url.URL, names Names) *Listing {
	return &Listing{Refs: map[string]git.Hash{}, Peeled: map[string]git.Hash{}, Base: base, Version2: true, Partial: !names.wantsAll()}
}

// capabilities2 reads what a host can do, after the line that says that it speaks version 2.
func (l Lines) capabilities2() error {
	for range mostCapabilities {
		line, err := l.nextLine()
		switch {
		case err != nil:
			return err
		case line == nil:
			return nil
		case bytes.Equal(line, []byte(objectFormatSHA256)):
			return ErrSHA256
		}
	}
	return errors.New("its capabilities have no end")
}

// ListRefs reads the answer to ls-refs into a listing. Other lines of the host are left out.
func (l Lines) ListRefs(into *Listing, names Names) error {
	wanted := names.refFilter()
	for first := true; ; first = false {
		line, err := l.nextLine()
		if err != nil {
			return err
		}
		if line == nil {
			return nil
		}
		if text, no := bytes.CutPrefix(line, []byte("ERR ")); no && first {
			return saysNo(string(text))
		}
		if err := into.add2(line, wanted); err != nil {
			return err
		}
	}
}

// AnyRef reads the beginning of the answer to ls-refs, and tells whether there is a ref in it.
func (l Lines) AnyRef() (bool, error) {
	line, err := l.nextLine()
	if err != nil || line == nil {
		return false, err
	}
	if text, no := bytes.CutPrefix(line, []byte("ERR ")); no {
		return false, saysNo(string(text))
	}
	return true, nil
}

// add2 takes a line: an object, a ref, and attributes of the ref.
func (l *Listing) add2(line []byte, wanted func(string) bool) error {
	if bytes.HasPrefix(line, []byte(unborn+" ")) {
		return nil // HEAD of a repository without its branch
	}
	id, rest, err := objectID(line)
	if err != nil {
		return err
	}
	words := bytes.Split(rest, []byte(" "))
	name := string(words[0])
	if id.IsZero() || !wanted(name) || !ValidRef(name) {
		return nil
	}
	l.Refs[name] = id
	for _, word := range words[1:] {
		text, ok := bytes.CutPrefix(word, []byte(peeledAttribute))
		if !ok {
			continue
		}
		peeled, rest, err := objectID(append(bytes.Clone(text), ' '))
		if err != nil || len(rest) > 0 {
			return errors.New("a tag stands for no object's name")
		}
		l.Peeled[name] = peeled
	}
	return nil
}

// objectID cuts the name of an object, and the space behind it, off a line.
func objectID(line []byte) (id git.Hash, rest []byte, err error) {
	if len(line) < git.HashDigits+1 || line[git.HashDigits] != ' ' {
		return id, nil, errors.New("a line is no ref")
	}
	if _, err := hex.Decode(id[:], line[:git.HashDigits]); err != nil {
		return id, nil, errors.New("a line begins with no object's name")
	}
	return id, line[git.HashDigits+1:], nil
}

// nextSection skips the rest of a section, and reads the first line of the one after it.
func (l Lines) nextSection() ([]byte, error) {
	for range mostShallow {
		head, err := l.r.Peek(len(delimiter))
		if err != nil {
			return nil, cutError(err)
		}
		if string(head) == delimiter {
			_, _ = l.r.Discard(len(delimiter)) // the bytes were peeked at
			return l.nextLine()
		}
		line, err := l.nextLine()
		switch {
		case err != nil:
			return nil, err
		case line == nil:
			return nil, Unfit("it answers in a way that Fairlead does not know")
		}
	}
	return nil, errors.New("it lists shallow commits without end")
}

// ask2 is a fetch in version 2. As in version 0 all is said at once, and nothing is negotiated. Tags that nobody
// wants are not asked for, nor are differences to objects that the pack does not hold.
type ask2 struct{ wants, haves []git.Hash }

func (a ask2) Encode(w io.Writer) error {
	arguments := []string{"ofs-delta", "no-progress"}
	for _, id := range a.wants {
		arguments = append(arguments, "want "+id.String())
	}
	for _, id := range a.haves {
		arguments = append(arguments, "have "+id.String())
	}
	return writeCommand(w, "fetch", append(arguments, "done")...)
}

// decode gives the pack within an answer. After "done" it is all there is.
func (a ask2) decode(body io.Reader) (io.Reader, error) {
	br := bufio.NewReaderSize(body, usualLine)
	line, err := Lines{br}.nextLine()
	if err == nil && string(line) == sectionShallow {
		// Upstream itself is shallow. In version 0 it says so above its list of refs, where that is left out, too.
		line, err = Lines{br}.nextSection()
	}
	if err != nil {
		return nil, err
	}
	text, no := bytes.CutPrefix(line, []byte("ERR "))
	switch {
	case no:
		return nil, saysNo(string(text))
	case string(line) != sectionPack:
		return nil, Unfit("it answers in a way that Fairlead does not know")
	}
	return sideband.NewDemuxer(sideband.Sideband64k, br), nil
}
