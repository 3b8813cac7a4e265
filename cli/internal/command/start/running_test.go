package start

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/install"
	"fairlead.dev/cli/internal/up"
	"fairlead.dev/platform/localca"
)

// askGit asks for the refs of the sample repository, and returns the status and the answer.
func askGit(t *testing.T, client *http.Client, url, password string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/info/refs?service=git-upload-pack", nil)
	if err != nil {
		t.Fatal(err)
	}
	if password != "" {
		req.SetBasicAuth(install.GitUser, password)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func TestTheGitServerHasTheSampleForItsAccount(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files, err := localca.Ensure(filepath.Join(dir, "tls"), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := gitConfig{
		listen: "127.0.0.1:0", cert: files.CertFile, key: files.KeyFile, dir: filepath.Join(dir, "git"), password: password,
	}
	// A second start finds the repository of the first one.
	for range 2 {
		host, err := newGitHost(t.Context(), cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- host.Run(ctx) }()
		authority, err := os.ReadFile(files.CAFile)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(authority)
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
		client := &http.Client{Transport: transport}
		if status, body := askGit(t, client, host.URL("sample"), "secret"); status != http.StatusOK ||
			!strings.Contains(body, "refs/heads/main") {
			t.Errorf("with the password: %d %q", status, body)
		}
		for _, wrong := range []string{"", "secret\n", "Secret"} {
			if status, body := askGit(t, client, host.URL("sample"), wrong); status != http.StatusUnauthorized {
				t.Errorf("with the password %q: %d %q", wrong, status, body)
			}
		}
		if status, _ := askGit(t, client, host.URL("other"), "secret"); status != http.StatusNotFound {
			t.Errorf("of a repository that is not there: %d", status)
		}
		transport.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	}
}

func TestUpKeepsItsDataWhereTheEnvironmentSays(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		env                 map[string]string
		given, want         up.Options
		wantUser, wantError string
	}{
		"in the home folder": {
			env:  map[string]string{"HOME": "/home/kim", "USER": "kim"},
			want: up.Options{DataDir: "/home/kim/.local/share/fairlead"}, wantUser: "kim",
		},
		"in the folder for data": {
			env:  map[string]string{"HOME": "/home/kim", "XDG_DATA_HOME": "/data"},
			want: up.Options{DataDir: "/data/fairlead"}, wantUser: "admin",
		},
		"in a folder that is given": {
			env: map[string]string{"HOME": "/home/kim"}, given: up.Options{DataDir: "/mine"},
			want: up.Options{DataDir: "/mine"}, wantUser: "admin",
		},
		"with the kubeconfig of the environment": {
			env:   map[string]string{"HOME": "/home/kim", "KUBECONFIG": "/clusters"},
			given: up.Options{Contexts: []string{"a"}}, wantUser: "admin",
			want: up.Options{DataDir: "/home/kim/.local/share/fairlead", Kubeconfig: "/clusters"},
		},
		"with the kubeconfig of the person": {
			env: map[string]string{"HOME": "/home/kim"}, given: up.Options{Contexts: []string{"a"}}, wantUser: "admin",
			want: up.Options{DataDir: "/home/kim/.local/share/fairlead", Kubeconfig: "/home/kim/.kube/config"},
		},
		"with no kubeconfig, for local clusters": {
			env: map[string]string{"HOME": "/home/kim", "KUBECONFIG": "/clusters"}, wantUser: "admin",
			want: up.Options{DataDir: "/home/kim/.local/share/fairlead"},
		},
		"nowhere": {
			env:       map[string]string{"FAIRLEAD_CONFIG": "/config"},
			wantError: "where to keep the data is unknown: give --data-dir, or set HOME",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &app.App{IO: app.IO{Getenv: func(name string) string { return tt.env[name] }}}
			got := tt.given
			err := completeUp(a, &got)
			if err != nil {
				if err.Error() != tt.wantError {
					t.Errorf("got %v, want %s", err, tt.wantError)
				}
				return
			}
			if tt.wantError != "" || got.DataDir != tt.want.DataDir || got.Kubeconfig != tt.want.Kubeconfig ||
				got.User != tt.wantUser {
				t.Errorf("got %s, %s of %s", got.DataDir, got.Kubeconfig, got.User)
			}
		})
	}
}

func TestPauseEndsWhenItIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		cmd := pauseCommand()
		cmd.SetArgs([]string{}) // nil would be those of the test
		go func() { ended <- cmd.ExecuteContext(ctx) }()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("it ended by itself: %v", err)
		default:
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
