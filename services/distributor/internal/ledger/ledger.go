// Package ledger keeps what was delivered last, so that a restart with everything else away serves the
// same.
//
// The ledger is a log of records: what was had for a folder, however many services it is for, a service that is
// delivered something else, or what a service had before while newer content can't be had; the last record about each
// counts. Losing some of them costs a question to a gitcache, or has agents of such services wait for newer content.
package ledger

import (
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"log/slog"
	"maps"
	"path/filepath"

	"fairlead.dev/platform/durable"
	"fairlead.dev/platform/recordlog"
	"fairlead.dev/services/distributor/internal/plan"
)

const (
	fileName = "contents.log"
	// formerName had a line per service. The contents in it are asked for again.
	formerName = "deliveries.log"
	// maxLine bounds one record, in bytes; names, paths and commit subjects are all far below it.
	maxLine = 1 << 20
)

// entry is one line: one of these is set.
type entry struct {
	Content *plan.Content `json:"content,omitempty"`
	Gone    *plan.Key     `json:"gone,omitempty"` // a content
	Apart   *plan.Apart   `json:"apart,omitempty"`
	Earlier *plan.Earlier `json:"earlier,omitempty"`
}

// Ledger is the open log. For one goroutine.
type Ledger struct {
	records *recordlog.Log[entry]
	live    plan.Memory
}

// Open reads the ledger in dir, creating the folder if need be, and returns what was delivered last.
func Open(dir string, log *slog.Logger) (*Ledger, plan.Memory, error) {
	l := &Ledger{live: plan.Memory{Contents: map[plan.Key]*plan.Content{}, Apart: map[string]plan.Apart{}, Earlier: map[string]plan.Earlier{}}}
	options := recordlog.Options{Sum: crc32.MakeTable(crc32.Castagnoli), Sync: true, MaxLine: maxLine, Log: log}
	replay := func(e entry) { e.into(l.live) }
	var err error
	if l.records, err = recordlog.Open(filepath.Join(dir, fileName), options, replay, l.lines); err != nil {
		return nil, plan.Memory{}, fmt.Errorf("open ledger: %w", err)
	}
	if err := durable.Remove(filepath.Join(dir, formerName)); err != nil {
		return nil, plan.Memory{}, errors.Join(fmt.Errorf("open ledger: %w", err), l.Close())
	}
	return l, plan.Memory{Contents: maps.Clone(l.live.Contents), Apart: maps.Clone(l.live.Apart), Earlier: maps.Clone(l.live.Earlier)}, nil
}

// lines are what is live.
func (l *Ledger) lines() iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for _, c := range l.live.Contents {
			if !yield(entry{Content: c}) {
				return
			}
		}
		for _, a := range l.live.Apart {
			if !yield(entry{Apart: &a}) {
				return
			}
		}
		for _, e := range l.live.Earlier {
			if !yield(entry{Earlier: &e}) {
				return
			}
		}
	}
}

// into brings a line in. False: it changes nothing.
func (e entry) into(live plan.Memory) bool {
	switch {
	case e.Content != nil:
		live.Contents[e.Content.Key()] = e.Content
		return true
	case e.Gone != nil:
		_, known := live.Contents[*e.Gone]
		delete(live.Contents, *e.Gone)
		return known
	case e.Earlier != nil && len(e.Earlier.Digests) == 0:
		_, known := live.Earlier[e.Earlier.Service]
		delete(live.Earlier, e.Earlier.Service)
		return known
	case e.Earlier != nil:
		live.Earlier[e.Earlier.Service] = *e.Earlier
		return true
	case e.Apart == nil: // of another release
		return false
	case e.Apart.Over:
		_, known := live.Apart[e.Apart.Service]
		delete(live.Apart, e.Apart.Service)
		return known
	}
	live.Apart[e.Apart.Service] = *e.Apart
	return true
}

// Record adds what a change of the plan did. An error means that it may be forgotten by the next start.
func (l *Ledger) Record(c plan.Change) error {
	var news []entry
	for e := range entries(c) {
		if e.into(l.live) {
			news = append(news, e)
		}
	}
	if err := l.records.Append(news...); err != nil {
		return fmt.Errorf("record deliveries: %w", err)
	}
	return nil
}

// entries are the lines for a change. Entries that are gone come first: they may be back.
func entries(c plan.Change) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for i := range c.Gone {
			if !yield(entry{Gone: &c.Gone[i]}) {
				return
			}
		}
		for i := range c.Apart {
			if !yield(entry{Apart: &c.Apart[i]}) {
				return
			}
		}
		for i := range c.Earlier {
			if !yield(entry{Earlier: &c.Earlier[i]}) {
				return
			}
		}
		for _, content := range c.Superseded {
			if !yield(entry{Content: content}) {
				return
			}
		}
		for _, d := range c.Delivered {
			if !yield(entry{Content: d.Content}) {
				return
			}
		}
	}
}

// Close closes the file; everything is on the disk already.
func (l *Ledger) Close() error { return l.records.Close() }
