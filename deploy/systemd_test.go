package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The units are those of docs/operate/machines.md: systemd reads each without a word, and each service gets the files
// of `fairlead init` only.
func TestUnitsAreWhatSystemdReads(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is missing: the units are not verified")
	}
	units, err := filepath.Glob("systemd/*.service")
	if err != nil || len(units) != 5 {
		t.Fatalf("%d units, %v", len(units), err)
	}
	program := regexp.MustCompile(`(?m)^ExecStart=/opt/fairlead/.*$`)
	dir := t.TempDir()
	args := []string{"verify", "--man=no"}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		// The programs are not installed here, and systemd wants to find them.
		to := filepath.Join(dir, filepath.Base(unit))
		if !program.Match(text) {
			t.Errorf("%s starts no program of /opt/fairlead", unit)
		}
		if err := os.WriteFile(to, program.ReplaceAll(text, []byte("ExecStart=/bin/true")), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, to)
	}
	out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput()
	// It speaks of units of this machine, too.
	ours := slices.ContainsFunc(strings.Split(string(out), "\n"),
		func(line string) bool { return strings.Contains(line, dir) || strings.Contains(line, "fairlead-") })
	if err != nil || ours {
		t.Errorf("systemd-analyze verify: %v: %s", err, out)
	}
}

// The variables of a unit that name files name those that the unit loads.
func TestUnitsLoadTheFilesThatTheyName(t *testing.T) {
	t.Parallel()
	units, err := filepath.Glob("systemd/*.service")
	if err != nil {
		t.Fatal(err)
	}
	loads, names := regexp.MustCompile(`(?m)^LoadCredential=([^:]+):/etc/fairlead/secrets/`), regexp.MustCompile(`(?m)^Environment=FAIRLEAD_\w+=%d/(.+)$`)
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		loaded := map[string]bool{}
		for _, m := range loads.FindAllStringSubmatch(string(text), -1) {
			loaded[m[1]] = false
		}
		for _, m := range names.FindAllStringSubmatch(string(text), -1) {
			if _, there := loaded[m[1]]; !there {
				t.Errorf("%s names %s and does not load it", unit, m[1])
			}
			loaded[m[1]] = true
		}
		for name, named := range loaded {
			// the console's URL of PostgreSQL names it
			if !named && (name != "ca.crt" || !strings.HasSuffix(unit, "console.service")) {
				t.Errorf("%s loads %s and names it nowhere", unit, name)
			}
		}
	}
}

// The units read copies of the secrets, which systemd makes at their start: pages that have a secret written say to
// restart them.
func TestPagesRestartUnitsThatReadCopies(t *testing.T) {
	t.Parallel()
	units, err := filepath.Glob("systemd/*.service")
	if err != nil {
		t.Fatal(err)
	}
	var loaded strings.Builder
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		loaded.Write(text)
	}
	for _, c := range []struct{ credential, page, from, to string }{
		{"hub.secret", "../SECURITY.md", "- The hub secret: ", "\n- "},
		{"hub.secret", "../docs/operate/backup.md", "| `hub.secret` |", "\n"},
		{"hub.secret", "../docs/operate/rotate.md", "## The hub secret\n", "\n## "},
		{"redis.url", "../docs/operate/rotate.md", "## The password of Redis\n", "\n## "},
		{"ca.crt", "../docs/operate/rotate.md", "## The authority of Redis\n", "\n## "},
		{"database.url", "../docs/operate/rotate.md", "## The password of PostgreSQL\n", "\n## "},
	} {
		if !strings.Contains(loaded.String(), "LoadCredential="+c.credential+":") {
			continue
		}
		text, err := os.ReadFile(c.page)
		if err != nil {
			t.Fatal(err)
		}
		_, section, found := strings.Cut(string(text), c.from)
		section, _, _ = strings.Cut(section, c.to)
		if !found || !strings.Contains(section, "try-restart") {
			t.Errorf("%s, %q: does not say to restart units, which go on with the old %s", c.page, c.from, c.credential)
		}
	}
}
