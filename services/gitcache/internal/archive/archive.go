// Package archive makes a commit of Git of what archives hold, so that mirrors, artifacts, copies and everything after
// them treat a package as they treat a commit.
//
// Invariants: nothing in an archive is trusted; memory is bounded by one file and the names; the same files are the
// same commit on every replica, however they were packed and whenever.
//
// Errors are in words for the owner of the source, and begin with "it" or a name.
package archive

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/sha1" //nolint:gosec // the names of Git's objects
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/pack"
)

const (
	maxPathBytes = 1024
	maxDepth     = 64
	// headerBytes of a file or folder besides its content: two headers, a name of several thousand letters, and
	// padding.
	headerBytes = 4 << 10
)

// Limits of what an archive may hold.
type Limits struct {
	FileBytes int64  // of one file, which is held in memory
	Bytes     int64  // of all files
	Files     int    // and folders
	Whose     string // begins the name of a limit in messages: "Helm's "
}

// Objects are a commit with its tree, in a pack. Close them.
type Objects struct {
	Commit git.Hash

	spool *os.File // the objects, compressed, one after the other
	count uint32
}

// Close removes the temporary file.
func (o *Objects) Close() {
	_ = o.spool.Close()
	_ = os.Remove(o.spool.Name())
}

// Pack is the objects as a pack of Git. The pack can be read once.
func (o *Objects) Pack() (io.Reader, error) {
	if _, err := o.spool.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), o.count)
	sum := sha1.New() //nolint:gosec // a pack's sum
	objects := io.TeeReader(io.MultiReader(bytes.NewReader(head), o.spool), sum)
	return io.MultiReader(objects, &ending{sum: func() []byte { return sum.Sum(nil) }}), nil
}

// ending is the sum of what was read before it.
type ending struct {
	sum  func() []byte
	left []byte
	made bool
}

func (e *ending) Read(p []byte) (int, error) {
	if !e.made {
		e.left, e.made = e.sum(), true
	}
	if len(e.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, e.left)
	e.left = e.left[n:]
	return n, nil
}

// reading ends with its context.
type reading struct {
	ctx context.Context //nolint:containedctx // for the length of one call
	r   io.Reader
}

func (r *reading) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// unpacking bounds what archives have when they are unpacked: headers may follow each other without a file.
type unpacking struct {
	b *Builder
	r io.Reader
}

func (u *unpacking) Read(p []byte) (int, error) {
	most := u.b.limits.Bytes + int64(u.b.limits.Files)*headerBytes
	if u.b.unpacked > most {
		return 0, fmt.Errorf("it unpacks to more than the limit of %d MiB", most>>20)
	}
	n, err := u.r.Read(p)
	u.b.unpacked += int64(n)
	return n, err
}

// folder is its entries by name: a folder, or a file.
type folder map[string]any

// file is a file or a link.
type file struct {
	mode string // as Git writes it
	id   git.Hash
}

// The modes of files.
const (
	regular    = "100644"
	executable = "100755"
	link       = "120000"
)

// Builder collects files. Close it, or make Objects of it, which are closed instead.
type Builder struct {
	// Keep are files whose content is kept, with the most bytes that each may have.
	Keep map[string]int64
	// Kept are the contents of these files.
	Kept map[string][]byte
	// Merges: the same file may come twice.
	Merges bool

	limits  Limits
	objects *Objects
	root    folder
	written map[git.Hash]bool
	deflate *zlib.Writer
	bytes   int64
	files   int
	// unpacked counts the bytes of archives, with their headers.
	unpacked int64
}

// New makes a builder with a temporary file in dir.
func New(dir string, limits Limits) (*Builder, error) {
	spool, err := os.CreateTemp(dir, "archive-*")
	if err != nil {
		return nil, err
	}
	return &Builder{
		Keep: map[string]int64{}, Kept: map[string][]byte{}, limits: limits, objects: &Objects{spool: spool},
		root: folder{}, written: map[git.Hash]bool{}, deflate: zlib.NewWriter(io.Discard),
	}, nil
}

// Close ends a builder that no commit is made of.
func (b *Builder) Close() { b.objects.Close() }

// Commit ends the builder with a commit of its files. The commit has neither a time nor the names of people.
func (b *Builder) Commit(author, message string) (*Objects, error) {
	id, err := b.CommitBy(author, author, time.Unix(0, 0), message, nil)
	if err != nil {
		return nil, err
	}
	b.objects.Commit = id
	return b.objects, nil
}

