package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// helpWidth is how wide the list of commands is, in characters.
const helpWidth = 100

// verbGroups are the commands by what people want, in the order in which they are shown. The last one takes all others.
func verbGroups() []struct {
	title string
	verbs []string
} {
	return []struct {
		title string
		verbs []string
	}{
		{"Begin", []string{"up", "login", "logout", "whoami", "context", "open", "init"}},
		{"Look", []string{"get", "search", "top", "describe", "trace", "tree", "diff", "history", "events", "config", "sources", "check"}},
		{"Change", []string{"apply", "create", "edit", "delete", "undo", "export"}},
		{"Deliver", []string{"sync", "hold", "resume", "pin", "rollback", "confirm", "freeze", "unfreeze", "wait", "test", "acknowledge", "silence", "unsilence"}},
		{"In clusters", []string{"logs", "exec", "port-forward", "restart", "kubectl", "kubeconfig", "cluster"}},
		{"Administer", nil},
	}
}

// groupHelp lists the commands of the root by groups, so that they fit a screen. The help of each command says what the
// command does.
func groupHelp(root *cobra.Command) {
	usage := root.UsageFunc()
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		if cmd.HasParent() {
			return usage(cmd)
		}
		_, err := fmt.Fprint(cmd.OutOrStderr(), rootUsage(cmd))
		return err
	})
}

func rootUsage(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("Usage: fairlead COMMAND [flags]\n\n")
	listed := map[string]bool{}
	for _, group := range verbGroups() {
		for _, verb := range group.verbs {
			listed[verb] = true
		}
	}
	for _, group := range verbGroups() {
		var names []string
		for _, cmd := range root.Commands() {
			name := cmd.Name()
			if cmd.IsAvailableCommand() && (slices.Contains(group.verbs, name) || group.verbs == nil && !listed[name]) {
				names = append(names, name)
			}
		}
		slices.SortStableFunc(names, func(a, b string) int { return slices.Index(group.verbs, a) - slices.Index(group.verbs, b) })
		b.WriteString(foldWords(group.title, names))
	}
	b.WriteString("\nResources are named as KIND NAME... or KIND/NAME...; `fairlead get --help` lists the kinds.\n\nFlags:\n")
	b.WriteString(root.Flags().FlagUsages())
	b.WriteString("\n`fairlead COMMAND --help` says what a command does, with examples.\n")
	return b.String()
}

// foldWords returns a title with words behind it, on as many lines as they need.
func foldWords(title string, words []string) string {
	const indent = 14
	var b strings.Builder
	line := fmt.Sprintf("%-*s", indent, title)
	for i, word := range words {
		if i < len(words)-1 {
			word += ","
		}
		if len(line)+1+len(word) > helpWidth {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = strings.Repeat(" ", indent)
		}
		line += word + " "
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
	return b.String()
}
