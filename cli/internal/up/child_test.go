//go:build unix

package up

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// play returns a child that plays a part of TestMain.
func play(t *testing.T, part string, line func(string)) *child {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &child{
		name: part, path: "/usr/bin/env", args: []string{"UP_TEST_PLAYS=" + part, self}, log: log, line: line,
		grace: childGrace,
		died:  func(err error, _ time.Duration) { t.Errorf("%s died: %v", part, err) },
	}
}

func TestChildEndsWhenAsked(t *testing.T) {
	t.Parallel()
	lines := make(chan string, 10)
	c := play(t, "cluster", func(line string) { lines <- line })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.run(ctx) }()
	if file, ok := readyLine(<-lines); !ok || file != "/a folder/kubeconfig" {
		t.Errorf("kubeconfig %q, %v", file, ok)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(c.log.Name()); err != nil || !strings.HasSuffix(string(text), "ending\n") {
		t.Errorf("log %q, %v", text, err)
	}
}

func TestChildLivesWithoutRoomForItsLog(t *testing.T) {
	t.Parallel()
	lines := make(chan string, 10)
	c := play(t, "cluster", func(line string) { lines <- line })
	if err := c.log.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.run(ctx) }()
	select {
	case line := <-lines:
		if _, ok := readyLine(line); !ok {
			t.Errorf("got %q", line)
		}
	case <-ctx.Done():
		t.Error("its lines are lost")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestChildThatDiesIsStartedAgain(t *testing.T) {
	t.Parallel()
	c := play(t, "mayfly", nil)
	ctx, cancel := context.WithCancel(t.Context())
	deaths := 0
	var pauses []time.Duration
	c.died = func(err error, again time.Duration) {
		if want := "exit status 3: last words"; err == nil || err.Error() != want {
			t.Errorf("told %v, want %s", err, want)
		}
		pauses = append(pauses, again)
		if deaths++; deaths == 2 {
			cancel()
		}
	}
	if err := c.run(ctx); err != nil {
		t.Error(err)
	}
	if deaths != 2 || pauses[0] < restartFloor/2 || pauses[1] < restartFloor || pauses[1] > 2*restartFloor {
		t.Errorf("%d deaths, pauses %v", deaths, pauses)
	}
}

func TestChildThatDoesNotEndIsKilled(t *testing.T) {
	t.Parallel()
	lines := make(chan string, 10)
	c := play(t, "deaf", func(line string) { lines <- line })
	c.grace = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.run(ctx) }()
	<-lines
	cancel()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "deaf did not end") {
		t.Errorf("got %v", err)
	}
}

func TestChildDoesNotGetOurSettings(t *testing.T) {
	t.Parallel()
	got := childEnvironment([]string{"HOME=/h", "FAIRLEAD_DATA_DIR=/d", "OTEL_X=y"})
	if strings.Join(got, " ") != "HOME=/h OTEL_X=y" {
		t.Errorf("got %v", got)
	}
}

func TestLineWriterPutsLinesTogether(t *testing.T) {
	t.Parallel()
	var lines []string
	w := &lineWriter{line: func(l string) { lines = append(lines, l) }}
	for _, part := range []string{"on", "e\ntwo\r\n", "", "thr", strings.Repeat("x", 2*maxTail), "\nfour\n"} {
		_, _ = w.Write([]byte(part))
	}
	if got := strings.Join(lines, "|"); got != "one|two||four" {
		t.Errorf("got %q", got)
	}
}
