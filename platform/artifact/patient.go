package artifact

import (
	"net/http"
	"time"
)

const (
	// stallTime is how long a caller may take to take some bytes in. One that takes none any more would
	// hold a file and memory for ever.
	stallTime = time.Minute
	// renewTime is how often the deadline is moved: each time costs.
	renewTime = time.Second
)

// patient is a response that does not wait for ever for its caller. It ends with its request, too: who
// ended that may have set a deadline of its own, which must not be moved.
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
	if err := p.request.Context().Err(); err != nil {
		return 0, err
	}
	if now := time.Now(); now.Sub(p.renewed) > renewTime {
		_ = p.control.SetWriteDeadline(now.Add(stallTime)) // where there is none the transport's own limits have to do
		p.renewed = now
	}
	return p.ResponseWriter.Write(b)
}

// done hands out what is left, and lifts the deadline for the connection's next request.
func (p *patient) done() {
	_ = p.control.Flush()
	_ = p.control.SetWriteDeadline(time.Time{})
}
