package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/command"
)

const commandsHead = `# Reference of the command

What ` + "`fairlead COMMAND --help`" + ` prints, of all commands; ` + "`make gen`" + ` writes this page. [Commands by task](../commands.md) is the page to read first.

`

// describeCommands writes a section for each command that people may call.
func describeCommands() string {
	root := command.NewRoot(app.IO{
		Getenv: func(string) string { return "" },
		Stdin:  strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard,
		Now: func() time.Time { return time.Time{} },
	})
	var b strings.Builder
	b.WriteString(commandsHead)
	fmt.Fprintf(&b, "Flags of all commands:\n\n```text\n%s```\n\n", root.PersistentFlags().FlagUsagesWrapped(command.HelpWidth))
	for _, cmd := range root.Commands() {
		describeCommand(&b, cmd)
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func describeCommand(b *strings.Builder, cmd *cobra.Command) {
	if !cmd.IsAvailableCommand() {
		return
	}
	text := cmd.Long
	if text == "" {
		text = cmd.Short
	}
	fmt.Fprintf(b, "## %s\n\n```text\n%s\n```\n\n", cmd.CommandPath(), strings.TrimSpace(text))
	if cmd.Runnable() {
		fmt.Fprintf(b, "```sh\n%s\n```\n\n", strings.TrimSuffix(cmd.UseLine(), " [flags]"))
	}
	if cmd.HasExample() {
		fmt.Fprintf(b, "```sh\n%s\n```\n\n", strings.TrimRight(cmd.Example, "\n"))
	}
	if flags := cmd.NonInheritedFlags(); flags.HasAvailableFlags() {
		fmt.Fprintf(b, "```text\n%s```\n\n", flags.FlagUsagesWrapped(command.HelpWidth))
	}
	for _, sub := range cmd.Commands() {
		describeCommand(b, sub)
	}
}
