package up

import (
	"context"
	"strings"
	"sync"
	"time"
)

// children are programs that are kept running, and end together.
type children struct {
	data *dataDir
	sayf func(format string, args ...any)

	ctx   context.Context
	end   context.CancelFunc
	group sync.WaitGroup
}

func newChildren(data *dataDir, sayf func(format string, args ...any)) *children {
	ctx, cancel := context.WithCancel(context.Background())
	return &children{data: data, sayf: sayf, ctx: ctx, end: cancel}
}

// keepRunning starts a program and keeps it running until stopAll or stop, which does not wait for its end.
func (cs *children) keepRunning(c *child) (stop func(), err error) {
	log, err := cs.data.openLog(strings.ReplaceAll(c.name, " ", "-"))
	if err != nil {
		return nil, err
	}
	c.log = log
	if c.grace == 0 {
		c.grace = childGrace
	}
	c.died = func(err error, again time.Duration) {
		cs.sayf("%s died (%v): starting it again in %s; its log is %s", c.name, err, again.Round(100*time.Millisecond), log.Name())
	}
	ctx, stop := context.WithCancel(cs.ctx)
	cs.group.Go(func() {
		defer stop()
		defer log.Close()
		if err := c.run(ctx); err != nil {
			cs.sayf("%v", err)
		}
	})
	return stop, nil
}

// stopAll ends all of them at once, each within its grace.
func (cs *children) stopAll() {
	cs.end()
	cs.group.Wait()
}
