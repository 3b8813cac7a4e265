// Package coordination is how replicas of a service agree: leases, membership and messages.
//
// There are two implementations behind one contract and one conformance suite
// (coordinationtest): in memory, for a hub in one process, and Redis, for several.
//
// Nothing in here is a record. The store's operator can forge or forget all of it, and an asynchronous failover can
// grant a lease twice; what must not happen twice is fenced elsewhere, by the console's durable epochs. This package
// promises that a holder stops in time by its own monotonic clock, that every operation ends within [OpTimeout], and
// that with the store down nobody takes over anything.
package coordination

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
)

const (
	// OpTimeout bounds every operation, so that a hung store is an error and not a stall.
	OpTimeout = 2 * time.Second
	// MinTTL is the shortest lease or membership: below it, one slow round trip costs it.
	MinTTL = 100 * time.Millisecond
	// MaxTTL bounds how long a dead holder blocks the others.
	MaxTTL = time.Hour
	// MaxNameBytes bounds keys, holders, groups, topics and member ids.
	MaxNameBytes = 512
	// MaxMembers bounds a group, so that a list of it stays small.
	MaxMembers = 10_000
	// MaxPayloadBytes bounds messages and members: they are hints, not transport.
	MaxPayloadBytes = 64 << 10
)

var (
	// ErrHeld means that somebody else has the lease. The error is a *HeldError.
	ErrHeld = errors.New("lease is held")
	// ErrLost means that a lease is over: it ran out, was released or taken.
	ErrLost = errors.New("lease is lost")
	// ErrClosed means that the coordinator was closed.
	ErrClosed = errors.New("coordination is closed")
)

// HeldError says who has the lease. errors.Is(err, ErrHeld) holds.
type HeldError struct {
	Key, Holder string
}

// Error implements error.
func (e *HeldError) Error() string { return fmt.Sprintf("lease %q is held by %q", e.Key, e.Holder) }

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Leases grants keys to one holder at a time.
//
// Acquire MUST grant a key to at most one lease that is Valid at any moment, as long as the store
// keeps its memory; also to callers with the same holder name. Acquire MUST give epochs of one key in growing order,
// also over a flushed store whose clock is right. Acquire returns a *HeldError at once when the key is taken, and never
// waits for it. After any other error the key may be taken for up to ttl. Holder returns "" for a free key. Holders is
// Holder for many keys, in their order, at the price of about one.
type Leases interface {
	Acquire(ctx context.Context, key, holder string, ttl time.Duration) (*Lease, error)
	Holder(ctx context.Context, key string) (string, error)
	Holders(ctx context.Context, keys []string) ([]string, error)
}

// Member is one replica in a group.
type Member struct {
	// ID is unique in the group.
	ID string `json:"id"`
	// URL is where the others reach it.
	URL  string            `json:"url,omitempty"`
	Meta map[string]string `json:"meta,omitempty"`
	// Expires (Unix time in milliseconds) and MAC are of package members, and zero where that is not between. A store
	// keeps them as they are.
	Expires int64  `json:"expires,omitempty"`
	MAC     string `json:"mac,omitempty"`
}

// What replicas say of themselves in Meta: MetaVersion is that of the build, MetaStarted since when the process runs
// (RFC 3339), and MetaDraining is set while a replica hands over what it has.
const (
	MetaVersion  = "version"
	MetaStarted  = "started"
	MetaDraining = "draining"
)

// Membership says which replicas live.
//
// Join MUST make m a member for ttl from now, replacing what it said before: repeat it well before
// that (see Presence). A member that stops repeating MUST be gone after ttl. Leave takes it out at
// once and is no error for a stranger. Members MUST be sorted by ID.
type Membership interface {
	Join(ctx context.Context, group string, m Member, ttl time.Duration) error
	Leave(ctx context.Context, group, id string) error
	Members(ctx context.Context, group string) ([]Member, error)
}

// Bus carries messages that may get lost.
//
// Publish reaches everybody who is subscribed at that moment, at most once, and MUST NOT wait for
// a subscriber. Subscribe returns a channel that is closed when ctx ends; a reader that is too slow
// loses messages. With the store down at the time Subscribe MUST still return a channel, and it
// MUST go on by itself when the store is back. Messages that were published in between are lost: poll, too.
type Bus interface {
	Publish(ctx context.Context, topic string, payload []byte) error
	Subscribe(ctx context.Context, topic string) (<-chan []byte, error)
}

// Coordinator is all of it. Consumers name the part they need. A Coordinator is safe for concurrent use.
type Coordinator interface {
	Leases
	Membership
	Bus
	// Kind is what the store is, for people: memory or redis.
	Kind() string
	// Ping says why the store can't be used, for logs, metrics and status pages. Ping must not decide readiness:
	// everything is still served with the store down.
	Ping(ctx context.Context) error
	// Close ends subscriptions and connections. Leases run out by themselves.
	Close() error
}

// validateName keeps keys, groups and the like within what every store can hold.
func validateName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s must not be empty", what)
	case len(name) > MaxNameBytes:
		return fmt.Errorf("%s is %d bytes long: at most %d are possible", what, len(name), MaxNameBytes)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("%s %q holds control characters", what, name)
	}
	return nil
}

func validateTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return fmt.Errorf("ttl %s: must be from %s to %s", ttl, MinTTL, MaxTTL)
	}
	return nil
}

func validateLease(key, holder string, ttl time.Duration) error {
	return errors.Join(validateName("lease key", key), validateName("lease holder", holder), validateTTL(ttl))
}

// encodeMember validates a membership and returns the member as JSON.
func encodeMember(group string, m Member, ttl time.Duration) ([]byte, error) {
	if err := errors.Join(validateName("group", group), validateName("member id", m.ID), validateTTL(ttl)); err != nil {
		return nil, err
	}
	data, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if len(data) > MaxPayloadBytes {
		return nil, fmt.Errorf("member %q has %d bytes: at most %d are possible", m.ID, len(data), MaxPayloadBytes)
	}
	return data, nil
}

// decodeMember reads a member from the store, where anybody may have written.
func decodeMember(data []byte) (Member, error) {
	var m Member
	if len(data) > MaxPayloadBytes {
		return Member{}, fmt.Errorf("member has %d bytes: at most %d are possible", len(data), MaxPayloadBytes)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return Member{}, fmt.Errorf("decode member: %w", err)
	}
	return m, validateName("member id", m.ID)
}

func validateMessage(topic string, payload []byte) error {
	if len(payload) > MaxPayloadBytes {
		return fmt.Errorf("message has %d bytes: at most %d are possible", len(payload), MaxPayloadBytes)
	}
	return validateName("topic", topic)
}
