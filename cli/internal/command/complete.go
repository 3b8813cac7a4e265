package command

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
)

// completeTimeout bounds what a shell waits for while a person has pressed a key.
const completeTimeout = 3 * time.Second

// addCompletion lets shells complete arguments and flags with what the hub has. The use line of each command says which
// argument is where: "hold service NAME", "kubeconfig CLUSTER", "get sources|clusters [NAME...]".
func addCompletion(a *app.App, cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		addCompletion(a, sub)
	}
	if cmd.RunE != nil && cmd.ValidArgsFunction == nil {
		words := resource.ListPlaceholders(cmd.Use)
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			return completeArgument(a, cmd, words, args, begun), cobra.ShellCompDirectiveNoFileComp
		}
	}
	completeFlags(a, cmd)
}

// completeFlags completes forms of output as the flag's help lists them, and flags that are called as a kind is.
func completeFlags(a *app.App, cmd *cobra.Command) {
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
			return completeFlag(cmd.Context(), a, name, flag.Usage, begun), cobra.ShellCompDirectiveNoFileComp
		}
		_ = cmd.RegisterFlagCompletionFunc(name, do) // the flag is there, and nobody else has one for it
	}
}

func completeFlag(ctx context.Context, a *app.App, flag, usage, begun string) []string {
	switch flag {
	case "output":
		return slices.DeleteFunc([]string{app.FormatTable, app.FormatWide, app.FormatJSON, app.FormatYAML, app.FormatName, app.FormatJSONPath + "=", app.FormatColumns + "=", app.FormatJUnit}, func(format string) bool {
			return !regexp.MustCompile(`\b` + format + `\b`).MatchString(usage)
		})
	case "context":
		return contextNames(a)
	}
	return completeNames(ctx, a, strings.ReplaceAll(flag, "-", ""), begun)
}

// completeArgument returns the arguments that can stand behind args.
func completeArgument(a *app.App, cmd *cobra.Command, words, args []string, begun string) []string {
	if len(words) == 0 {
		return nil
	}
	if kind, name, ok := strings.Cut(begun, "/"); ok && (len(args) == 0 || strings.Contains(args[0], "/")) &&
		resource.TakesReference(words) {
		var found []string
		for _, name := range completeNames(cmd.Context(), a, kind, name) {
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
		return contextNames(a)
	case word == "NAME" && len(args) > 0 && words[0] != "NAME":
		return completeNames(cmd.Context(), a, args[0], begun) // of the kind that stands before it
	case word == "NAME":
		return completeNames(cmd.Context(), a, cmd.Parent().Name(), begun)
	case strings.ToLower(word) == word:
		return strings.Split(word, "|")
	}
	return completeNames(cmd.Context(), a, word, begun)
}

func kindNames() []string {
	var names []string
	for _, k := range resource.ListKinds() {
		names = append(names, k.Plural())
	}
	return names
}

func contextNames(a *app.App) []string {
	store, err := a.OpenStore()
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

// completeNames returns those of a kind that begin as a person has begun. Errors are not reported: a shell has no place
// for them.
func completeNames(ctx context.Context, a *app.App, kind, begun string) []string {
	k, err := resource.FindKind(kind)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	h, err := a.ConnectHub(ctx)
	if err != nil {
		return nil
	}
	defer h.HTTP.CloseIdleConnections()
	return namesOf(ctx, h, k, begun)
}

// namesOf asks for one page: of more names a person types another letter.
func namesOf(ctx context.Context, h *hubclient.Hub, k resource.Kind, begun string) []string {
	var q resource.Question
	if begun != "" {
		q.Filter = "name : " + strconv.Quote(begun)
	}
	found, _, err := k.OnePage(ctx, h, q)
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
