package artifact

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
	// fileBytes is what a caller has to take of a file within stallTime; more, up to maxFileBytes, if it took
	// what was before within quickTime.
	fileBytes    = 128 << 10
	maxFileBytes = 1 << 20
	quickTime    = 10 * time.Millisecond
)

// patient is a response that does not wait for ever for its caller. A patient ends with its request, too: the code that
// ended the request may have set a deadline of its own, which must not be moved.
type patient struct {
	http.ResponseWriter
	request *http.Request
	control *http.ResponseController
	renewed time.Time
}

func newPatient(w http.ResponseWriter, r *http.Request) *patient {
	return &patient{ResponseWriter: w, request: r, control: http.NewResponseController(w)}
}

func (p *patient) Write(b []byte) (int, error) {
	if err := p.allowTime(); err != nil {
		return 0, err
	}
	return p.ResponseWriter.Write(b)
}

// takeFile copies the next n bytes of a file, without the detour by our memory if the connection is one
// that the kernel can write files to.
func (p *patient) takeFile(f *os.File, n int64) error {
	if err := p.allowTime(); err != nil {
		return err
	}
	_, err := io.CopyN(p.ResponseWriter, f, n)
	return err
}

// allowTime gives the caller its time for what comes.
func (p *patient) allowTime() error {
	if err := p.request.Context().Err(); err != nil {
		return err
	}
	if now := time.Now(); now.Sub(p.renewed) > renewTime {
		_ = p.control.SetWriteDeadline(now.Add(stallTime)) // where there is none the transport's own limits have to do
		p.renewed = now
	}
	return nil
}

// finishWaiting hands out what is left, and lifts the deadline for the connection's next request.
func (p *patient) finishWaiting() {
	_ = p.control.Flush()
	_ = p.control.SetWriteDeadline(time.Time{})
}
