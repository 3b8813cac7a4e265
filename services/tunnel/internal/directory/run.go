package directory

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/retry"
)

const (
	// retryAfter is the pause after coordination did not take an entry.
	retryAfter = time.Second
	// batch is how many changes are told in one message.
	batch = 200
)

// Run makes this replica and its sessions known and learns of the others until ctx ends.
func (d *Directory) Run(ctx context.Context) error {
	news, err := d.deps.Coordinator.Subscribe(ctx, topic)
	if err != nil {
		return fmt.Errorf("subscribe to changes of sessions: %w", err)
	}
	presence := coordination.Presence{Membership: d.deps.Coordinator, Group: replicas, TTL: replicaTTL, Log: d.deps.Log, Member: d.self}
	var running sync.WaitGroup
	running.Go(func() { d.learn(ctx, news) })
	running.Go(func() { d.write(ctx) })
	err = presence.Run(ctx)
	running.Wait()
	farewell, cancel := context.WithTimeout(context.WithoutCancel(ctx), coordination.OpTimeout)
	defer cancel()
	d.publish(farewell, nil)
	return err
}

// learn keeps the list of replicas, and drops what was read when it is told to.
func (d *Directory) learn(ctx context.Context, news <-chan []byte) {
	d.announce(ctx)
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for list := true; ; {
		if list {
			d.list(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			list = true
		case <-d.look:
			list = true
		case m, ok := <-news:
			if !ok {
				news = nil // ctx ends, or coordination was closed
				continue
			}
			if list = len(m) == 0; !list {
				d.changed(strings.Split(string(m), "\n"))
			}
		}
	}
}

func (d *Directory) list(ctx context.Context) {
	members, err := d.deps.Coordinator.Members(ctx, replicas)
	if err != nil {
		return // known replicas stay known; the heartbeat says that coordination fails
	}
	d.remember(members)
	if marks, err := d.deps.Coordinator.Members(ctx, group(mark)); err == nil {
		d.rewrite(marks)
	}
}

// write puts the mark and the sessions of this replica into coordination and takes them out, in the order in which they
// come, and all of them again from time to time.
func (d *Directory) write(ctx context.Context) {
	again := time.NewTicker(entryTTL / 2)
	defer again.Stop()
	for {
		for d.writeSome(ctx) {
		}
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		case <-again.C:
			d.mu.Lock()
			maps.Copy(d.waiting, d.own)
			d.mu.Unlock()
		}
	}
}

// writeSome writes a part of what waits, and reports whether there may be more.
func (d *Directory) writeSome(ctx context.Context) (more bool) {
	d.mu.Lock()
	part := make(map[string]string, batch)
	for session, cluster := range d.waiting {
		if len(part) == batch {
			break
		}
		part[session] = cluster
		delete(d.waiting, session)
	}
	d.mu.Unlock()
	changed := make(map[string]struct{}, len(part))
	var failed error
	for session, cluster := range part {
		if failed == nil {
			failed = d.writeOne(ctx, session, cluster)
		}
		if failed == nil {
			changed[cluster] = struct{}{}
			delete(part, session)
		}
	}
	if len(changed) > 0 {
		d.publish(ctx, changed)
	}
	if failed == nil {
		return len(changed) > 0
	}
	d.mu.Lock()
	maps.Copy(d.waiting, part)
	d.mu.Unlock()
	return retry.Sleep(ctx, retryAfter)
}

func (d *Directory) writeOne(ctx context.Context, session, cluster string) error {
	d.mu.Lock()
	_, live := d.own[session]
	d.mu.Unlock()
	if !live {
		return d.deps.Coordinator.Leave(ctx, group(cluster), session)
	}
	m := coordination.Member{ID: session, Meta: map[string]string{metaReplica: d.id}}
	return d.deps.Coordinator.Join(ctx, group(cluster), m, entryTTL)
}

// publish tells the others which clusters' sessions changed; none: the replicas did.
func (d *Directory) publish(ctx context.Context, clusters map[string]struct{}) {
	var m bytes.Buffer
	for cluster := range clusters {
		if m.Len() > 0 {
			m.WriteByte('\n')
		}
		m.WriteString(cluster)
	}
	if err := d.deps.Coordinator.Publish(ctx, topic, m.Bytes()); err != nil {
		d.deps.Log.DebugContext(ctx, "tell of sessions; the others notice", "err", err)
	}
}
