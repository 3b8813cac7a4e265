package helm

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
	"unicode"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing"
	"go.yaml.in/yaml/v3"
)

// Chart is a package that was unpacked: a commit whose tree is the chart, in a pack. Close it.
type Chart struct {
	Commit plumbing.Hash

	spool *os.File // the objects, compressed, one after the other
	count uint32
}

// Unpack reads a package to its end and makes a commit of it. The package must be of the wanted version. dir is for a
// temporary file.
//
// The top folder of the package is dropped, whatever its name. The commit says the chart's name and versions and nothing of
// the package or of the time: a chart that is packed again, or listed anew, stays what it was.
func Unpack(ctx context.Context, body io.Reader, dir string, want Version) (*Chart, error) {
	spool, err := os.CreateTemp(dir, "chart-*")
	if err != nil {
		return nil, err
	}
	c := &Chart{spool: spool}
	if err := c.fill(&reading{ctx: ctx, r: body}, want); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Chart) fill(body io.Reader, want Version) error {
	u := &unpacking{chart: c, root: folder{}, written: map[plumbing.Hash]bool{}, deflate: zlib.NewWriter(io.Discard)}
	if err := u.read(body); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, body); err != nil { // what its digest is of
		return err
	}
	message, err := u.identify(want)
	if err != nil {
		return err
	}
	tree, err := u.writeFolder(u.root)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("tree %s\nauthor %s\ncommitter %s\n\n%s\n", tree, nobody, nobody, message)
	c.Commit, err = u.write(plumbing.CommitObject, []byte(text))
	return err
}

// nobody is the author of the commits: a package tells neither its author nor a time that lasts.
const nobody = "Helm chart <> 0 +0000"

// Close removes the temporary file.
func (c *Chart) Close() {
	_ = c.spool.Close()
	_ = os.Remove(c.spool.Name())
}

// Pack is the objects as a pack of Git. It can be read once.
func (c *Chart) Pack() (io.Reader, error) {
	if _, err := c.spool.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), c.count)
	sum := sha1.New() //nolint:gosec // a pack's sum
	objects := io.TeeReader(io.MultiReader(bytes.NewReader(head), c.spool), sum)
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

// folder is its entries by name: a folder, or a plumbing.Hash of a file.
type folder map[string]any

type unpacking struct {
	chart   *Chart
	root    folder
	about   []byte // Chart.yaml
	written map[plumbing.Hash]bool
	deflate *zlib.Writer

	bytes int64
	files int
}

func (u *unpacking) read(body io.Reader) error {
	gz, err := gzip.NewReader(body)
	if err != nil {
		return unreadable("it is not compressed with gzip", err)
	}
	archive := tar.NewReader(gz)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return unreadable("it is not a tar archive that can be read", err)
		}
		// What a header says counts before a byte of the file is read: names can't fill the memory either.
		if err := u.count(); err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeReg:
		case tar.TypeDir, tar.TypeXGlobalHeader:
			continue
		default:
			return fmt.Errorf("%q is a link or a device; a chart may only have files and folders", shorten(h.Name))
		}
		if err := u.file(h, archive); err != nil {
			return err
		}
	}
}

