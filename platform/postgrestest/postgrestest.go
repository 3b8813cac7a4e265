// Package postgrestest starts a private PostgreSQL for tests: real, on a unix socket in a temporary
// folder, with a database of its own for each test. A machine without PostgreSQL fails the test.
package postgrestest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/platform/longform"
	"fairlead.dev/platform/subprocess"
)

// startTimeout bounds initdb and the first start on a busy machine.
const startTimeout = time.Minute

// Server is a PostgreSQL server that starts with the first Database. The zero value is ready.
// Keep one per test binary and Stop it in TestMain.
type Server struct {
	// Dir is where its folder is made; empty: where temporary files are.
	Dir string
	// Listen is an IP address that it also listens at, on port 5432, for anyone of its network; empty: it listens at
	// its socket alone. URLs of databases name it then.
	Listen string
	// AsInstalled leaves buffers, log and autovacuum at PostgreSQL's own defaults, for measurements. Without it the
	// server is made for tests: a hundred small databases in little memory.
	AsInstalled bool

	mu        sync.Mutex
	root      string // temporary folder: data, socket, log
	bin       string // folder of the server's programs
	cred      *syscall.Credential
	process   *subprocess.Process // nil: not running
	databases int
}

// Database makes an empty database and returns its URL. The database is gone when the server stops. The short form
// skips the test.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	longform.Only(t, "PostgreSQL")
	db, err := s.NewDatabase()
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// NewDatabase is Database for programs that are no test.
func (s *Server) NewDatabase() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		if err := s.start(); err != nil {
			return "", fmt.Errorf("start PostgreSQL: %w", err)
		}
	}
	s.databases++
	name := "test" + strconv.Itoa(s.databases)
	if out, err := s.command("createdb", "-h", s.root, "-U", "postgres", name).CombinedOutput(); err != nil {
		return "", fmt.Errorf("create database: %w: %s", err, out)
	}
	if s.Listen != "" {
		return (&url.URL{Scheme: "postgres", User: url.User("postgres"), Host: net.JoinHostPort(s.Listen, "5432"), Path: "/" + name}).String(), nil
	}
	return (&url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/" + name, RawQuery: url.Values{"host": {s.root}}.Encode()}).String(), nil
}

// Login makes a user who has to show a password, and may do anything, and returns the URL of a database for that user.
func (s *Server) Login(t testing.TB, database, user, password string) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.query(t, fmt.Sprintf("CREATE ROLE %s LOGIN SUPERUSER PASSWORD '%s'", user, password))
	path := filepath.Join(s.data(), "pg_hba.conf")
	rules, err := os.ReadFile(path)
	if err == nil { // the first rule that fits counts
		err = os.WriteFile(path, append([]byte("local all "+user+" scram-sha-256\n"), rules...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.query(t, "SELECT pg_reload_conf()")
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

// SetPassword changes a user's password. Connections that stand are kept.
func (s *Server) SetPassword(t testing.TB, user, password string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.query(t, fmt.Sprintf("ALTER ROLE %s PASSWORD '%s'", user, password))
}

// query runs a statement as the server's first user. Callers hold mu.
func (s *Server) query(t testing.TB, statement string) {
	t.Helper()
	if out, err := s.command("psql", "-h", s.root, "-U", "postgres", "--no-psqlrc", "--quiet", "--command", statement, "postgres").CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", statement, err, out)
	}
}

// Restart kills the server with SIGKILL, as a crash would, and starts it again on its data.
// All databases of the server are hit by it: use a Server of its own for such a test.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Kill(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	// The server refuses to start while a backend of its former life still dies.
	deadline := time.Now().Add(startTimeout)
	for err := s.launch(); err != nil; err = s.launch() {
		if time.Now().After(deadline) {
			t.Fatalf("start PostgreSQL again: %v", err)
		}
	}
}

// Kill ends the server with SIGKILL. Restart starts it again.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		t.Fatal("kill PostgreSQL: it is not running")
	}
	s.kill()
}

