// Package gitcache runs gitcaches as users run them, for tests and benches of the Git-aware origin: built
// programs over a real console, a real Redis and a real Git host, everything on loopback and in one
// folder. The behaviour of programs is judged at the resource: by the Git host's log, by the bytes that were served,
// and by the heads that the console was told.
package gitcache

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"fairlead.dev/e2e/process"
	"fairlead.dev/platform/client"
)

// Config of a fleet.
type Config struct {
	Bins        string // folder with the built programs
	Dir         string // for everything; made if missing
	DatabaseURL string // of the console; empty: SQLite
	Redis       Redis  // nil: the only gitcache is alone. Ended by the fleet.
	// TTL of leases; 0: what gitcaches do by themselves.
	TTL time.Duration
	// CacheBytes bounds each gitcache's artifacts; 0: what gitcaches do by themselves.
	CacheBytes int64
}

// Fleet is a console, a Git host and any number of gitcaches.
type Fleet struct {
	Host *Host
	// ConsoleURL is where the console is.
	ConsoleURL string

	cfg     Config
	console *process.Process
	api     *api
	http    *http.Client

	mu     sync.Mutex // guards what follows
	caches []*Cache
	repos  []*Repo
}

// Cache is a gitcache. Its name, address and data stay when it dies.
type Cache struct {
	*process.Process
	URL string
	dir string

	mu    sync.Mutex // guards state
	state state
}

type state int

const (
	stopped state = iota
	running
	paused
)

// Start starts a console and a Git host.
func Start(ctx context.Context, cfg Config) (f *Fleet, err error) {
	f = &Fleet{cfg: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Stop())
		}
	}()
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return f, err
	}
	if err := os.WriteFile(f.secretFile(), []byte(rand.Text()), 0o600); err != nil {
		return f, err
	}
	addrs, err := process.FreeAddresses(2)
	if err != nil {
		return f, err
	}
	f.ConsoleURL = "http://" + addrs[0]
	if f.http, err = client.New(client.Config{}); err != nil {
		return f, err
	}
	args := []string{"--listen", addrs[0], "--data-dir", filepath.Join(cfg.Dir, "console"), "--hub-secret-file", f.secretFile()}
	if cfg.DatabaseURL != "" {
		args = append(args, "--database-url", cfg.DatabaseURL)
	}
	f.console = process.New(cfg.Dir, "console", filepath.Join(cfg.Bins, "console"), args...)
	if err := f.console.Start(); err != nil {
		return f, err
	}
	if f.Host, err = newHost(filepath.Join(cfg.Dir, "git"), addrs[1], f.caller); err != nil {
		return f, err
	}
	if err := f.Host.Start(ctx); err != nil {
		return f, err
	}
	f.api = newAPI(f.http, f.ConsoleURL, f.secretFile())
	return f, f.ready(ctx, "the console", f.ConsoleURL)
}

func (f *Fleet) secretFile() string { return filepath.Join(f.cfg.Dir, "hub.secret") }

// Bins is where the programs are.
func Bins(top string) (string, error) {
	dir, err := filepath.Abs(filepath.Join(top, "bin"))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, "gitcache")); err != nil {
		return "", fmt.Errorf("no programs in %s: run `make build`", dir)
	}
	return dir, nil
}

// Stop ends everything, in the reverse order, and says what did not end well.
func (f *Fleet) Stop() error {
	var errs []error
	for _, c := range f.Caches() {
		if c.is() == paused {
			errs = append(errs, c.Resume())
		}
		if c.is() == running {
			errs = append(errs, c.Drain())
		}
	}
	if f.Host != nil {
		f.Host.Stop()
	}
	if f.console != nil {
		errs = append(errs, f.console.Stop(stopGrace))
	}
	if f.cfg.Redis != nil {
		errs = append(errs, f.cfg.Redis.Stop())
	}
	return errors.Join(errs...)
}

// Redis is what the gitcaches coordinate over.
func (f *Fleet) Redis() Redis { return f.cfg.Redis }

