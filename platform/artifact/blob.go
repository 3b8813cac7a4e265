package artifact

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
)

const (
	// zstdWindow is what we compress with.
	zstdWindow = 4 << 20
	// maxZstdWindow is what we are ready to hold for somebody else's stream.
	maxZstdWindow = 8 << 20
)

// Blob is an open artifact: a reader of its uncompressed tar that gives ErrCorrupt in place of io.EOF
// if the bytes went bad. A blob stays readable when the store evicts the artifact. For one goroutine.
type Blob struct {
	digest Digest
	store  *Store
	stored io.ReaderAt // compressed
	file   *os.File    // the file behind stored; nil: memory
	good   check
	opened time.Time    // when somebody had touched the file last, as of Open
	plain  *plainReader // nil until the first Read
}

// Digest names the artifact.
func (b *Blob) Digest() Digest { return b.digest }

// Size is that of the uncompressed tar.
func (b *Blob) Size() int64 { return b.good.size }

func (b *Blob) Read(p []byte) (int, error) {
	if b.plain == nil {
		// Read by offset: several readers may share the file.
		r, err := newPlainReader(io.NewSectionReader(b.stored, 0, b.good.stored), b.digest, Limits{Bytes: b.good.size})
		if err != nil {
			return 0, err
		}
		b.plain = r
	}
	n, err := b.plain.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.noteSpoilt(err)
	}
	return n, err
}

// Close releases the file.
func (b *Blob) Close() error {
	if b.plain != nil {
		b.plain.close()
	}
	if b.file == nil {
		return nil
	}
	return b.file.Close()
}

// noteSpoilt takes an artifact that went bad out of use.
func (b *Blob) noteSpoilt(cause error) {
	if b.file == nil {
		b.store.spare.dropCopy(b.digest)
		return
	}
	b.store.moveAside(b.digest, b.file, cause)
}

// plainReader decompresses zstd and verifies.
type plainReader struct {
	*verifier
	dec *zstd.Decoder
}

func newPlainReader(r io.Reader, d Digest, l Limits) (*plainReader, error) {
	dec, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxZstdWindow))
	if err != nil {
		return nil, fmt.Errorf("read artifact: %w", err)
	}
	return &plainReader{verifier: newVerifier(dec, d, l), dec: dec}, nil
}

func (p *plainReader) close() { p.dec.Close() }

// verifier passes uncompressed bytes on and gives io.EOF only if all of them hash to the digest.
type verifier struct {
	r    io.Reader
	want Digest
	sum  hash.Hash
	n    int64
	err  error // sticky
}

func newVerifier(r io.Reader, want Digest, l Limits) *verifier {
	return &verifier{r: &bounded{r: r, limit: l.withDefaults().Bytes}, want: want, sum: sha256.New()}
}

func (v *verifier) Read(p []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	n, err := v.r.Read(p)
	v.sum.Write(p[:n])
	v.n += int64(n)
	switch {
	case errors.Is(err, io.EOF):
		v.err = io.EOF
		if got := SumDigest(v.sum.Sum(nil)); got != v.want {
			v.err = fmt.Errorf("%w: want %s, got %s", ErrCorrupt, v.want, got)
		}
	case err != nil:
		v.err = fmt.Errorf("read artifact: %w", err)
	}
	return n, v.err
}

// hashFile reads a stored artifact once and says whether it is what its name says.
func hashFile(f *os.File, info fs.FileInfo, d Digest, l Limits) (*check, error) {
	sum := xxhash.New()
	r, err := newPlainReader(io.TeeReader(io.NewSectionReader(f, 0, info.Size()), sum), d, l)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if _, err := io.Copy(io.Discard, r); err != nil {
		return nil, err
	}
	return &check{size: r.n, stored: info.Size(), sum: sum.Sum64(), modTime: info.ModTime()}, nil
}
