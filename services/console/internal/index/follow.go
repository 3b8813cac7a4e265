package index

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/feed"
	"fairlead.dev/services/console/internal/query"
	"fairlead.dev/services/console/internal/store"
)

const (
	// heartbeat is how often a stream says that nothing happened; the contract is 15 s at most.
	heartbeat = 10 * time.Second
	// batch is how many resources go into a message.
	batch = 100
	// snapshotPage is how many resources of a snapshot are read at once.
	snapshotPage = 200
)

// MessageKind says what a message is.
type MessageKind int

// The kinds of messages.
const (
	SnapshotBegin MessageKind = iota + 1
	SnapshotEnd
	Changes
	Heartbeat
)

// Message is what a follower is told.
type Message struct {
	Kind    MessageKind
	Items   []*Item
	Deleted []Deleted
	// Token resumes behind it; empty within a snapshot.
	Token string
}

// Follower is who looks on.
type Follower struct {
	// Kinds that it looks at.
	Kinds  []store.Kind
	Filter string
	// Token is where it goes on; empty: it begins with a snapshot.
	Token string
	// Send may block as long as it likes.
	Send func(Message) error
}

// look is a follower on its way.
type look struct {
	board    *Index
	follower *Follower
	exprs    map[store.Kind]*query.Expr
	sees     Sees
	nonce    string
	at       int64
}

