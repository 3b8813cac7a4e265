package e2e

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"fairlead.dev/e2e/stack"
	"fairlead.dev/platform/golden"
)

// The states that people see of services in real clusters. The scripts without clusters are beside the CLI.
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
			env.Setenv("GITHOST", strings.TrimSuffix(s.GitURL, "/sample.git"))
			env.Setenv("KUBECONFIG_A", s.Clusters[0].Kubeconfig)
			return os.WriteFile(filepath.Join(env.WorkDir, "config.yaml"), config, 0o600)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"await": awaitText, "golden": compareGolden, "file-arg": fileArg, "begins": begins,
		},
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

// fileArg runs a command with the first line of a file as its last argument: file-arg FILE COMMAND...
func fileArg(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: file-arg FILE COMMAND...")
	}
	text, _, _ := strings.Cut(ts.ReadFile(args[0]), "\n")
	if err := ts.Exec(args[1], append(args[2:], text)...); (err != nil) != neg {
		ts.Fatalf("%s: %v", strings.Join(args[1:], " "), err)
	}
}

// begins starts a command that goes on for ever, and ends it when it prints a text: begins TEXT COMMAND...
func begins(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: begins TEXT COMMAND...")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	path, err := exec.LookPath(args[1])
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if found, e := exec.LookPath(filepath.Join(dir, args[1])); e == nil {
			path, err = found, nil
			break
		}
	}
	ts.Check(err)
	cmd := exec.CommandContext(ctx, path, args[2:]...)
	cmd.Dir = ts.Getenv("WORK")
	for _, name := range []string{"PATH", "HOME", "FAIRLEAD_CONFIG"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	lines, found := bufio.NewScanner(out), false
	for !found && lines.Scan() {
		found = strings.Contains(lines.Text(), args[0])
	}
	cancel()
	_ = cmd.Wait() // the process was killed
	if !found {
		ts.Fatalf("no %q, but %s", args[0], errs.String())
	}
}

// golden compares what was printed with a file, but for what is another in every run, and for the width of columns:
// golden FILE.
func compareGolden(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: golden FILE")
	}
	got, want := golden.Text(ts.ReadFile("stdout")+ts.ReadFile("stderr")), ts.ReadFile(args[0])
	got = versions.ReplaceAllString(got, "agent VERSION, Kubernetes VERSION")
	if got != want {
		ts.Fatalf("%s: got\n%s\nwant\n%s", args[0], got, want)
	}
}

// versions are those of a cluster, as trace says them.
var versions = regexp.MustCompile(`agent \S+, Kubernetes \S+`)
