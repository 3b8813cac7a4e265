package command

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/hub"
)

// completeTimeout bounds what a shell waits for while a person has pressed a key.
const completeTimeout = 3 * time.Second

// addCompletion lets shells complete arguments and flags with what the hub has. The use line of each command says which
// argument is where: "hold service NAME", "kubeconfig CLUSTER", "get sources|clusters [NAME...]".
func (a *app) addCompletion(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		a.addCompletion(sub)
	}
	if cmd.RunE != nil && cmd.ValidArgsFunction == nil {
		words := listPlaceholders(cmd.Use)
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			return a.completeArgument(cmd, words, args, begun), cobra.ShellCompDirectiveNoFileComp
		}
	}
	a.completeFlags(cmd)
}

// listPlaceholders returns the words behind the verb, up to the first flag or other way to write it.
func listPlaceholders(use string) []string {
	use, _, _ = strings.Cut(use, " | ") // other ways to write it
	words := strings.Fields(strings.NewReplacer("[", "", "]", "", "...", "").Replace(use))[1:]
	if end := slices.IndexFunc(words, func(w string) bool { return w[0] == '-' || w == "|" }); end >= 0 {
		words = words[:end]
	}
	return words
}

// completeFlags completes forms of output as the flag's help lists them, and flags that are called as a kind is.
func (a *app) completeFlags(cmd *cobra.Command) {
	names := []string{"output", "cluster", "project", "role", "service", "service-account"}
	if !cmd.HasParent() {
		names = []string{"context"} // others of this name are of a kubeconfig
	}
	for _, name := range names {
		flag := cmd.Flag(name)
		if flag == nil {
			continue
		}
		do := func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			return a.completeFlag(cmd.Context(), name, flag.Usage, begun), cobra.ShellCompDirectiveNoFileComp
		}
		_ = cmd.RegisterFlagCompletionFunc(name, do) // the flag is there, and nobody else has one for it
	}
}

func (a *app) completeFlag(ctx context.Context, flag, usage, begun string) []string {
	switch flag {
	case "output":
		return slices.DeleteFunc([]string{formatTable, formatWide, formatJSON, formatYAML, formatName, formatJSONPath + "=", formatColumns + "=", formatJUnit}, func(format string) bool {
			return !regexp.MustCompile(`\b` + format + `\b`).MatchString(usage)
		})
	case "context":
		return a.contextNames()
	}
	return a.completeNames(ctx, strings.ReplaceAll(flag, "-", ""), begun)
}

// completeArgument returns the arguments that can stand behind args.
func (a *app) completeArgument(cmd *cobra.Command, words, args []string, begun string) []string {
	if len(words) == 0 {
		return nil
	}
	if kind, name, ok := strings.Cut(begun, "/"); ok && (len(args) == 0 || strings.Contains(args[0], "/")) && takesReference(words) {
		var found []string
		for _, name := range a.completeNames(cmd.Context(), kind, name) {
			found = append(found, kind+"/"+name)
		}
		return found
	}
	word := words[min(len(args), len(words)-1)]
	if len(args) >= len(words) && !strings.Contains(cmd.Use, "...") {
		return nil
	}
	switch {
	case word == "VERB":
		return []string{"view", "deploy", "edit", "delete", "read", "write", "exec", "secrets"}
	case strings.HasPrefix(word, "KIND"):
		return kindNames()
	case word == "NAME" && cmd.Parent().Name() == "context":
		return a.contextNames()
	case word == "NAME" && len(args) > 0 && words[0] != "NAME":
		return a.completeNames(cmd.Context(), args[0], begun) // of the kind that stands before it
	case word == "NAME":
		return a.completeNames(cmd.Context(), cmd.Parent().Name(), begun)
	case strings.ToLower(word) == word:
		return strings.Split(word, "|")
	}
	return a.completeNames(cmd.Context(), word, begun)
}

func kindNames() []string {
	var names []string
	for _, k := range listKinds() {
		names = append(names, k.plural())
	}
	return names
}

func (a *app) contextNames() []string {
	store, err := a.openStore()
	if err != nil {
		return nil
	}
	all, _, _ := store.List() // a shell has no place for an error
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	return names
}

// completeNames returns those of a kind that begin as a person has begun. Errors are not reported: a shell has no place for them.
func (a *app) completeNames(ctx context.Context, kind, begun string) []string {
	k, err := findKind(kind)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	h, err := a.connectHub(ctx)
	if err != nil {
		return nil
	}
	defer h.HTTP.CloseIdleConnections()
	return namesOf(ctx, h, k, begun)
}

// namesOf asks for one page: of more names a person types another letter.
func namesOf(ctx context.Context, h *hub.Hub, k kind, begun string) []string {
	var q question
	if begun != "" {
		q.filter = "name : " + strconv.Quote(begun)
	}
	found, _, err := k.onePage(ctx, h, q)
	if err != nil {
		return nil
	}
	var names []string
	for _, m := range found {
		if name := m.GetMetadata().GetName(); strings.HasPrefix(name, begun) {
			names = append(names, name)
		}
	}
	return names
}
