package app

import (
	"context"
	"os/exec"
	"runtime"
	"strings"
)

// shellSyntax is what has a line of a person, such as EDITOR, go to the shell, as with git and kubectl.
const shellSyntax = "\"'\\$~"

// ChosenProgram runs a program that a person named in a variable such as EDITOR, with arguments or without, and gives
// it one argument more.
func ChosenProgram(ctx context.Context, line, last string) *exec.Cmd {
	words := strings.Fields(line)
	if _, err := exec.LookPath(line); err == nil {
		words = []string{line} // there may be spaces in its path
	} else if strings.ContainsAny(line, shellSyntax) && runtime.GOOS != "windows" {
		words = []string{"sh", "-c", line + ` "$@"`, line}
	}
	return exec.CommandContext(ctx, words[0], append(words[1:], last)...)
}
