package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/platform/dialpolicy"
	"fairlead.dev/platform/shares"
)

const (
	// openBodyBytes bounds the body of a request that needs no identity: an ID token with the groups of a large
	// company.
	openBodyBytes = 16 << 10
	// openBodyTime bounds how long such a body may take.
	openBodyTime = 10 * time.Second
	// openBodiesPerNetwork and openBodies bound how many such bodies are waited for. A body that arrives with its head
	// waits for nothing, so the one that has waited longest makes room for a new one.
	openBodiesPerNetwork = 32
	openBodies           = 256
)

// bodies are the bodies of requests without an identity. A body is read whole before a handler sees the request, so
// that a stranger holds no more than openBodies times openBodyBytes, whatever the handlers do.
type bodies struct {
	patience time.Duration
	waiting  *shares.Room // for those that have not arrived whole
}

func newBodies() *bodies {
	return &bodies{patience: openBodyTime, waiting: shares.NewRoom(openBodiesPerNetwork, openBodies)}
}

// refusedBody says why a request without an identity is refused.
type refusedBody struct {
	status int
	code   connect.Code
	text   string
}

func bodyTooLarge() *refusedBody {
	return &refusedBody{
		http.StatusRequestEntityTooLarge, connect.CodeResourceExhausted,
		fmt.Sprintf("the request is too large: without an identity at most %d KiB are taken", openBodyBytes>>10),
	}
}

func bodyTooSlow() *refusedBody {
	return &refusedBody{
		http.StatusRequestTimeout, connect.CodeDeadlineExceeded,
		"the request took too long to arrive, or too many others were begun from the same address: send it at once",
	}
}

// read replaces the request's body by one that has arrived whole.
func (b *bodies) read(w http.ResponseWriter, r *http.Request) *refusedBody {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if r.ContentLength > openBodyBytes {
		return bodyTooLarge()
	}
	timed := boundBodyTime(w, r, b.patience)
	defer timed.stop()
	p := b.waiting.Enter(dialpolicy.Network(r.RemoteAddr), timed.end)
	whole, err := io.ReadAll(http.MaxBytesReader(w, r.Body, openBodyBytes))
	b.waiting.Leave(p)
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return bodyTooLarge()
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return bodyTooSlow()
		}
		return &refusedBody{http.StatusBadRequest, connect.CodeInvalidArgument, "the request was cut off"}
	}
	r.Body = io.NopCloser(bytes.NewReader(whole))
	return nil
}

// handler reads bodies for a plain handler that needs no identity.
func (b *bodies) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refused := b.read(w, r); refused != nil {
			http.Error(w, refused.text, refused.status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// admit reads the body of a call that needs no identity, or says why the call is refused.
func (b *bodies) admit(w http.ResponseWriter, r *http.Request) error {
	if isCompressed(r) {
		return connect.NewError(connect.CodeInvalidArgument, errors.New("what needs no identity takes no compressed messages: send the message uncompressed"))
	}
	if refused := b.read(w, r); refused != nil {
		return connect.NewError(refused.code, errors.New(refused.text))
	}
	return nil
}

// isCompressed holds for a message that is compressed in any of the protocols' ways.
func isCompressed(r *http.Request) bool {
	for _, name := range []string{"Content-Encoding", "Connect-Content-Encoding", "Grpc-Encoding"} {
		for _, value := range r.Header.Values(name) {
			if value != "" && value != "identity" {
				return true
			}
		}
	}
	compression := r.URL.Query().Get("compression") // of a call by GET
	return compression != "" && compression != "identity"
}
