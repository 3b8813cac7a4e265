package mux

import "time"

// Bounds of what a peer may send in one piece. Part of the protocol.
const (
	// MaxBatch bounds one carrier message: a full quantum round plus the largest header frame.
	MaxBatch = 512 << 10
	// MaxHead bounds an OPEN, HEADERS or TRAILERS payload: room for a kubectl request with a
	// thousand groups, small enough to buffer without credit.
	MaxHead = 128 << 10
	// MaxData bounds a DATA payload.
	MaxData = 64 << 10
	// MaxText bounds the words in RESET and GOAWAY.
	MaxText = 256
	// maxHello bounds a HELLO payload.
	maxHello = 8 << 10
	// maxProperties bounds the properties of a HELLO.
	maxProperties = 32
)

// Bounds of what a session holds. The worst case is
// maxStreams*(initialWindow+sendBuffer) + growthBudget + headBudget, about 210 MiB; what a
// session of idle or ordinary streams holds is a few KiB.
const (
	// maxStreams is how many streams a peer may have open at once.
	maxStreams = 1024
	// acceptSlack: both sides count a stream's end at different moments, so the acceptor
	// refuses only beyond twice what it offered.
	acceptSlack = 2
	// initialWindow is the credit a stream starts with: a common answer fits, and a stalled
	// reader that never read holds no more.
	initialWindow = 64 << 10
	// maxWindow is what a window may grow to: 80 MB/s over a round trip of 100 ms, as half of it is on the way back.
	maxWindow = 16 << 20
	// nearWindow is what it may grow to over round trips shorter than nearTrip. More would not be faster, and is what a
	// reader that stalls in the middle holds.
	nearWindow = 1 << 20
	nearTrip   = 5 * time.Millisecond
	// growthBudget is what all windows of a session may grow by together.
	growthBudget = 64 << 20
	// headBudget is what the unread and read heads of open streams may take; they come without credit.
	headBudget = 16 << 20
	// maxStreamHead is the part of it that one stream may take.
	maxStreamHead = 2 * MaxHead
	// sendBuffer is what a stream holds back for the writer.
	sendBuffer = 64 << 10
	// maxControl is what may wait in control frames: a peer that asks for more without reading is flooding.
	maxControl = 128 << 10
	// maxCredit is the most a sender may be granted.
	maxCredit = 1<<31 - 1
)

// Scheduling.
const (
	// quantum is what a stream sends before the next one's turn.
	quantum = 16 << 10
	// batchTarget ends a batch: with more, a control frame would wait too long on a slow line
	// (64 KiB in 10 s still keeps a 52 kbit/s line alive). Where the line takes batches at once they get
	// longer, up to batchMost.
	batchTarget = 64 << 10
	batchMost   = 192 << 10
	// noteSize is room for some control frames.
	noteSize = 512
	// fastSend and slowSend are the times of sending a batch below and above which the next ones are longer or shorter.
	fastSend, slowSend = time.Millisecond, 5 * time.Millisecond
	// growthFloor stands in for shorter round trips when windows grow, so that a fast local
	// stream needs few WINDOW frames.
	growthFloor = 2 * time.Millisecond
)

// Time.
const (
	// Heartbeat is the time between PINGs. A session that heard nothing for two of them is dead, which
	// shows at the third at the latest: within 15 s.
	Heartbeat = 5 * time.Second
	// tripEvery is how many heartbeats apart the opener measures the round trip; the acceptor does with each.
	tripEvery = 6
	// handshakeTimeout bounds the wait for the peer's HELLO.
	handshakeTimeout = 10 * time.Second
	// closeGrace is how long a closing session tries to send its GOAWAY.
	closeGrace = time.Second
)
