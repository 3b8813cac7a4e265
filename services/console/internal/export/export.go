// Package export hands the audit trail on, event by event in the order in which it was written, to a file, an HTTP
// endpoint or a syslog server.
//
// Invariants: an event is passed over only when the destination has taken it, or everything before it went out of the
// trail; the place in the trail is on the disk and survives restarts, kill -9 and a power cut. So an event can come
// twice, after a kill or a broken connection: its id is the same then. Where events went out of the trail before they
// were exported stands an audit.gap. One batch is under way at a time.
package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/platform/durable"
	"fairlead.dev/platform/retry"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/store/audittrail"
)

const (
	// firstPause and mostPause bound the wait after a batch that was not taken.
	firstPause, mostPause = time.Second, time.Minute
	// sendTime bounds one batch.
	sendTime = 30 * time.Second
	// loudAfter failures in a row somebody must act: the trail keeps events for a while only.
	loudAfter = 10

	cursorFile = "audit-export"
	// eventSuffix is of the file beside it, with the same place and the id of the event there.
	eventSuffix = "-event"
)

// Destination takes events.
type Destination interface {
	// Send returns nil once the destination has taken all of a batch. Events are JSON without newlines.
	Send(ctx context.Context, events []audittrail.Event) error
	// Close ends connections.
	Close() error
}

// Exporter hands the trail on. New, then Run.
type Exporter struct {
	log         *slog.Logger
	trail       *audit.Log
	destination Destination
	cursor      string // file
	metrics     *Metrics
	pause       time.Duration // firstPause, but in tests
}

// New makes an exporter that keeps its place in dir.
func New(trail *audit.Log, destination Destination, dir string, metrics *Metrics, log *slog.Logger) *Exporter {
	return &Exporter{log: log, trail: trail, destination: destination, cursor: filepath.Join(dir, cursorFile), metrics: metrics, pause: firstPause}
}

// Run exports until ctx ends.
func (e *Exporter) Run(ctx context.Context) error {
	defer func() { _ = e.destination.Close() }() // the events that it has were flushed
	failures := 0
	for ctx.Err() == nil {
		at, err := e.place(ctx)
		if err == nil {
			at, err = e.passGap(ctx, at)
		}
		if err == nil {
			resume := strconv.FormatInt(at, 10)
			err = e.trail.Follow(ctx, audittrail.Filter{}, resume, func(events []audittrail.Event, resume string) error {
				if err := e.send(ctx, events, resume); err != nil {
					return err
				}
				failures = 0
				return nil
			})
		}
		if ctx.Err() != nil {
			return nil
		}
		failures++
		e.metrics.failed.Inc()
		e.tell(ctx, failures, err)
		wait := min(e.pause<<min(failures-1, 10), mostPause)
		retry.Sleep(ctx, retry.Between(wait/2, wait))
	}
	return nil
}

func (e *Exporter) tell(ctx context.Context, failures int, err error) {
	level := slog.LevelWarn
	if failures%loudAfter == 0 {
		level = slog.LevelError
	}
	e.log.Log(ctx, level, "the audit trail is not exported; it is tried again, and nothing is left out", "failures", failures, "err", err)
}

func (e *Exporter) send(ctx context.Context, events []audittrail.Event, resume string) error {
	if len(events) > 0 {
		limited, cancel := context.WithTimeout(ctx, sendTime)
		defer cancel()
		if err := e.destination.Send(limited, events); err != nil {
			return err
		}
		e.metrics.exported.Add(float64(len(events)))
		event := fmt.Sprintf("%s %s\n", resume, events[len(events)-1].ID)
		if err := durable.WriteFile(e.cursor+eventSuffix, []byte(event), 0o600); err != nil {
			return fmt.Errorf("keep the place in the audit trail: %w", err)
		}
	}
	if err := durable.WriteFile(e.cursor, []byte(resume+"\n"), 0o600); err != nil {
		return fmt.Errorf("keep the place in the audit trail: %w", err)
	}
	return nil
}

// place is where the trail was left; the first time its begin. A trail that is shorter, or has another event there, was
// put back from a backup: numbers begin again in the middle of what was exported, so that all of it is.
func (e *Exporter) place(ctx context.Context) (int64, error) {
	text, err := os.ReadFile(e.cursor)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the place in the audit trail: %w", err)
	}
	at, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || at < 0 {
		return 0, fmt.Errorf("%s holds no place in the audit trail: remove the file, and the whole trail is exported again", e.cursor)
	}
	end, err := e.trail.End(ctx)
	if err != nil {
		return 0, err
	}
	other, err := e.otherEvent(ctx, at)
	if err != nil {
		return 0, err
	}
	if end < at || other {
		e.log.WarnContext(ctx, "the audit trail is not the one that was exported, as after a restore: all of it is exported again",
			"exported", at, "end", end)
		return 0, nil
	}
	return at, nil
}

// otherEvent says whether the event at a place is not the one that was exported from there.
func (e *Exporter) otherEvent(ctx context.Context, at int64) (bool, error) {
	text, err := os.ReadFile(e.cursor + eventSuffix)
	if errors.Is(err, fs.ErrNotExist) { // the place was kept by an earlier release
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the place in the audit trail: %w", err)
	}
	of, exported, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if of != strconv.FormatInt(at, 10) { // the console ended between the two files, or the place is that of a gap
		return false, nil
	}
	id, err := e.trail.At(ctx, at)
	return id != "" && id != exported, err
}

// passGap says in the export that events behind a place are missing, and returns the place before the next one.
func (e *Exporter) passGap(ctx context.Context, at int64) (int64, error) {
	if at == 0 {
		return at, nil // the export begins with the oldest event
	}
	next, gap, err := e.trail.Gap(ctx, at)
	if err != nil || !gap {
		return at, err
	}
	e.log.ErrorContext(ctx, "events may be missing in the export of the audit trail: "+
		"they went out of the trail before they were exported", "exported", at, "next", next)
	return next - 1, e.send(ctx, []audittrail.Event{audit.Gap(time.Now())}, strconv.FormatInt(next-1, 10))
}

// lines are events as JSON lines.
func lines(events []audittrail.Event) []byte {
	var out bytes.Buffer
	for _, event := range events {
		out.Write(event.Event)
		out.WriteByte('\n')
	}
	return out.Bytes()
}
