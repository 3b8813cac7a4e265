package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// HelpWidth is how wide the help of commands is, in characters.
const HelpWidth = 100

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
// command does, in lines of HelpWidth.
func groupHelp(root *cobra.Command) {
	wrapped := fmt.Sprintf(".FlagUsagesWrapped %d", HelpWidth)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", wrapped))
	usage := root.UsageFunc()
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		out, text := cmd.OutOrStderr(), rootUsage(cmd)
		if cmd.HasParent() {
			var b strings.Builder
			cmd.SetOut(&b)
			defer cmd.SetOut(out)
			if err := usage(cmd); err != nil {
				return err
			}
			text = foldUseLines(b.String())
		}
		_, err := fmt.Fprint(out, text)
		return err
	})
	foldLongHelp(root)
}

// foldLongHelp has the paragraphs of long help texts fit HelpWidth. Lists and tables, which are indented, stay as they
// are.
func foldLongHelp(cmd *cobra.Command) {
	for _, below := range cmd.Commands() {
		foldLongHelp(below)
	}
	paragraphs := strings.Split(cmd.Long, "\n\n")
	for i, paragraph := range paragraphs {
		if isTooWide(paragraph) {
			paragraphs[i] = foldParagraph(paragraph)
		}
	}
	cmd.Long = strings.Join(paragraphs, "\n\n")
}

func isTooWide(text string) bool {
	return slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool { return len(line) > HelpWidth })
}

// foldParagraph fills the lines of a paragraph anew, up to a list in it.
func foldParagraph(text string) string {
	head, list := text, ""
	if at := strings.Index(text, "\n "); at >= 0 {
		head, list = text[:at], text[at:]
	}
	return strings.Join(fill(strings.Fields(head), " "), "\n") + list
}

// foldUseLines folds the use line of a usage text, which has no other lines that are too wide.
func foldUseLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if len(line) > HelpWidth && strings.HasPrefix(line, "  fairlead ") {
			parts := fill(strings.SplitAfter(strings.TrimSpace(line), "|"), "")
			lines[i] = "  " + strings.Join(parts, "\n    ")
		}
	}
	return strings.Join(lines, "\n")
}

// fill puts words on lines that fit HelpWidth with an indent.
func fill(words []string, between string) (lines []string) {
	const room = HelpWidth - 4
	for _, word := range words {
		last := len(lines) - 1
		if last < 0 || len(lines[last])+len(between)+len(word) > room {
			lines = append(lines, word)
			continue
		}
		lines[last] += between + word
	}
	return lines
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
	b.WriteString(root.Flags().FlagUsagesWrapped(HelpWidth))
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
		if len(line)+1+len(word) > HelpWidth {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = strings.Repeat(" ", indent)
		}
		line += word + " "
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
	return b.String()
}
