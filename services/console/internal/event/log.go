package event

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/index"
	"fairlead.dev/services/console/internal/query"
	"fairlead.dev/services/console/internal/store"
)

const (
	defaultPageSize = 100
	maxPageSize     = 1000
	// readRows is how many events are read at once, and maxRead how many for one page: one of a rare thing may be
	// short. maxLooked is at how many services of events of many a page looks: some hundred milliseconds.
	readRows, maxRead = 500, 20_000
	maxLooked         = 100_000
	// lookEvery is how soon a follower hears of what another console recorded.
	lookEvery = 2 * time.Second
	// heartbeatEvery is the longest silence of a stream that lives.
	heartbeatEvery = 15 * time.Second
)

// ErrGone says that what a follower missed is not kept any more.
var ErrGone = errors.New("what happened behind this place is not kept any more: list events, and begin anew")

// Log is the events of one installation.
type Log struct {
	store  *store.Store
	viewer index.Viewer
	now    func() time.Time
	tail   *tail
}

// NewLog returns the events in a store, which tells it of new ones. Run reads them for followers.
func NewLog(s *store.Store, viewer index.Viewer, now func() time.Time) *Log {
	return &Log{store: s, viewer: viewer, now: now, tail: newTail(s)}
}

// Run works until ctx ends.
func (l *Log) Run(ctx context.Context) error {
	l.tail.run(ctx)
	return nil
}

// Page is a part of a list.
type Page struct {
	Events []*consolev1.Event
	// Next is the token of the next page; empty: this is the last one.
	Next string
	// Resume is the place behind all events when the page was read, for Follow.
	Resume string
}

func parse(question string) (*query.Expr, error) {
	expr, err := query.Parse(question, Asked())
	if err != nil {
		return nil, refusal.New(refusal.Invalid, "filter: %v", err)
	}
	return expr, nil
}

// query is what of a filter the database can answer.
func eventQuery(expr *query.Expr, now time.Time) (q store.EventQuery) {
	q.Type, _ = expr.Needs("type")
	q.Cluster, _ = expr.Needs("cluster")
	q.Service, _ = expr.Needs("service")
	q.Since = expr.Since("time", now)
	return q
}

// List returns a page, the newest events first. There may be fewer than asked for, and none, before the last page.
func (l *Log) List(ctx context.Context, question string, size int, token string) (page Page, err error) {
	expr, err := parse(question)
	if err != nil {
		return page, err
	}
	before := int64(math.MaxInt64)
	if token != "" {
		if before, err = strconv.ParseInt(token, 10, 64); err != nil {
			return page, refusal.New(refusal.Invalid, "page_token: is not one that a list returned")
		}
	}
	if size <= 0 {
		size = defaultPageSize
	}
	sees, err := l.viewer.Viewer(ctx, true)
	if err != nil {
		return page, err
	}
	now := l.now()
	err = l.store.ReadAll(ctx, func(ctx context.Context, v store.View) error {
		end, err := v.EventsEnd(ctx)
		if err != nil {
			return err
		}
		page.Resume = strconv.FormatInt(end, 10)
		for read, looked := 0, 0; read < maxRead && looked < maxLooked; {
			rows, more, err := v.EventsBefore(ctx, eventQuery(expr, now), before, readRows)
			if err != nil {
				return err
			}
			for _, row := range rows {
				e, err := Decode(row)
				if err != nil {
					return err
				}
				if looked >= maxLooked {
					break
				}
				shown, n := fitting(e, expr, sees, now)
				if looked += n; shown == nil {
					before = row.Seq
					continue
				}
				if len(page.Events) == min(size, maxPageSize) {
					page.Next = strconv.FormatInt(before, 10)
					return nil
				}
				page.Events, before = append(page.Events, shown), row.Seq
			}
			if !more && looked < maxLooked {
				return nil
			}
			read += len(rows)
		}
		page.Next = strconv.FormatInt(before, 10)
		return nil
	})
	return page, err
}

// fitting is what of an event is asked for and may be seen; nil: nothing is. looked is as of Narrow.
func fitting(e Told, expr *query.Expr, sees index.Sees, now time.Time) (shown *consolev1.Event, looked int) {
	return e.Narrow(func(e *consolev1.Event) (is, sure bool) {
		is, sure = Whole(expr, e, now)
		return is, sure && (!is || sees == nil)
	}, func(e *consolev1.Event) bool { return fits(e, expr, sees, now) })
}

