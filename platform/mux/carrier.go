package mux

// Carrier moves batches of frames, in order, whole, between the two sides of a session: a Connect
// stream, a WebSocket. One goroutine sends while another receives.
type Carrier interface {
	// Send passes a batch on. Send may block while the line is busy. Send does not keep the batch. io.EOF: the peer
	// ended the carrier, and Receive says why.
	Send(batch []byte) error
	// Receive returns the next batch, which is the caller's. io.EOF: the peer ended the carrier.
	Receive() ([]byte, error)
	// Close ends the carrier and unblocks Send and Receive promptly. Close is called once.
	Close() error
}
