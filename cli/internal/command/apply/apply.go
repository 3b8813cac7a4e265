package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/input"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalogyaml"
)

// moreTimeout bounds the dry run that looks for further problems.
const moreTimeout = 10 * time.Second

func applyCommand(a *app.App) *cobra.Command {
	var names, folders []string
	w := writing{app: a}
	cmd := &cobra.Command{
		Use:   "apply -f FILE|DIR|- | apply -k DIR",
		Short: "Create or change any resources, all or nothing",
		Long: `Create or change the resources that YAML documents describe.

All resources are written or none; each error is shown with file, line and field. Resources are
written in the order in which they depend on each other, and repeating the command changes nothing.
More than 3 MiB or 10,000 resources are written in parts, one after the other.

A folder stands for its files *.yaml, *.yml and *.json, without subfolders. With -k the folder is built by "kubectl
kustomize": nothing is fetched, and no plugins are run. Fields that the hub fills in
(status; in metadata uid, revision, createTime, updateTime) are ignored, so that the output of
"fairlead get ... -o yaml" can be edited and applied. With metadata.etag the resource is refused if
somebody else has changed it since. Leave the etag out of files that you keep, as "fairlead export" does.

With --dry-run the hub checks all resources, shows what would change, and writes nothing; the exit code
is 2 if something would. With --set every resource gets the label fairlead.dev/set, and with --prune
all other resources with that label are deleted. A deletion of more than one resource and more than ten
or a tenth of the set has to be confirmed: on a terminal, or by --yes.`,
		Example: `  fairlead apply -f shop.yaml
  fairlead apply -k fleet/prod
  fairlead apply -f fleet/ --set fleet --prune --dry-run
  fairlead get service shop -o yaml | sed s/main/next/ | fairlead apply -f -`,
		Args: app.WantArgs(0, 0),
	}
	cmd.Flags().StringArrayVarP(&names, "filename", "f", nil, "file, folder, or - for stdin; may be repeated")
	cmd.Flags().StringArrayVarP(&folders, "kustomize", "k", nil, "folder with a kustomization.yaml; may be repeated")
	_ = cmd.MarkFlagDirname("kustomize") // there is such a flag
	cmd.Flags().BoolVar(&w.dryRun, "dry-run", false, "show what would change, and write nothing")
	cmd.Flags().StringVar(&w.set, "set", "", "`name` of the set that the resources are")
	cmd.Flags().BoolVar(&w.prune, "prune", false, "delete what else is of the set")
	cmd.Flags().BoolVarP(&w.yes, "yes", "y", false, "go on without asking")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(names)+len(folders) == 0 {
			return app.UsageError(cmd)
		}
		if w.prune && w.set == "" {
			return errors.New("--prune needs --set: only what is of that set is deleted")
		}
		objects, problems, err := input.ReadAll(cmd.Context(), a, names, folders)
		switch {
		case errors.Is(err, input.ErrEmptyList) && !w.prune: // all of a set would go
			a.Notef("nothing to apply\n")
			return nil
		case err != nil:
			return err
		}
		if len(problems) > 0 {
			return input.NothingApplied(addKindProblems(a, cmd, objects, problems))
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
			w.hub = h
			return w.writeObjects(ctx, objects)
		})(cmd, nil)
	}
	return cmd
}

// addKindProblems adds to the problems of some resources what the hub finds wrong with the others, so that all is told
// at once. The hub is asked for a dry run; without a login, or if it does not answer, the problems are those that the
// files have by themselves.
func addKindProblems(
	a *app.App, cmd *cobra.Command, objects []*catalogyaml.Object, problems catalogyaml.Problems,
) catalogyaml.Problems {
	good, all := problems.Without(objects)
	if len(good) == 0 || partOf(good) < len(good) {
		return problems
	}
	_ = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error { // its failures are not what was asked about
		ctx, cancel := context.WithTimeout(ctx, moreTimeout)
		defer cancel()
		req := &consolev1.ApplyRequest{DryRun: true}
		for _, o := range good {
			r, err := catalogyaml.Resource(o.Message)
			if err != nil {
				return err
			}
			req.Resources = append(req.Resources, r)
		}
		_, err := h.Applies.Apply(ctx, req)
		found, _ := app.FindDetail[*consolev1.ApplyProblems](err)
		for _, p := range found.GetProblems() {
			i := int(p.GetIndex())
			if i < 0 || i >= len(good) || problemsExplain(problems, all, p.GetMessage()) {
				continue
			}
			problems = append(problems, good[i].Problem(p.GetField(), p.GetMessage()))
		}
		return nil
	})(cmd, nil)
	return problems
}

// problemsExplain says whether what a message misses is one of the resources that problems are about, or may be one if
// not all of them say which that is.
func problemsExplain(problems catalogyaml.Problems, all bool, message string) bool {
	const missing = " does not exist"
	return strings.Contains(message, missing) && (!all || slices.ContainsFunc(problems, func(p catalogyaml.Problem) bool {
		kind, name, _ := strings.Cut(p.Ref, "/")
		return strings.Contains(message, fmt.Sprintf("%s %q%s", kind, name, missing))
	}))
}
