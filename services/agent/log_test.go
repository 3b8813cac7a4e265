package agent

import (
	"log/slog"
	"testing"
)

// A configuration raises the least level that is logged above that of --log-level, and never lowers it below.
func TestLogIsOnlyNarrowed(t *testing.T) {
	t.Parallel()
	log, level := quieter(slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})))
	for _, step := range []struct{ to, least slog.Level }{
		{everything, slog.LevelInfo}, {slog.LevelDebug, slog.LevelInfo}, {slog.LevelError, slog.LevelError}, {slog.LevelWarn, slog.LevelWarn}, {everything, slog.LevelInfo},
	} {
		level.Set(step.to)
		for _, one := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			if got := log.With("a", 1).WithGroup("g").Enabled(t.Context(), one); got != (one >= step.least) {
				t.Errorf("at %v, %v is logged: %v", step.to, one, got)
			}
		}
	}
}
