// Package configs gets what services are configured with from the console, for agents that need it. Values are in
// memory only, of those services that were asked for last.
package configs

import (
	"container/list"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

const (
	// maxBytes is what configurations may take in memory.
	maxBytes = 64 << 20
	// overhead is what one costs besides its values, in bytes.
	overhead = 512
	// askFor is how many the console is asked for at once, and askTimeout how long that may take: an agent waits.
	askFor     = 100
	askTimeout = 10 * time.Second
)

// Key names what a service is configured with.
type Key struct {
	Service  string // uid
	Revision string
}

// Cache gets configurations. A Cache is safe for concurrent use.
type Cache struct {
	console consolev1connect.ConfigServiceClient
	log     *slog.Logger

	failing atomic.Bool // the console did not answer the last time
	trying  sync.Mutex  // is held by the call that asks then: the turns of Syncs are few, and the others do not wait

	mu    sync.Mutex // guards what follows
	kept  map[Key]*list.Element
	order *list.List // of *entry, the last used first
	bytes int
}

type entry struct {
	key   Key
	value *deliveryv1.Configuration // nil: it can't be read, which was logged
	size  int
}

// New returns a cache of what a console has.
func New(console consolev1connect.ConfigServiceClient, log *slog.Logger) *Cache {
	return &Cache{console: console, log: log, kept: map[Key]*list.Element{}, order: list.New()}
}

// Get returns configurations by the uid of their service; those that the console does not have, or can't be asked for,
// are left out. answered is false if the console could not be asked for one of them.
func (c *Cache) Get(ctx context.Context, keys []Key) (out map[string]*deliveryv1.Configuration, answered bool) {
	out = make(map[string]*deliveryv1.Configuration, len(keys))
	var missing []*consolev1.ConfigWanted
	for _, key := range keys {
		if found, ok := c.find(key); !ok {
			missing = append(missing, &consolev1.ConfigWanted{ServiceUid: key.Service, Revision: key.Revision})
		} else if found != nil {
			out[key.Service] = found
		}
	}
	if len(missing) == 0 {
		return out, true
	}
	if c.failing.Load() {
		if !c.trying.TryLock() {
			return out, false
		}
		defer c.trying.Unlock()
	}
	return out, c.access(ctx, missing, out)
}

// access asks the console for what is missing, and says whether the console has answered.
func (c *Cache) access(ctx context.Context, missing []*consolev1.ConfigWanted,
	out map[string]*deliveryv1.Configuration,
) (answered bool) {
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for len(missing) > 0 {
		n := min(askFor, len(missing))
		resp, err := c.console.AccessConfigs(asking, &consolev1.AccessConfigsRequest{Services: missing[:n]})
		if ctx.Err() == nil { // else it was the agent that went
			c.note(ctx, err)
		}
		if err != nil {
			return false
		}
		for _, accessed := range resp.GetServices() {
			value, err := decode(accessed)
			if c.keep(Key{accessed.GetServiceUid(), accessed.GetRevision()}, value) && err != nil {
				c.log.WarnContext(ctx, "a service waits for its configuration, which can't be read: set the value again",
					"err", err)
			}
			if err == nil {
				out[accessed.GetServiceUid()] = value
			}
		}
		missing = missing[n:]
	}
	return true
}

// note notes whether the console answers, and logs where that changes.
func (c *Cache) note(ctx context.Context, err error) {
	switch failed := c.failing.Swap(err != nil); {
	case err != nil && !failed:
		c.log.WarnContext(ctx, "the console can't be asked for configurations: services that need one wait, and keep what they have",
			"err", err)
	case err == nil && failed:
		c.log.InfoContext(ctx, "the console answers for configurations again")
	}
}

// find returns what is kept under a key: nil for what can't be read.
func (c *Cache) find(key Key) (value *deliveryv1.Configuration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.kept[key]
	if e == nil {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*entry).value, true //nolint:forcetypeassert // nothing else is in it
}

// keep keeps a value, and says whether there was none under its key.
func (c *Cache) keep(key Key, value *deliveryv1.Configuration) (added bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept[key] != nil {
		return false
	}
	e := &entry{key: key, value: value, size: proto.Size(value) + overhead}
	c.kept[key] = c.order.PushFront(e)
	for c.bytes += e.size; c.bytes > maxBytes; {
		last := c.order.Remove(c.order.Back()).(*entry) //nolint:forcetypeassert // nothing else is in it
		delete(c.kept, last.key)
		c.bytes -= last.size
	}
	return true
}

func decode(a *consolev1.AccessedConfig) (*deliveryv1.Configuration, error) {
	out := &deliveryv1.Configuration{Revision: a.GetRevision()}
	for _, v := range a.GetValues() {
		e := &deliveryv1.ConfigurationEntry{Name: v.GetName(), Secret: v.GetSecret()}
		switch v.GetType() {
		case consolev1.ConfigType_CONFIG_TYPE_NUMBER:
			n, err := strconv.ParseFloat(v.GetValue(), 64)
			if err != nil {
				return nil, fmt.Errorf("configuration of service %s: %q is no number", a.GetServiceUid(), v.GetName())
			}
			e.Value = &deliveryv1.ConfigurationEntry_Number{Number: n}
		case consolev1.ConfigType_CONFIG_TYPE_FLAG:
			e.Value = &deliveryv1.ConfigurationEntry_Flag{Flag: v.GetValue() == "true"}
		case consolev1.ConfigType_CONFIG_TYPE_JSON:
			e.Value = &deliveryv1.ConfigurationEntry_Json{Json: v.GetValue()}
		default:
			e.Value = &deliveryv1.ConfigurationEntry_Text{Text: v.GetValue()}
		}
		out.Entries = append(out.Entries, e)
	}
	return out, nil
}
