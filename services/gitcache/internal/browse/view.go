package browse

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/tree"
)

// view is a place whose commit is known.
type view struct {
	o          *mirror.Objects
	place      Place
	commit     mirror.Commit
	submodules bool
}

func (v view) commits(ctx context.Context, page Page) (Commits, error) {
	from := v.commit.ID
	if page.Token != "" {
		var err error
		if from, _, err = v.place.at(page.Token); err != nil {
			return Commits{}, err
		}
	}
	if v.place.Path != "" || v.place.Until != "" {
		return v.changes(ctx, from, page.Size)
	}
	commits, next, err := v.o.History(ctx, from, page.Size)
	out := Commits{Commits: commits}
	if !next.IsZero() {
		out.Next = v.place.token(next, 0)
	}
	return out, err
}

// walked bounds the commits that a page of changes looks at: two trees are read of each.
const walked = 1000

// changes lists the commits that change the folder of the place, down to its Until.
func (v view) changes(ctx context.Context, from git.Hash, most int) (out Commits, err error) {
	until := git.HashOf(v.place.Until) // zero: none
	id, folder := from, git.Hash{}
	for n := 0; !id.IsZero(); n++ {
		if id == until {
			out.Reached = true
			return out, nil
		}
		if n == walked || len(out.Commits) == most {
			out.Next = v.place.token(id, 0)
			return out, nil
		}
		if err := ctx.Err(); err != nil {
			return Commits{}, err
		}
		c, err := v.o.Commit(id)
		if err != nil {
			return Commits{}, err
		}
		if n == 0 {
			if folder, err = v.folder(c.Tree); err != nil {
				return Commits{}, err
			}
		}
		before := git.Hash{}
		if !c.Parent.IsZero() {
			parent, err := v.o.Commit(c.Parent)
			if err != nil {
				return Commits{}, err
			}
			if before, err = v.folder(parent.Tree); err != nil {
				return Commits{}, err
			}
		}
		if folder != before {
			out.Commits = append(out.Commits, c)
		}
		id, folder = c.Parent, before
	}
	return out, nil
}

// folder is the tree of the place's folder in the tree of a commit; zero: it has none, or one that can't be read, which
// is as good.
func (v view) folder(root git.Hash) (git.Hash, error) {
	id, err := tree.Find(v.o, root, v.place.Path, false)
	if mirror.IsUnreadable(err) {
		return git.Hash{}, err
	}
	if err != nil {
		return git.Hash{}, nil //nolint:nilerr // what is no folder changes to one, and back
	}
	return id, nil
}

func (v view) tree(ctx context.Context, page Page) (Listing, error) {
	from := 0
	if page.Token != "" {
		// The commit of the first page, wherever the ref points by now.
		id, n, err := v.place.at(page.Token)
		if err != nil {
			return Listing{}, err
		}
		if v.commit, err = v.o.Commit(id); err != nil {
			return Listing{}, err
		}
		from = n
	}
	entries, err := v.entries(v.place.Path)
	if err != nil {
		return Listing{}, err
	}
	out := Listing{Commit: v.commit}
	for i := from; i < len(entries); i++ {
		if len(out.Entries) == page.Size {
			out.Next = v.place.token(v.commit.ID, i)
			break
		}
		if err := ctx.Err(); err != nil {
			return Listing{}, err
		}
		e := Entry{Entry: entries[i]}
		if e.Size, err = v.size(e.Entry); err != nil {
			return Listing{}, err
		}
		out.Entries = append(out.Entries, e)
	}
	return out, nil
}

func (v view) size(e tree.Entry) (int64, error) {
	switch e.Kind {
	case tree.File, tree.Executable, tree.Link:
		return v.o.Size(e.ID)
	}
	return 0, nil
}

