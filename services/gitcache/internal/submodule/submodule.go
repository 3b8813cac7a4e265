// Package submodule reads which other repositories a commit names, and where they are.
//
// Everything in .gitmodules is foreign: names and paths that would be dangerous in a work tree are refused
// although there is none here, and a URL must be one that a source could name.
package submodule

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"github.com/go-git/go-git/v5/plumbing/format/config"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/loopback"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/tree"
	"fairlead.dev/services/gitcache/internal/upstream"
)

const (
	fileName = ".gitmodules"
	maxBytes = 256 << 10
	// MaxModules of one commit, with all that are within others.
	MaxModules = 100
	maxName    = 255
	// maxSections of any kind: for each the parser looks at all of them.
	maxSections = 1000
	// maxFolderBytes of folders are read to find the submodules of one commit, again for each: a second or so.
	maxFolderBytes = 128 << 20
)

// Module is a repository within another one.
type Module struct {
	Path   string
	URL    *url.URL
	Commit git.Hash
}

// ErrRefused means that the content itself is at fault. The text after it is for people.
var ErrRefused = errors.New("refused")

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// Words is the part of an error that is for people.
func Words(err error) string { return strings.TrimPrefix(err.Error(), ErrRefused.Error()+": ") }

// List returns the submodules of a folder's root, in the order of .gitmodules. base is where that
// repository itself comes from. Errors are ErrRefused, or those of r.
func List(r tree.Reader, root git.Hash, base *url.URL) ([]Module, error) {
	content, err := readGitmodules(r, root)
	if content == nil || err != nil {
		return nil, err
	}
	entries, err := parse(content)
	if err != nil {
		return nil, err
	}
	var modules []Module
	folders := &bounded{r, maxFolderBytes}
	for _, e := range entries {
		link, err := lookup(folders, root, e.path)
		if folders.left < 0 {
			return nil, refuse("%s names submodules that take reading more than %d MiB of folders to find", fileName, maxFolderBytes>>20)
		}
		if err != nil {
			return nil, err
		}
		if link.Kind != tree.Submodule {
			continue // named and not used, as after a submodule was removed by hand
		}
		at, err := resolve(base, e.url)
		if err != nil {
			return nil, refuse("submodule %q: %s", e.path, err)
		}
		modules = append(modules, Module{Path: e.path, URL: at, Commit: link.ID})
	}
	return modules, nil
}

// bounded gives so many bytes.
type bounded struct {
	tree.Reader

	left int64
}

func (b *bounded) Read(kind git.Kind, id git.Hash, most int64) ([]byte, error) {
	content, err := b.Reader.Read(kind, id, most)
	if b.left -= int64(len(content)); b.left < 0 {
		return nil, mirror.ErrTooLarge
	}
	return content, err
}

// readGitmodules returns .gitmodules; nil if there is none.
func readGitmodules(r tree.Reader, root git.Hash) ([]byte, error) {
	file, err := lookup(r, root, fileName)
	if err != nil || file.Kind == tree.Other {
		return nil, err
	}
	if file.Kind != tree.File && file.Kind != tree.Executable {
		return nil, refuse("%s is not a plain file", fileName)
	}
	content, err := r.Read(git.Blob, file.ID, maxBytes)
	if errors.Is(err, mirror.ErrTooLarge) {
		return nil, refuse("%s is larger than the limit of %d KiB", fileName, maxBytes>>10)
	}
	return content, err
}

// lookup finds what is at a path; the zero Entry is nothing.
func lookup(r tree.Reader, root git.Hash, path string) (tree.Entry, error) {
	folder, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		folder, name = path[:i], path[i+1:]
	}
	id, err := tree.Find(r, root, folder, false)
	if errors.Is(err, tree.ErrNotFound) {
		return tree.Entry{}, nil
	}
	if err != nil {
		return tree.Entry{}, judged(err)
	}
	entries, err := tree.Entries(r, id)
	if err != nil {
		return tree.Entry{}, judged(err)
	}
	for _, e := range entries {
		if e.Name == name {
			return e, nil
		}
	}
	return tree.Entry{}, nil
}

