package artifact

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
)

const (
	fileMode       = 0o644
	executableMode = 0o755
	linkMode       = 0o777
	// baseRecord is the record of a global header that names the folder an artifact is made for.
	baseRecord = "FAIRLEAD.base"
)

// Summary is what a finished artifact is.
type Summary struct {
	Digest Digest
	Size   int64 // of the uncompressed tar
	Files  int   // files and symlinks
}

// Writer packs a canonical tar. Entries come in ascending byte order of their paths. After an error
// the writer gives that error again and what was written is worthless.
type Writer struct {
	tree *tree
	tar  *tar.Writer
	out  *meter
	err  error
}

// NewWriter begins an artifact on w. The limits are enforced as it grows.
func NewWriter(w io.Writer, l Limits) *Writer {
	out := &meter{w: w, sum: sha256.New(), limit: l.withDefaults().Bytes}
	return &Writer{tree: newTree(l), tar: tar.NewWriter(out), out: out}
}

// Base says, before the first entry, which folder of the artifact it is made for.
func (w *Writer) Base(path string) error {
	if w.err != nil {
		return w.err
	}
	err := w.tree.setBase(path)
	if err == nil {
		err = w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{baseRecord: path}})
	}
	if err != nil {
		w.err = fmt.Errorf("pack folder %q: %w", path, err)
	}
	return w.err
}

// File adds a file with exactly size bytes of content.
func (w *Writer) File(path string, executable bool, size int64, content io.Reader) error {
	e := Entry{Path: path, Executable: executable, Size: size}
	return w.addEntry(e, func() error {
		n, err := io.Copy(w.tar, io.LimitReader(content, size))
		if err == nil && n < size {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
}

// Symlink adds a link, wherever it leads.
func (w *Writer) Symlink(path, target string) error {
	if target == "" {
		return refusalError("link %q has no target", path)
	}
	return w.addEntry(Entry{Path: path, Link: target}, func() error { return nil })
}

func (w *Writer) addEntry(e Entry, content func() error) error {
	if w.err != nil {
		return w.err
	}
	err := w.tree.addEntry(e)
	if err == nil {
		err = w.tar.WriteHeader(headerOf(e))
	}
	if err == nil {
		err = content()
	}
	if err != nil {
		w.err = fmt.Errorf("pack %q: %w", e.Path, err)
	}
	return w.err
}

// Close ends the artifact and says what it is. Close does not close the underlying writer.
func (w *Writer) Close() (Summary, error) {
	if w.err != nil {
		return Summary{}, w.err
	}
	if err := w.tar.Close(); err != nil {
		w.err = fmt.Errorf("end tar: %w", err)
		return Summary{}, w.err
	}
	w.err = errors.New("artifact is closed")
	return Summary{Digest: SumDigest(w.out.sum.Sum(nil)), Size: w.out.n, Files: w.tree.files}, nil
}

func headerOf(e Entry) *tar.Header {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: e.Path, Size: e.Size, Mode: fileMode}
	switch {
	case e.Link != "":
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.Link, linkMode
	case e.Executable:
		h.Mode = executableMode
	}
	return h
}

// meter counts, hashes and bounds what passes through.
type meter struct {
	w     io.Writer
	sum   hash.Hash
	n     int64
	limit int64
}

func (m *meter) Write(p []byte) (int, error) {
	if m.n+int64(len(p)) > m.limit {
		return 0, refusalError("the artifact is above the limit of %d bytes", m.limit)
	}
	n, err := m.w.Write(p)
	m.sum.Write(p[:n])
	m.n += int64(n)
	return n, err
}
