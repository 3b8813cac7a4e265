package command

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
)

// A terminal of HelpWidth columns shows the help of each command without a line that wraps.
func TestHelpFitsATerminal(t *testing.T) {
	t.Parallel()
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		var out bytes.Buffer
		cmd.SetOut(&out)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > HelpWidth {
				t.Errorf("%s --help has a line of %d columns: %s", cmd.CommandPath(), width, line)
			}
		}
		for _, below := range cmd.Commands() {
			if below.IsAvailableCommand() {
				look(below)
			}
		}
	}
	look(NewRoot(app.IO{
		Getenv: func(string) string { return "" }, Stdin: strings.NewReader(""), Stdout: io.Discard,
		Stderr: io.Discard, Now: time.Now,
	}))
}
