package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/hub"
	"fairlead.dev/platform/manifest"
)

func (a *app) apply() *cobra.Command {
	var names, folders []string
	w := writing{app: a}
	cmd := &cobra.Command{
		Use:   "apply -f FILE|DIR|- | apply -k DIR",
		Short: "Create or change any resources, all or nothing",
		Long: `Create or change the resources that YAML documents describe.

All of it is written or nothing; what is wrong is told with file, line and field. Resources are
written in the order in which they depend on each other, and repeating it changes nothing.
Only of more than 3 MiB, one part is written after the other.

A folder stands for its files *.yaml, *.yml and *.json, without subfolders. With -k it is built by "kubectl
kustomize", as it is on the disk: nothing is fetched, and no plugins are run. What the hub fills in
(status; in metadata uid, revision, createTime, updateTime) is ignored, so that the output of
"fairlead get ... -o yaml" can be edited and applied. Its metadata.etag is not: what somebody else
has changed since is not written over. Leave it out of what you keep, as "fairlead export" does.

With --dry-run the hub checks all of it, shows what would change, and writes nothing; the exit code
is 2 if something would. With --set every resource gets the label fairlead.dev/set, and with --prune
what else has it is deleted. If that is more than one resource and more than ten or a tenth of the
set, it has to be confirmed: on a terminal, or by --yes.`,
		Example: `  fairlead apply -f shop.yaml
  fairlead apply -k fleet/prod
  fairlead apply -f fleet/ --set fleet --prune --dry-run
  fairlead get service shop -o yaml | sed s/main/next/ | fairlead apply -f -`,
		Args: wants(0, 0),
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
			return usage(cmd)
		}
		if w.prune && w.set == "" {
			return errors.New("--prune needs --set: only what is of that set is deleted")
		}
		objects, err := a.read(cmd.Context(), names, folders)
		if err != nil {
			return err
		}
		return a.hubCommand(func(ctx context.Context, h *hub.Hub, _ []string) error {
			w.hub = h
			return w.write(ctx, objects)
		})(cmd, nil)
	}
	return cmd
}

// input is what stands in a file, or what was built of a folder.
type input struct {
	name string
	data []byte
}

// read decodes and checks all files, and what folders are built to.
func (a *app) read(ctx context.Context, names, folders []string) ([]*manifest.Object, error) {
	inputs, err := a.inputs(ctx, names, folders)
	if err != nil {
		return nil, err
	}
	var objects []*manifest.Object
	var problems manifest.Problems
	collect := func(err error) error {
		var some manifest.Problems
		if err != nil && !errors.As(err, &some) {
			return err
		}
		problems = append(problems, some...)
		return nil
	}
	for _, in := range inputs {
		decoded, err := manifest.Decode(in.name, in.data)
		if err := collect(err); err != nil {
			return nil, err
		}
		objects = append(objects, decoded...)
	}
	if err := collect(manifest.Validate(objects)); err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		problems.Sort()
		return nil, fmt.Errorf("nothing was applied:\n%w", problems)
	}
	if len(objects) == 0 {
		return nil, fmt.Errorf("no resources in %s", strings.Join(append(names, folders...), ", "))
	}
	manifest.Sort(objects)
	return objects, nil
}

func (a *app) inputs(ctx context.Context, names, folders []string) ([]input, error) {
	var all []input
	for _, name := range names {
		files, err := a.filesOf(name)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			data, err := a.readFile(file)
			if err != nil {
				return nil, err
			}
			all = append(all, input{displayName(file), data})
		}
	}
	for _, folder := range folders {
		data, err := kustomized(ctx, folder)
		if err != nil {
			return nil, err
		}
		all = append(all, input{folder + " (built)", data})
	}
	return all, nil
}

func displayName(file string) string {
	if file == "-" {
		return "stdin"
	}
	return file
}

// filesOf returns the files that a name stands for.
func (a *app) filesOf(name string) ([]string, error) {
	if name == "-" {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(name, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("folder %s has no files *.yaml, *.yml or *.json; subfolders are not looked into", name)
	}
	return files, nil
}

func (a *app) readFile(name string) ([]byte, error) {
	in := a.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, manifest.MaxFileBytes+1)) // One more, for Decode to see that it is too large.
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", displayName(name), err)
	}
	return data, nil
}
