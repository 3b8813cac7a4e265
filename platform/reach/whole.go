package reach

import (
	"encoding/binary"
	"io"
	"net/http"
)

// envelopeSize is what Connect puts before each message: flags, and the length in 4 bytes.
const envelopeSize = 5

// wholeMessages makes each message of a Connect stream one read of the request's body. Connect writes the envelope and
// the message apart, and HTTP/2 would make a frame and a packet of each.
type wholeMessages struct{ http.RoundTripper }

func (t wholeMessages) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil && req.Body != http.NoBody {
		req = req.WithContext(req.Context())
		req.Body = &wholeBody{ReadCloser: req.Body}
	}
	return t.RoundTripper.RoundTrip(req)
}

// CloseIdleConnections hands http.Client's wish on.
func (t wholeMessages) CloseIdleConnections() {
	if c, ok := t.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

type wholeBody struct {
	io.ReadCloser
	left  int  // of the message that has begun
	apart bool // somebody reads less than an envelope at once: bytes pass as they come
}

func (b *wholeBody) Read(p []byte) (int, error) {
	if b.apart = b.apart || b.left == 0 && len(p) < envelopeSize; b.apart {
		return b.ReadCloser.Read(p)
	}
	if b.left > 0 {
		n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
		b.left -= n
		return n, err
	}
	n, err := io.ReadFull(b.ReadCloser, p[:envelopeSize])
	if err != nil {
		if err == io.ErrUnexpectedEOF {
			err = io.EOF // what there was is sent, as without this
		}
		return n, err
	}
	b.left = int(binary.BigEndian.Uint32(p[1:envelopeSize]))
	n, err = io.ReadFull(b.ReadCloser, p[envelopeSize:min(len(p), envelopeSize+b.left)])
	b.left -= n
	return envelopeSize + n, err
}
