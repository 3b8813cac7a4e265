package coordination

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// lookEvery is how often the file with the URL is looked at, when it is used.
	lookEvery = time.Second
	// retireAfter is how long a client is kept that was replaced: what it was asked ends within OpTimeout.
	retireAfter = 2 * OpTimeout
)

// redisClients has the client that is used now. Where the URL or the authorities are in a file, a client of the file's
// new content takes the place of the one before as soon as Redis has answered it: user, password, addresses and
// authorities change without a restart, and content that does not work changes nothing.
type redisClients struct {
	load   func() (settings, error) // nil: they never change
	ctx    context.Context
	cancel context.CancelFunc
	looks  sync.WaitGroup

	mu      sync.Mutex // guards what follows
	client  redis.UniversalClient
	of      settings // of client
	db      int
	looking bool
	looked  time.Time
	problem error // of the files' newer content
	retired []retiredClient
}

type retiredClient struct {
	redis.UniversalClient
	at time.Time
}

func newRedisClients(now settings, load func() (settings, error)) (*redisClients, error) {
	client, db, err := now.dial()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &redisClients{load: load, ctx: ctx, cancel: cancel, client: client, of: now, db: db, looked: time.Now()}, nil
}

// get returns the client for one operation, and looks at the files now and then, which no operation waits for.
func (c *redisClients) get() redis.UniversalClient {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.load != nil && !c.looking && time.Since(c.looked) >= lookEvery && c.ctx.Err() == nil {
		c.looking = true
		c.looks.Go(c.look)
	}
	return c.client
}

func (c *redisClients) look() {
	next, err := c.changed()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looking, c.looked, c.problem = false, time.Now(), err
	if next != nil {
		c.retired = append(c.retired, retiredClient{c.client, time.Now()})
		c.client, c.of = next.client, next.of
	}
	for len(c.retired) > 0 && time.Since(c.retired[0].at) > retireAfter {
		_ = c.retired[0].Close() // no call is under way
		c.retired = c.retired[1:]
	}
}

type nextClient struct {
	client redis.UniversalClient
	of     settings
}

// changed returns a client of the files' new content that Redis has answered; nil: it is the content of before.
func (c *redisClients) changed() (*nextClient, error) {
	now, err := c.load()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	same, before := now == c.of, c.db
	c.mu.Unlock()
	if same {
		return nil, nil //nolint:nilnil // there is nothing new and nothing wrong
	}
	client, db, err := now.dial()
	if err != nil {
		return nil, err
	}
	if db != before {
		return nil, errors.Join(fmt.Errorf("the number of the database has changed from %d to %d: that takes a restart of all services", before, db), client.Close())
	}
	ctx, cancel := context.WithTimeout(c.ctx, OpTimeout)
	defer cancel()
	if err := client.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(explain(err), client.Close())
	}
	return &nextClient{client, now}, nil
}

// stuck says why the files' new content is not used.
func (c *redisClients) stuck() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.problem == nil {
		return nil
	}
	return fmt.Errorf("the new content of --redis-url-file or --redis-ca-file is not used, but what was there before: %w", c.problem)
}

func (c *redisClients) close() error {
	c.cancel()
	c.looks.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, r := range c.retired {
		errs = append(errs, r.Close())
	}
	return errors.Join(append(errs, c.client.Close())...)
}
