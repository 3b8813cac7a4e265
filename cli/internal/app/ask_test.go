package app

import (
	"context"
	"io"
	"strings"
	"testing"
)

func TestAnAnswerIsTheWordOfALine(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{"y\n": "y", "yes\nno\n": "yes", "\n": "", "": "", "yes please\n": ""} {
		if got := readAnswer(t.Context(), strings.NewReader(line)); got != want {
			t.Errorf("%q is read as %q, want %q", line, got, want)
		}
	}
}

// The first Ctrl-C ends the context: a question must not wait for a line then.
func TestAnInterruptEndsAQuestion(t *testing.T) {
	t.Parallel()
	terminal, person := io.Pipe()
	defer person.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if got := readAnswer(ctx, terminal); got != "" {
		t.Errorf("an interrupt answers %q", got)
	}
}