// CommitBy makes a commit of the files so far, and goes on without them: the pack of a builder may have several
// commits. finish changes the text of the commit; nil: it stays.
func (b *Builder) CommitBy(author, committer string, at time.Time, message string, finish func(commit []byte) ([]byte, error)) (git.Hash, error) {
	defer b.Reset()
	tree, err := b.writeFolder(b.root)
	if err != nil {
		return git.Hash{}, err
	}
	when := fmt.Sprintf(" <> %d +0000", max(at.Unix(), 0))
	text := fmt.Appendf(nil, "tree %s\nauthor %s\ncommitter %s\n\n%s\n", tree, author+when, committer+when, message)
	if finish != nil {
		if text, err = finish(text); err != nil {
			return git.Hash{}, err
		}
	}
	return b.write(git.Commit, text)
}

// Reset goes on without the files so far.
func (b *Builder) Reset() { b.root, b.bytes, b.files, b.unpacked = folder{}, 0, 0, 0 }

// Objects ends the builder with the commits of CommitBy.
func (b *Builder) Objects() *Objects { return b.objects }

// AddTarGzip adds the files of an archive that is compressed with gzip, each at the place that a function gives its
// name.
func (b *Builder) AddTarGzip(ctx context.Context, body io.Reader, place func(name string) (string, error)) error {
	body = &reading{ctx, body}
	gz, err := gzip.NewReader(body)
	if err != nil {
		return unreadable("it is not compressed with gzip", err)
	}
	if err := b.AddTar(ctx, gz, place); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, body) // the digest covers these bytes, too
	return err
}

// AddTar adds the files of an archive.
func (b *Builder) AddTar(ctx context.Context, body io.Reader, place func(name string) (string, error)) error {
	archive := tar.NewReader(&unpacking{b, &reading{ctx, body}})
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return unreadable("it is not a tar archive that can be read", err)
		}
		// A header counts before a byte of the file is read: names can't fill the memory either.
		if err := b.count(); err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeReg:
		case tar.TypeDir, tar.TypeXGlobalHeader:
			continue
		default:
			return fmt.Errorf("%q is a link or a device; only files and folders are taken", Shorten(h.Name))
		}
		name, err := place(h.Name)
		if err != nil {
			return fmt.Errorf("%q %w", Shorten(h.Name), err)
		}
		if err := b.AddFile(name, h.Size, archive); err != nil {
			return err
		}
	}
}

// count counts one more file or folder.
func (b *Builder) count() error {
	if b.files++; b.files > b.limits.Files {
		return fmt.Errorf("it has more than the limit of %d files and folders", b.limits.Files)
	}
	return nil
}

