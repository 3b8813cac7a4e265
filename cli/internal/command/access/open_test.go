package access

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/cli/internal/app"
)

// TestBrowserGetsTheLoginLinkInAFile is not parallel: it sets the folder of temporary files.
func TestBrowserGetsTheLoginLinkInAFile(t *testing.T) { //nolint:paralleltest // t.Setenv
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	const address, link = "https://hub/service/shop", "https://hub/v1/login/once?to=%2Fservice%2Fshop#fairlead-login-abc"
	var out bytes.Buffer
	browser := "echo"
	a := &app.App{IO: app.IO{Getenv: func(string) string { return browser }, Stdout: &out, Stderr: &out}}

	if err := openPage(t.Context(), a, address, link); err != nil {
		t.Fatal(err)
	}
	page := strings.TrimSpace(out.String()) // the browser's arguments
	if strings.Contains(page, "fairlead-login") || !filepath.IsAbs(page) {
		t.Fatalf("the browser's argument is %q", page)
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), `content="0; url=`+link+`"`) {
		t.Errorf("the page is %q, %v", text, err)
	}
	for path, want := range map[string]os.FileMode{page: 0o600, filepath.Dir(page): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s is %v, %v", path, info, err)
		}
	}

	// A later command removes the page, but not that of a link that is still good.
	removePages(time.Now().Add(-openLifetime))
	if _, err := os.Stat(page); err != nil {
		t.Errorf("a new page is gone: %v", err)
	}
	old := time.Now().Add(-2 * openLifetime)
	if err := os.Chtimes(filepath.Dir(page), old, old); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := openPage(t.Context(), a, address, ""); err != nil || out.String() != address+"\n" {
		t.Errorf("without a link the browser gets %q, %v", &out, err)
	}
	browser = "no-such-browser"
	if err := openPage(t.Context(), a, address, link); err == nil {
		t.Error("no error without a browser")
	}
	if left, err := filepath.Glob(filepath.Join(temporary, "*")); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}
