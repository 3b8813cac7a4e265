// Package audit is the trail of who did what: hub services add to it, administrators list and follow it.
//
// Nothing in it is ever changed. Events become visible one batch after the other, each under a number
// that is higher than all before, over any number of consoles; so whoever follows leaves nothing out.
package audit

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/audittrail"
)

const (
	defaultPageSize = 100
	maxPageSize     = 1000
	// lookEvery is how soon a follower hears of what another console recorded.
	lookEvery = 2 * time.Second
	// heartbeatEvery is the longest silence of a stream that lives.
	heartbeatEvery = 15 * time.Second
)

// ErrToken says that a page or resume token is not one of ours.
var ErrToken = errors.New("is not a token that the console gave: leave it out to begin anew")

// ErrGone says that a resume token is of a trail that went on further: the database was put back to an earlier state.
var ErrGone = errors.New("the trail ends before this place: its database was put back to an earlier state: " +
	"list events, and begin anew")

// Log is the audit trail of one installation.
type Log struct {
	store *store.Store

	mu    sync.Mutex // guards added
	added chan struct{}
}

// New returns the trail in a store.
func New(s *store.Store) *Log { return &Log{store: s, added: make(chan struct{})} }

// Append makes events durable. Events that are there already are passed over.
func (l *Log) Append(ctx context.Context, events []audittrail.Event) error {
	if err := l.store.AppendAudit(ctx, events); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.added)
	l.added = make(chan struct{})
	return nil
}

func (l *Log) next() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.added
}

// Page is a part of a list.
type Page struct {
	Events []audittrail.Event
	// Next is the token of the next page; empty: this is the last one.
	Next string
	// Resume is the place in the trail when the page was read, for Follow.
	Resume string
}

// List returns a page, the newest events first.
func (l *Log) List(ctx context.Context, f audittrail.Filter, size int, token string) (page Page, err error) {
	before, err := decodePage(token)
	if err != nil {
		return page, err
	}
	if size <= 0 {
		size = defaultPageSize
	}
	size = min(size, maxPageSize)
	err = l.store.ReadAll(ctx, func(ctx context.Context, v store.View) error {
		end, err := v.AuditEnd(ctx)
		if err != nil {
			return err
		}
		page.Resume = strconv.FormatInt(end, 10)
		page.Events, err = v.Audit(ctx, f, before, size+1)
		return err
	})
	if len(page.Events) > size {
		page.Events = page.Events[:size]
		last := page.Events[size-1]
		page.Next = encodePage(audittrail.Place{Time: last.Time, Seq: last.Seq})
	}
	return page, err
}

func encodePage(p audittrail.Place) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%d", p.Time.UnixMicro(), p.Seq))
}

func decodePage(token string) (p audittrail.Place, err error) {
	if token == "" {
		return p, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return p, ErrToken
	}
	at, seq, _ := strings.Cut(string(text), ".")
	micros, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return p, ErrToken
	}
	if p.Seq, err = strconv.ParseInt(seq, 10, 64); err != nil {
		return p, ErrToken
	}
	p.Time = time.UnixMicro(micros)
	return p, nil
}

// Follow sends what is recorded behind a place (empty: from now on) until ctx ends or send fails, and a
// heartbeat when there is nothing.
func (l *Log) Follow(ctx context.Context, f audittrail.Filter, resume string, send func(events []audittrail.Event, resume string) error) error {
	at, err := l.begin(ctx, resume)
	if err != nil {
		return err
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	// The first message says that the stream stands, and where.
	for silent := heartbeatEvery; ; silent += lookEvery {
		added := l.next()
		events, next, err := l.after(ctx, f, at)
		if err != nil {
			return err
		}
		at = next
		if len(events) > 0 || silent >= heartbeatEvery {
			if err := send(events, strconv.FormatInt(at, 10)); err != nil {
				return err
			}
			silent = 0
		}
		if len(events) == maxPageSize {
			continue // there may be more
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-added:
			silent -= lookEvery // no time has passed to speak of
		case <-look.C:
		}
	}
}

// End is the number of the last event, which is a place for Follow; 0: there was none.
func (l *Log) End(ctx context.Context) (at int64, err error) {
	err = l.store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		at, err = v.AuditEnd(ctx)
		return err
	})
	return at, err
}

// At is the id of the event of a number; empty: there is none.
func (l *Log) At(ctx context.Context, at int64) (id string, err error) {
	var events []audittrail.Event
	err = l.store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		events, err = v.AuditAfter(ctx, audittrail.Filter{}, at-1, 1)
		return err
	})
	if len(events) > 0 && events[0].Seq == at {
		id = events[0].ID
	}
	return id, err
}

// Gap tells whether events right behind a number may have gone out of the trail: the event of that number has, and the
// next one that is there is not the one after. A database may leave numbers out.
func (l *Log) Gap(ctx context.Context, at int64) (next int64, gap bool, err error) {
	var events []audittrail.Event
	err = l.store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		events, err = v.AuditAfter(ctx, audittrail.Filter{}, at-1, 1)
		return err
	})
	if err != nil || len(events) == 0 {
		return 0, false, err
	}
	next = events[0].Seq
	return next, next > at+1, nil
}

func (l *Log) begin(ctx context.Context, resume string) (at int64, err error) {
	if resume != "" {
		if at, err = strconv.ParseInt(resume, 10, 64); err != nil || at < 0 {
			return 0, ErrToken
		}
	}
	end, err := l.End(ctx)
	if err != nil || resume == "" {
		return end, err
	}
	if at > end { // it would be silent until there are as many events again
		return 0, ErrGone
	}
	return at, nil
}

// after reads what is behind a number, and says up to where that is everything.
func (l *Log) after(ctx context.Context, f audittrail.Filter, at int64) (events []audittrail.Event, next int64, err error) {
	err = l.store.Read(ctx, func(ctx context.Context, v store.View) error {
		end, err := v.AuditEnd(ctx)
		if err != nil || end <= at {
			next = at
			return err
		}
		next = end
		events, err = v.AuditAfter(ctx, f, at, maxPageSize)
		return err
	})
	if len(events) == maxPageSize {
		next = events[maxPageSize-1].Seq
	}
	return events, next, err
}
