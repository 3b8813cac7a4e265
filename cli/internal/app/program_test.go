package app

import (
	"os"
	"path/filepath"
	"testing"
)

// A person names an editor or a browser as for git and kubectl: with arguments, with quotes, or by a path with spaces.
func TestAProgramIsNamedWithItsArguments(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "my tools")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(folder, "print")
	script := "#!/bin/sh\nfor word; do echo \"<$word>\"; done\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	const last = "a b; $HOME"
	for line, want := range map[string]string{
		program:                          "<" + last + ">\n",
		"'" + program + "' --wait":       "<--wait>\n<" + last + ">\n",
		`"` + program + `" -e "(x 'y')"`: "<-e>\n<(x 'y')>\n<" + last + ">\n",
		"echo --new  -w":                 "--new -w " + last + "\n",
	} {
		got, err := ChosenProgram(t.Context(), line, last).Output()
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", line, got, err, want)
		}
	}
}
