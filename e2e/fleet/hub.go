package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

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

// hub is the built programs, each a process of its own, over a Redis and a database.
type hub struct {
	cfg   Config
	urls  map[string]string
	ca    string // PEM file; empty: plaintext
	parts map[string]*process.Process
	git   *gitHost
	redis *gitcache.Alone
	db    postgrestest.Server
	http  *http.Client
	api   *api
}

// startHub starts what the catalog can be written with; follow starts the rest. What runs after an error
// is ended by stop.
func startHub(ctx context.Context, cfg Config) (h *hub, err error) {
	h = &hub{cfg: cfg, urls: map[string]string{}, parts: map[string]*process.Process{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.stop())
		}
	}()
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return h, err
	}
	if _, err := os.Stat(h.secretFile()); err != nil {
		if err := os.WriteFile(h.secretFile(), []byte(rand.Text()), 0o600); err != nil {
			return h, err
		}
	}
	addrs, err := process.FreeAddresses(len(hubParts()) + 1)
	if err != nil {
		return h, err
	}
	if h.git, err = startGit(ctx, cfg, addrs[len(hubParts())]); err != nil {
		return h, err
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
	for _, name := range hubParts() {
		h.parts[name] = process.New(cfg.Dir, name, filepath.Join(cfg.Bins, name), args[name]...)
	}
	if err := h.startPart(ctx, "console"); err != nil {
		return h, err
	}
	h.api, err = newAPI(ctx, h.http, h.urls, h.secretFile())
	return h, err
}

// follow starts what follows the catalog.
func (h *hub) follow(ctx context.Context) error {
	for _, name := range hubParts()[1:] {
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
	for i, name := range hubParts() {
		h.urls[name] = scheme + addrs[i]
		args[name] = append([]string{"--listen", addrs[i], "--data-dir", h.dir(name), "--hub-secret-file", h.secretFile()}, secured...)
	}
	for _, name := range hubParts()[1:] {
		args[name] = append(args[name], "--console-url", h.urls["console"], "--redis-url", h.redis.URL(), "--advertise-url", h.urls[name])
		if h.ca != "" {
			args[name] = append(args[name], "--hub-ca-file", h.ca)
		}
	}
	args["gitcache"] = append(args["gitcache"], "--allow-addresses", "127.0.0.0/8,::1/128")
	args["distributor"] = append(args["distributor"], "--next-poll", h.cfg.NextPoll.String())
	args["console"] = append(args["console"], "--advertise-console", h.urls["console"], "--advertise-gitcaches", h.urls["gitcache"],
		"--advertise-distributors", h.urls["distributor"], "--advertise-tunnels", h.urls["tunnel"])
	if h.cfg.Postgres {
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

func (h *hub) stop() error {
	var errs []error
	for _, name := range slices.Backward(hubParts()) {
		if p := h.parts[name]; p != nil && p.Pid() != 0 {
			errs = append(errs, p.Stop(stopGrace))
		}
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
