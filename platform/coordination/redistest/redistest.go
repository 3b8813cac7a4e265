// Package redistest starts real redis-servers for tests.
package redistest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fairlead.dev/platform/longform"
	"fairlead.dev/platform/subprocess"
)

// startTimeout is how long a redis-server may take to answer: it takes milliseconds, but the
// machine may be busy.
const startTimeout = 30 * time.Second

// Server is a redis-server of one test, on a unix socket in a folder of its own.
type Server struct {
	t      testing.TB
	binary string
	dir    string
	args   []string
	client *redis.Client

	process *subprocess.Process // nil: not running
}

// Start runs redis-server (from PATH) with extra arguments until the test ends: Start(t,
// "--maxmemory", "1mb"). As on its command line, the first may be a configuration file. Without
// the binary the test fails. The short form skips the test.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	longform.Only(t, "Redis")
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("redis-server is not in PATH: this test needs a real one. Install it: apt-get install redis-server")
	}
	// Not t.TempDir: its paths can be too long for a socket.
	dir, err := os.MkdirTemp("", "redis") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, binary: binary, dir: dir, args: args}
	s.client = redis.NewClient(&redis.Options{
		Network: "unix", Addr: s.socket(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, DisableIdentity: true,
	})
	t.Cleanup(func() {
		_ = s.client.Close()
		s.Kill()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s.start()
	return s
}

func (s *Server) socket() string { return filepath.Join(s.dir, "redis.sock") }

// URL is what coordination.Open takes.
func (s *Server) URL() string { return "unix://" + s.socket() }

func (s *Server) start() {
	s.t.Helper()
	var args []string
	extra := s.args
	if len(extra) > 0 && !strings.HasPrefix(extra[0], "--") {
		args, extra = append(args, extra[0]), extra[1:]
	}
	args = append(args,
		"--port", "0", "--unixsocket", s.socket(), "--dir", s.dir, "--save", "", "--appendonly", "no",
		"--logfile", filepath.Join(s.dir, "log"), "--daemonize", "no")
	args = append(args, extra...)
	var err error
	if s.process, err = subprocess.Start(exec.Command(s.binary, args...)); err != nil { //nolint:noctx // Kill ends it, in the order of the cleanups
		s.t.Fatalf("start redis-server: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for s.client.Ping(ctx).Err() != nil {
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			s.t.Fatalf("redis-server does not answer:\n%s", log)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Kill ends the server as kill -9 does. Its data is lost. Killing a dead server does nothing.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	s.process.Kill()
	s.process = nil
}

// Restart kills the server and starts it again under the same URL.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.start()
}

// Pause stops the process (SIGSTOP): connections stay open and nothing answers.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if s.process == nil {
		s.t.Fatal("redis-server is not running")
	}
	if err := s.process.Signal(sig); err != nil {
		s.t.Fatalf("send %s to redis-server: %v", sig, err)
	}
}

// Do runs a Redis command as the default user and returns its reply as text.
func (s *Server) Do(args ...any) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	reply, err := s.client.Do(ctx, args...).Result()
	if err != nil {
		s.t.Fatalf("redis %v: %v", args, err)
	}
	return fmt.Sprint(reply)
}
