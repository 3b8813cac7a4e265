package artifact

import (
	"path"
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
}

// tree checks a sequence of entries against everything that an artifact must not hold. Writer and
// Walk share it: what can't be written can't be read either.
type tree struct {
	limits Limits
	last   string
	files  int
	bytes  int64
	// seen maps the folded path of every file and folder to its spelling, to find names that
	// are one name on a file system that ignores case.
	seen map[string]node
}

type node struct {
	path   string
	folder bool
}

func newTree(l Limits) *tree {
	return &tree{limits: l.withDefaults(), seen: map[string]node{}}
}

func (t *tree) add(e Entry) error {
	if err := t.checkPath(e.Path); err != nil {
		return err
	}
	if t.files > 0 && e.Path <= t.last {
		return refuse("%q comes after %q: paths must ascend", e.Path, t.last)
	}
	if t.files++; t.files > t.limits.Files {
		return refuse("%q is one file more than the limit of %d", e.Path, t.limits.Files)
	}
	if e.Link != "" {
		if err := t.checkLink(e); err != nil {
			return err
		}
	}
	if e.Size < 0 || e.Size > t.limits.FileBytes {
		return refuse("%q has %d bytes, the limit is %d", e.Path, e.Size, t.limits.FileBytes)
	}
	if t.bytes += e.Size; t.bytes > t.limits.Bytes {
		return refuse("%q brings the content above the limit of %d bytes", e.Path, t.limits.Bytes)
	}
	t.last = e.Path
	return t.place(e.Path)
}

// place records a path and its folders, refusing what would fall together on a disk.
func (t *tree) place(p string) error {
	for i, c := range p {
		if c != '/' {
			continue
		}
		if err := t.occupy(node{path: p[:i], folder: true}); err != nil {
			return err
		}
	}
	return t.occupy(node{path: p})
}

func (t *tree) occupy(n node) error {
	key := fold(n.path)
	was, taken := t.seen[key]
	switch {
	case !taken && len(t.seen) >= 2*t.limits.Files:
		return refuse("%q is one folder more than the limit of %d", n.path, t.limits.Files)
	case !taken:
		t.seen[key] = n
	case was.path != n.path:
		return refuse("%q and %q differ in case only", was.path, n.path)
	case !was.folder || !n.folder:
		return refuse("%q is there twice, or both a file and a folder", n.path)
	}
	return nil
}

func (t *tree) checkPath(p string) error {
	switch {
	case p == "":
		return refuse("an empty path")
	case len(p) > t.limits.PathBytes:
		return refuse("path %.80q... has %d bytes, the limit is %d", p, len(p), t.limits.PathBytes)
	case !utf8.ValidString(p):
		return refuse("path %q is not UTF-8", p)
	case p[0] == '/' || path.Clean(p) != p:
		return refuse("path %q is not relative and clean", p)
	case strings.Count(p, "/") > t.limits.Depth:
		return refuse("path %.80q... has more than %d folders", p, t.limits.Depth)
	}
	for name := range strings.SplitSeq(p, "/") {
		if err := checkName(name); err != nil {
			return refuse("path %q: %v", p, err)
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
	case strings.ContainsFunc(name, unicode.IsControl):
		return errName("holds a control character")
	case isDotGit(name):
		return errName("holds .git, which is Git's own")
	}
	return nil
}

type errName string

func (e errName) Error() string { return string(e) }

// checkLink holds links within the root; see the package comment for why this rule is enough.
func (t *tree) checkLink(e Entry) error {
	switch {
	case len(e.Link) > t.limits.PathBytes:
		return refuse("link %q has a target of %d bytes, the limit is %d", e.Path, len(e.Link), t.limits.PathBytes)
	case !utf8.ValidString(e.Link) || strings.ContainsFunc(e.Link, unicode.IsControl):
		return refuse("link %q has a target that is not clean text", e.Path)
	case e.Link[0] == '/':
		return refuse("link %q leads to the absolute path %q", e.Path, e.Link)
	case e.Size != 0:
		return refuse("link %q has content", e.Path)
	}
	depth, named := strings.Count(e.Path, "/"), false
	for part := range strings.SplitSeq(e.Link, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return refuse("link %q leaves the folder: %q", e.Path, e.Link)
			}
			if named {
				return refuse("link %q has \"..\" after a name: %q", e.Path, e.Link)
			}
		default:
			named = true
			if isDotGit(part) {
				return refuse("link %q leads to .git", e.Path)
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

// fold maps all spellings of a path that differ in case only to one.
func fold(p string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf {
			if 'a' <= r && r <= 'z' {
				r -= 'a' - 'A' // the lesser, as below
			}
			return r
		}
		// The least of the runes that fold together stands for them all.
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, p)
}
