package views

import (
	"context"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/query"
)

const (
	// apart is between two messages to a watcher, and heartbeat the longest silence.
	apart, heartbeat = time.Second, 15 * time.Second
	// maxMessage is how many views are in one message.
	maxMessage = 500
)

// told is what a watcher has of a view.
type told struct {
	number    int64
	uid       string
	labels    string
	connected bool
	follows   bool
	refused   string
}

// Watch sends the views that fit, and then those that change, until ctx ends or send fails.
func (b *Board) Watch(ctx context.Context, question string, send func(*consolev1.WatchClusterViewsResponse) error) error {
	all, _, err := b.look(ctx, true)
	if err != nil {
		return err
	}
	expr, err := query.Parse(question, fieldsOf(all, question))
	if err != nil {
		return refusal.New(refusal.Invalid, "filter: %v", err)
	}
	has := map[string]told{}
	return stream(ctx, send, func() (changed, moved <-chan struct{}) { return b.Moved(), b.Clusters.Moved() },
		func(first bool) ([]*consolev1.WatchClusterViewsResponse, error) {
			return b.changesFor(ctx, expr, has, first)
		})
}

// stream sends news, again after each change, until ctx ends or something fails. It says that there is nothing when it
// was silent for heartbeat, also while there are changes that bring no news.
func stream(ctx context.Context, send func(*consolev1.WatchClusterViewsResponse) error, changes func() (changed, moved <-chan struct{}),
	news func(first bool) ([]*consolev1.WatchClusterViewsResponse, error),
) error {
	silence := time.NewTimer(heartbeat)
	defer silence.Stop()
	for first := true; ; first = false {
		changed, moved := changes()
		messages, err := news(first)
		if err != nil {
			return err
		}
		for _, m := range messages {
			if err := send(m); err != nil {
				return err
			}
			silence.Reset(heartbeat)
		}
		rest := time.After(apart)
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-changed:
				waiting = false
			case <-moved:
				waiting = false
			case <-silence.C:
				if err := send(&consolev1.WatchClusterViewsResponse{Heartbeat: &consolev1.Heartbeat{}}); err != nil {
					return err
				}
				silence.Reset(heartbeat)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-rest:
		}
	}
}

// changesFor is what a watcher does not have. The first message may be empty: the watcher knows then that nothing fits.
func (b *Board) changesFor(ctx context.Context, expr *query.Expr, has map[string]told, first bool) ([]*consolev1.WatchClusterViewsResponse, error) {
	all, _, err := b.look(ctx, false)
	if err != nil {
		return nil, err
	}
	fits := fitting(all, expr)
	out := []*consolev1.WatchClusterViewsResponse{{}}
	last := func() *consolev1.WatchClusterViewsResponse {
		if m := out[len(out)-1]; len(m.GetViews())+len(m.GetRemoved()) < maxMessage {
			return m
		}
		out = append(out, &consolev1.WatchClusterViewsResponse{})
		return out[len(out)-1]
	}
	there := make(map[string]bool, len(fits))
	for _, s := range fits {
		there[s.Name()] = true
		now := told{uid: s.UID(), labels: s.LabelText(), connected: s.Connected(), follows: s.unfollowed() == "", refused: s.rejection.why}
		if s.view != nil {
			now.number = s.view.number
		}
		if before, ok := has[s.Name()]; ok && before == now {
			continue
		}
		has[s.Name()] = now
		m := last()
		m.Views = append(m.Views, show(s))
	}
	for name := range has {
		if !there[name] {
			delete(has, name)
			m := last()
			m.Removed = append(m.Removed, name)
		}
	}
	if !first && len(out[0].GetViews())+len(out[0].GetRemoved()) == 0 {
		return nil, nil
	}
	return out, nil
}
