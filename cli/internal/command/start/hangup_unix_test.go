//go:build unix

package start

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// A terminal that is closed ends what runs in it in order; with nohup it goes on. Not parallel: signals are the
// process's.
func TestUpEndsWithItsTerminal(t *testing.T) { //nolint:paralleltest // see above
	taken := make(chan os.Signal, 1) // also where the test itself runs with nohup
	signal.Notify(taken, syscall.SIGHUP)
	defer signal.Stop(taken)
	ctx, stop := untilHangup(t.Context())
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	stop()
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	ignoring, stop := untilHangup(t.Context())
	defer stop()
	if ignoring != t.Context() || !signal.Ignored(syscall.SIGHUP) {
		t.Error("nohup is not heeded")
	}
}
