package command

import (
	"bytes"
	"io"
	"testing"
	"time"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/platform/version"
)

func TestVersionIsPrintedByVerbAndByFlag(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"version", "--version"} {
		var out bytes.Buffer
		if err := Run(t.Context(), []string{
			arg,
		}, app.IO{Getenv: func(string) string { return "" }, Stdout: &out, Stderr: io.Discard, Now: time.Now}); err != nil {
			t.Fatal(err)
		}
		if want := "fairlead " + version.String() + "\n"; out.String() != want {
			t.Errorf("%s prints %q, want %q", arg, out.String(), want)
		}
	}
}
