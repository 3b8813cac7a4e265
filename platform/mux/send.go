package mux

import (
	"fmt"
	"runtime"
	"time"
)

// One goroutine sends at a time, whoever has something to send when nobody does: a stream's writer takes the
// batch to the line itself, which is a hop less than by a goroutine that waits for it, and an idle session has none.

// kickSender has what waits sent by a goroutine made for it. Callers hold mu; the reader may.
func (s *Session) kickSender() {
	if s.sending || !s.live || !s.hasPending() {
		return
	}
	s.sending = true
	go s.sendAll() // Run waits for it
}

// unlockAndSend unlocks mu and sends a batch from here. The rest is left to a goroutine, so that no caller is held up
// by the data of others.
func (s *Session) unlockAndSend() {
	if s.sending || !s.live || !s.hasPending() {
		s.mu.Unlock()
		return
	}
	s.sending = true
	s.mu.Unlock()
	if s.sendOne() {
		go s.sendAll() // Run waits for it
	}
}

func (s *Session) sendAll() {
	for s.sendOne() {
	}
}

// sendOne sends a batch and says whether the caller has to go on. Only who has set sending calls it.
func (s *Session) sendOne() (more bool) {
	// Others that are about to send may get their frames into this batch.
	runtime.Gosched()
	s.mu.Lock()
	buf := s.shared.newBatch(!s.interactive.isWaiting() && !s.bulk.isWaiting())
	if s.hasPending() {
		*buf = s.takeBatch(*buf)
	}
	s.mu.Unlock()
	var err error
	began := time.Now()
	if len(*buf) > 0 {
		err = s.carrier.Send(*buf)
	}
	took, long := time.Since(began), len(*buf) >= batchTarget
	s.shared.putBatch(buf)
	if err != nil {
		s.sendFailed(fmt.Errorf("send to peer: %w", err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case took > slowSend:
		s.target = batchTarget
	case long && took < fastSend:
		s.target = min(2*s.target, batchMost)
	}
	if err == nil && s.hasPending() {
		return true
	}
	s.broken, s.sending = err != nil, false
	s.sent.Broadcast()
	return false
}
