package mux_test

import (
	"bytes"
	"testing"

	"fairlead.dev/platform/mux"
)

// FuzzDecodeFrame holds that a frame which decodes is encoded the same way again, and that
// nothing panics or reads beyond the batch.
func FuzzDecodeFrame(f *testing.F) {
	f.Add(hello(1, 1))
	f.Add(mux.AppendFrame(nil, mux.TypeData, 1, []byte("data")))
	f.Add(mux.AppendFrame(nil, mux.TypeReset, 9, []byte{0, 1, 'x'}))
	f.Add(mux.AppendFrame(nil, mux.TypeGoAway, 0, []byte{0, 0, 0, 1, 0, 0}))
	f.Add(mux.AppendFrame(nil, mux.TypeWindow, 1, []byte{0, 0, 0, 1}))
	f.Add([]byte{4, 255, 255, 255, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, batch []byte) {
		frame, rest, err := mux.DecodeFrame(batch)
		if err != nil {
			return
		}
		again := mux.AppendFrame(nil, frame.Type, frame.Stream, frame.Payload)
		if !bytes.Equal(append(again, rest...), batch) {
			t.Errorf("%x decodes to %+v and %x", batch, frame, rest)
		}
	})
}

// FuzzDecodeHello holds the same for the HELLO's payload, but for the order of properties.
func FuzzDecodeHello(f *testing.F) {
	f.Add(mux.Hello{
		MinVersion: 1, MaxVersion: 2, Window: 3, MaxStreams: 4,
		Properties: map[string]string{"a": "b", "c": ""},
	}.Append(nil))
	f.Fuzz(func(t *testing.T, p []byte) {
		h, err := mux.DecodeHello(p)
		if err != nil {
			return
		}
		h2, err := mux.DecodeHello(h.Append(nil))
		if err != nil || len(h2.Properties) != len(h.Properties) || h2.Window != h.Window {
			t.Errorf("%x: %+v, then %+v, %v", p, h, h2, err)
		}
	})
}

// FuzzSession feeds a session whatever a peer may send after a proper HELLO.
func FuzzSession(f *testing.F) {
	open := mux.AppendFrame(nil, mux.TypeOpen, 1, []byte("o"))
	f.Add(append(open, mux.AppendFrame(nil, mux.TypeData, 1, []byte("data"))...), true)
	f.Add(mux.AppendFrame(open, mux.TypeTrailers, 1, []byte("t")), false)
	f.Fuzz(func(t *testing.T, batch []byte, opener bool) {
		side := mux.NewAcceptor
		if opener {
			side = mux.NewOpener
		}
		bye := mux.AppendFrame(nil, mux.TypeHello, 0, nil) // ends every session
		if _, err := script(t, side, hello(1, 1), batch, bye); err == nil {
			t.Error("session ended without a reason")
		}
	})
}
