package artifact

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
)

// Walk reads a canonical tar strictly and calls visit for each entry, in order. The entries that visit sees are
// provisional until Walk returned nil: only then was r read to its end, and so verified if it is a reader that verifies
// (Blob, Fetch). An error of visit ends the walk and is returned as it is.
func Walk(r io.Reader, l Limits, visit func(Entry, io.Reader) error) error {
	l = l.withDefaults()
	in := &bounded{r: r, limit: l.Bytes}
	t, tr := newTree(l), tar.NewReader(in)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return drainBounded(in)
		}
		if err != nil {
			return fmt.Errorf("read tar: %w", err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			base, ok := h.PAXRecords[baseRecord]
			if !ok || len(h.PAXRecords) != 1 {
				return refusalError("a global header with other records than %s", baseRecord)
			}
			if err := t.setBase(base); err != nil {
				return err
			}
			continue
		}
		e, err := entryOf(h)
		if err == nil {
			e.Base = t.base
			err = t.addEntry(e)
		}
		if err != nil {
			return err
		}
		if err := visit(e, tr); err != nil {
			return err
		}
	}
}

// drainBounded reaches the end of the stream, where a verifying reader speaks up. No byte may follow the tar.
func drainBounded(r *bounded) error {
	n, err := io.Copy(io.Discard, r)
	switch {
	case err != nil:
		return fmt.Errorf("read tar: %w", err)
	case n > 0:
		return refusalError("%d bytes after the end of the tar", n)
	case r.n%blockSize != 0:
		return fmt.Errorf("read tar: %w", io.ErrUnexpectedEOF)
	}
	return nil
}

// blockSize is what every part of a tar is padded to, in bytes.
const blockSize = 512

// entryOf translates a header, refusing all that a canonical one does not have.
func entryOf(h *tar.Header) (Entry, error) {
	if h.Format != tar.FormatUSTAR && h.Format != tar.FormatPAX {
		return Entry{}, refusalError("%q is in tar format %v", h.Name, h.Format)
	}
	if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" || h.Devmajor != 0 || h.Devminor != 0 || h.ModTime.Unix() != 0 {
		return Entry{}, refusalError("%q has an owner, a device or a time", h.Name)
	}
	for key := range h.PAXRecords {
		if key != "path" && key != "linkpath" && key != "size" {
			return Entry{}, refusalError("%q has the record %.80q", h.Name, key)
		}
	}
	e := Entry{Path: h.Name, Size: h.Size, Link: h.Linkname, Executable: h.Mode == executableMode}
	switch {
	case h.Typeflag == tar.TypeReg && (h.Mode == fileMode || h.Mode == executableMode) && h.Linkname == "":
	case h.Typeflag == tar.TypeSymlink && h.Mode == linkMode && h.Linkname != "":
	default:
		return Entry{}, refusalError("%q has type %q and mode %o: want a file with 644 or 755, or a symlink", h.Name, h.Typeflag, h.Mode)
	}
	return e, nil
}

// Extract writes an artifact below root, which should be empty. Extract never writes outside of root, and links are
// made last, so that nothing is written through one. A link whose target leaves the root, or has ".." after its first
// name, is refused: without either no link can leave the root, not even through other links. On an error the caller
// throws away whatever is below root.
func Extract(r io.Reader, root *os.Root, l Limits) error {
	var links []Entry
	err := Walk(r, l, func(e Entry, content io.Reader) error {
		if e.Link != "" {
			links = append(links, e)
			return checkContained(e)
		}
		return extractFile(root, e, content)
	})
	if err != nil {
		return fmt.Errorf("extract artifact: %w", err)
	}
	for _, e := range links {
		if err := makeFolder(root, e.Path); err != nil {
			return fmt.Errorf("extract artifact: %w", err)
		}
		if err := root.Symlink(e.Link, e.Path); err != nil {
			return fmt.Errorf("extract artifact: %w", err)
		}
	}
	return nil
}

func extractFile(root *os.Root, e Entry, content io.Reader) (err error) {
	if err := makeFolder(root, e.Path); err != nil {
		return err
	}
	mode := os.FileMode(fileMode)
	if e.Executable {
		mode = executableMode
	}
	f, err := root.OpenFile(e.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// The umask may have taken bits away, and modes are part of the content.
	if err := f.Chmod(mode); err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return err
}

func makeFolder(root *os.Root, file string) error {
	if dir := path.Dir(file); dir != "." {
		return root.MkdirAll(dir, 0o755)
	}
	return nil
}

// bounded ends with an error, not with io.EOF, where a reader gives more than the limit.
type bounded struct {
	r     io.Reader
	n     int64
	limit int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.n += int64(n); b.n > b.limit {
		return 0, refusalError("the artifact is above the limit of %d bytes", b.limit)
	}
	return n, err
}
