package artifact

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// byteRange is one range of a Range header: from first, or the last suffix bytes.
type byteRange struct {
	first, last int64 // last < 0: to the end
	suffix      int64 // > 0: so many from the end
}

// wantedRange reads the request's range. A malformed range, or more than one, is ignored, as HTTP allows; so is a range
// that goes with another content.
func wantedRange(r *http.Request, d Digest) (byteRange, bool) {
	if r.Method != http.MethodGet {
		return byteRange{}, false
	}
	if cond := r.Header.Get("If-Range"); cond != "" && cond != digestETag(d) {
		return byteRange{}, false
	}
	return parseRange(r.Header.Get("Range"))
}

func parseRange(s string) (byteRange, bool) {
	spec, ok := strings.CutPrefix(s, "bytes=")
	if !ok || strings.Contains(spec, ",") {
		return byteRange{}, false
	}
	from, to, ok := strings.Cut(strings.TrimSpace(spec), "-")
	if !ok {
		return byteRange{}, false
	}
	if from == "" {
		n, err := parsePosition(to)
		return byteRange{suffix: n}, err == nil && n > 0
	}
	first, err := parsePosition(from)
	if err != nil {
		return byteRange{}, false
	}
	if to == "" {
		return byteRange{first: first, last: -1}, true
	}
	last, err := parsePosition(to)
	return byteRange{first: first, last: last}, err == nil && last >= first
}

var errPosition = errors.New("not a position")

func parsePosition(s string) (int64, error) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, errPosition
	}
	return strconv.ParseInt(s, 10, 64)
}

// resolveIn gives offset and length of the range in size bytes.
func (b byteRange) resolveIn(size int64) (offset, length int64, ok bool) {
	if b.suffix > 0 {
		n := min(b.suffix, size)
		return size - n, n, n > 0
	}
	last := size - 1
	if b.last >= 0 {
		last = min(b.last, last)
	}
	return b.first, last - b.first + 1, b.first <= last
}

// serveRange sends a part of what whole gives, which is size bytes: the tar of b, or its layer. serveRange reads up to
// the end where the artifact was not found good within trustTime: only there does it show whether the bytes are good.
func serveRange(w http.ResponseWriter, r *http.Request, b *Blob, whole io.Reader, size int64, span byteRange) {
	offset, length, ok := span.resolveIn(size)
	if !ok {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", size))
		w.Header().Del("Content-Encoding")
		http.Error(w, "range is outside of the artifact", http.StatusRequestedRangeNotSatisfiable)
		return
	}
	if _, err := io.CopyN(io.Discard, whole, offset); err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", offset, offset+length-1, size))
	w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
	w.WriteHeader(http.StatusPartialContent)
	sendBody(w, r, &window{b: b, whole: whole, left: length})
}

// window gives left bytes of what whole gives of a blob. Unless the blob is known to be good, window then reads to the
// end, so that its verdict is heard.
type window struct {
	b     *Blob
	whole io.Reader
	left  int64
}

func (v *window) Read(p []byte) (int, error) {
	if v.left == 0 {
		if v.b.isTrusted() && v.b.isUntouched() {
			return 0, io.EOF
		}
		if _, err := io.Copy(io.Discard, v.whole); err != nil {
			return 0, err
		}
		v.b.store.confirmRead(v.b)
		return 0, io.EOF
	}
	n, err := v.whole.Read(p[:min(int64(len(p)), v.left)])
	v.left -= int64(n)
	if errors.Is(err, io.EOF) && v.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
