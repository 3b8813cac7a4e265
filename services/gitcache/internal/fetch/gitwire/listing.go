package gitwire

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"fairlead.dev/services/gitcache/internal/git"
)

// In version 0 the list of refs is most of a poll's work: it is decoded here, in one pass, rather than by go-git, which
// takes several times as long and trusts its input here and there.
//
// A list is lines, each with its length in front as four hexadecimal digits; 0000 ends it. Over http a line with
// the service, and an end, come first. A line is the name of an object, a space, and the name of a ref; the first has
// the server's capabilities after a NUL. A ref's name with ^{} behind it stands for what its tag points to.

const (
	// usualLine is long enough for all lines but those of hosts that want to be awkward.
	usualLine = 8 << 10

	peeled  = "^{}" // an empty repository has a single line, of the ref "capabilities^{}"
	service = "# service=" + UploadPack
)

// ErrSHA256 is for repositories with other object names.
var ErrSHA256 = errors.New("the repository uses SHA-256 object names, which Fairlead can't read yet")

// OnlyVersion2 is for a host that was asked in version 0.
const OnlyVersion2 = Unfit("it speaks only version 2 of Git's protocol")

// DecodeAdvertised reads what a host says first and nothing that follows it: a list of refs, or, in version 2, what
// it can do. In version 2 the listing has no refs yet, to be filled by the answer to ls-refs.
func DecodeAdvertised(lines Lines, names Names) (l *Listing, err error) {
	defer recoverTo(&err) // capabilities are go-git's to decode
	line, err := lines.firstLine()
	if err != nil {
		return nil, err
	}
	if string(line) == answersVersion2 {
		return NewListing2(nil, names), lines.capabilities2()
	}
	l = &Listing{Refs: map[string]git.Hash{}, Peeled: map[string]git.Hash{}, Capabilities: capability.NewList()}
	if line, err = l.takeCapabilities(line); err != nil {
		return nil, err
	}
	for line != nil {
		if err := l.addLine(line); err != nil {
			return nil, err
		}
		if line, err = lines.nextLine(); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// Lines of Git's protocol. The result of next is good until the next call.
type Lines struct{ r *bufio.Reader }

// NewLines reads lines from r.
func NewLines(r io.Reader) Lines { return Lines{bufio.NewReaderSize(r, usualLine)} }

// nextLine reads a line, without its end; nil: the end of the list. The call waits for no more than the line.
func (l Lines) nextLine() ([]byte, error) {
	head, err := l.r.Peek(4)
	if err != nil {
		return nil, cutError(err)
	}
	var size [2]byte
	if _, err := hex.Decode(size[:], head); err != nil {
		return nil, errors.New("a line has no length in front")
	}
	length := int(size[0])<<8 | int(size[1])
	if length == 0 {
		_, err := l.r.Discard(4)
		return nil, err
	}
	if length < 4 {
		return nil, fmt.Errorf("a line of length %d", length)
	}
	if length > usualLine {
		return l.longLine(length)
	}
	line, err := l.r.Peek(length)
	if err != nil {
		return nil, cutError(err)
	}
	_, err = l.r.Discard(length) // the bytes that were peeked at stay where they are until the next peek
	return bytes.TrimSuffix(line[4:], []byte("\n")), err
}

func (l Lines) longLine(length int) ([]byte, error) {
	line := make([]byte, length)
	_, err := io.ReadFull(l.r, line)
	return bytes.TrimSuffix(line[4:], []byte("\n")), cutError(err)
}

func cutError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("it ends early: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// firstLine is the first line of the list itself.
func (l Lines) firstLine() ([]byte, error) {
	line, err := l.nextLine()
	if err != nil {
		return nil, err
	}
	if string(line) == service {
		if line, err = l.nextLine(); err != nil {
			return nil, err
		}
		if line == nil { // some servers forget the end, some say at once what is wrong
			line, err = l.nextLine()
		}
	}
	if err == nil && string(line) == answersVersion1 {
		return l.nextLine()
	}
	return line, err
}

// takeCapabilities takes the capabilities from the first line and returns what is left.
func (l *Listing) takeCapabilities(line []byte) ([]byte, error) {
	if line == nil {
		return nil, nil
	}
	line, caps, _ := bytes.Cut(line, []byte{0})
	text, no := bytes.CutPrefix(line, []byte("ERR "))
	switch {
	case no:
		return nil, saysNo(string(text))
	case bytes.Contains(caps, []byte(objectFormatSHA256)):
		return nil, ErrSHA256
	}
	if err := l.Capabilities.Decode(caps); err != nil {
		return nil, fmt.Errorf("its capabilities: %w", err)
	}
	l.Capabilities.Delete(capability.ThinPack) // the mirror takes packs that stand for themselves
	return line, nil
}

// addLine takes a line. Refs that nobody could want, by their names, are left out.
func (l *Listing) addLine(line []byte) error {
	if bytes.HasPrefix(line, []byte("shallow ")) {
		return nil
	}
	id, ref, err := objectID(line)
	if err != nil {
		return err
	}
	name := string(ref)
	if tag, ok := bytes.CutSuffix(ref, []byte(peeled)); ok {
		if _, listed := l.Refs[string(tag)]; listed {
			l.Peeled[name[:len(tag)]] = id
		}
		return nil
	}
	if !id.IsZero() && ValidRef(name) {
		l.Refs[name] = id
	}
	return nil
}

// maxRefBytes is what file systems, and with them most Git hosts, take.
const maxRefBytes = 1024

// ValidRef keeps out names that Git itself would not take, and those that can't be shown: nobody could
// want them, and nothing that stores or prints names has to fear them.
func ValidRef(name string) bool {
	if name == refPrefixHead {
		return true
	}
	if !strings.HasPrefix(name, "refs/") || len(name) > maxRefBytes || !utf8.ValidString(name) {
		return false
	}
	before := '/'
	for i, c := range name {
		switch {
		case c >= utf8.RuneSelf && !unicode.IsPrint(c), c <= ' ', c == 0x7f:
			return false
		case c == '~', c == '^', c == ':', c == '?', c == '*', c == '[', c == '\\', c == '{' && before == '@':
			return false
		case c == '.' && (before == '.' || before == '/'), c == '/' && badEnd(before, name[:i]):
			return false
		}
		before = c
	}
	return before != '.' && !badEnd(before, name)
}

// badEnd judges the end of a part of a name.
func badEnd(last rune, name string) bool {
	return last == '/' || strings.HasSuffix(name, ".lock")
}
