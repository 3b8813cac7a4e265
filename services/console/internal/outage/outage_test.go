package outage

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestAnOutageIsToldOnceAndIsAnErrorWhenItLasts(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	var o Outage
	begin := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for s := range 45 {
		o.Failed(t.Context(), log, begin.Add(time.Duration(s)*time.Second), "it is away", errors.New("gone"))
	}
	for s := range 3 {
		o.Over(t.Context(), log, begin.Add(45*time.Second+time.Duration(s)*time.Second), "it is back")
	}
	o.Failed(t.Context(), log, begin.Add(50*time.Second), "it is away", errors.New("gone"))
	o.Failed(t.Context(), log, begin.Add(time.Hour), "it is away", errors.New("gone"))
	want := `level=WARN msg="it is away" err=gone since=2026-01-31T12:00:00Z
level=ERROR msg="it is away" err=gone since=2026-01-31T12:00:00Z
level=INFO msg="it is back" after=45s
level=WARN msg="it is away" err=gone since=2026-01-31T12:00:50Z
level=WARN msg="it is away" err=gone since=2026-01-31T13:00:00Z
`
	if text.String() != want {
		t.Errorf("got\n%swant\n%s", text.String(), want)
	}
}
