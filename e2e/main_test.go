// Package e2e tests the product through its public doors, as `fairlead up` runs it. All tests of the
// package share one running product; each works in folders, namespaces and services of its own.
package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"

	"fairlead.dev/e2e/stack"
	"fairlead.dev/platform/gitserver"
)

// product is the one that the tests share; started by the first that asks for it.
var product struct {
	once  sync.Once
	stack *stack.Stack
	err   error
	dir   string
}

func shared(t *testing.T) *stack.Stack {
	t.Helper()
	product.once.Do(func() {
		bins, err := stack.FindBinaries(context.Background(), "..")
		if err != nil {
			product.err = err
			return
		}
		if product.dir, product.err = os.MkdirTemp("", "fairlead-e2e-"); product.err != nil { //nolint:usetesting // it outlives the test
			return
		}
		ctx, cancel := context.WithTimeoutCause(context.Background(), patience,
			fmt.Errorf("gave up after %s", patience))
		defer cancel()
		product.stack, product.err = stack.Up(ctx, bins, product.dir, "--exec")
	})
	if product.err != nil {
		t.Fatal(product.err)
	}
	return product.stack
}

func TestMain(m *testing.M) {
	code := m.Run()
	if product.stack != nil {
		if err := product.stack.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the product:", err)
			code = 1
		}
	}
	if code == 0 && product.dir != "" {
		_ = os.RemoveAll(product.dir)
	} else if product.dir != "" {
		fmt.Fprintln(os.Stderr, "logs are kept in", filepath.Join(product.dir, "data", "logs"))
	}
	os.Exit(code)
}

// privateRepository serves a repository that wants a password, and returns its URL.
func privateRepository(t *testing.T, password string) string {
	t.Helper()
	git, err := gitserver.New(gitserver.Config{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := git.Create(t.Context(), "private", fstest.MapFS{"README.md": {Data: []byte("private\n")}}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, got, _ := r.BasicAuth(); got != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="private"`)
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		git.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/private.git"
}