// Add starts one more gitcache, with an empty folder, and waits until it is ready.
func (f *Fleet) Add(ctx context.Context, name string) (*Cache, error) {
	addrs, err := process.FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	c := &Cache{URL: "http://" + addrs[0], dir: filepath.Join(f.cfg.Dir, name)}
	args := []string{
		"--listen", addrs[0], "--replica", name, "--data-dir", c.dir,
		"--console-url", f.ConsoleURL, "--hub-secret-file", f.secretFile(),
	}
	if f.cfg.Redis != nil {
		args = append(args, "--redis-url", f.cfg.Redis.URL())
	}
	c.Process = process.New(f.cfg.Dir, name, filepath.Join(f.cfg.Bins, "gitcache"), args...)
	c.Env = []string{"FAIRLEAD_ALLOW_ADDRESSES=127.0.0.0/8"}
	if f.cfg.TTL > 0 {
		c.Env = append(c.Env, "FAIRLEAD_LEASE_TTL="+f.cfg.TTL.String())
	}
	if f.cfg.CacheBytes > 0 {
		c.Args = append(c.Args, "--cache-bytes", strconv.FormatInt(f.cfg.CacheBytes, 10))
	}
	f.mu.Lock()
	f.caches = append(f.caches, c)
	f.mu.Unlock()
	return c, f.Run(ctx, c)
}

// Run starts a gitcache again, and waits until it is ready.
func (f *Fleet) Run(ctx context.Context, c *Cache) error {
	if err := c.Start(); err != nil {
		return err
	}
	c.set(running)
	if err := f.ready(ctx, c.Name, c.URL); err != nil {
		return fmt.Errorf("%w\n%s", err, c.Tail())
	}
	return nil
}

// Replace starts a gitcache again with its data lost.
func (f *Fleet) Replace(ctx context.Context, c *Cache) error {
	if err := os.RemoveAll(c.dir); err != nil {
		return err
	}
	return f.Run(ctx, c)
}

// Kill ends a gitcache as kill -9 does.
func (c *Cache) Kill() error {
	c.set(stopped)
	return c.Process.Kill()
}

// Drain asks a gitcache to end, and waits until it has.
func (c *Cache) Drain() error {
	if ended, err := c.Ended(); ended {
		return fmt.Errorf("%s has ended by itself (%v); its last words:\n%s", c.Name, err, c.Tail()) //nolint:errorlint // it may be nil
	}
	c.set(stopped)
	if err := c.Stop(stopGrace); err != nil {
		return err
	}
	if _, err := c.Ended(); err != nil {
		return fmt.Errorf("%s did not end well: %w; its last words:\n%s", c.Name, err, c.Tail())
	}
	return nil
}

// Pause stops a gitcache from doing anything, and leaves its connections open.
func (c *Cache) Pause() error {
	c.set(paused)
	return c.Signal(syscall.SIGSTOP)
}

// Resume lets it go on.
func (c *Cache) Resume() error {
	c.set(running)
	return c.Signal(syscall.SIGCONT)
}

// Dir is where it keeps its data.
func (c *Cache) Dir() string { return c.dir }

func (c *Cache) set(s state) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = s
}

func (c *Cache) is() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// Caches are all gitcaches, running or not.
func (f *Fleet) Caches() []*Cache {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.caches)
}

// Running are the gitcaches that run.
func (f *Fleet) Running() []*Cache {
	return slices.DeleteFunc(f.Caches(), func(c *Cache) bool { return c.is() != running })
}

// caller names the gitcache that has the other end of a connection.
func (f *Fleet) caller(local, remote net.Addr) string {
	names := map[int]string{}
	var pids []int
	for _, c := range f.Caches() {
		if pid := c.Pid(); pid > 0 {
			names[pid] = c.Name
			pids = append(pids, pid)
		}
	}
	return names[connectionHolder(local, remote, pids)]
}

func (f *Fleet) ready(ctx context.Context, what, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	return process.Await(ctx, what+" is ready", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		resp, err := f.http.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
}
