package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"fairlead.dev/e2e/stack"
	"fairlead.dev/platform/steady"
)

// What people see of services in real clusters. The scripts without clusters are beside the CLI.
func TestScripts(t *testing.T) {
	t.Parallel()
	s := shared(t)
	bins, err := stack.FindBinaries(t.Context(), "..")
	if err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(s.ConfigFile())
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			path := []string{bins.Dir, filepath.Dir(bins.Kubelocal), env.Getenv("PATH")}
			env.Setenv("PATH", strings.Join(path, string(os.PathListSeparator)))
			env.Setenv("FAIRLEAD_CONFIG", filepath.Join(env.WorkDir, "config.yaml"))
			env.Setenv("GIT", s.GitURL)
			env.Setenv("HUB", s.Hub["console"])
			env.Setenv("CA", s.CAFile)
			env.Setenv("FAIRLEAD_CA_FILE", s.CAFile)
			env.Setenv("KUBECONFIG_A", s.Clusters[0].Kubeconfig)
			return os.WriteFile(filepath.Join(env.WorkDir, "config.yaml"), config, 0o600)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"await": awaitText, "golden": golden},
	})
}

// awaitText repeats a command until what it prints is like a pattern: await PATTERN COMMAND...
func awaitText(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await PATTERN COMMAND...")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for deadline := time.Now().Add(patience); ; <-time.After(200 * time.Millisecond) {
		err := ts.Exec(args[1], args[2:]...)
		out := ts.ReadFile("stdout") + ts.ReadFile("stderr")
		if pattern.MatchString(out) { // diff fails where there is one
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no %q in\n%s%v", args[0], out, err)
		}
	}
}

// golden compares what was printed with a file, but for what is another in every run, and for the width of columns:
// golden FILE.
func golden(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: golden FILE")
	}
	got, want := steady.Text(ts.ReadFile("stdout")+ts.ReadFile("stderr")), ts.ReadFile(args[0])
	got = versions.ReplaceAllString(got, "agent VERSION, Kubernetes VERSION")
	if got != want {
		ts.Fatalf("%s: got\n%s\nwant\n%s", args[0], got, want)
	}
}

// versions are those of a cluster, as trace says them.
var versions = regexp.MustCompile(`agent \S+, Kubernetes \S+`)
