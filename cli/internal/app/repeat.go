package app

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// FormatMoment writes a time that may be unset.
func (a *App) FormatMoment(at *timestamppb.Timestamp) string {
	if at == nil {
		return "never"
	}
	return at.AsTime().Local().Format(time.DateTime)
}

const (
	// againPause is between two looks at what is no resource, such as a trace.
	againPause = 2 * time.Second
	// clearScreen has a terminal show what follows in place of what is there.
	clearScreen = "\x1b[H\x1b[2J"
)

// ages are those in a text, which change all the time.
var ages = regexp.MustCompile(`\b[0-9.]+(ms|s|m|h|d)\b`)

// RepeatText prints a text whenever it says something new, until the person has seen enough: on a terminal in its
// place, else one after the other.
func (a *App) RepeatText(ctx context.Context, format string, text func(context.Context) (string, error)) error {
	if format != FormatTable {
		return fmt.Errorf("--watch can't be shown as %s: leave out -o", format)
	}
	pause := time.NewTicker(againPause)
	defer pause.Stop()
	outage := a.NewOutage()
	for last, answered := "", false; ; {
		now, err := text(ctx)
		if err != nil && answered && outage.WaitOut(ctx, err) {
			continue
		}
		if ctx.Err() != nil {
			return nil // interrupted, as it is meant to end
		}
		if err != nil {
			return err
		}
		outage.End()
		answered = true
		screen := IsTerminal(a.Stdout) && a.Getenv("TERM") != "dumb"
		if plain := ages.ReplaceAllString(now, ""); screen || plain != last {
			if screen {
				now = clearScreen + now
			} else if last != "" {
				now = "\n" + now
			}
			if err := a.Printf("%s", now); err != nil {
				return err
			}
			last = plain
		}
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
	}
}