// unreadable puts a decoder's error into words; an error of the network stays what it is.
func unreadable(what string, err error) error {
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, tar.ErrHeader) {
		return errors.New(what)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// AddFile adds a file at a place that Place gave.
func (b *Builder) AddFile(name string, size int64, content io.Reader) error {
	most, keep := b.Keep[name]
	switch {
	case size > b.limits.FileBytes:
		return fmt.Errorf("%q is larger than %slimit of %d MiB for a file", Shorten(name), b.whose(), b.limits.FileBytes>>20)
	case keep && size > most:
		return fmt.Errorf("its %s is larger than the limit of %d KiB", name, most>>10)
	case b.bytes+size > b.limits.Bytes:
		return fmt.Errorf("its files are together larger than %slimit of %d MiB", b.whose(), b.limits.Bytes>>20)
	}
	b.bytes += size
	text, err := io.ReadAll(io.LimitReader(content, size+1))
	switch {
	case err != nil:
		return unreadable(fmt.Sprintf("%q can't be read", Shorten(name)), err)
	case int64(len(text)) != size:
		return fmt.Errorf("%q is not as long as its header says", Shorten(name))
	}
	if keep {
		b.Kept[name] = text
	}
	return b.add(name, regular, text)
}

// AddEntry adds a file or a link of an artifact, which was checked when the artifact was read.
func (b *Builder) AddEntry(name string, e artifact.Entry, content io.Reader) error {
	if err := b.count(); err != nil {
		return err
	}
	switch {
	case e.Link != "":
		return b.add(name, link, []byte(e.Link))
	case b.bytes+e.Size > b.limits.Bytes:
		return fmt.Errorf("the files are together larger than the limit of %d MiB", b.limits.Bytes>>20)
	}
	b.bytes += e.Size
	text, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	if e.Executable {
		return b.add(name, executable, text)
	}
	return b.add(name, regular, text)
}

func (b *Builder) add(name, mode string, text []byte) error {
	id, err := b.write(git.Blob, text)
	if err != nil {
		return err
	}
	return b.put(name, file{mode, id})
}

func (b *Builder) whose() string { return cmp.Or(b.limits.Whose, "the ") }

// Place is where a file with this name is, without a leading "./".
func Place(name string) (string, error) {
	name = strings.ReplaceAll(name, `\`, "/")
	switch {
	case len(name) > maxPathBytes || strings.Count(name, "/") > maxDepth:
		return "", errors.New("is too long a path")
	case path.IsAbs(name) || len(name) > 1 && name[1] == ':':
		return "", errors.New("is an absolute path")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return "", errors.New("has characters that no path may have")
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "..":
			return "", errors.New("leads out of the archive")
		case strings.EqualFold(part, ".git"):
			return "", errors.New("leads into .git")
		}
	}
	if name = path.Clean(name); name == "." {
		return "", errors.New("is no name of a file")
	}
	return name, nil
}

// AddBlob adds the content of a file, whose place Put gives.
func (b *Builder) AddBlob(content []byte) (git.Hash, error) {
	return b.write(git.Blob, content)
}

// AddObject adds an object of a commit that is made already.
func (b *Builder) AddObject(kind git.Kind, content []byte) error {
	_, err := b.write(kind, content)
	return err
}

// Put gives a file a place that Place gave: one that was added, or one that is where the commit goes.
func (b *Builder) Put(name string, id git.Hash) error {
	if err := b.count(); err != nil {
		return err
	}
	return b.put(name, file{regular, id})
}

// put gives a file its place.
func (b *Builder) put(name string, is file) error {
	in := b.root
	parts := strings.Split(name, "/")
	for _, part := range parts[:len(parts)-1] {
		below, ok := in[part]
		if !ok {
			if err := b.count(); err != nil {
				return err
			}
			below = folder{}
			in[part] = below
		}
		if in, ok = below.(folder); !ok {
			return fmt.Errorf("%q is a file and a folder", Shorten(name))
		}
	}
	last := parts[len(parts)-1]
	if was, twice := in[last]; twice && was == any(is) && b.Merges {
		return nil
	} else if twice {
		return fmt.Errorf("%q is in it twice", Shorten(name))
	}
	in[last] = is
	return nil
}

// writeFolder writes a tree and all below it. Git sorts a folder as if its name ended with a slash.
func (b *Builder) writeFolder(f folder) (git.Hash, error) {
	sorts := func(name string) string {
		if _, isFolder := f[name].(folder); isFolder {
			return name + "/"
		}
		return name
	}
	var text bytes.Buffer
	for _, name := range slices.SortedFunc(maps.Keys(f), func(x, y string) int { return cmp.Compare(sorts(x), sorts(y)) }) {
		var mode string
		var id git.Hash
		switch is := f[name].(type) {
		case file:
			mode, id = is.mode, is.id
		case folder:
			below, err := b.writeFolder(is)
			if err != nil {
				return below, err
			}
			mode, id = "40000", below
		}
		fmt.Fprintf(&text, "%s %s\x00%s", mode, name, id[:])
	}
	return b.write(git.Tree, text.Bytes())
}

// write adds an object, once.
func (b *Builder) write(kind git.Kind, content []byte) (git.Hash, error) {
	id := pack.Name(kind, content)
	if b.written[id] {
		return id, nil
	}
	b.written[id] = true
	if _, err := b.objects.spool.Write(header(kind, len(content))); err != nil {
		return id, err
	}
	b.deflate.Reset(b.objects.spool)
	if _, err := b.deflate.Write(content); err != nil {
		return id, err
	}
	b.objects.count++
	return id, b.deflate.Close()
}

// header of an object in a pack: its kind and size, seven bits a byte but four in the first.
func header(kind git.Kind, size int) []byte {
	first := byte(kind)<<4 | byte(size&15)
	b := []byte{}
	for size >>= 4; size > 0; size >>= 7 {
		b = append(b, first|0x80)
		first = byte(size & 127)
	}
	return append(b, first)
}

// Shorten keeps what others wrote from flooding a message.
func Shorten(s string) string {
	const most = 80
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return strings.ToValidUTF8(s, "")
}
