package command

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/clitest"
)

// advised are the command lines that a help's text names between quotes.
var advised = regexp.MustCompile("[`\"](fairlead [^`\"]+)[`\"]")

// substituted is what a shell puts something in place of.
var substituted = regexp.MustCompile(`\$\([^)]*\)`)

// Each line of an example, and each command line that a help names, is one that this command takes: the command is there, and
// so are its flags.
func TestHelpNamesCommandLinesThatWork(t *testing.T) {
	t.Parallel()
	checked := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		check := func(line string, whole bool) {
			args, ok := wordsOf(line)
			if !ok {
				return
			}
			checked++
			if problem := problemOf(args, whole); problem != "" {
				t.Errorf("the help of `%s` names `%s`: %s", cmd.CommandPath(), strings.TrimSpace(line), problem)
			}
		}
		for line := range strings.Lines(cmd.Example) {
			check(line, true)
		}
		for _, m := range advised.FindAllStringSubmatch(cmd.Long, -1) {
			check(m[1], false)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(testRoot())
	if checked < 100 {
		t.Errorf("only %d command lines were found", checked)
	}
}

// testRoot returns a tree of commands that nothing was parsed for yet.
func testRoot() *cobra.Command {
	return NewRoot(app.IO{
		Getenv: func(string) string { return "" }, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard,
		Now: clitest.Noon,
	})
}

// wordsOf returns the words of a command line of this program, up to where a shell does something else with it. Quotes are
// left out, and what stands between them is one word.
func wordsOf(line string) (words []string, ok bool) {
	_, line, ok = strings.Cut(substituted.ReplaceAllString(line, "it"), "fairlead ")
	if !ok {
		return nil, false
	}
	for i, part := range strings.FieldsFunc(line, func(r rune) bool { return r == '\'' || r == '"' }) {
		if i%2 == 1 {
			words = append(words, part)
			continue
		}
		for word := range strings.FieldsSeq(part) {
			if strings.ContainsAny(word, "|>&;<#") {
				return words, true
			}
			words = append(words, word)
		}
	}
	return words, true
}

// problemOf says why a command line is none; empty: it is one. One that is not whole may lack arguments, as where a text
// names a command.
func problemOf(args []string, whole bool) string {
	cmd, rest, err := testRoot().Find(args)
	switch {
	case err != nil:
		return err.Error()
	case cmd.Hidden && !cmd.DisableFlagParsing:
		return "it is of before"
	case cmd.DisableFlagParsing:
		return ""
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(rest); err != nil && (whole || !strings.Contains(err.Error(), "needs an argument")) {
		return err.Error()
	}
	if !whole || cmd.Args == nil || strings.Contains(strings.Join(rest, " "), "...") {
		return ""
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return err.Error()
	}
	return ""
}
