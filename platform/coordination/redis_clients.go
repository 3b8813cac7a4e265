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

// redisClients has the client that is used now. Where the URL is in a file, a client of the file's new content takes the place of the one
// before as soon as Redis has answered it: user, password and addresses change without a restart, and a URL that does not work changes nothing.
type redisClients struct {
	load   func() (url string, err error) // nil: the URL never changes
	dialer dialer
	ctx    context.Context
	cancel context.CancelFunc
	looks  sync.WaitGroup

	mu      sync.Mutex // guards what follows
	client  redis.UniversalClient
	url     string // of client
	db      int
	looking bool
	looked  time.Time
	problem error // of the file's newer content
	retired []retiredClient
}

type retiredClient struct {
	redis.UniversalClient
	at time.Time
}

func newRedisClients(url string, load func() (string, error), d dialer) (*redisClients, error) {
	client, db, err := d.dial(url)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &redisClients{load: load, dialer: d, ctx: ctx, cancel: cancel, client: client, url: url, db: db, looked: time.Now()}, nil
}

// get returns the client for one operation, and looks at the file now and then, which no operation waits for.
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
		c.client, c.url = next.client, next.url
	}
	for len(c.retired) > 0 && time.Since(c.retired[0].at) > retireAfter {
		_ = c.retired[0].Close() // nothing is under way
		c.retired = c.retired[1:]
	}
}

type nextClient struct {
	client redis.UniversalClient
	url    string
}

// changed returns a client of the file's new content that Redis has answered; nil: it is the content of before.
func (c *redisClients) changed() (*nextClient, error) {
	url, err := c.load()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	same, before := url == c.url, c.db
	c.mu.Unlock()
	if same {
		return nil, nil //nolint:nilnil // there is nothing new and nothing wrong
	}
	client, db, err := c.dialer.dial(url)
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
	return &nextClient{client, url}, nil
}

// stuck says why the file's new content is not used.
func (c *redisClients) stuck() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.problem == nil {
		return nil
	}
	return fmt.Errorf("the new content of --redis-url-file is not used, but what was there before: %w", c.problem)
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
