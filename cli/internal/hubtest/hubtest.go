// Package hubtest runs command lines against a hub whose answers a test gives, and compares all that a person sees with
// a text.
// What a real hub answers is tested by the scripts of cmd/fairlead and e2e.
package hubtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/command"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
)

// Words that stand in the texts of a Case for addresses that are others in every run.
const (
	// Hub is where the hub is: its console, and its gitcaches and tunnels unless the case says otherwise.
	Hub = "HUB"
	// Away is an address where nothing listens.
	Away = "AWAY"
	// Folder is a folder of the case's own.
	Folder = "FOLDER"
	// Config is the file with the person's contexts, which is not there.
	Config = "CONFIG"
)

// away is what Away stands for: no test listens at port 1, since tests listen at ports that the kernel chooses, which
// are higher.
const away = "http://127.0.0.1:1"

// Answer is what the hub answers to one procedure or path.
type Answer struct {
	path    string
	handler func(asked func(string)) http.Handler
}

// On answers a procedure. With http.ErrAbortHandler the connection breaks.
func On[Req, Res any](procedure string, do func(*Req) (*Res, error)) Answer {
	return Answer{procedure, func(asked func(string)) http.Handler {
		return connect.NewUnaryHandlerSimple(procedure, func(_ context.Context, req *Req) (*Res, error) {
			asked(describe(procedure, req))
			res, err := do(req)
			if errors.Is(err, http.ErrAbortHandler) {
				panic(err) // the connection breaks
			}
			return res, err
		})
	}}
}

// OnStream answers a procedure with several messages, and then with an error, if there is one.
func OnStream[Req, Res any](procedure string, fails error, messages ...*Res) Answer {
	return OnStreams(procedure, func(*Req) ([]*Res, error) { return messages, fails })
}

// OnStreams answers a procedure with the messages of a request, and then with an error, if there is one; with
// http.ErrAbortHandler the connection breaks.
func OnStreams[Req, Res any](procedure string, do func(*Req) ([]*Res, error)) Answer {
	return Answer{procedure, func(asked func(string)) http.Handler {
		stream := func(_ context.Context, req *Req, out *connect.ServerStream[Res]) error {
			asked(describe(procedure, req))
			messages, fails := do(req)
			for _, m := range messages {
				if err := out.Send(m); err != nil {
					return err
				}
			}
			if errors.Is(fails, http.ErrAbortHandler) {
				panic(fails) // the connection breaks
			}
			return fails
		}
		return connect.NewServerStreamHandlerSimple(procedure, stream)
	}}
}

// Returns answers a procedure with the same message always.
func Returns[Req, Res any](procedure string, res *Res) Answer {
	return On(procedure, func(*Req) (*Res, error) { return res, nil })
}

// Refuses answers a procedure with an error always.
func Refuses[Req, Res any](procedure string, code connect.Code, text string) Answer {
	return On(procedure, func(*Req) (*Res, error) { return nil, connect.NewError(code, errors.New(text)) })
}

// Page answers GET of a path, such as one of a cluster's API behind the tunnel.
func Page(path string, status int, body string) Answer {
	return OnPage(path, func(*http.Request) (int, string) { return status, body })
}

// OnPage answers a path with a status and a body for each request. With the status 0 the connection breaks behind the
// body.
func OnPage(path string, do func(*http.Request) (status int, body string)) Answer {
	return Answer{path, func(asked func(string)) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked(r.Method + " " + r.URL.Path)
			status, body := do(r)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(cmp.Or(status, http.StatusOK))
			_, _ = io.WriteString(w, body)
			if status == 0 {
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}
		})
	}}
}

// describe is a request in one line: its procedure without the service, and its fields.
func describe(procedure string, req any) string {
	text, err := app.JSONLine(req.(proto.Message))
	if err != nil {
		text = err.Error()
	}
	return procedure[strings.LastIndexByte(procedure, '/')+1:] + " " + text
}

// Case is a command line, what the hub answers it, and all that is seen of it.
type Case struct {
	// Line is what a person types behind "fairlead"; a word with spaces stands between single quotes.
	Line  string
	Stdin string
	// Env is what the environment has besides the token.
	Env map[string]string
	Hub []Answer
	// Files are in Folder before, by name; Prepare does what else has to be done there.
	Files   map[string]string
	Prepare func(t *testing.T, folder string)
	// Gitcaches are what the console says where its gitcaches are; nil: at the hub. Tunnels likewise. No distributor is
	// known unless the case says so.
	Gitcaches, Tunnels, Distributors []string
	// NoHub has the command line go without a token, and without the --server that is added to lines that have none.
	NoHub bool

	// Asked are the requests that the hub got, one a line, in order. A hub that is asked in parallel is told by Any.
	Asked string
	// Any has the order of requests not matter: Asked is sorted.
	Any bool
	// Stdout and Stderr are all that is printed, Err is what the command ends with.
	Stdout, Stderr, Err string
	// Left are all files that are in Folder afterwards, by name; nil: they are not looked at.
	Left map[string]string
}

