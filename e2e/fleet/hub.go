package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"fairlead.dev/e2e/balancer"
	"fairlead.dev/e2e/gitcache"
	"fairlead.dev/e2e/process"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/localca"
	"fairlead.dev/platform/postgrestest"
)

// stopGrace is more than any part's own drain.
const stopGrace = 40 * time.Second

// Parts of the hub, in the order of their start.
func hubParts() []string { return []string{"console", "gitcache", "distributor", "tunnel"} }

// second is another distributor, where there are faults.
const second = "distributor-2"

// distributors are those of a run with faults.
func distributors() []string { return []string{"distributor", second} }

// names are all parts of a run.
func (c Config) names() []string {
	if c.Faults {
		return append(hubParts(), second)
	}
	return hubParts()
}

// program is what a part runs.
func program(part string) string {
	name, _, _ := strings.Cut(part, "-")
	return name
}

// hub is the built programs, each a process of its own, over a Redis and a database.
type hub struct {
	cfg   Config
	urls  map[string]string
	ca    string                      // PEM file; empty: plaintext
	parts map[string]*process.Process // none of a hub that runs elsewhere
	git   *gitHost
	small bool               // the first distributor's cache has a small disk of its own
	front *balancer.Balancer // nil: none
	redis *gitcache.Alone
	db    postgrestest.Server
	http  *http.Client
	api   *api
}

// reachHub returns a hub that runs already.
func reachHub(ctx context.Context, cfg Config) (h *hub, err error) {
	h = &hub{cfg: cfg, urls: maps.Clone(cfg.Elsewhere.URLs), ca: cfg.Elsewhere.file("tls/ca.crt")}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.stop(ctx))
		}
	}()
	if err := errors.Join(os.MkdirAll(cfg.Dir, 0o700), cfg.claim()); err != nil {
		return h, err
	}
	if h.git, err = startGit(ctx, cfg, cfg.Elsewhere.GitListen); err != nil {
		return h, err
	}
	if h.http, err = client.New(client.Config{CAFile: h.ca}); err != nil {
		return h, err
	}
	h.api, err = newAPI(ctx, h.http, h.urls, cfg.Elsewhere.file("hub/hub.secret"))
	return h, err
}

// startHub starts what the catalog can be written with; follow starts the rest. Processes that run after an error are
// ended by stop.
func startHub(ctx context.Context, cfg Config) (h *hub, err error) {
	h = &hub{cfg: cfg, urls: map[string]string{}, parts: map[string]*process.Process{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.stop(ctx))
		}
	}()
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return h, err
	}
	if err := cfg.claim(); err != nil {
		return h, err
	}
	if _, err := os.Stat(h.secretFile()); err != nil {
		if err := os.WriteFile(h.secretFile(), []byte(rand.Text()), 0o600); err != nil {
			return h, err
		}
	}
	names := cfg.names()
	addrs, err := process.FreeAddresses(len(names) + 2)
	if err != nil {
		return h, err
	}
	if h.git, err = startGit(ctx, cfg, addrs[len(names)]); err != nil {
		return h, err
	}
	if cfg.Faults {
		if err := h.prepareFaults(ctx, addrs[2], addrs[len(names)-1], addrs[len(names)+1]); err != nil {
			return h, err
		}
	}
	if h.redis, err = gitcache.StartAlone(ctx, cfg.Dir); err != nil {
		return h, err
	}
	args, err := h.arguments(addrs)
	if err != nil {
		return h, err
	}
	if h.http, err = client.New(client.Config{CAFile: h.ca}); err != nil {
		return h, err
	}
	for _, name := range names {
		h.parts[name] = process.New(cfg.Dir, name, filepath.Join(cfg.Bins, program(name)), args[name]...)
	}
	if err := h.startPart(ctx, "console"); err != nil {
		return h, err
	}
	h.api, err = newAPI(ctx, h.http, h.urls, h.secretFile())
	return h, err
}

// prepareFaults starts the balancer before both distributors, and gives one a small disk if that can be had.
func (h *hub) prepareFaults(ctx context.Context, one, two, listen string) (err error) {
	if h.front, err = balancer.Start(ctx, listen, []string{one, two}); err != nil {
		return err
	}
	cache := filepath.Join(h.dir("distributor"), "artifacts")
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return err
	}
	h.small = syscall.Mount("tmpfs", cache, "tmpfs", 0, "size=16m,mode=0700") == nil // a mount takes root
	return nil
}

// distributorURLs are those that agents are told of.
func (h *hub) distributorURLs() (urls []string) {
	for _, name := range h.cfg.names() {
		if program(name) == "distributor" {
			urls = append(urls, h.urls[name])
		}
	}
	return urls
}

