package artifact

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"fairlead.dev/platform/artifact/internal/patient"
)

// copyBytes is how much of a body is in memory at a time. The last so many are sent only when all is known
// to be good.
const copyBytes = 64 << 10

const (
	// fileBytes is what a caller has to take of a file before its time is out; more, up to maxFileBytes, if it took
	// what was before within quickTime.
	fileBytes    = 128 << 10
	maxFileBytes = 1 << 20
	quickTime    = 10 * time.Millisecond
)

// buffers are those of bodies that are being sent. A caller that takes nothing any more keeps one or two.
//
//nolint:gochecknoglobals // they belong to no store: they hold nothing
var buffers = sync.Pool{New: func() any { return new([copyBytes]byte) }}

// sendStored sends the file as it is: by the kernel, where the connection and what is known of the file
// allow that, else through a buffer and a second look.
func sendStored(w http.ResponseWriter, r *http.Request, b *Blob) {
	if r.Method == http.MethodHead {
		return
	}
	if r.ProtoMajor == 1 && r.TLS == nil && b.isTrusted() {
		sendFile(patient.New(w, r), b)
		return
	}
	to, body := patient.New(w, r), b.compressedReader()
	finishBody(to, body, copyChecked(to, body))
}

func sendBody(w http.ResponseWriter, r *http.Request, body io.Reader) {
	if r.Method == http.MethodHead {
		return
	}
	to := patient.New(w, r)
	finishBody(to, body, copyHeldBack(to, body))
}

func finishBody(to *patient.Writer, body io.Reader, err error) {
	if err != nil {
		// A caller that hangs up may have seen what is bad, before we did: without a look at the rest it
		// would be served again and again, and nobody would ever get it whole.
		_, _ = io.Copy(io.Discard, body) // the reader takes what is bad out of use
		// The status is out. Cutting the connection is what tells the caller.
		panic(http.ErrAbortHandler)
	}
	to.Finish()
}

// sendFile has the kernel copy the file. If somebody touched it meanwhile all of it is looked at before the
// last piece goes out.
func sendFile(to *patient.Writer, b *Blob) {
	to.WriteHeader(http.StatusOK)
	var err error
	piece := int64(fileBytes)
	for left := b.good.stored; left > 0 && err == nil; {
		n := min(left, piece)
		if n == left && !b.isUntouched() {
			_, err = io.Copy(io.Discard, b.compressedReader())
		}
		if err != nil {
			break
		}
		begin := time.Now()
		err = to.TakeFile(b.file, n)
		if left -= n; time.Since(begin) < quickTime {
			piece = min(2*piece, maxFileBytes)
		} else {
			piece = fileBytes
		}
	}
	finishBody(to, b.compressedReader(), err)
}

// copyChecked copies a body whose reader gives its last bytes only if all of them are good.
func copyChecked(w io.Writer, r io.Reader) error {
	buf, _ := buffers.Get().(*[copyBytes]byte)
	defer buffers.Put(buf)
	for {
		n, err := readPiece(r, buf[:])
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if _, werr := w.Write(buf[:n]); werr != nil || err != nil {
			return werr
		}
	}
}

// copyHeldBack copies a body whose reader tells at its end whether it was good: the last piece is
// sent only then, so no caller ever has a complete body of bad bytes.
func copyHeldBack(w io.Writer, r io.Reader) error {
	one, _ := buffers.Get().(*[copyBytes]byte)
	two, _ := buffers.Get().(*[copyBytes]byte)
	defer buffers.Put(one)
	defer buffers.Put(two)
	held, next := one[:0], two[:]
	for {
		n, err := readPiece(r, next)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if _, werr := w.Write(held); werr != nil {
			return werr
		}
		if err != nil {
			_, werr := w.Write(next[:n])
			return werr
		}
		held, next = next[:n], held[:copyBytes]
	}
}

// readPiece fills p, or says why not. Unlike io.ReadFull it gives the reader's own error.
func readPiece(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	return n, err
}