// fits says whether an event is asked for, and may be seen by who asks: that of a service, cluster, source and so on by
// whoever sees that, any other by who sees all.
func fits(e *consolev1.Event, expr *query.Expr, sees index.Sees, now time.Time) bool {
	if !expr.Match(Row{e}, now) {
		return false
	}
	switch {
	case sees == nil:
		return true
	case e.GetService() != "":
		return sees(store.KindService, e.GetService(), e.GetProject(), e.GetCluster())
	case e.GetCluster() != "":
		return sees(store.KindCluster, e.GetCluster(), "", "")
	case e.GetGlobalService() != "":
		return sees(store.KindGlobalService, e.GetGlobalService(), e.GetProject(), "")
	case e.GetSink() != "":
		return sees(store.KindSink, e.GetSink(), e.GetProject(), "")
	case e.GetAlert() != "": // names clusters, so it is for those who see all of them
		return sees(store.KindAlert, e.GetAlert(), "", "") && sees(store.KindCluster, "", "", "")
	case e.GetSource() != "":
		return sees(store.KindSource, e.GetSource(), "", "")
	}
	return false
}

// Follow sends what is recorded behind a place (empty: from now on) until ctx ends or send fails, and nothing when
// there is nothing.
func (l *Log) Follow(ctx context.Context, question, resume string, send func(events []*consolev1.Event, resume string) error) error {
	expr, err := parse(question)
	if err != nil {
		return err
	}
	failures := l.tail.join()
	defer l.tail.leave()
	at, err := l.begin(ctx, resume)
	if err != nil {
		return err
	}
	beat := time.NewTimer(heartbeatEvery)
	defer beat.Stop()
	// The first message says that the stream stands, and where.
	for begun, silent := false, false; ; begun = true {
		list, next, kept, moved, err := l.tail.behind(at, failures)
		if err != nil {
			return err
		}
		more := len(list) > 0
		var events []*consolev1.Event
		if begun && kept {
			events, err = l.chosen(ctx, expr, list)
		} else {
			events, next, more, err = l.after(ctx, expr, at)
		}
		if err != nil {
			return err
		}
		at = next
		if len(events) > 0 || silent || !begun {
			if err := send(events, strconv.FormatInt(at, 10)); err != nil {
				return err
			}
			beat.Reset(heartbeatEvery)
			silent = false
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		case <-beat.C:
			silent = true
		}
	}
}

// chosen are those that are asked for and may be seen.
func (l *Log) chosen(ctx context.Context, expr *query.Expr, list []entry) (events []*consolev1.Event, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	sees, err := l.viewer.Viewer(ctx, false)
	if err != nil {
		return nil, err
	}
	now := l.now()
	for _, e := range list {
		if shown, _ := fitting(e.event, expr, sees, now); shown != nil {
			events = append(events, shown)
		}
	}
	return events, nil
}

// begin returns the place of a token.
func (l *Log) begin(ctx context.Context, resume string) (at int64, err error) {
	if resume != "" {
		if at, err = strconv.ParseInt(resume, 10, 64); err != nil || at < 0 {
			return 0, refusal.New(refusal.Invalid, "resume_token: is not one that the console gave: leave it out to begin now")
		}
	}
	err = l.store.Read(ctx, func(ctx context.Context, v store.View) error {
		if resume != "" {
			_, err := endBehind(ctx, v, at)
			return err
		}
		at, err = v.EventsEnd(ctx)
		return err
	})
	return at, err
}

// endBehind is the number of the last event, unless events behind a place are not kept any more.
func endBehind(ctx context.Context, v store.View, at int64) (end int64, err error) {
	if end, err = v.EventsEnd(ctx); err != nil {
		return 0, err
	}
	gone, err := v.EventsGone(ctx)
	if err == nil && (at < gone || at > end) { // behind the end: another database was put in the place of this one
		err = ErrGone
	}
	return end, err
}

// after reads what is behind a number, and says up to where that is everything, and whether there may be more.
func (l *Log) after(ctx context.Context, expr *query.Expr, at int64) (events []*consolev1.Event, next int64, more bool, err error) {
	sees, err := l.viewer.Viewer(ctx, false)
	if err != nil {
		return nil, at, false, err
	}
	var rows []store.Event
	err = l.store.Read(ctx, func(ctx context.Context, v store.View) error {
		if next, err = endBehind(ctx, v, at); err != nil || next == at {
			return err
		}
		rows, more, err = v.EventsAfter(ctx, eventQuery(expr, l.now()), at, readRows)
		return err
	})
	if err != nil {
		return nil, at, false, err
	}
	if more {
		next = rows[len(rows)-1].Seq
	}
	for _, row := range rows {
		e, err := Decode(row)
		if err != nil {
			return nil, at, false, err
		}
		if shown, _ := fitting(e, expr, sees, l.now()); shown != nil {
			events = append(events, shown)
		}
	}
	return events, next, more, nil
}
