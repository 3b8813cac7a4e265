package coordination

import (
	"bytes"
	"context"
	"sync"
)

// subscriptionBuffer is how many messages wait for a slow subscriber before it loses the next:
// enough for a burst of nudges, each of which only says "look again".
const subscriptionBuffer = 64

// fanout hands messages to the subscribers within this process.
type fanout struct {
	mu     sync.Mutex // guards what follows, and sends against closes
	topics map[string]map[*subscriber]struct{}
	closed bool
}

type subscriber struct {
	messages chan []byte
	stop     func() bool // forgets about the end of the subscriber's context
}

// subscribe returns a channel of the topic's messages. When ctx ends, the channel is closed and
// left is called.
func (f *fanout) subscribe(ctx context.Context, topic string, left func()) (<-chan []byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, ErrClosed
	}
	if f.topics == nil {
		f.topics = make(map[string]map[*subscriber]struct{})
	}
	if f.topics[topic] == nil {
		f.topics[topic] = make(map[*subscriber]struct{})
	}
	s := &subscriber{messages: make(chan []byte, subscriptionBuffer)}
	f.topics[topic][s] = struct{}{}
	s.stop = context.AfterFunc(ctx, func() {
		if f.remove(topic, s) {
			left()
		}
	})
	return s.messages, nil
}

func (f *fanout) remove(topic string, s *subscriber) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.topics[topic][s]; !ok {
		return false // closed
	}
	delete(f.topics[topic], s)
	if len(f.topics[topic]) == 0 {
		delete(f.topics, topic)
	}
	close(s.messages)
	return true
}

// deliver never waits: a subscriber without room loses the message.
func (f *fanout) deliver(topic string, payload []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.topics[topic] {
		select {
		case s.messages <- bytes.Clone(payload):
		default:
		}
	}
}

func (f *fanout) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, subscribers := range f.topics {
		for s := range subscribers {
			s.stop()
			close(s.messages)
		}
	}
	f.topics = nil
}
