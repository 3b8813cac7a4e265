package coordination

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// epochMemory is how long Redis remembers the last epoch of a key. After it, or after a flush, the
// clock alone makes the next epoch greater: microseconds, since a flush and the next lease can
// share a millisecond.
const epochMemory = 24 * time.Hour

// Keys of a thing share a hash tag, so that a script finds them on one node of a Cluster.
// KEYS[1] is the lease (token and holder), KEYS[2] its last epoch.
const (
	// ARGV: value, ttl in ms, memory of the epoch in ms. Gives the epoch, or 0 and the holder's value.
	acquireScript = `
local held = redis.call('GET', KEYS[1])
if held then return {0, held} end
local t = redis.call('TIME')
local epoch = t[1] * 1000000 + t[2]
local last = tonumber(redis.call('GET', KEYS[2]) or 0) or 0
if epoch <= last then epoch = last + 1 end
redis.call('SET', KEYS[2], string.format('%.0f', epoch), 'PX', ARGV[3])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {epoch, ''}`

	// ARGV: value, ttl in ms, memory of the epoch in ms, epoch. A lease that a flush or a restart
	// took away is put back, unless the epoch tells that somebody else had the key since.
	renewScript = `
local held = redis.call('GET', KEYS[1])
if held == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
if held then return 0 end
local last = redis.call('GET', KEYS[2])
if last and last ~= ARGV[4] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('SET', KEYS[2], ARGV[4], 'PX', ARGV[3])
return 1`

	// ARGV: value. The epoch goes on, so that a renewal that arrives late puts nothing back.
	releaseScript = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('INCR', KEYS[2]) end
return 1`

	// KEYS: ids by the time they expire (ms), members by id. ARGV: id, member, ttl in ms, most members.
	joinScript = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local dead = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now), 'LIMIT', 0, 1000)
for _, id in ipairs(dead) do
  redis.call('ZREM', KEYS[1], id)
  redis.call('HDEL', KEYS[2], id)
end
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[4]) then return 0 end
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[3]), ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
local keep = math.max(tonumber(ARGV[3]), redis.call('PTTL', KEYS[1]))
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', keep))
redis.call('PEXPIRE', KEYS[2], string.format('%.0f', keep))
return 1`

	leaveScript = `
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
return 1`

	// Reads a thousand at a time: unpack can't do many more.
	membersScript = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f', now), '+inf')
local members = {}
for i = 1, #ids, 1000 do
  local part = redis.call('HMGET', KEYS[2], unpack(ids, i, math.min(i + 999, #ids)))
  for _, m in ipairs(part) do if m then members[#members + 1] = m end end
end
return members`
)

// redisStore is the coordinator of a hub of several processes.
type redisStore struct {
	clients *redisClients
	bus     *redisBus

	acquire, renew, release, join, leave, members *redis.Script
}

func newRedis(clients *redisClients) *redisStore {
	// go-redis prints to stderr, past the service's log, what callers get as errors anyway.
	redis.SetLogger(&logging.VoidLogger{})
	return &redisStore{
		clients: clients,
		bus:     newRedisBus(clients),
		acquire: redis.NewScript(acquireScript),
		renew:   redis.NewScript(renewScript),
		release: redis.NewScript(releaseScript),
		join:    redis.NewScript(joinScript),
		leave:   redis.NewScript(leaveScript),
		members: redis.NewScript(membersScript),
	}
}

func leaseKeys(key string) []string {
	tag := "fairlead:{lease/" + url.PathEscape(key) + "}"
	return []string{tag, tag + ":epoch"}
}

func groupKeys(group string) []string {
	tag := "fairlead:{group/" + url.PathEscape(group) + "}"
	return []string{tag + ":alive", tag + ":members"}
}

// tokenBytes is the length of a lease's token, which the holder's name follows in the value.
const tokenBytes = 26

func (l *Lease) value() string { return l.token + l.holder }

func holderOf(value string) string {
	if len(value) <= tokenBytes {
		return "somebody unknown" // not written by this package
	}
	return value[tokenBytes:]
}

func (r *redisStore) Acquire(ctx context.Context, key, holder string, ttl time.Duration) (*Lease, error) {
	if err := validateLease(key, holder, ttl); err != nil {
		return nil, fmt.Errorf("acquire lease: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, min(OpTimeout, ttl))
	defer cancel()
	l, granted := newLease(r, key, holder, ttl)
	reply, err := r.acquire.Run(ctx, r.clients.get(), leaseKeys(key), l.value(), ttl.Milliseconds(), epochMemory.Milliseconds()).Slice()
	if err != nil {
		return nil, fmt.Errorf("acquire lease %q: %w", key, explain(err))
	}
	if len(reply) != 2 {
		return nil, fmt.Errorf("acquire lease %q: Redis answered with %d values", key, len(reply))
	}
	epoch, _ := reply[0].(int64)
	value, _ := reply[1].(string)
	if epoch <= 0 {
		return nil, &HeldError{Key: key, Holder: holderOf(value)}
	}
	return granted(epoch), nil
}

func (r *redisStore) renewLease(ctx context.Context, l *Lease) (bool, error) {
	ok, err := r.renew.Run(ctx, r.clients.get(), leaseKeys(l.key), l.value(), l.ttl.Milliseconds(), epochMemory.Milliseconds(), l.epoch).Bool()
	return ok, explain(err)
}

func (r *redisStore) releaseLease(ctx context.Context, l *Lease) error {
	return explain(r.release.Run(ctx, r.clients.get(), leaseKeys(l.key), l.value()).Err())
}

func (r *redisStore) Holder(ctx context.Context, key string) (string, error) {
	holders, err := r.Holders(ctx, []string{key})
	if err != nil {
		return "", err
	}
	return holders[0], nil
}

// holdersAtOnce bounds one pipeline, so that it ends within OpTimeout.
const holdersAtOnce = 1000

func (r *redisStore) Holders(ctx context.Context, keys []string) ([]string, error) {
	holders := make([]string, 0, len(keys))
	for part := range slices.Chunk(keys, holdersAtOnce) {
		var err error
		if holders, err = r.appendHolders(ctx, holders, part); err != nil {
			return nil, err
		}
	}
	return holders, nil
}

// appendHolders sends one GET per key, all at once: a Cluster has them on different nodes.
func (r *redisStore) appendHolders(ctx context.Context, holders, keys []string) ([]string, error) {
	pipe := r.clients.get().Pipeline()
	gets := make([]*redis.StringCmd, 0, len(keys))
	for _, key := range keys {
		if err := validateName("lease key", key); err != nil {
			return nil, fmt.Errorf("read lease: %w", err)
		}
		gets = append(gets, pipe.Get(ctx, leaseKeys(key)[0]))
	}
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	_, _ = pipe.Exec(ctx) // the error is that of one of the commands
	for i, get := range gets {
		value, err := get.Result()
		switch {
		case errors.Is(err, redis.Nil):
			holders = append(holders, "")
		case err != nil:
			return nil, fmt.Errorf("read lease %q: %w", keys[i], explain(err))
		default:
			holders = append(holders, holderOf(value))
		}
	}
	return holders, nil
}

func (r *redisStore) Join(ctx context.Context, group string, m Member, ttl time.Duration) error {
	data, err := encodeMember(group, m, ttl)
	if err != nil {
		return fmt.Errorf("join group: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	ok, err := r.join.Run(ctx, r.clients.get(), groupKeys(group), m.ID, data, ttl.Milliseconds(), MaxMembers).Bool()
	if err != nil {
		return fmt.Errorf("join group %q: %w", group, explain(err))
	}
	if !ok {
		return fmt.Errorf("join group %q: it has %d members already", group, MaxMembers)
	}
	return nil
}

func (r *redisStore) Leave(ctx context.Context, group, id string) error {
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	if err := r.leave.Run(ctx, r.clients.get(), groupKeys(group), id).Err(); err != nil {
		return fmt.Errorf("leave group %q: %w", group, explain(err))
	}
	return nil
}

func (r *redisStore) Members(ctx context.Context, group string) ([]Member, error) {
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	stored, err := r.members.Run(ctx, r.clients.get(), groupKeys(group)).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("list group %q: %w", group, explain(err))
	}
	var members []Member
	for _, data := range stored[:min(len(stored), MaxMembers)] {
		// A record that can't be read was forged or is of another version: no member that could be reached.
		if m, err := decodeMember([]byte(data)); err == nil {
			members = append(members, m)
		}
	}
	sortMembers(members)
	return slices.CompactFunc(members, func(a, b Member) bool { return a.ID == b.ID }), nil
}

func (r *redisStore) Publish(ctx context.Context, topic string, payload []byte) error {
	if err := validateMessage(topic, payload); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	if err := r.clients.get().Publish(ctx, r.bus.channel(topic), payload).Err(); err != nil {
		return fmt.Errorf("publish to %q: %w", topic, explain(err))
	}
	return nil
}

func (r *redisStore) Subscribe(ctx context.Context, topic string) (<-chan []byte, error) {
	if err := validateName("topic", topic); err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	messages, err := r.bus.subscribe(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("subscribe to %q: %w", topic, err)
	}
	return messages, nil
}

func (r *redisStore) Kind() string { return "redis" }

func (r *redisStore) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	if err := r.clients.get().Ping(ctx).Err(); err != nil {
		return explain(err)
	}
	return errors.Join(r.bus.subscribeError(), r.clients.stuck())
}

func (r *redisStore) Close() error {
	r.bus.close()
	return r.clients.close()
}

// explain adds what to do to the errors that an operator will meet.
func explain(err error) error {
	var dial *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, redis.ErrClosed):
		return ErrClosed
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("redis can't be reached: %w. Check that it runs and the address of --redis-url", err)
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return fmt.Errorf("redis does not answer in time: %w", err)
	case redis.HasErrorPrefix(err, "NOPERM"):
		return fmt.Errorf("redis refuses it: %w. Give the user its commands on keys and channels fairlead:*", err)
	case redis.HasErrorPrefix(err, "NOAUTH"), redis.HasErrorPrefix(err, "WRONGPASS"):
		return fmt.Errorf("redis refuses the login: %w. Check user and password in --redis-url", err)
	case redis.HasErrorPrefix(err, "OOM"):
		return fmt.Errorf("redis is full: %w. Raise its maxmemory; coordination needs a few kilobytes per source and replica", err)
	}
	return fmt.Errorf("redis: %w", err)
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}
