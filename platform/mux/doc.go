// Package mux carries many streams over one message carrier.
//
// One side of a [Session] opens streams (the hub), the other accepts them (the agent). A stream
// carries an OPEN payload, HEADERS both ways, flow-controlled DATA both ways, and ends each
// direction with HALF_CLOSE or TRAILERS, or both at once with RESET. The wire is described in
// docs/tunnel-protocol.md, the state machine in spec.md beside this file.
//
// Invariants:
//   - The session reader never blocks on a consumer: what arrives is within credit and is
//     buffered, or it ends the session. One stalled stream does not slow another.
//   - One goroutine writes: control frames first, then streams in turn, a quantum each.
//   - Memory per session is bounded, see the limits in limits.go.
//   - A stream that did not end cleanly reads as an error, never as io.EOF.
//
// Ownership: Session.Run owns the reader, the writer and the heartbeat, and waits for them. The code that opened or
// accepted a Stream owns it and must Close it.
package mux
