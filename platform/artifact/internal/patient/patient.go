// Package patient sends responses to callers that may be slow, and not for ever.
package patient

import (
	"io"
	"net/http"
	"os"
	"time"
)

const (
	// stallTime is how long a caller may take to take some bytes in. A caller that takes none any more would hold a
	// file and memory for ever.
	stallTime = time.Minute
	// renewTime is how often the deadline is moved: each time costs.
	renewTime = time.Second
)

// Writer is a response that does not wait for ever for its caller: a minute for some bytes. A Writer ends with its
// request, too: the code that ended the request may have set a deadline of its own, which must not be moved.
type Writer struct {
	http.ResponseWriter
	request *http.Request
	control *http.ResponseController
	renewed time.Time
}

// New returns a Writer of the response to a request.
func New(w http.ResponseWriter, r *http.Request) *Writer {
	return &Writer{ResponseWriter: w, request: r, control: http.NewResponseController(w)}
}

func (w *Writer) Write(b []byte) (int, error) {
	if err := w.allowTime(); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(b)
}

// TakeFile copies the next n bytes of a file, without the detour by our memory if the connection is one
// that the kernel can write files to.
func (w *Writer) TakeFile(f *os.File, n int64) error {
	if err := w.allowTime(); err != nil {
		return err
	}
	_, err := io.CopyN(w.ResponseWriter, f, n)
	return err
}

// allowTime gives the caller its time for what comes.
func (w *Writer) allowTime() error {
	if err := w.request.Context().Err(); err != nil {
		return err
	}
	if now := time.Now(); now.Sub(w.renewed) > renewTime {
		_ = w.control.SetWriteDeadline(now.Add(stallTime)) // where there is none the transport's own limits have to do
		w.renewed = now
	}
	return nil
}

// Finish hands out what is left, and lifts the deadline for the connection's next request.
func (w *Writer) Finish() {
	_ = w.control.Flush()
	_ = w.control.SetWriteDeadline(time.Time{})
}
