package artifact

import (
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Entry is one file or symlink. Folders are implied by paths.
type Entry struct {
	Path       string // slash-separated, relative, clean
	Executable bool
	Link       string // target; a symlink if not empty
	Size       int64  // of a file's content
	// Base is the folder of the artifact that it was made for, the same in all entries: the rest is there for what
	// that one refers to. Empty: the artifact is that folder.
	Base string
}

// tree checks a sequence of entries against everything that an artifact must not hold. Writer and
// Walk share it: what can't be written can't be read either.
type tree struct {
	limits Limits
	last   string
	base   string
	files  int
	bytes  int64
	// folders tells files from folders, by path.
	folders map[string]bool
}

func newTree(l Limits) *tree {
	return &tree{limits: l.withDefaults(), folders: map[string]bool{}}
}

func (t *tree) addEntry(e Entry) error {
	if err := t.checkPath(e.Path); err != nil {
		return err
	}
	if t.files > 0 && e.Path <= t.last {
		return refusalError("%q comes after %q: paths must ascend", e.Path, t.last)
	}
	if t.files++; t.files > t.limits.Files {
		return refusalError("%q is one file more than the limit of %d", e.Path, t.limits.Files)
	}
	if e.Link != "" {
		if err := t.checkLink(e); err != nil {
			return err
		}
	}
	if e.Size < 0 || e.Size > t.limits.FileBytes {
		return refusalError("%q has %d bytes, the limit is %d", e.Path, e.Size, t.limits.FileBytes)
	}
	if t.bytes += e.Size; t.bytes > t.limits.Bytes {
		return refusalError("%q brings the content above the limit of %d bytes", e.Path, t.limits.Bytes)
	}
	t.last = e.Path
	return t.placePath(e.Path)
}

// setBase takes the folder that the artifact is made for.
func (t *tree) setBase(p string) error {
	if t.files > 0 || t.base != "" {
		return refusalError("folder %q is named after the beginning", p)
	}
	if err := t.checkPath(p); err != nil {
		return err
	}
	t.base = p
	return nil
}

// placePath records a path and its folders, and refuses a name that is both a file and a folder.
func (t *tree) placePath(p string) error {
	for i, c := range p {
		if c != '/' {
			continue
		}
		if err := t.occupyPath(p[:i], true); err != nil {
			return err
		}
	}
	return t.occupyPath(p, false)
}

func (t *tree) occupyPath(p string, folder bool) error {
	was, taken := t.folders[p]
	switch {
	case !taken && len(t.folders) >= 2*t.limits.Files:
		return refusalError("%q is one folder more than the limit of %d", p, t.limits.Files)
	case !taken:
		t.folders[p] = folder
	case !was || !folder:
		return refusalError("%q is there twice, or both a file and a folder", p)
	}
	return nil
}

func (t *tree) checkPath(p string) error {
	switch {
	case p == "":
		return refusalError("an empty path")
	case len(p) > t.limits.PathBytes:
		return refusalError("path %.80q... has %d bytes, the limit is %d", p, len(p), t.limits.PathBytes)
	case p[0] == '/' || path.Clean(p) != p:
		return refusalError("path %q is not relative and clean", p)
	case strings.Count(p, "/") > t.limits.Depth:
		return refusalError("path %.80q... has more than %d folders", p, t.limits.Depth)
	}
	for name := range strings.SplitSeq(p, "/") {
		if err := checkName(name); err != nil {
			return refusalError("path %q: %v", p, err)
		}
	}
	return nil
}

// maxName is what common file systems hold as one name, in bytes.
const maxName = 255

func checkName(name string) error {
	switch {
	case name == "." || name == "..":
		return errName("holds " + name)
	case len(name) > maxName:
		return errName("has a name of more than 255 bytes")
	case strings.Contains(name, "\x00"):
		return errName("holds a NUL byte, which no file system takes")
	case isDotGit(name):
		return errName("holds .git, which is Git's own")
	}
	return nil
}

type errName string

func (e errName) Error() string { return string(e) }

func (t *tree) checkLink(e Entry) error {
	switch {
	case len(e.Link) > t.limits.PathBytes:
		return refusalError("link %q has a target of %d bytes, the limit is %d", e.Path, len(e.Link), t.limits.PathBytes)
	case strings.Contains(e.Link, "\x00"):
		return refusalError("link %q has a target with a NUL byte", e.Path)
	case e.Size != 0:
		return refusalError("link %q has content", e.Path)
	}
	return nil
}

// checkContained refuses links that may leave the root on a disk; see Extract for why this rule is enough.
func checkContained(e Entry) error {
	if e.Link[0] == '/' {
		return refusalError("link %q leads to the absolute path %q", e.Path, e.Link)
	}
	depth, named := strings.Count(e.Path, "/"), false
	for part := range strings.SplitSeq(e.Link, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return refusalError("link %q leaves the folder: %q", e.Path, e.Link)
			}
			if named {
				return refusalError("link %q has \"..\" after a name: %q", e.Path, e.Link)
			}
		default:
			named = true
			if isDotGit(part) {
				return refusalError("link %q leads to .git", e.Path)
			}
		}
	}
	return nil
}

// isDotGit finds the names that some file system takes for ".git": other case, trailing dots and
// spaces and alternate streams (NTFS), the short name git~1, and ignored code points (HFS+).
func isDotGit(name string) bool {
	name = strings.Map(func(r rune) rune {
		if ignoredByHFS(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
	name, _, _ = strings.Cut(name, ":")
	name = strings.TrimRight(name, ". ")
	return name == ".git" || name == "git~1"
}

func ignoredByHFS(r rune) bool {
	switch {
	case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
		return true
	}
	return false
}

// Printable is a path or a text as messages show it: what a terminal would obey, and bytes that are no
// UTF-8, are escaped as in Go. Git holds names of any bytes, and messages travel as UTF-8.
func Printable(text string) string {
	if !strings.ContainsFunc(text, isUnprintable) && utf8.ValidString(text) {
		return text
	}
	var out strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if isUnprintable(r) || r == utf8.RuneError && n == 1 {
			quoted := strconv.Quote(text[:n])
			out.WriteString(quoted[1 : len(quoted)-1])
		} else {
			out.WriteString(text[:n])
		}
		text = text[n:]
	}
	return out.String()
}

func isUnprintable(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }
