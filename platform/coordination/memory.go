package coordination

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// memory is the coordinator of a hub in one process.
type memory struct {
	bus fanout

	mu     sync.Mutex // guards what follows
	closed bool
	leases map[string]memoryLease
	epoch  int64 // the last one given, of all keys
	groups map[string]map[string]memoryMember
}

type memoryLease struct {
	lease   *Lease
	expires time.Time
}

type memoryMember struct {
	data    []byte
	expires time.Time
}

func newMemory() *memory {
	return &memory{leases: make(map[string]memoryLease), groups: make(map[string]map[string]memoryMember)}
}

// lock takes the mutex if the coordinator can still be used.
func (m *memory) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return ErrClosed
	}
	return nil
}

func (m *memory) Acquire(ctx context.Context, key, holder string, ttl time.Duration) (*Lease, error) {
	if err := validateLease(key, holder, ttl); err != nil {
		return nil, fmt.Errorf("acquire lease: %w", err)
	}
	if err := m.lock(ctx); err != nil {
		return nil, fmt.Errorf("acquire lease %q: %w", key, err)
	}
	defer m.mu.Unlock()
	if cur, ok := m.holderLocked(key); ok {
		return nil, &HeldError{Key: key, Holder: cur.lease.holder}
	}
	l, granted := newLease(m, key, holder, ttl)
	// Begins at the time, as in Redis, so that epochs grow over restarts as well.
	m.epoch = max(m.epoch+1, time.Now().UnixMicro())
	m.leases[key] = memoryLease{lease: l, expires: time.Now().Add(ttl)}
	return granted(m.epoch), nil
}

func (m *memory) holderLocked(key string) (memoryLease, bool) {
	cur, ok := m.leases[key]
	if ok && !time.Now().Before(cur.expires) {
		delete(m.leases, key)
		return memoryLease{}, false
	}
	return cur, ok
}

func (m *memory) Holder(ctx context.Context, key string) (string, error) {
	if err := validateName("lease key", key); err != nil {
		return "", fmt.Errorf("read lease: %w", err)
	}
	if err := m.lock(ctx); err != nil {
		return "", fmt.Errorf("read lease %q: %w", key, err)
	}
	defer m.mu.Unlock()
	cur, ok := m.holderLocked(key)
	if !ok {
		return "", nil
	}
	return cur.lease.holder, nil
}

func (m *memory) Holders(ctx context.Context, keys []string) ([]string, error) {
	holders := make([]string, len(keys))
	for i, key := range keys {
		var err error
		if holders[i], err = m.Holder(ctx, key); err != nil {
			return nil, err
		}
	}
	return holders, nil
}

func (m *memory) renewLease(ctx context.Context, l *Lease) (bool, error) {
	if err := m.lock(ctx); err != nil {
		return false, err
	}
	defer m.mu.Unlock()
	if cur, ok := m.holderLocked(l.key); !ok || cur.lease != l {
		return false, nil
	}
	m.leases[l.key] = memoryLease{lease: l, expires: time.Now().Add(l.ttl)}
	return true, nil
}

func (m *memory) releaseLease(ctx context.Context, l *Lease) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if m.leases[l.key].lease == l {
		delete(m.leases, l.key)
	}
	return nil
}

func (m *memory) Join(ctx context.Context, group string, member Member, ttl time.Duration) error {
	data, err := encodeMember(group, member, ttl)
	if err != nil {
		return fmt.Errorf("join group: %w", err)
	}
	if err := m.lock(ctx); err != nil {
		return fmt.Errorf("join group %q: %w", group, err)
	}
	defer m.mu.Unlock()
	m.sweepLocked(group)
	members := m.groups[group]
	if members == nil {
		members = make(map[string]memoryMember)
		m.groups[group] = members
	}
	if _, known := members[member.ID]; !known && len(members) >= MaxMembers {
		return fmt.Errorf("join group %q: it has %d members already", group, MaxMembers)
	}
	members[member.ID] = memoryMember{data: data, expires: time.Now().Add(ttl)}
	return nil
}

func (m *memory) sweepLocked(group string) {
	now := time.Now()
	for id, member := range m.groups[group] {
		if !now.Before(member.expires) {
			delete(m.groups[group], id)
		}
	}
	if len(m.groups[group]) == 0 {
		delete(m.groups, group)
	}
}

func (m *memory) Leave(ctx context.Context, group, id string) error {
	if err := m.lock(ctx); err != nil {
		return fmt.Errorf("leave group %q: %w", group, err)
	}
	defer m.mu.Unlock()
	delete(m.groups[group], id)
	m.sweepLocked(group)
	return nil
}

func (m *memory) Members(ctx context.Context, group string) ([]Member, error) {
	if err := m.lock(ctx); err != nil {
		return nil, fmt.Errorf("list group %q: %w", group, err)
	}
	defer m.mu.Unlock()
	m.sweepLocked(group)
	var members []Member
	for _, stored := range m.groups[group] {
		// Decoded each time: callers own what they get.
		member, err := decodeMember(stored.data)
		if err != nil {
			return nil, fmt.Errorf("list group %q: %w", group, err)
		}
		members = append(members, member)
	}
	sortMembers(members)
	return members, nil
}

func sortMembers(members []Member) {
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
}

func (m *memory) Publish(ctx context.Context, topic string, payload []byte) error {
	if err := validateMessage(topic, payload); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	if err := m.lock(ctx); err != nil {
		return fmt.Errorf("publish to %q: %w", topic, err)
	}
	m.mu.Unlock()
	m.bus.deliver(topic, payload)
	return nil
}

func (m *memory) Subscribe(ctx context.Context, topic string) (<-chan []byte, error) {
	if err := validateName("topic", topic); err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	messages, err := m.bus.subscribe(ctx, topic, func() {})
	if err != nil {
		return nil, fmt.Errorf("subscribe to %q: %w", topic, err)
	}
	return messages, nil
}

func (m *memory) Kind() string { return "memory" }

func (m *memory) Ping(ctx context.Context) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	m.mu.Unlock()
	return nil
}

func (m *memory) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.bus.close()
	return nil
}
