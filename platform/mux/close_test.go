package mux_test

import (
	"errors"
	"io"
	"testing"

	"fairlead.dev/platform/mux"
)

// A transport may still read a request's body when its handler has returned and closed the stream: what
// was not read must not look like the whole.
func TestReadAfterCloseIsNotTheEnd(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	_, agent := p.open(t, mux.Part{Data: []byte("first, and the rest"), End: true})
	buf := make([]byte, 5)
	if _, err := io.ReadFull(agent, buf); err != nil {
		t.Fatal(err)
	}
	agent.Close()
	if n, err := agent.Read(buf); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("read after Close: %d, %v", n, err)
	}
}
