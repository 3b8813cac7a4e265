package skew

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/e2e/commits"
	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
)

// console is the only one, over SQLite.
type console struct {
	*process.Process
	t            *testing.T
	earlier, now string // folders of programs
	fairlead     string // the command
	dir, url     string
}

func startConsole(ctx context.Context, t *testing.T, commit string) *console {
	t.Helper()
	bins, err := stack.FindBinaries(ctx, "../..")
	if err != nil {
		t.Fatal(err)
	}
	earlier, err := build(ctx, commit)
	if errors.Is(err, commits.ErrHistory) {
		t.Skipf("no version skew is tested: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	addrs, err := process.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	c := &console{t: t, earlier: earlier, now: bins.Dir, fairlead: filepath.Join(bins.Dir, "fairlead"), dir: t.TempDir(), url: "http://" + addrs[0]}
	c.Process = process.New(c.dir, "console", filepath.Join(earlier, "console"), "--listen", addrs[0], "--data-dir", filepath.Join(c.dir, "data"))
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(time.Minute); err != nil {
			t.Error(err)
		}
	})
	c.ready(ctx)
	return c
}

func (c *console) replace(ctx context.Context, programs string) {
	c.t.Helper()
	if err := c.Stop(time.Minute); err != nil {
		c.t.Fatal(err)
	}
	c.Replace(filepath.Join(programs, "console"), c.Args...)
	if err := c.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.ready(ctx)
}

func (c *console) ready(ctx context.Context) {
	c.t.Helper()
	err := process.Await(ctx, "the console is ready", func(ctx context.Context) error {
		if ended, err := c.Ended(); ended {
			c.t.Fatalf("it has ended: %v: %s", err, c.Tail())
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/readyz", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }() // read or not
		if resp.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
			return fmt.Errorf("%s: %s", resp.Status, text)
		}
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// write applies a resource with a secret value, and finds it beside those that were written before.
func (c *console) write(ctx context.Context, name string, others ...string) {
	c.t.Helper()
	run := func(stdin string, args ...string) string {
		c.t.Helper()
		out, err := process.Run(ctx, []string{"FAIRLEAD_CONFIG=" + filepath.Join(c.dir, "fairlead.yaml")}, stdin, c.fairlead, args...)
		if err != nil {
			c.t.Fatalf("%s: %v", name, err)
		}
		return out
	}
	if _, err := os.Stat(filepath.Join(c.dir, "fairlead.yaml")); err != nil {
		run("", "login", c.url, "--hub-secret-file", filepath.Join(c.dir, "data", "hub.secret"))
	}
	run(fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: ConfigSet\nmetadata: {name: %[1]s}\nspec: {entries: {of: {text: text-of-%[1]s}, hidden: {secret: hidden-%[1]s}}}\n", name), "apply", "-f", "-")
	for _, name := range append(others, name) {
		if out := run("", "get", "configset", name, "-o", "json"); !strings.Contains(out, "text-of-"+name) {
			c.t.Errorf("%s: got %s", name, out)
		}
	}
}
