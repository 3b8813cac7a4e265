package e2e

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A person logs in by a link, finds a service, holds and resumes it, and sees a bad commit come and go, on the real
// product.
func TestPersonSeesAndSteersAServiceInABrowser(t *testing.T) {
	t.Parallel()
	needsABrowser(t)
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	ship, err := s.NewShip(ctx, "seen", "seen")
	if err != nil {
		t.Fatal(err)
	}
	if err := ship.WaitApplied(ctx, "first"); err != nil {
		t.Fatal(err)
	}
	link, err := s.Fairlead(ctx, "admin", "login-link", "ada", "--group", "fairlead:admins")
	if err != nil {
		t.Fatal(err)
	}
	inChromium(ctx, t, "journey.mjs", func(event string) error {
		files := map[string]map[string]string{"break": {"broken.yaml": "kind: [\n"}, "mend": {"broken.yaml": ""}}[event]
		_, err := ship.PushFiles(ctx, event, files)
		return err
	}, strings.TrimSpace(link), ship.Service(s.Clusters[0]))
}

// needsABrowser leaves a test out of the short form: browsers take most of its time.
func needsABrowser(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("the short form has no browser")
	}
}

// inChromium runs a script of e2e/browser with Chromium. Outside does what the script asks for, line by line, until it
// says "done".
func inChromium(ctx context.Context, t *testing.T, script string, outside func(event string) error, args ...string) {
	t.Helper()
	chromium, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		t.Fatal("no browser: run tools/install.sh")
	}
	if text, err := exec.CommandContext(ctx, "../tools/buf.sh", "--prepare").CombinedOutput(); err != nil {
		t.Fatalf("install playwright: %v\n%s", err, text)
	}
	modules, err := filepath.Abs("../tools/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "node", append([]string{"browser/" + script, chromium}, args...)...)
	cmd.Env = append(os.Environ(), "NODE_MODULES="+modules, "HOME="+t.TempDir())
	var failure bytes.Buffer
	cmd.Stderr = &failure
	answers, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := false
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if lines.Text() == "done" {
			done = true
			continue
		}
		if err := outside(lines.Text()); err != nil {
			t.Error(err)
		}
		if _, err := answers.Write([]byte("\n")); err != nil {
			t.Error(err)
		}
	}
	if err := cmd.Wait(); err != nil || !done {
		t.Fatalf("%v\n%s", err, &failure)
	}
}