// kill ends the server and its backends, which else would answer for another moment.
func (s *Server) kill() {
	pid := strconv.Itoa(s.process.Pid())
	children, _ := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "children")) // no children if it is gone
	s.signal(syscall.SIGKILL)
	for field := range strings.FieldsSeq(string(children)) {
		if child, err := strconv.Atoi(field); err == nil {
			_ = syscall.Kill(child, syscall.SIGKILL) // the child may have ended with the server
		}
	}
}

// Stop ends the server and removes its folder.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.signal(syscall.SIGQUIT) // at once: nothing of it is kept
		s.process = nil
	}
	if s.root == "" {
		return nil
	}
	return os.RemoveAll(s.root)
}

// signal sends sig and waits until the server has ended.
func (s *Server) signal(sig syscall.Signal) {
	_ = s.process.Signal(sig) // the process may have ended by itself
	<-s.process.Ended()
}

func (s *Server) start() (err error) {
	if s.bin, err = binaries(); err != nil {
		return err
	}
	if s.root, err = os.MkdirTemp(s.Dir, "fairlead-pg"); err != nil {
		return err
	}
	// The server refuses to run as root.
	if os.Geteuid() == 0 {
		if s.cred, err = unprivileged(); err != nil {
			return err
		}
		if err := os.Chown(s.root, int(s.cred.Uid), int(s.cred.Gid)); err != nil {
			return err
		}
	}
	out, err := s.command("initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync").CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	if s.Listen != "" {
		if err := s.admit("host all all samenet trust\n"); err != nil {
			return err
		}
	}
	return s.launch()
}

// admit adds a rule to those who may connect.
func (s *Server) admit(rule string) error {
	f, err := os.OpenFile(filepath.Join(s.data(), "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(rule)
	return errors.Join(err, f.Close())
}

func (s *Server) data() string { return filepath.Join(s.root, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...) //nolint:noctx // the server lives until Stop, whatever test started it
	cmd.Dir = s.root
	cmd.Env = []string{"PATH=" + s.bin + ":/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=" + s.root}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.cred}
	return cmd
}

// launch starts the server on its data and waits until it answers.
func (s *Server) launch() error {
	logPath := filepath.Join(s.root, "log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the server has its own copy
	args := []string{"-D", s.data(), "-k", s.root, "-c", "listen_addresses=" + s.Listen, "-c", "max_connections=200"}
	if !s.AsInstalled {
		args = append(args, "-c", "shared_buffers=16MB", "-c", "max_wal_size=64MB", "-c", "min_wal_size=32MB",
			"-c", "autovacuum_naptime=10min") // a worker visits each database once in that time, and tests make a hundred
	}
	cmd := s.command("postgres", args...)
	cmd.Stdout, cmd.Stderr = log, log
	process, err := subprocess.Start(cmd)
	if err != nil {
		return err
	}
	s.process = process
	return s.wait(logPath)
}

func (s *Server) wait(logPath string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(startTimeout)
	for {
		if s.command("psql", "-h", s.root, "-U", "postgres", "-qc", "SELECT 1").Run() == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.process.Ended():
			out, _ := os.ReadFile(logPath) // without it the error is still true
			return fmt.Errorf("the server ended: %s", out)
		case <-deadline:
			return fmt.Errorf("the server did not answer within %s", startTimeout)
		}
	}
}

// binaries finds the server's programs, which distributions keep out of PATH.
func binaries() (string, error) {
	var folders []string
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil { //nolint:noctx // answers at once
		folders = append(folders, strings.TrimSpace(string(out)))
	}
	installed, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is good
	folders = append(folders, installed...)
	if path, err := exec.LookPath("initdb"); err == nil {
		folders = append(folders, filepath.Dir(path))
	}
	for _, folder := range folders {
		if _, err := os.Stat(filepath.Join(folder, "initdb")); err == nil {
			return folder, nil
		}
	}
	return "", errors.New("found no PostgreSQL server; install it with: apt-get install postgresql")
}

func unprivileged() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and there is no user postgres or nobody")
}
