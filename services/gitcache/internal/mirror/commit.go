package mirror

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"fairlead.dev/services/gitcache/internal/git"
)

// Commit is what Fairlead shows of a commit, and its tree.
type Commit struct {
	ID      git.Hash
	Tree    git.Hash
	Parent  git.Hash // the first; zero: there is none
	Time    time.Time
	Author  string
	Subject string
	// Combination is the ref of the several sources that Fairlead itself made the commit of; empty: it is a commit of
	// one source.
	Combination string
}

const (
	// CombinedBy is the committer of commits that Fairlead makes of several sources, and CombinationLine begins the
	// line of their messages with the ref.
	CombinedBy      = "Fairlead combination"
	CombinationLine = "Combination: "
)

const (
	maxCommitBytes = 4 << 20 // a message and its headers; signatures and merge tags are in there, too
	// The heads of a source, up to 10,000, are one publication with its problem, and the console takes 4 MiB in one.
	maxSubjectBytes = 200
	maxAuthorBytes  = 256
	// maxCombinedBytes of the subject of a combination, which names the commits of its sources, and of its ref.
	maxCombinedBytes = 512
	maxTagDepth      = 8 // tags of tags
)

// Commit reads a commit.
func (o *Objects) Commit(id git.Hash) (Commit, error) {
	b, err := o.Read(git.Commit, id, maxCommitBytes)
	if err != nil {
		return Commit{}, err
	}
	c, err := parseCommit(b)
	if err != nil {
		return Commit{}, fmt.Errorf("%w: commit %s: %w", ErrCorrupt, id, err)
	}
	c.ID = id
	return c, nil
}

// IsCombination tells whether a commit was made of several sources, by its content.
func IsCombination(commit []byte) bool {
	by, _ := person(headers(commit)["committer"])
	return by == CombinedBy
}

// sealHeader begins the header of a commit that has its seal.
const sealHeader = "\nfairlead-seal "

// Seal adds a seal to a commit: a header that Git leaves alone.
func Seal(commit []byte, seal string) []byte {
	head, message, _ := bytes.Cut(commit, []byte("\n\n"))
	return slices.Concat(head, []byte(sealHeader+seal), []byte("\n\n"), message)
}

// Unseal is a commit as it was before Seal, and its seal; empty: it has none.
func (o *Objects) Unseal(id git.Hash) (commit []byte, seal string, err error) {
	b, err := o.Read(git.Commit, id, maxCommitBytes)
	if err != nil {
		return nil, "", err
	}
	head, message, _ := bytes.Cut(b, []byte("\n\n"))
	head, last, _ := bytes.Cut(head, []byte(sealHeader))
	return slices.Concat(head, []byte("\n\n"), message), string(last), nil
}

// Peel follows tag objects to the commit that they stand for.
func (o *Objects) Peel(id git.Hash) (git.Hash, error) {
	for range maxTagDepth {
		kind, err := o.Kind(id)
		if err != nil {
			return git.Hash{}, err
		}
		if kind == git.Commit {
			return id, nil
		}
		if kind != git.Tag {
			return git.Hash{}, fmt.Errorf("it points to a %s, not to a commit", kind)
		}
		b, err := o.Read(kind, id, maxCommitBytes)
		if err != nil {
			return git.Hash{}, err
		}
		if id, err = parseID(headers(b)["object"]); err != nil {
			return git.Hash{}, fmt.Errorf("%w: tag: %w", ErrCorrupt, err)
		}
	}
	return git.Hash{}, fmt.Errorf("it is a tag of a tag, more than %d deep", maxTagDepth)
}

func parseCommit(b []byte) (Commit, error) {
	h := headers(b)
	tree, err := parseID(h["tree"])
	if err != nil {
		return Commit{}, fmt.Errorf("tree: %w", err)
	}
	parent := git.Hash{}
	if first, ok := h["parent"]; ok {
		if parent, err = parseID(first); err != nil {
			return Commit{}, fmt.Errorf("parent: %w", err)
		}
	}
	_, message, _ := bytes.Cut(b, []byte("\n\n"))
	subject, _, _ := strings.Cut(strings.TrimLeft(string(message), "\n"), "\n")
	name, _ := person(h["author"])
	by, when := person(h["committer"])
	c := Commit{
		Tree: tree, Parent: parent, Time: when, Author: line(name, maxAuthorBytes), Subject: line(subject, maxSubjectBytes),
	}
	if by == CombinedBy {
		_, rest, _ := strings.Cut(string(message), "\n"+CombinationLine)
		rest, _, _ = strings.Cut(rest, "\n")
		c.Combination = cmp.Or(line(rest, maxCombinedBytes), CombinationLine)
		c.Subject = line(subject, maxCombinedBytes)
	}
	return c, nil
}

// headers returns the first value of every header; lines that continue one are left out.
func headers(b []byte) map[string]string {
	head, _, _ := bytes.Cut(b, []byte("\n\n"))
	h := map[string]string{}
	for l := range strings.Lines(string(head)) {
		key, value, ok := strings.Cut(strings.TrimSuffix(l, "\n"), " ")
		if _, known := h[key]; ok && key != "" && !known {
			h[key] = value
		}
	}
	return h
}

// person takes "Ada <ada@example.com> 1700000000 +0000" apart. A time out of the years 1 to 9999, which
// protobuf can't hold, is no time.
func person(s string) (name string, when time.Time) {
	end := strings.LastIndexByte(s, '>')
	begin := strings.IndexByte(s, '<')
	if begin < 0 || end < begin {
		return s, time.Time{}
	}
	seconds, _, _ := strings.Cut(strings.TrimSpace(s[end+1:]), " ")
	if n, err := strconv.ParseInt(seconds, 10, 64); err == nil && n >= 0 && n < 253402300800 {
		when = time.Unix(n, 0).UTC()
	}
	if name = strings.TrimSpace(s[:begin]); name == "" {
		name = s[begin+1 : end]
	}
	return name, when
}

// line makes text from a repository fit to be shown: one line of valid, printable characters. What is cut ends with an
// ellipsis, and no character is cut through.
func line(s string, most int) string {
	const ellipsis = "…"
	if len(s) > most {
		s = s[:most-len(ellipsis)] + ellipsis
	}
	// A copy: it must not keep all of a long message, or of a signed header, in memory.
	return strings.Clone(strings.TrimSpace(strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, strings.ToValidUTF8(s, ""))))
}

func parseID(s string) (git.Hash, error) {
	id, ok := git.ParseHash(s)
	if !ok {
		return id, errors.New("not an object id")
	}
	return id, nil
}
