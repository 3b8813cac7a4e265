package status

import (
	"context"
	"slices"
	"time"
)

const (
	// lookEvery is how often a watch looks for changes.
	lookEvery = time.Second
	// heartbeat of a watch that has nothing to tell.
	heartbeat = 15 * time.Second
	// atATime bounds the sources of one event.
	atATime = 100
)

// Event is something to tell a watcher. One without anything is a heartbeat.
type Event struct {
	Sources []*Source
	Gone    []string // names
	Synced  bool
}

// Watch tells what the filter lets through, then what changes, until ctx ends or send fails. Of the sent sources Watch
// holds one pointer each: a slow reader misses what was between, and nothing waits for it.
func (v *View) Watch(ctx context.Context, filter string, send func(Event) error) error {
	f, err := ParseFilter(filter)
	if err != nil {
		return err
	}
	sent := map[string]*Source{}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	synced := false
	last := time.Now()
	for {
		all, _, err := v.all(ctx)
		if err != nil {
			return err
		}
		events := changes(f, all, sent)
		if !synced {
			events, synced = append(events, Event{Synced: true}), true
		}
		if len(events) == 0 && time.Since(last) >= heartbeat-lookEvery {
			events = []Event{{}}
		}
		for _, e := range events {
			if err := send(e); err != nil {
				return err
			}
			last = time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// changes is what of all is other than what was sent, and takes it for sent.
func changes(f Filter, all []*Source, sent map[string]*Source) []Event {
	var events []Event
	still := make(map[string]bool, len(sent))
	var some []*Source
	for _, s := range all {
		if !f.Match(s) {
			continue
		}
		still[s.Name] = true
		if sent[s.Name] != s {
			some, sent[s.Name] = append(some, s), s
		}
	}
	for part := range slices.Chunk(some, atATime) {
		events = append(events, Event{Sources: part})
	}
	var gone []string
	for name := range sent {
		if !still[name] {
			gone = append(gone, name)
			delete(sent, name)
		}
	}
	slices.Sort(gone)
	if len(gone) > 0 {
		events = append(events, Event{Gone: gone})
	}
	return events
}
