package resource

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/table"
	"fairlead.dev/platform/flags"
	"fairlead.dev/platform/kubename"
)

// ListPlaceholders returns the words behind the verb, up to the first flag or other way to write it.
func ListPlaceholders(use string) []string {
	use, _, _ = strings.Cut(use, " | ") // other ways to write it
	words := strings.Fields(strings.NewReplacer("[", "", "]", "", "...", "").Replace(use))[1:]
	if end := slices.IndexFunc(words, func(w string) bool { return w[0] == '-' || w == "|" }); end >= 0 {
		words = words[:end]
	}
	return words
}

// Reference is one, or a list of all of a kind (no name), that a command line names.
type Reference struct{ Kind, Name string }

// ParseReferences reads KIND, KIND NAME..., KIND,KIND and KIND/NAME....
func ParseReferences(args []string) ([]Reference, error) {
	var refs []Reference
	slashes := slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, "/") })
	if slashes {
		for _, arg := range args {
			kind, name, ok := strings.Cut(arg, "/")
			if !ok || kind == "" || name == "" {
				return nil, fmt.Errorf("write either KIND NAME... or KIND/NAME...: %q is neither beside %q", arg, args[0])
			}
			refs = append(refs, Reference{kind, name})
		}
		return refs, nil
	}
	for kind := range strings.SplitSeq(args[0], ",") {
		if len(args) == 1 {
			refs = append(refs, Reference{Kind: kind})
		}
		for _, name := range args[1:] {
			refs = append(refs, Reference{kind, name})
		}
	}
	return refs, nil
}

// ByKind puts references of one kind together, in the order in which they come.
func ByKind(refs []Reference) (kinds []string, names map[string][]string) {
	names = map[string][]string{}
	for _, r := range refs {
		if !slices.Contains(kinds, r.Kind) {
			kinds = append(kinds, r.Kind)
		}
		if r.Name != "" {
			names[r.Kind] = append(names[r.Kind], r.Name)
		}
	}
	return kinds, names
}

// ReadsReferences marks commands that take resources of several kinds at once, and read them themselves.
const ReadsReferences = "reads references"

// kindAndName is the use line of commands that are about one resource, and can be repeated for others.
var kindAndName = regexp.MustCompile(`^\S+ ([a-z|]+|KIND) NAME( --.*)?$`)

// TakeReferences lets all commands below cmd take KIND/NAME for KIND NAME, and several names where one is expected.
func TakeReferences(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		TakeReferences(sub)
	}
	words := ListPlaceholders(cmd.Use)
	if cmd.RunE == nil || cmd.Args == nil || cmd.Annotations[ReadsReferences] != "" || !TakesReference(words) {
		return
	}
	arity, run := cmd.Args, cmd.RunE
	several := kindAndName.MatchString(cmd.Use)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := foreignKind(cmd, words, args); err != nil {
			return err
		}
		runs, err := splitReferences(words, args, several)
		if err != nil {
			return err
		}
		return arity(cmd, runs[0])
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		runs, err := splitReferences(words, args, several)
		if err != nil {
			return err
		}
		return RunEach(runs, func(args []string) error { return run(cmd, args) }, func(args []string, err error) {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", strings.Join(args, "/"), table.CleanText(err.Error()))
		})
	}
}

// foreignKind is the error of a kind that means something in another tool. trace takes those of Kubernetes, and top has
// words of its own.
func foreignKind(cmd *cobra.Command, words, args []string) error {
	if len(args) == 0 || len(words) < 2 || words[1] != "NAME" {
		return nil
	}
	kind, _, _ := strings.Cut(args[0], "/")
	if KindElsewhere(kind) == "" || cmd.Name() == "trace" && KubernetesKind(kind) != "" || cmd.Name() == "top" {
		return nil
	}
	_, err := FindKind(kind)
	return err
}

// TakesReference says whether a use line has a kind and a name, or the name of a kind alone.
func TakesReference(words []string) bool {
	if len(words) == 0 {
		return false
	}
	if len(words) > 1 && words[1] == "NAME" && words[0] != "NAME" {
		return true
	}
	_, err := FindKind(words[0])
	return err == nil && words[0] == strings.ToUpper(words[0])
}

// splitReferences takes KIND/NAME apart, and makes one run of each name where several may stand.
func splitReferences(words, args []string, several bool) ([][]string, error) {
	if len(args) == 0 {
		return [][]string{args}, nil
	}
	kind, name, ok := strings.Cut(args[0], "/")
	_, unknown := FindKind(kind)
	if named := ok && unknown == nil; !named {
		return repeatArguments(args, several), nil
	}
	if words[0] == strings.ToUpper(words[0]) && !strings.HasPrefix(words[0], "KIND") { // the name of a kind that goes without saying
		if !strings.EqualFold(kind, words[0]) {
			return nil, fmt.Errorf("%q: a %s is wanted here", args[0], strings.ToLower(words[0]))
		}
		return [][]string{append([]string{name}, args[1:]...)}, nil
	}
	if !several {
		if len(args) > 1 && strings.HasPrefix(args[1], kind+"/") {
			return nil, fmt.Errorf("one %s at a time: leave %q out", kind, args[1])
		}
		return [][]string{append([]string{kind, name}, args[1:]...)}, nil
	}
	runs := [][]string{{kind, name}}
	for _, arg := range args[1:] {
		kind, name, ok := strings.Cut(arg, "/")
		if !ok {
			return nil, fmt.Errorf("write either KIND NAME... or KIND/NAME...: %q is neither beside %q", arg, args[0])
		}
		runs = append(runs, []string{kind, name})
	}
	return runs, nil
}

func repeatArguments(args []string, several bool) [][]string {
	if !several || len(args) < 3 {
		return [][]string{args}
	}
	var runs [][]string
	for _, name := range args[1:] {
		runs = append(runs, []string{args[0], name})
	}
	return runs
}

// RunEach runs a command for each of several resources: one that fails does not keep the others from it. The exit code
// is that of the last failure.
func RunEach(runs [][]string, run func([]string) error, failed func([]string, error)) error {
	if len(runs) == 1 {
		return run(runs[0])
	}
	var last error
	count := 0
	for i, args := range runs {
		err := run(args)
		if err == nil {
			continue
		}
		if errors.Is(err, context.Canceled) { // by Ctrl-C: the others would only repeat it
			return fmt.Errorf("interrupted at %s, number %d of %d", strings.Join(args, "/"), i+1, len(runs))
		}
		last = err
		if _, silent := errors.AsType[flags.Exit](err); !silent {
			failed(args, err)
			count++
		}
	}
	if count > 0 {
		return fmt.Errorf("%d of %d failed, as said above", count, len(runs))
	}
	return last
}

// IsOnlyName tells a word that may be the name of a resource, and is no kind here or in another tool.
func IsOnlyName(word string) bool {
	_, err := FindKind(word)
	return err != nil && KindElsewhere(word) == "" && kubename.IsLabel(word)
}

// SplitReference reads KIND/NAME of what is about the pods of a service. false: it is something else, such as the name
// of a cluster.
func SplitReference(arg string) (Reference, bool) {
	kind, name, ok := strings.Cut(arg, "/")
	if !ok || name == "" {
		return Reference{}, false
	}
	_, err := FindKind(kind)
	return Reference{kind, name}, err == nil
}
