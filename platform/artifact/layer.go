package artifact

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
)

// A layer is an artifact as clients of registries take it: its tar in gzip (RFC 1952), in one fixed form, so that equal
// content has equal bytes from every replica and every release:
//
//   - the header 1f 8b 08 00 00 00 00 00 00 ff: no name, no time, no extra field, and no word on the system;
//   - the tar in stored blocks of deflate (RFC 1951, 3.2.4), each of 65,535 bytes but the last one, which alone is
//     marked as the last: 01 or 00, the length, its complement, the bytes;
//   - CRC-32 and length of the tar, little-endian.
//
// Nothing is compressed: no compressor promises the same bytes for its next version.
const (
	layerHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
	// layerBlock is the most that a stored block holds, in bytes.
	layerBlock = 1<<16 - 1
	// layerBlockHead comes before each block, and layerEnd after the last one, in bytes.
	layerBlockHead, layerEnd = 5, 8
)

// layerSize is how long the layer of a tar is.
func layerSize(tar int64) int64 {
	blocks := max(1, (tar+layerBlock-1)/layerBlock)
	return int64(len(layerHeader)) + blocks*layerBlockHead + tar + layerEnd
}

// layer reads a tar of a known size as a layer. The end of the layer is given only if the tar's reader says that the
// tar is good.
type layer struct {
	tar   io.Reader
	left  int64  // of the tar, in no block yet
	block int64  // of the block, to be read
	frame []byte // what comes before more of the tar
	sum   hash.Hash32
	size  uint32 // of the tar, modulo 2^32, as gzip has it
	begun bool   // the header is in frame, or was
	last  bool   // the last block has begun
	ended bool   // the end is in frame, or was
	err   error  // sticky
}

func newLayer(tar io.Reader, size int64) *layer {
	return &layer{tar: tar, left: size, sum: crc32.NewIEEE(), size: uint32(size)} // as gzip has it
}

func (l *layer) Read(p []byte) (int, error) {
	if l.err != nil {
		return 0, l.err
	}
	if len(l.frame) == 0 && l.block == 0 {
		if l.frame, l.err = l.nextBytes(); l.err != nil {
			return 0, l.err
		}
	}
	if len(l.frame) > 0 {
		n := copy(p, l.frame)
		l.frame = l.frame[n:]
		return n, nil
	}
	n, err := l.tar.Read(p[:min(int64(len(p)), l.block)])
	l.sum.Write(p[:n])
	l.block -= int64(n)
	switch {
	case errors.Is(err, io.EOF) && l.block+l.left > 0:
		l.err = io.ErrUnexpectedEOF
	case err != nil && !errors.Is(err, io.EOF):
		l.err = err
	}
	return n, l.err
}

// nextBytes is what comes before the next byte of the tar, or after its last one.
func (l *layer) nextBytes() ([]byte, error) {
	switch {
	case !l.begun:
		l.begun = true
		return []byte(layerHeader), nil
	case !l.last:
		l.block = min(l.left, layerBlock)
		l.left -= l.block
		l.last = l.left == 0
		head := make([]byte, layerBlockHead)
		if l.last {
			head[0] = 1
		}
		binary.LittleEndian.PutUint16(head[1:], uint16(l.block)) // at most layerBlock
		binary.LittleEndian.PutUint16(head[3:], ^uint16(l.block))
		return head, nil
	case !l.ended:
		l.ended = true
		if n, err := io.Copy(io.Discard, l.tar); err != nil || n > 0 {
			return nil, errors.Join(err, longerError(n))
		}
		end := binary.LittleEndian.AppendUint32(nil, l.sum.Sum32())
		return binary.LittleEndian.AppendUint32(end, l.size), nil
	}
	return nil, io.EOF
}

func longerError(n int64) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d bytes more than its size", ErrCorrupt, n)
}

// Layer says what the layer of an artifact is.
type Layer struct {
	Digest Digest
	Size   int64
	Base   string // as of the entries
}

// Layer reads the whole artifact, and says what its layer is. Nothing else can be read of the blob afterwards.
func (b *Blob) Layer() (Layer, error) {
	sum, begin := sha256.New(), &beginning{}
	n, err := io.Copy(sum, newLayer(io.TeeReader(b, begin), b.Size()))
	if err != nil {
		return Layer{}, fmt.Errorf("read layer: %w", err)
	}
	return Layer{Digest: SumDigest(sum.Sum(nil)), Size: n, Base: begin.baseFolder()}, nil
}

// beginning keeps the begin of a tar: more than a global header takes whose record is a path.
type beginning struct {
	kept [8 << 10]byte
	n    int
}

func (b *beginning) Write(p []byte) (int, error) {
	b.n += copy(b.kept[b.n:], p)
	return len(p), nil
}

// baseFolder is the folder that the artifact is made for, if there is more in it.
func (b *beginning) baseFolder() string {
	h, err := tar.NewReader(bytes.NewReader(b.kept[:b.n])).Next()
	if err != nil || h.Typeflag != tar.TypeXGlobalHeader {
		return ""
	}
	return h.PAXRecords[baseRecord]
}

// ServeLayer answers GET and HEAD for the layer of a blob, which digest names: the whole, or one range. Who calls it
// has judged that the caller may have it.
func ServeLayer(w http.ResponseWriter, r *http.Request, b *Blob, digest Digest) {
	span, ranged := wantedRange(r, digest)
	if ranged {
		select {
		case b.store.ranges <- struct{}{}:
			defer func() { <-b.store.ranges }()
		default:
			tooManyRanges(w)
			return
		}
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Cache-Control", "private, max-age=31536000, immutable")
	h.Set("Vary", "Authorization")
	h.Set("Accept-Ranges", "bytes")
	h.Set("Etag", digestETag(digest))
	if isFresh(r, digest) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	size := layerSize(b.Size())
	if ranged {
		serveRange(w, r, b, newLayer(b, b.Size()), size, span)
		return
	}
	h.Set("Content-Length", strconv.FormatInt(size, 10))
	sendBody(w, r, newLayer(b, b.Size()))
}
