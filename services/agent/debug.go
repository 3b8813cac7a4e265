package agent

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"fairlead.dev/platform/profile"
)

const (
	// DebugVerb is the first argument of the agent's program where the program asks the agent beside it.
	DebugVerb = "debug"
	// debugSocket is a file of the data folder: only the agent's user opens the file, on this machine or in this
	// container.
	debugSocket = "debug.sock"
	// debugHelp follows an error of the arguments.
	debugHelp = "usage: agent debug --data-dir=DIR PATH, with /metrics, /debug/pprof/heap, /debug/pprof/cpu?seconds=5 and the like as PATH"
)

// serveDebug serves metrics and profiles in the data folder, for "agent debug". An agent goes on without.
func (a *Agent) serveDebug(ctx context.Context) error {
	path := filepath.Join(a.cfg.DataDir, debugSocket)
	err := os.Remove(path) // of an agent before this one, which held the lock of the folder
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	var listener net.Listener
	if err == nil {
		listener, err = (&net.ListenConfig{}).Listen(ctx, "unix", path)
	}
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		a.log.Info("\"agent debug\" will find no metrics and profiles of this agent", "err", err)
		return nil
	}
	return serveUntil(ctx, listener, &http.Server{Handler: a.debugHandler(), ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: 16 << 10})
}

func (a *Agent) debugHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", a.allMetrics())
	mux.HandleFunc("GET /debug/pprof/{profile}", profile.Serve)
	return mux
}

// Debug asks the agent of a data folder for what it serves there, and writes the answer.
func Debug(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	set := flag.NewFlagSet("agent debug", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	dir := set.String("data-dir", getenv("FAIRLEAD_DATA_DIR"), "")
	if err := set.Parse(args); err != nil {
		return fmt.Errorf("%w\n%s", err, debugHelp)
	}
	if *dir == "" || set.NArg() != 1 {
		return errors.New(debugHelp)
	}
	hc := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", filepath.Join(*dir, debugSocket))
	}}}
	defer hc.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent"+set.Arg(0), http.NoBody)
	if err != nil {
		return fmt.Errorf("ask the agent: %w\n%s", err, debugHelp)
	}
	resp, err := hc.Do(req)
	if err != nil {
		return fmt.Errorf("ask the agent of %s, which has to run: %w", *dir, err)
	}
	defer func() { _ = resp.Body.Close() }() // was read
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // else the status has to do
		return fmt.Errorf("%s: %s %s", set.Arg(0), resp.Status, text)
	}
	_, err = io.Copy(stdout, resp.Body)
	return err
}
