package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"fairlead.dev/cli/internal/contexts"
	"fairlead.dev/cli/internal/up"
	"fairlead.dev/platform/client"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"fairlead": main})
}

// hub is a real one, which all scripts share: each uses names of its own.
type hub struct {
	Hub struct{ Console, Tunnel string }
	Git string
	CA  string `json:"caFile"`
	Key string `json:"hubSecretFile"`

	config string // Of the CLI, logged in.
}

func startHub(t *testing.T) hub {
	t.Helper()
	dir := t.TempDir()
	ready := filepath.Join(dir, "ready.json")
	log := &strings.Builder{}
	h := hub{config: filepath.Join(dir, "config.yaml")}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- up.Run(ctx, up.Options{
			DataDir: filepath.Join(dir, "data"), ListenHost: "127.0.0.1", NoClusters: true, ReadyFile: ready,
			User: "tester", Store: contexts.NewStore(h.config, nil), Stdout: log, Stderr: log,
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("up: %v\n%s", err, log)
		}
		done <- nil
	})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(ready)
		if err == nil {
			if err := json.Unmarshal(text, &h); err != nil {
				t.Fatal(err)
			}
			return h
		}
		if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			done <- nil
			t.Fatalf("up ended: %v", err)
		case <-tick.C:
		}
	}
}

func TestScripts(t *testing.T) {
	h := startHub(t)
	config, err := os.ReadFile(h.config)
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("FAIRLEAD_CONFIG", filepath.Join(env.WorkDir, "config.yaml"))
			env.Setenv("CONSOLE", h.Hub.Console)
			env.Setenv("TUNNEL", h.Hub.Tunnel)
			env.Setenv("GIT", h.Git)
			env.Setenv("CA", h.CA)
			env.Setenv("SECRET", h.Key)
			env.Setenv("MASTERKEY", filepath.Join(filepath.Dir(h.Key), "console", "master.key"))
			env.Setenv("USER", "tester")
			if kubelocal := os.Getenv("KUBELOCAL"); kubelocal != "" { // kubectl is beside it
				env.Setenv("PATH", env.Getenv("PATH")+string(os.PathListSeparator)+filepath.Dir(kubelocal))
			}
			return os.WriteFile(filepath.Join(env.WorkDir, "config.yaml"), config, 0o600)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"await": await, "offline": offline, "ask": ask, "follow": follow, "revoke": revoke, "desktop": desktop,
			"golden": compareGolden, "large": large, "receiver": receiver, "stand-in": standIn, "env-file": envFile,
			"id": idOf, "no-secret": noSecret,
		},
	})
}

// envFile sets a variable to the first line of a file: env-file NAME FILE.
func envFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: env-file NAME FILE")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}

// idOf sets a variable to the id that a file begins with, as in access/ID: id NAME FILE.
func idOf(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: id NAME FILE")
	}
	_, id, _ := strings.Cut(ts.ReadFile(args[1]), "/")
	id, _, _ = strings.Cut(id, " ")
	ts.Setenv(args[0], id)
}

// noSecret fails if what is in a file is in one of a folder: no-secret FILE FOLDER.
func noSecret(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: no-secret FILE FOLDER")
	}
	secret := strings.TrimSpace(ts.ReadFile(args[0]))
	ts.Check(filepath.WalkDir(ts.MkAbs(args[1]), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(text), secret) {
			err = fmt.Errorf("%s holds what is in %s", path, args[0])
		}
		return err
	}))
}

// follow logs in with a link that is in a file: follow FILE FLAGS...
func follow(ts *testscript.TestScript, neg bool, args []string) {
	fairlead(ts, neg, append([]string{"login", strings.TrimSpace(ts.ReadFile(args[0]))}, args[1:]...))
}

// revoke revokes the API token that is in a file: revoke FILE.
func revoke(ts *testscript.TestScript, neg bool, args []string) {
	fairlead(ts, neg, []string{"token", "revoke", strings.Split(ts.ReadFile(args[0]), "_")[1]})
}

func fairlead(ts *testscript.TestScript, neg bool, args []string) {
	if err := ts.Exec("fairlead", args...); (err != nil) != neg {
		ts.Fatalf("fairlead %s: %v", args[0], err)
	}
}

// ask asks the tunnel for a cluster's API as the owner of a kubectl credential, and expects a status: ask CREDENTIAL
// CLUSTER STATUS.
func ask(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: ask CREDENTIAL CLUSTER STATUS")
	}
	var credential struct {
		Status struct{ Token, ExpirationTimestamp string }
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &credential))
	until, err := time.Parse(time.RFC3339, credential.Status.ExpirationTimestamp)
	ts.Check(err)
	if left := time.Until(until); left > 10*time.Minute {
		ts.Fatalf("the credential is good for %s", left)
	}
	ca, err := os.ReadFile(ts.Getenv("CA"))
	ts.Check(err)
	hc, err := client.New(client.Config{CAPEM: ca})
	ts.Check(err)
	defer hc.CloseIdleConnections()
	// A right that was just granted or taken away reaches the tunnel within moments.
	for deadline := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
		status, body := askOnce(ts, hc, ts.Getenv("TUNNEL")+"/clusters/"+args[1]+"/api/v1/pods",
			credential.Status.Token)
		if fmt.Sprint(status) == args[2] {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%d: %s", status, body)
		}
	}
}

func askOnce(ts *testscript.TestScript, hc *http.Client, url, token string) (status int, body string) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	ts.Check(err)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := hc.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	ts.Check(err)
	return resp.StatusCode, string(text)
}

// offline makes gitcaches and distributors of a context unreachable: offline CONFIG.
func offline(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: offline CONFIG")
	}
	store := contexts.NewStore(ts.MkAbs(args[0]), nil)
	c, err := store.Get("")
	ts.Check(err)
	c.Endpoints.Gitcaches, c.Endpoints.Distributors = []string{"http://127.0.0.1:1"}, []string{"http://127.0.0.1:1"}
	ts.Check(store.Update(c))
}

// large writes a Secret with a value of so many bytes: large BYTES FILE.
func large(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: large BYTES FILE")
	}
	size, err := strconv.Atoi(args[0])
	ts.Check(err)
	text := "apiVersion: fairlead.dev/v1\nkind: Secret\nmetadata: {name: large}\ndata:\n  value: " +
		strings.Repeat("x", size) + "\n"
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
}

// receiver puts an address of its own, at which all is taken that is posted, in place of RECEIVER in a file: receiver
// FILE.
func receiver(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: receiver FILE")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.Header.Get("Fairlead-Signature") == "" {
			http.Error(w, "not signed", http.StatusBadRequest)
		}
	}))
	ts.Defer(server.Close)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.ReplaceAll(ts.ReadFile(args[0]), "RECEIVER",
		server.URL)), 0o600))
}

// await repeats a command until its output has a text, or, negated, has it no more: await TEXT COMMAND...
func await(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: await TEXT COMMAND...")
	}
	deadline := time.Now().Add(2 * time.Minute)
	for {
		err := ts.Exec(args[1], args[2:]...)
		out := ts.ReadFile("stdout")
		if err == nil && strings.Contains(out, args[0]) != neg {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%q is not in, or still in\n%s%s", args[0], out, ts.ReadFile("stderr"))
		}
		<-time.After(100 * time.Millisecond)
	}
}
