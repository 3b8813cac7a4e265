package telemetry

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestRecentLogIsTheEndInWholeLines(t *testing.T) {
	t.Parallel()
	var all bytes.Buffer
	log := NewLogger(&all, slog.LevelInfo, FormatText, "demo")
	if got := Recent(log); len(got) != 0 {
		t.Errorf("before the first line: %q", got)
	}
	log.Info("first")
	if got := Recent(log.With("k", "v")); !bytes.Equal(got, all.Bytes()) || len(got) == 0 {
		t.Errorf("got %q of %q", got, all.String())
	}
	for all.Len() < 5*recentBytes {
		log.Info("filler", "text", strings.Repeat("x", 1000))
	}
	log.Debug("not logged")
	log.Info("last")
	got := Recent(log)
	if len(got) > recentBytes || len(got) < recentBytes/2 || !bytes.HasSuffix(all.Bytes(), got) ||
		!bytes.HasPrefix(got, []byte("time=")) {
		t.Errorf("%d bytes, beginning with %.40q and ending with %q", len(got), got, got[max(0, len(got)-40):])
	}
	log.Info("a line that is longer than all that is kept", "text", strings.Repeat("x", 3*recentBytes))
	log.Info("after it")
	if got := Recent(log); len(got) > recentBytes || !strings.Contains(string(got), "after it") {
		t.Errorf("%d bytes, ending with %q", len(got), got[max(0, len(got)-40):])
	}
	if got := Recent(slog.New(slog.DiscardHandler)); got != nil {
		t.Errorf("of another logger: %q", got)
	}
}