// count counts one more file or folder.
func (u *unpacking) count() error {
	if u.files++; u.files > maxFiles {
		return fmt.Errorf("it has more than the limit of %d files and folders", maxFiles)
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

func (u *unpacking) file(h *tar.Header, content io.Reader) error {
	name, err := place(h.Name)
	switch {
	case err != nil:
		return fmt.Errorf("%q %w", shorten(h.Name), err)
	case h.Size > maxFileBytes:
		return fmt.Errorf("%q is larger than Helm's limit of %d MiB for a file", shorten(name), maxFileBytes>>20)
	case name == chartYAML && h.Size > maxItemBytes:
		return fmt.Errorf("its Chart.yaml is larger than the limit of %d KiB", maxItemBytes>>10)
	case u.bytes+h.Size > maxUnpackedBytes:
		return fmt.Errorf("its files are together larger than Helm's limit of %d MiB", maxUnpackedBytes>>20)
	}
	u.bytes += h.Size
	b, err := io.ReadAll(io.LimitReader(content, maxFileBytes+1))
	switch {
	case err != nil:
		return unreadable(fmt.Sprintf("%q can't be read", shorten(name)), err)
	case int64(len(b)) != h.Size:
		return fmt.Errorf("%q is not as long as the archive says", shorten(name))
	}
	if name == chartYAML {
		u.about = b
	}
	id, err := u.write(plumbing.BlobObject, b)
	if err != nil {
		return err
	}
	return u.put(name, id)
}

const chartYAML = "Chart.yaml"

// place is where a file of an archive is within the chart.
func place(name string) (string, error) {
	name = strings.ReplaceAll(name, `\`, "/")
	switch {
	case len(name) > maxPathBytes || strings.Count(name, "/") > maxDepth:
		return "", errors.New("is too long a path")
	case path.IsAbs(name) || len(name) > 1 && name[1] == ':':
		return "", errors.New("is an absolute path")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return "", errors.New("has characters that no path of a chart may have")
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "..":
			return "", errors.New("leads out of the chart")
		case strings.EqualFold(part, ".git"):
			return "", errors.New("leads into .git")
		}
	}
	_, within, ok := strings.Cut(path.Clean(name), "/")
	if !ok {
		return "", errors.New("is outside of the chart's folder")
	}
	return within, nil
}

// put gives a file its place.
func (u *unpacking) put(name string, id plumbing.Hash) error {
	in := u.root
	parts := strings.Split(name, "/")
	for _, part := range parts[:len(parts)-1] {
		below, ok := in[part]
		if !ok {
			if err := u.count(); err != nil {
				return err
			}
			below = folder{}
			in[part] = below
		}
		if in, ok = below.(folder); !ok {
			return fmt.Errorf("%q is a file and a folder", shorten(name))
		}
	}
	last := parts[len(parts)-1]
	if _, twice := in[last]; twice {
		return fmt.Errorf("%q is in it twice", shorten(name))
	}
	in[last] = id
	return nil
}

// identify reads Chart.yaml and checks that it is what the index says. It returns what the commit says.
func (u *unpacking) identify(want Version) (string, error) {
	if u.about == nil {
		return "", errors.New("it has no Chart.yaml")
	}
	var is struct {
		Name       string `yaml:"name"`
		Version    string `yaml:"version"`
		AppVersion string `yaml:"appVersion"`
	}
	if err := yaml.Unmarshal(u.about, &is); err != nil {
		return "", errors.New("its Chart.yaml can't be read")
	}
	switch v, w := parse(is.Version), parse(want.Version); {
	case is.Name != want.Chart:
		return "", fmt.Errorf("its Chart.yaml has the name %q", shorten(is.Name))
	case is.Version != want.Version && (v == nil || w == nil || !v.Equal(w) || v.Metadata() != w.Metadata()):
		return "", fmt.Errorf("its Chart.yaml has the version %q", shorten(is.Version))
	}
	text := is.Name + " " + want.Version
	if app := oneLine(is.AppVersion); app != "" {
		text += " (app " + app + ")"
	}
	return text, nil
}

// oneLine makes what others wrote fit for a commit's first line.
func oneLine(s string) string {
	return shorten(strings.TrimSpace(strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return -1
	}, strings.ToValidUTF8(s, ""))))
}

// writeFolder writes a tree and all below it. Git sorts a folder as if its name ended with a slash.
func (u *unpacking) writeFolder(f folder) (plumbing.Hash, error) {
	sorts := func(name string) string {
		if _, isFolder := f[name].(folder); isFolder {
			return name + "/"
		}
		return name
	}
	var b bytes.Buffer
	for _, name := range slices.SortedFunc(maps.Keys(f), func(x, y string) int { return cmp.Compare(sorts(x), sorts(y)) }) {
		mode, id := "100644", plumbing.ZeroHash
		switch is := f[name].(type) {
		case plumbing.Hash:
			id = is
		case folder:
			below, err := u.writeFolder(is)
			if err != nil {
				return below, err
			}
			mode, id = "40000", below
		}
		fmt.Fprintf(&b, "%s %s\x00%s", mode, name, id[:])
	}
	return u.write(plumbing.TreeObject, b.Bytes())
}

// write adds an object, once.
func (u *unpacking) write(kind plumbing.ObjectType, content []byte) (plumbing.Hash, error) {
	id := plumbing.ComputeHash(kind, content)
	if u.written[id] {
		return id, nil
	}
	u.written[id] = true
	if _, err := u.chart.spool.Write(header(kind, len(content))); err != nil {
		return id, err
	}
	u.deflate.Reset(u.chart.spool)
	if _, err := u.deflate.Write(content); err != nil {
		return id, err
	}
	u.chart.count++
	return id, u.deflate.Close()
}

// header of an object in a pack: its kind and size, seven bits a byte but four in the first.
func header(kind plumbing.ObjectType, size int) []byte {
	first := byte(kind)<<4 | byte(size&15)
	b := []byte{}
	for size >>= 4; size > 0; size >>= 7 {
		b = append(b, first|0x80)
		first = byte(size & 127)
	}
	return append(b, first)
}
