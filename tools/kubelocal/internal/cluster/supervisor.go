package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	stopLimit      = 5 * time.Second // from SIGTERM to SIGKILL, per component
	firstBackoff   = 200 * time.Millisecond
	longBackoff    = 5 * time.Second
	steadyAfter    = 10 * time.Second // a component that ran this long starts again with firstBackoff
	logTailBytes   = 8 << 10
	logTailLines   = 8
	logTailColumns = 240
	self           = "/proc/self/exe" // still this program when its file was replaced
)

// supervisor keeps components running. Every component has one goroutine, which starts it, waits
// for it and starts it again; stop ends them, newest first, and waits.
type supervisor struct {
	dir      string
	progress func(format string, args ...any)
	starts   chan start
	running  []component // newest last
}

type component struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when its process is gone for good
}

type start struct {
	cmd *exec.Cmd
	err chan error
}

func newSupervisor(dir string, progress func(string, ...any)) *supervisor {
	s := &supervisor{dir: dir, progress: progress, starts: make(chan start)}
	go s.fork()
	return s
}

// fork starts processes from one operating system thread that lives as long as this process: the
// kernel delivers Pdeathsig when the *thread* that forked a child ends, and the Go runtime may end
// any thread that no goroutine is locked to. Hence this goroutine never returns.
func (s *supervisor) fork() {
	runtime.LockOSThread()
	for start := range s.starts {
		start.err <- start.cmd.Start()
	}
}

// keep starts a component and keeps it running until stop.
func (s *supervisor) keep(ctx context.Context, name string, args []string) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // stop decides the order
	c := component{cancel: cancel, done: make(chan struct{})}
	s.running = append(s.running, c)
	go func() {
		defer close(c.done)
		s.loop(ctx, name, args)
	}()
}

func (s *supervisor) stop() {
	for len(s.running) > 0 {
		newest := s.running[len(s.running)-1]
		s.running = s.running[:len(s.running)-1]
		newest.cancel()
		<-newest.done
	}
}

func (s *supervisor) loop(ctx context.Context, name string, args []string) {
	path := filepath.Join(s.dir, logsDir, name+".log")
	if err := os.Rename(path, path+".old"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.progress("put the last log aside: %v", err)
	}
	for backoff := firstBackoff; ; backoff = min(2*backoff, longBackoff) {
		began := time.Now()
		from := size(path)
		err := s.runOnce(ctx, name, args, path)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > steadyAfter {
			backoff = firstBackoff
		}
		s.progress("%s died (%v); starting it again in %s. The end of %s:\n%s", name, err, backoff, path, logTail(path, from))
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff):
		}
	}
}

// runOnce runs a component until it ends by itself or ctx does. runOnce returns when the process is gone.
func (s *supervisor) runOnce(ctx context.Context, name string, args []string, logPath string) error {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open its log: %w", err)
	}
	defer log.Close()

	cmd := exec.CommandContext(ctx, self, args...) //nolint:gosec // this program itself
	cmd.Args[0] = name
	cmd.Dir = s.dir
	cmd.Env = []string{"HOME=" + s.dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopLimit
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true, // Ctrl-C in a terminal reaches this process only, which then stops them in order
		Pdeathsig: syscall.SIGKILL,
	}
	start := start{cmd: cmd, err: make(chan error, 1)}
	s.starts <- start
	if err := <-start.err; err != nil {
		return fmt.Errorf("start: %w", err)
	}
	err = cmd.Wait()
	if ctx.Err() != nil && killed(cmd.ProcessState) {
		s.progress("%s did not stop within %s and was killed", name, stopLimit)
	}
	if err == nil {
		return errors.New("exited with 0")
	}
	return err
}

func killed(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// logTail returns the last lines of a log after an offset, indented and cut to a screen's width or two.
func logTail(path string, from int64) string {
	file, err := os.Open(path)
	if err != nil {
		return "  " + err.Error()
	}
	defer file.Close()
	if end, err := file.Seek(0, io.SeekEnd); err == nil {
		_, _ = file.Seek(max(from, end-logTailBytes), io.SeekStart)
	}
	tail, err := io.ReadAll(io.LimitReader(file, logTailBytes))
	if err != nil {
		return "  " + err.Error()
	}
	lines := strings.Split(string(bytes.TrimSpace(tail)), "\n")
	lines = lines[max(0, len(lines)-logTailLines):]
	for i, line := range lines {
		lines[i] = "  " + line[:min(len(line), logTailColumns)]
	}
	return strings.Join(lines, "\n")
}
