package oci

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"

	"fairlead.dev/services/gitcache/internal/archive"
)

const (
	maxFileBytes     = 32 << 20
	maxUnpackedBytes = 256 << 20
	maxFiles         = 20_000
	// author of the commits: an artifact tells neither its author nor a time that lasts.
	author = "OCI artifact"
)

// Unpacking makes a commit of layers. Close it, or make the commit.
type Unpacking struct{ b *archive.Builder }

// Unpack begins with no files. dir is for a temporary file.
func Unpack(dir string) (*Unpacking, error) {
	b, err := archive.New(dir, archive.Limits{FileBytes: maxFileBytes, Bytes: maxUnpackedBytes, Files: maxFiles})
	if err != nil {
		return nil, err
	}
	return &Unpacking{b}, nil
}

// Close ends what no commit is made of.
func (u *Unpacking) Close() { u.b.Close() }

// Commit ends the unpacking. The same files under the same subject are the same commit.
func (u *Unpacking) Commit(subject string) (*archive.Objects, error) {
	return u.b.Commit(author, subject)
}

// Add reads a layer to its end. Its bytes say what it is, not its type: a tar archive, compressed or not, or a file
// with the layer's name.
func (u *Unpacking) Add(ctx context.Context, body io.Reader, l Layer) error {
	br := bufio.NewReaderSize(body, 64<<10)
	compressed := begins(br, []byte("\x1f\x8b"))
	content := br
	if compressed {
		gz, err := gzip.NewReader(br)
		if errors.Is(err, gzip.ErrHeader) {
			return errors.New("it begins as gzip, and is not")
		}
		if err != nil {
			return err
		}
		content = bufio.NewReaderSize(gz, 64<<10)
	}
	block, err := content.Peek(tarBlock)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return fmt.Errorf("it can't be read: %w", err)
	case isTar(block):
		if err := u.b.AddTar(ctx, content, archive.Place); err != nil {
			return err
		}
		// The rest of the archive is padding; that of a bomb is not read.
	case compressed:
		return errors.New("it is compressed with gzip, and no tar archive")
	case l.Title == "":
		return errors.New("it is no tar archive, and has no name to be a file under")
	default:
		name, err := archive.Place(l.Title)
		if err != nil {
			return fmt.Errorf("its name %q %w", archive.Shorten(l.Title), err)
		}
		if err := u.b.AddFile(name, l.Size, content); err != nil {
			return err
		}
	}
	_, err = io.Copy(io.Discard, br) // the digest covers these bytes, too
	return err
}

func begins(br *bufio.Reader, with []byte) bool {
	b, _ := br.Peek(len(with))
	return bytes.Equal(b, with)
}

// tarBlock is the size of a header.
const tarBlock = 512

// isTar looks at what may be the first header.
func isTar(block []byte) bool {
	if len(block) < tarBlock {
		return false
	}
	_, err := tar.NewReader(bytes.NewReader(append(bytes.Clone(block), make([]byte, 2*tarBlock)...))).Next()
	return err == nil || errors.Is(err, io.EOF) && len(bytes.Trim(block, "\x00")) == 0 ||
		errors.Is(err, io.ErrUnexpectedEOF) || bytes.Equal(block[257:262], []byte("ustar"))
}