// Follow tells a follower until ctx ends or sending fails.
func (b *Index) Follow(ctx context.Context, f *Follower) error {
	l := &look{board: b, follower: f, exprs: map[store.Kind]*query.Expr{}}
	if err := l.parse(); err != nil {
		return err
	}
	if err := b.current(ctx); err != nil {
		return err
	}
	defer l.leave()
	if !l.resume() {
		if err := l.snapshot(ctx); err != nil {
			return err
		}
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for told := false; ; {
		deltas, moved, ok := l.next()
		switch {
		case !ok:
			if err := l.snapshot(ctx); err != nil {
				return err
			}
			continue
		case len(deltas) > 0:
			if err := l.pass(ctx, deltas); err != nil {
				return err
			}
			continue
		case !told:
			told = true // at once: there is nothing newer
			if err := l.follower.Send(Message{Kind: Heartbeat, Token: l.token()}); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		case <-beat.C:
			if b.Hub.Age() > staleAfter {
				return feed.ErrStale
			}
			if err := l.follower.Send(Message{Kind: Heartbeat, Token: l.token()}); err != nil {
				return err
			}
		}
	}
}

// staleAfter is how long the change log may be out of reach: silence must not be taken for "nothing changed".
const staleAfter = 15 * time.Second

// parse reads the filter for each kind. Of a kind that does not have its fields nothing fits.
func (l *look) parse() (err error) {
	for _, kind := range l.follower.Kinds {
		expr, failed := query.Parse(l.follower.Filter, Fields(kind))
		if failed != nil {
			err = failed
			continue
		}
		l.exprs[kind] = expr
	}
	if len(l.exprs) == 0 && err != nil {
		return refusal.New(refusal.Invalid, "filter: %v", err)
	}
	return nil
}

func (l *look) token() string { return l.nonce + "." + strconv.FormatInt(l.at, 10) }

// resume says whether the board still knows the place of the token.
func (l *look) resume() bool {
	nonce, number, _ := strings.Cut(l.follower.Token, ".")
	at, err := strconv.ParseInt(number, 10, 64)
	l.board.mu.Lock()
	defer l.board.mu.Unlock()
	if err != nil || nonce != l.board.nonce || at > l.board.number || len(l.board.ring) > 0 && at < l.board.ring[0].number-1 || len(l.board.ring) == 0 && at < l.board.number {
		return false
	}
	if at <= l.board.unsaid && l.exprs[store.KindService] != nil {
		return false
	}
	l.nonce, l.at = nonce, at
	l.board.looks[l] = true
	return true
}

func (l *look) leave() {
	l.board.mu.Lock()
	defer l.board.mu.Unlock()
	delete(l.board.looks, l)
}

// next returns what is behind the place. false: the ring does not reach back to it, or the board began anew.
func (l *look) next() (deltas []delta, moved <-chan struct{}, ok bool) {
	l.board.mu.RLock()
	defer l.board.mu.RUnlock()
	behind := int(l.board.number - l.at)
	if l.nonce != l.board.nonce || behind > len(l.board.ring) {
		return nil, nil, false
	}
	return l.board.ring[len(l.board.ring)-behind:], l.board.moved, true
}

// pass tells what the follower may see of deltas. Of a resource only the last one counts.
func (l *look) pass(ctx context.Context, deltas []delta) (err error) {
	if l.sees, err = l.board.Viewer.Viewer(ctx, false); err != nil {
		return err
	}
	if l.sees != nil && slices.ContainsFunc(deltas, changesRights) {
		return l.snapshot(ctx)
	}
	first, last := map[string]*row{}, map[string]int{}
	for i, d := range deltas {
		uid := d.uid()
		if _, ok := last[uid]; !ok {
			first[uid] = d.before
		}
		last[uid] = i
	}
	now := l.board.Now()
	var m Message
	flush := func() error {
		if len(m.Items)+len(m.Deleted) == 0 {
			return nil
		}
		m.Kind, m.Token = Changes, l.token()
		err := l.follower.Send(m)
		m = Message{}
		return err
	}
	for i, d := range deltas {
		if uid := d.uid(); last[uid] == i {
			was, is := l.fits(first[uid], now), l.fits(d.after, now)
			switch {
			case is:
				m.Items = append(m.Items, ownOf(d.item))
			case was:
				m.Deleted = append(m.Deleted, Deleted{Kind: first[uid].kind, Name: first[uid].name, UID: uid})
			}
		}
		if len(m.Items)+len(m.Deleted) == batch {
			if err := flush(); err != nil { // with the token of before: who resumes gets all of this again
				return err
			}
		}
	}
	l.at = deltas[len(deltas)-1].number
	return flush()
}

// ownOf is an item for one follower: the message of some kinds depends on its reader or on when it is read, and nobody
// gets one that was encoded for another reader.
func ownOf(item *Item) *Item {
	if !personal(item.Kind) {
		return item
	}
	return &Item{Kind: item.Kind, Value: item.Value}
}

func (d *delta) uid() string {
	if d.after != nil {
		return d.after.uid
	}
	return d.before.uid
}

// changesRights says whether who sees what may be another after it.
func changesRights(d delta) bool {
	of := d.after
	if of == nil {
		of = d.before
	}
	relabelled := of.kind == store.KindCluster && d.before != nil && d.after != nil && d.before.labels != d.after.labels
	return of.kind == store.KindGrant || of.kind == store.KindRole || relabelled
}

func (l *look) fits(r *row, now time.Time) bool {
	if r == nil {
		return false
	}
	expr, ok := l.exprs[r.kind]
	return ok && expr.Match(r, now) && r.seenBy(l.sees)
}

// snapshot sends all that fits. Changes in the meantime are told behind it.
func (l *look) snapshot(ctx context.Context) (err error) {
	if l.sees, err = l.board.Viewer.Viewer(ctx, true); err != nil {
		return err
	}
	names := map[store.Kind][]string{}
	now := l.board.Now()
	l.board.mu.Lock()
	l.board.looks[l] = true
	l.nonce, l.at = l.board.nonce, l.board.number
	for _, r := range l.board.byUID {
		if l.fits(r, now) {
			names[r.kind] = append(names[r.kind], r.name)
		}
	}
	l.board.mu.Unlock()
	if err := l.follower.Send(Message{Kind: SnapshotBegin}); err != nil {
		return err
	}
	for _, kind := range store.Kinds() {
		slices.Sort(names[kind])
		for page := range slices.Chunk(names[kind], snapshotPage) {
			items, err := l.items(ctx, kind, page)
			if err != nil {
				return err
			}
			if err := l.follower.Send(Message{Kind: Changes, Items: items}); err != nil {
				return err
			}
		}
	}
	return l.follower.Send(Message{Kind: SnapshotEnd, Token: l.token()})
}

func (l *look) items(ctx context.Context, kind store.Kind, names []string) (items []*Item, err error) {
	err = l.board.Store.Read(ctx, func(ctx context.Context, v store.View) error {
		found, err := v.Named(ctx, kind, names)
		if err != nil {
			return err
		}
		rows := make([]store.Resource, 0, len(found))
		for _, name := range names {
			if r, ok := found[name]; ok && structure(r).seenBy(l.sees) { // the resource may have moved since the board was looked at
				rows = append(rows, r)
			}
		}
		values, err := l.board.Kinds.Load(ctx, l.board.Loader, v, kind, rows)
		for _, value := range values {
			items = append(items, &Item{Kind: kind, Value: value})
		}
		return err
	})
	return items, err
}

// Deleted names a resource that is gone.
type Deleted struct {
	Kind store.Kind
	Name string
	UID  string
}
