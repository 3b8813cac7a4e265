package mux_test

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

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

// refused is the carrier of a peer that wants no session: whoever sends learns that it ended, and whoever
// receives why, a moment later.
type refused struct{ reason error }

func (refused) Send([]byte) error { return io.EOF }
func (refused) Close() error      { return nil }
func (r refused) Receive() ([]byte, error) {
	<-time.After(100 * time.Millisecond)
	return nil, r.reason
}

func TestWhyThePeerEndedTheCarrierIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reason := errors.New("no such cluster")
		s, err := mux.NewAcceptor(refused{reason}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(t.Context()); !errors.Is(err, reason) {
			t.Errorf("the session ended with %v", err)
		}
	})
}
