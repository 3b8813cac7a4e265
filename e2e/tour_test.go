package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/e2e/stack"
)

// Steps of the tour that other tests take: an export of the folder of make up, a browser, a service of the samples, and
// a cluster that joins.
var otherSteps = []string{"export PATH=", "fairlead open", "fairlead config hello-local-a", "fairlead cluster join "}

// A person can type the tour as it stands, one step after the other.
func TestTourCanBeTaken(t *testing.T) {
	t.Parallel()
	s := shared(t)
	bins, err := stack.FindBinaries(t.Context(), "..")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/tour.md")
	if err != nil {
		t.Fatal(err)
	}
	// Other tests have services and sources of these names, in the same hub.
	text := strings.NewReplacer("http://127.0.0.1:7480",
		strings.TrimSuffix(s.GitURL, "/sample.git")).Replace(string(page))
	text = regexp.MustCompile(`\b(web|shop)\b`).ReplaceAllString(text, "tour-$1")
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	dir, home := t.TempDir(), t.TempDir()
	env := append(os.Environ(),
		"PATH="+strings.Join([]string{bins.Dir, filepath.Dir(bins.Kubelocal), os.Getenv("PATH")}, ":"), "HOME="+home,
		"FAIRLEAD_CONFIG="+s.ConfigFile(), "FAIRLEAD_CA_FILE="+s.CAFile, "GIT_AUTHOR_NAME=Gil",
		"GIT_AUTHOR_EMAIL=gil@example.com", "GIT_COMMITTER_NAME=Gil", "GIT_COMMITTER_EMAIL=gil@example.com")
	steps := 0
	for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(text, -1) {
		for step := range strings.Lines(block[1]) {
			step = strings.TrimSpace(step)
			if slices.ContainsFunc(otherSteps, func(other string) bool { return strings.HasPrefix(step, other) }) {
				continue
			}
			steps++
			step = strings.Replace(step, " -f ", " ", 1) // which goes on for ever
			cmd := exec.CommandContext(ctx, "sh", "-c", step)
			cmd.Dir, cmd.Env = dir, env
			out, err := cmd.CombinedOutput()
			if err != nil && !strings.HasPrefix(step, "fairlead check") { // which says what other tests have broken
				t.Fatalf("%s: %v\n%s", step, err, out)
			}
		}
	}
	if steps < 25 {
		t.Errorf("only %d steps were found", steps)
	}
}
