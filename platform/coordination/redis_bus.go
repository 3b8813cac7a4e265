package coordination

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"fairlead.dev/platform/retry"
)

const (
	// busHeartbeat is how long the connection may be silent before it is asked; twice that without
	// an answer, and it is given up as half open.
	busHeartbeat = 3 * time.Second
	// busMinBackoff and busMaxBackoff bound the pause between two attempts to connect.
	busMinBackoff, busMaxBackoff = 100 * time.Millisecond, 3 * time.Second
)

// redisBus receives all topics of this process over one connection. One goroutine, started by the
// first subscription and ended by close, owns the connection.
type redisBus struct {
	clients *redisClients
	prefix  string
	local   fanout

	ctx     context.Context
	cancel  context.CancelFunc
	changed chan struct{}  // the topics changed
	running sync.WaitGroup // the owner of the connection

	mu      sync.Mutex // guards what follows
	started bool
	closed  bool
	topics  map[string]*busTopic
	lastErr error // why there is no connection now
}

type busTopic struct {
	subscribers int
	confirmed   bool
	ready       chan struct{} // closed with the first confirmation
}

func newRedisBus(clients *redisClients) *redisBus {
	ctx, cancel := context.WithCancel(context.Background())
	return &redisBus{
		clients: clients,
		// Unlike keys, channels know no databases.
		prefix:  "fairlead:" + strconv.Itoa(clients.db) + ":",
		ctx:     ctx,
		cancel:  cancel,
		changed: make(chan struct{}, 1),
		topics:  make(map[string]*busTopic),
	}
}

func (b *redisBus) channel(topic string) string { return b.prefix + topic }

// subscribe waits a moment until Redis has confirmed, so that what is published next arrives.
func (b *redisBus) subscribe(ctx context.Context, topic string) (<-chan []byte, error) {
	t, err := b.enter(topic)
	if err != nil {
		return nil, err
	}
	messages, err := b.local.subscribe(ctx, topic, func() { b.leave(topic) })
	if err != nil {
		b.leave(topic)
		return nil, err
	}
	patience := time.NewTimer(OpTimeout)
	defer patience.Stop()
	select {
	case <-t.ready:
	case <-ctx.Done():
	case <-b.ctx.Done():
	case <-patience.C:
	}
	return messages, nil
}

func (b *redisBus) enter(topic string) (*busTopic, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, ErrClosed
	}
	t := b.topics[topic]
	if t == nil {
		t = &busTopic{ready: make(chan struct{})}
		b.topics[topic] = t
		b.notify()
	}
	t.subscribers++
	if !b.started {
		b.started = true
		b.running.Go(b.run)
	}
	return t, nil
}

func (b *redisBus) leave(topic string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topics[topic]
	t.subscribers--
	if t.subscribers == 0 {
		delete(b.topics, topic)
		b.notify()
	}
}

func (b *redisBus) notify() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// run keeps a connection as long as there are topics.
func (b *redisBus) run() {
	for failures := 0; b.ctx.Err() == nil; {
		if len(b.wanted()) == 0 {
			select {
			case <-b.changed:
			case <-b.ctx.Done():
			}
			continue
		}
		began := time.Now()
		err := b.connection()
		b.setSubscribeError(err)
		if err == nil || time.Since(began) > busHeartbeat {
			failures = 0
		}
		if err != nil {
			failures++
			retry.Sleep(b.ctx, retry.Pause(failures, busMinBackoff, busMaxBackoff))
		}
	}
}

// connection serves over one connection until it breaks, or nil when nobody is subscribed any more.
func (b *redisBus) connection() error {
	ps := b.clients.get().Subscribe(b.ctx)
	broken := make(chan error, 1)
	var receiver sync.WaitGroup
	defer receiver.Wait()
	defer ps.Close() // ends the receiver

	subscribed := make(map[string]*busTopic)
	if err := b.adjust(ps, subscribed); err != nil {
		return err
	}
	receiver.Go(func() { broken <- b.receive(ps) })
	for len(subscribed) > 0 {
		select {
		case err := <-broken:
			return err
		case <-b.changed:
		case <-b.ctx.Done():
			return nil
		}
		if err := b.adjust(ps, subscribed); err != nil {
			return err
		}
	}
	return nil
}

// adjust makes the connection's subscriptions the wanted ones. A topic that was left and taken again since is subscribed
// to again: its new subscriber waits for a confirmation.
func (b *redisBus) adjust(ps *redis.PubSub, subscribed map[string]*busTopic) error {
	wanted := b.wanted()
	var add, remove []string
	for topic, is := range wanted {
		if subscribed[topic] != is {
			add = append(add, b.channel(topic))
			subscribed[topic] = is
		}
	}
	for topic := range subscribed {
		if _, ok := wanted[topic]; !ok {
			remove = append(remove, b.channel(topic))
			delete(subscribed, topic)
		}
	}
	ctx, cancel := context.WithTimeout(b.ctx, OpTimeout)
	defer cancel()
	if len(add) > 0 {
		if err := ps.Subscribe(ctx, add...); err != nil {
			return err
		}
	}
	if len(remove) > 0 {
		return ps.Unsubscribe(ctx, remove...)
	}
	return nil
}

// receive takes in what Redis sends until the connection breaks or is silent for too long.
func (b *redisBus) receive(ps *redis.PubSub) error {
	asked := false
	for {
		m, err := ps.ReceiveTimeout(b.ctx, busHeartbeat)
		switch {
		case err == nil:
			asked = false
			b.take(m)
		case !isTimeout(err):
			return err
		case asked:
			return fmt.Errorf("no answer to a ping: %w", err)
		default:
			asked = true
			if err := ps.Ping(b.ctx); err != nil {
				return err
			}
		}
	}
}

func (b *redisBus) take(m any) {
	switch m := m.(type) {
	case *redis.Message:
		if topic, ok := strings.CutPrefix(m.Channel, b.prefix); ok && len(m.Payload) <= MaxPayloadBytes {
			b.local.deliver(topic, []byte(m.Payload))
		}
	case *redis.Subscription:
		if m.Kind == "subscribe" {
			b.confirm(strings.TrimPrefix(m.Channel, b.prefix))
		}
	}
}

func (b *redisBus) confirm(topic string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lastErr = nil
	if t := b.topics[topic]; t != nil && !t.confirmed {
		t.confirmed = true
		close(t.ready)
	}
}

func (b *redisBus) wanted() map[string]*busTopic {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.topics)
}

func (b *redisBus) setSubscribeError(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lastErr = err
}

// subscribeError says why messages don't arrive, or nil.
func (b *redisBus) subscribeError() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lastErr == nil {
		return nil
	}
	return fmt.Errorf("subscribe: %w", explain(b.lastErr))
}

// close ends all subscriptions and waits for the connection's owner.
func (b *redisBus) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	b.running.Wait()
	b.local.close()
}