func (v view) file() (File, error) {
	folder, name := "", v.place.Path
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		folder, name = name[:i], name[i+1:]
	}
	entries, err := v.entries(folder)
	if err != nil {
		return File{}, err
	}
	i := slices.IndexFunc(entries, func(e tree.Entry) bool { return e.Name == name })
	if i < 0 {
		return File{}, v.fail(refusal.NotFound, "has no file %q", v.place.Path)
	}
	out := File{Commit: v.commit, Entry: Entry{Entry: entries[i]}}
	switch out.Entry.Kind {
	case tree.Folder:
		return File{}, v.fail(refusal.NotFound, "has a folder at %q, not a file", v.place.Path)
	case tree.Submodule:
		return File{}, v.fail(refusal.NotFound, "has a submodule at %q, not a file", v.place.Path)
	case tree.Other:
		return File{}, v.fail(refusal.NotFound, "has something of an unknown mode at %q, not a file", v.place.Path)
	}
	if out.Entry.Size, err = v.o.Size(out.Entry.ID); err != nil {
		return File{}, err
	}
	if out.Entry.Size > MaxFileBytes {
		return File{}, v.fail(refusal.Exhausted, "has a file of %d bytes at %q; at most 1 MiB is shown. Clone the repository to read it", out.Entry.Size, v.place.Path)
	}
	out.Content, err = v.o.Read(git.Blob, out.Entry.ID, MaxFileBytes)
	return out, err
}

// entries lists a folder.
func (v view) entries(folder string) ([]tree.Entry, error) {
	if v.commit.Combination != "" { // who may look into this source may not look into the others
		return nil, v.fail(refusal.NotFound, "is made of several sources (%s): look into these", v.commit.Subject)
	}
	id, err := tree.Find(v.o, v.commit.Tree, folder, v.submodules)
	var entries []tree.Entry
	if err == nil {
		entries, err = tree.Entries(v.o, id)
	}
	switch {
	case errors.Is(err, tree.ErrNotFound):
		return nil, v.fail(refusal.NotFound, "has no folder %q", folder)
	case errors.Is(err, tree.ErrNoSubmodule):
		return nil, v.fail(refusal.NotFound, "has a submodule above %q that is not fetched", v.place.Path)
	case errors.Is(err, artifact.ErrRefused):
		_, why, _ := strings.Cut(err.Error(), artifact.ErrRefused.Error()+": ")
		return nil, v.fail(refusal.NotFound, "can't show folder %q: %s", folder, why)
	case err != nil && tree.IsDamaged(err):
		return nil, v.fail(refusal.NotFound, "holds a folder %q that no Git would have written: it can't be shown", folder)
	}
	return entries, err
}

func (v view) fail(reason refusal.Reason, format string, args ...any) error {
	return refusal.New(reason, "source %q at %s "+format, append([]any{v.place.Source, v.commit.ID.Short()}, args...)...)
}

// A page token holds the commit and the entry to go on from, and what it is a page of.
const (
	boundBytes = 8
	tokenBytes = boundBytes + git.HashBytes + 4
)

func (p Place) bound() []byte {
	sum := sha256.Sum256([]byte(p.Source + "\x00" + p.Revision + "\x00" + p.Path + "\x00" + p.Until))
	return sum[:boundBytes]
}

func (p Place) token(commit git.Hash, entry int) string {
	b := append(p.bound(), commit[:]...)
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(b, uint32(entry)))
}

func (p Place) at(token string) (commit git.Hash, entry int, err error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) != tokenBytes || string(b[:boundBytes]) != string(p.bound()) {
		return commit, 0, refusal.New(refusal.Invalid, "page_token: is not one that an answer to the same question had")
	}
	return git.Hash(b[boundBytes:]), int(binary.BigEndian.Uint32(b[tokenBytes-4:])), nil
}

// checkPath refuses what can't be a path, before anybody looks for it.
func checkPath(path string) error {
	if path == "" {
		return nil
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." || name == ".." {
			return refusal.New(refusal.NotFound, "path %q: write it without leading, trailing or double slashes and without dots", path)
		}
	}
	return nil
}