// judged makes what package tree refuses a refusal here.
func judged(err error) error {
	if errors.Is(err, artifact.ErrRefused) {
		return refuse("%s", strings.TrimPrefix(err.Error(), artifact.ErrRefused.Error()+": "))
	}
	return err
}

type entry struct{ path, url string }

func parse(content []byte) (entries []entry, err error) {
	defer func() {
		if recover() != nil {
			err = refuse("%s can't be read", fileName)
		}
	}()
	if bytes.Count(content, []byte("[")) > maxSections {
		return nil, refuse("%s has more than the limit of %d sections", fileName, maxSections)
	}
	file := config.New()
	if err := config.NewDecoder(bytes.NewReader(content)).Decode(file); err != nil {
		return nil, refuse("%s can't be read. Check it with git config -f %s --list", fileName, fileName)
	}
	subsections := file.Section("submodule").Subsections
	if len(subsections) > MaxModules {
		return nil, refuse("%s names more than the limit of %d submodules", fileName, MaxModules)
	}
	for _, s := range subsections {
		e := entry{path: s.Option("path"), url: s.Option("url")}
		if err := check(s.Name, e); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// check refuses what has been used to attack Git through .gitmodules.
func check(name string, e entry) error {
	for what, text := range map[string]string{"name": name, "path": e.path, "url": e.url} {
		switch {
		case text == "":
			return refuse("%s has a submodule without a %s", fileName, what)
		case len(text) > fetchableURL:
			return refuse("%s has a submodule whose %s is longer than %d bytes", fileName, what, fetchableURL)
		case strings.HasPrefix(text, "-"), strings.ContainsFunc(text, unicode.IsControl):
			return refuse("%s has a submodule with the %s %q, which begins with '-' or holds control characters", fileName, what, shorten(text))
		}
	}
	for what, text := range map[string]string{"name": name, "path": e.path} {
		for part := range strings.FieldsFuncSeq(text, func(c rune) bool { return c == '/' || c == '\\' }) {
			if part == ".." || strings.EqualFold(part, ".git") || strings.EqualFold(part, "git~1") {
				return refuse("%s has a submodule with the %s %q, which could leave its folder", fileName, what, shorten(text))
			}
		}
	}
	if strings.HasPrefix(e.path, "/") {
		return refuse("%s has a submodule with the path %q, which begins with a slash", fileName, shorten(e.path))
	}
	return nil
}

// fetchableURL is the most bytes of a URL that a source can have.
const fetchableURL = 2048

func shorten(s string) string {
	if len(s) > maxName {
		return s[:maxName]
	}
	return s
}

// resolve makes a URL of what .gitmodules says: ./ and ../ are relative to where the repository that
// holds it comes from.
func resolve(base *url.URL, raw string) (*url.URL, error) {
	if strings.HasPrefix(raw, "./") || strings.HasPrefix(raw, "../") {
		text, err := relative(base, raw)
		if err != nil {
			return nil, err
		}
		raw = text
	}
	u, err := upstream.ParseURL(raw)
	if err == nil && loopback.Host(u.Hostname()) && !loopback.Host(base.Hostname()) {
		return nil, errors.New("the url points to the hub itself")
	}
	return u, err
}

func relative(base *url.URL, raw string) (string, error) {
	path := strings.TrimRight(base.Path, "/")
	rest := raw
	for {
		if after, ok := strings.CutPrefix(rest, "./"); ok {
			rest = after
			continue
		}
		after, ok := strings.CutPrefix(rest, "../")
		if !ok {
			break
		}
		rest = after
		i := strings.LastIndexByte(path, '/')
		if i < 0 && path == "" {
			return "", fmt.Errorf("the url %q leaves the host", shorten(raw))
		}
		path = path[:max(i, 0)]
	}
	for part := range strings.SplitSeq(rest, "/") {
		if part == "" || part == "." || part == ".." {
			return "", fmt.Errorf("the url %q is not written as ../name", shorten(raw))
		}
	}
	to := *base
	to.Path, to.RawPath = path+"/"+rest, ""
	if base.Scheme == "ssh" && !strings.HasPrefix(base.Path, "/") { // user@host:path, relative to the user's home
		return base.User.Username() + "@" + base.Host + ":" + strings.TrimPrefix(to.Path, "/"), nil
	}
	return to.String(), nil
}