// Run runs each case, with a hub for each.
func Run(t *testing.T, cases map[string]Case) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.run(t)
		})
	}
}

func (c Case) run(t *testing.T) {
	t.Helper()
	hub, asked := c.start(t)
	folder := t.TempDir()
	places := []string{Hub, hub.URL, Away, away, Folder, folder}
	config := filepath.Join(t.TempDir(), "config.yaml")
	// The hub stands before away, which may be how its address begins.
	back := strings.NewReplacer(hub.URL, Hub, away, Away, folder, Folder, config, Config).Replace
	asked.endpoints = &consolev1.Endpoints{
		Gitcaches: fill(c.Gitcaches, hub.URL, places), Tunnels: fill(c.Tunnels, hub.URL, places),
		Distributors: fill(append([]string{}, c.Distributors...), hub.URL, places),
	}
	for name, text := range c.Files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if c.Prepare != nil {
		c.Prepare(t, folder)
	}
	env := map[string]string{"FAIRLEAD_CONFIG": config, "FAIRLEAD_TOKEN": "token"}
	args := splitLine(strings.NewReplacer(places...).Replace(c.Line))
	if c.NoHub {
		delete(env, "FAIRLEAD_TOKEN")
	} else if !slices.Contains(args, "--server") {
		args = append(args, "--server", hub.URL)
	}
	for name, value := range c.Env {
		env[name] = strings.NewReplacer(places...).Replace(value)
	}
	var stdout, stderr bytes.Buffer
	failed := ""
	if err := command.Run(t.Context(), args, app.IO{
		Getenv: func(name string) string { return env[name] }, Stdin: strings.NewReader(c.Stdin),
		Stdout: &stdout, Stderr: &stderr, Now: clitest.Noon,
	}); err != nil {
		failed = err.Error()
	}
	for _, seen := range []struct{ what, got, want string }{
		{"stdout", back(stdout.String()), c.Stdout},
		{"stderr", back(stderr.String()), c.Stderr},
		{"error", back(failed), c.Err},
		{"asked", back(asked.text(c.Any)), c.Asked},
	} {
		if seen.got != seen.want {
			t.Errorf("fairlead %s: %s is\n%s\nwant\n%s", c.Line, seen.what, seen.got, seen.want)
		}
	}
	if c.Left == nil {
		return
	}
	if left := filesOf(t, folder); !maps.Equal(left, c.Left) {
		t.Errorf("fairlead %s: left are %q\nwant %q", c.Line, left, c.Left)
	}
}

// filesOf reads all files of a folder, by name.
func filesOf(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := map[string]string{}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		found[entry.Name()] = string(text)
	}
	return found
}

// start starts the hub of a case.
func (c Case) start(t *testing.T) (*httptest.Server, *record) {
	t.Helper()
	asked, mux := &record{}, http.NewServeMux()
	mux.Handle(consolev1connect.IdentityServiceRenewTokenProcedure, connect.NewUnaryHandlerSimple(
		consolev1connect.IdentityServiceRenewTokenProcedure,
		func(context.Context, *consolev1.RenewTokenRequest) (*consolev1.RenewTokenResponse, error) {
			return &consolev1.RenewTokenResponse{Endpoints: asked.endpoints, Token: &consolev1.Token{
				Token: "lent", ExpireTime: timestamppb.New(time.Now().Add(time.Hour)),
			}}, nil
		}))
	for _, a := range c.Hub {
		mux.Handle(a.path, a.handler(asked.add))
	}
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server, asked
}

// record is what a hub was asked, and what it says where its parts are.
type record struct {
	endpoints *consolev1.Endpoints // is set before the command runs

	mu    sync.Mutex // guards lines
	lines []string
}

func (r *record) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line+"\n")
}

func (r *record) text(sorted bool) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if sorted {
		slices.Sort(r.lines)
	}
	return strings.Join(r.lines, "")
}

// fill returns the addresses that words stand for, or the hub's if there are none.
func fill(words []string, hub string, places []string) []string {
	if words == nil {
		return []string{hub}
	}
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = strings.NewReplacer(places...).Replace(word)
	}
	return out
}

// splitLine splits a line at spaces that are not between single quotes.
func splitLine(line string) []string {
	var words []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
			continue
		}
		words = append(words, strings.Fields(part)...)
	}
	return words
}
