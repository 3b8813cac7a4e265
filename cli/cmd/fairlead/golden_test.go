package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/command"
	"fairlead.dev/platform/golden"
)

// golden compares what stdout is with a file, but for what is another in every run, and for the width of columns:
// golden FILE.
func compareGolden(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: golden FILE")
	}
	got, want := golden.Text(ts.ReadFile("stdout")), ts.ReadFile(args[0])
	if got != want {
		ts.Fatalf("got\n%s\nwant\n%s", got, want)
	}
}

// needsMore only fails in scripts. Each of these commands works where an agent is started in the middle of it
// (TestLeastRightsSuffice of e2e), with a second gitcache (TestAReplicaDrainsWhenAnAdministratorSaysSo), where
// something is applied (TestTestsAreWaitedFor), or with a registry (TestMirrorPushesABundleOnceAndSaysWhatItDid of the
// package command).
var needsMore = []string{"cluster join", "images mirror", "shards drain", "test", "test results"}

// Every verb that there is runs in some script, here or, where it needs clusters, in e2e.
func TestEveryVerbHasAScript(t *testing.T) {
	t.Parallel()
	here, err1 := filepath.Glob("testdata/script/*.txt")
	far, err2 := filepath.Glob("../../../e2e/testdata/script/*.txt")
	if err1 != nil || err2 != nil || len(here) == 0 || len(far) == 0 {
		t.Fatal(here, far, err1, err2)
	}
	var lines []string
	for _, name := range append(here, far...) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.Split(string(text), "\n")...)
	}
	root := command.NewRoot(app.IO{
		Getenv: os.Getenv, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Now: time.Now,
	})
	root.InitDefaultCompletionCmd("completion")
	verbs := map[string]*regexp.Regexp{}
	collectVerbs(root, "", "", verbs)
	verbs["confirm prune"], verbs["token revoke"] = regexp.MustCompile("fairlead confirm prune "), regexp.MustCompile("^revoke ")
	if len(verbs) < 50 {
		t.Errorf("only %d verbs were found", len(verbs))
	}
	for verb, called := range verbs {
		if !slices.ContainsFunc(lines, func(line string) bool {
			return called.MatchString(line) && (!strings.HasPrefix(line, "!") || slices.Contains(needsMore, verb))
		}) {
			t.Errorf("no script runs `fairlead %s`", verb)
		}
	}
}

// collectVerbs notes every command that is for people, and how it is called by any of its names.
func collectVerbs(cmd *cobra.Command, path, pattern string, verbs map[string]*regexp.Regexp) {
	for _, sub := range cmd.Commands() {
		if sub.Hidden || sub.Name() == "help" {
			continue
		}
		path := strings.TrimSpace(path + " " + sub.Name())
		pattern := pattern + " (" + strings.Join(append([]string{sub.Name()}, sub.Aliases...), "|") + ")"
		verbs[path] = regexp.MustCompile("^(! )?((await|exec|file-arg|begins) .*)?fairlead" + pattern + "( |$)")
		collectVerbs(sub, path, pattern, verbs)
	}
}

// The help that a person asks for first fits a screen.
func TestHelpFitsAScreen(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	root := command.NewRoot(app.IO{
		Getenv: os.Getenv, Stdin: strings.NewReader(""), Stdout: &out, Stderr: io.Discard, Now: time.Now,
	})
	root.SetOut(&out)
	root.SetArgs([]string{"--help"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	if len(lines) < 10 || len(lines) > 40 {
		t.Errorf("help has %d lines:\n%s", len(lines), out.String())
	}
	for _, line := range lines {
		if len([]rune(line)) > 120 {
			t.Errorf("a line of help is too wide: %s", line)
		}
	}
}