// follow starts what follows the catalog.
func (h *hub) follow(ctx context.Context) error {
	if h.cfg.Elsewhere != nil {
		return nil // it runs already
	}
	for _, name := range h.cfg.names()[1:] {
		if err := h.startPart(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (h *hub) startPart(ctx context.Context, name string) error {
	if err := h.parts[name].Start(); err != nil {
		return err
	}
	return h.ready(ctx, name)
}

// dir is where a part keeps its data.
func (h *hub) dir(name string) string { return filepath.Join(h.cfg.Dir, name) }

func (h *hub) secretFile() string { return filepath.Join(h.cfg.Dir, "hub.secret") }

// arguments are those of each part, by name.
func (h *hub) arguments(addrs []string) (map[string][]string, error) {
	scheme, secured := "http://", []string(nil)
	if !h.cfg.Plaintext {
		files, err := localca.Ensure(filepath.Join(h.cfg.Dir, "tls"), "127.0.0.1", "localhost")
		if err != nil {
			return nil, err
		}
		scheme, h.ca, secured = "https://", files.CAFile, []string{"--tls-cert", files.CertFile, "--tls-key", files.KeyFile}
	}
	args := map[string][]string{}
	for i, name := range h.cfg.names() {
		h.urls[name] = scheme + addrs[i]
		args[name] = append([]string{"--listen", addrs[i], "--data-dir", h.dir(name), "--hub-secret-file", h.secretFile()}, secured...)
	}
	for _, name := range h.cfg.names()[1:] {
		args[name] = append(args[name], "--console-url", h.urls["console"], "--redis-url", h.redis.URL(), "--advertise-url", h.urls[name])
		if h.ca != "" {
			args[name] = append(args[name], "--hub-ca-file", h.ca)
		}
	}
	args["gitcache"] = append(args["gitcache"], "--allow-addresses", "127.0.0.0/8,::1/128")
	for _, name := range h.cfg.names() {
		if program(name) == "distributor" {
			args[name] = append(args[name], "--next-poll", h.cfg.NextPoll.String())
		}
	}
	if h.front != nil {
		h.urls["balancer"] = scheme + h.front.Addr()
	}
	args["console"] = append(args["console"], "--advertise-console", h.urls["console"], "--advertise-gitcaches", h.urls["gitcache"],
		"--advertise-distributors", h.urls["distributor"], "--advertise-tunnels", h.urls["tunnel"])
	if h.cfg.Postgres {
		h.db.AsInstalled = true
		url, err := h.db.NewDatabase()
		if err != nil {
			return nil, err
		}
		args["console"] = append(args["console"], "--database-url", url)
	}
	return args, nil
}

// ready waits until a part takes requests, or has ended.
func (h *hub) ready(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	return process.Await(ctx, name+" is ready", func(ctx context.Context) error {
		if ended, err := h.parts[name].Ended(); ended {
			cancel()
			return fmt.Errorf("%s ended: %w: %s", name, err, h.parts[name].Tail())
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.urls[name]+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		resp, err := h.http.Do(req)
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

// endPart ends a part with its drain, as an update does, or at once when ctx has ended: a person who interrupts a run
// waits for no drain.
func endPart(ctx context.Context, p *process.Process) error {
	interrupted := context.AfterFunc(ctx, func() { _ = p.Kill() }) // fails only if there is nothing left to kill
	defer interrupted()
	return p.Stop(stopGrace)
}

func (h *hub) stop(ctx context.Context) error {
	var errs []error
	for _, name := range slices.Backward(h.cfg.names()) {
		if p := h.parts[name]; p != nil && p.Pid() != 0 {
			errs = append(errs, endPart(ctx, p))
		}
	}
	if h.front != nil {
		errs = append(errs, h.front.Close())
	}
	if h.small {
		errs = append(errs, syscall.Unmount(filepath.Join(h.dir("distributor"), "artifacts"), syscall.MNT_DETACH))
	}
	if h.redis != nil {
		errs = append(errs, h.redis.Stop())
	}
	if h.git != nil {
		errs = append(errs, h.git.close())
	}
	if h.http != nil {
		h.http.CloseIdleConnections()
	}
	return errors.Join(append(errs, h.db.Stop())...)
}

// logged counts the lines of a level that a part wrote to its log.
func (h *hub) logged(name, level string) int {
	text, err := os.ReadFile(filepath.Join(h.cfg.Dir, name+".log"))
	if err != nil {
		return 0
	}
	return strings.Count(string(text), "level="+level) + strings.Count(string(text), `"level":"`+level+`"`)
}
