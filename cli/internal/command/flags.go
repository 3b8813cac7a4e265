package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fairlead.dev/cli/internal/table"
)

// What cobra says of flags that are missing, or that do not go together.
var (
	flagsMissing   = regexp.MustCompile(`^required flag\(s\) "(.*)" not set$`)
	flagsExclusive = regexp.MustCompile(`^if any flags in the group \[.*\] are set none of the others can be; \[(.*)\] were all set$`)
	flagsTogether  = regexp.MustCompile(`^if any flags in the group \[(.*)\] are set they must all be set; missing \[(.*)\]$`)
	flagsOne       = regexp.MustCompile(`^at least one of the flags in the group \[(.*)\] is required$`)
)

// explainFlags puts an error about the flags of a command into words that say what to type; other errors stay as they
// are.
func explainFlags(cmd *cobra.Command, err error) error {
	if err == nil || cmd == nil {
		return err
	}
	text := err.Error()
	if m := flagsMissing.FindStringSubmatch(text); m != nil {
		text = joinFlags(strings.Split(m[1], `", "`), "and") + " must be given"
	} else if m := flagsExclusive.FindStringSubmatch(text); m != nil {
		text = joinFlags(strings.Fields(m[1]), "and") + " can't be given together"
	} else if m := flagsTogether.FindStringSubmatch(text); m != nil {
		text = fmt.Sprintf("%s must be given together: %s is missing",
			joinFlags(strings.Fields(m[1]), "and"), joinFlags(strings.Fields(m[2]), "and"))
	} else if m := flagsOne.FindStringSubmatch(text); m != nil {
		text = joinFlags(strings.Fields(m[1]), "or") + " must be given"
	} else {
		return err
	}
	return errors.New(text + ": see `" + cmd.CommandPath() + " --help`")
}

// explainFile says of a file that is not there that it does not exist, in place of the call that found none.
func explainFile(err error) error {
	missing, ok := errors.AsType[*fs.PathError](err)
	if !ok || !errors.Is(missing, fs.ErrNotExist) || missing.Op != "stat" && missing.Op != "open" {
		return err
	}
	what := missing.Path
	if folder := filepath.Dir(what); !isThere(folder) {
		what = "folder " + folder
	}
	return cleaned{strings.Replace(err.Error(), missing.Error(), what+" does not exist", 1), err}
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// cleanError keeps what a terminal would take for an order out of the text of an error, which may repeat what others
// wrote.
func cleanError(err error) error {
	if err == nil {
		return nil
	}
	if text := table.CleanText(err.Error()); text != err.Error() {
		return cleaned{text, err}
	}
	return err
}

// cleaned is an error with a text for people.
type cleaned struct {
	text string
	err  error
}

func (c cleaned) Error() string { return c.text }
func (c cleaned) Unwrap() error { return c.err }

// explainDuration says how a duration is written where the value of a flag is none; other errors stay as they are.
func explainDuration(err error) error {
	wrong, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok || wrong.GetFlag().Value.Type() != "duration" {
		return err
	}
	return fmt.Errorf("--%s: %q is no duration: write it like 90s, 30m or 24h", wrong.GetFlag().Name, wrong.GetValue())
}

// joinFlags lists flags by name: --a, --b and --c.
func joinFlags(names []string, last string) string {
	var b strings.Builder
	for i, name := range names {
		switch {
		case i == 0:
		case i == len(names)-1:
			b.WriteString(" " + last + " ")
		default:
			b.WriteString(", ")
		}
		b.WriteString("--" + name)
	}
	return b.String()
}
