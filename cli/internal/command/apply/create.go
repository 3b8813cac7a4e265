package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/input"
	"fairlead.dev/cli/internal/resource"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalogyaml"
	"fairlead.dev/platform/flags"
)

// creation is what a person wants to make, and how.
type creation struct {
	app    *app.App
	labels []string
	format string
	dryRun bool
}

func createCommand(a *app.App) *cobra.Command {
	c := &creation{app: a}
	var files []string
	cmd := &cobra.Command{
		Use:   "create -f FILE|DIR|-",
		Short: "Make resources that are not there yet",
		Long: `Make new resources, from files or from flags. A resource that is there already is an error, and then nothing is written:
"fairlead apply" changes it. -o yaml prints the resources for a file in Git, and writes nothing.`,
		Example: `  fairlead create -f shop.yaml
  fairlead create source shop --url https://git.example.com/shop.git
  fairlead create cluster edge-1
  fairlead create service web --source shop --path web --cluster edge-1 -n web --create-namespace
  fairlead create service web --source shop --cluster edge-1 -o yaml > web.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			k, err := resource.FindKind(args[0])
			if err != nil && len(files) > 0 { // as a shell expands -f *.yaml
				return fmt.Errorf("each file needs its own -f: fairlead create -f %s",
					strings.Join(slices.Concat(files, args), " -f "))
			}
			if err != nil {
				return err
			}
			if slices.ContainsFunc(cmd.Commands(), func(below *cobra.Command) bool { return below.Name() == k.Singular() }) {
				return fmt.Errorf("write the kind in lower case: fairlead create %s NAME", k.Singular())
			}
			return fmt.Errorf("a %s is made from a file: fairlead create -f FILE; from flags are made: source, cluster, service, project and secret", k.Singular())
		},
	}
	cmd.Flags().StringArrayVarP(&files, "filename", "f", nil, "file, folder, or - for stdin; may be repeated")
	c.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(files) == 0 {
			return app.UsageError(cmd)
		}
		objects, err := input.ReadObjects(cmd.Context(), a, files, nil)
		if err != nil {
			return err
		}
		return c.createObjects(cmd, objects)
	}
	cmd.AddCommand(c.sourceCommand(), c.clusterCommand(), c.serviceCommand(), c.projectCommand(), c.secretCommand())
	return cmd
}

func (c *creation) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&c.format, "output", "o", "", "print it as yaml, and write nothing")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "have the hub check it, show what would be made, and write nothing")
}

// kindCommand is a command that makes one resource of a kind.
func (c *creation) kindCommand(
	use, short, example string, build func(head *consolev1.Metadata) (catalogyaml.Message, error),
) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Example: example, Args: app.WantArgs(1, 1)}
	if k, err := resource.FindKind(cmd.Name()); err == nil { // its plural is a kind's name, too
		cmd.Aliases = []string{k.Plural()}
	}
	c.addFlags(cmd)
	cmd.Flags().StringArrayVar(&c.labels, "label", nil, "label, as `KEY=VALUE`; may be repeated")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		labels, err := parsePairs("label", c.labels)
		if err != nil {
			return err
		}
		m, err := build(&consolev1.Metadata{Name: args[0], Labels: labels})
		if err != nil {
			return err
		}
		text, err := catalogyaml.YAML(m)
		if err != nil {
			return err
		}
		objects, err := catalogyaml.Decode("", text)
		if err == nil {
			err = catalogyaml.Validate(objects)
		}
		if err != nil {
			return fmt.Errorf("nothing was made:\n%w", err)
		}
		return c.createObjects(cmd, objects)
	}
	return cmd
}

func (c *creation) sourceCommand() *cobra.Command {
	git := &consolev1.GitSource{}
	var interval time.Duration
	cmd := c.kindCommand("source NAME --url URL", "Make a source: a Git repository that the hub fetches",
		"  fairlead create source shop --url https://git.example.com/shop.git --secret shop-git",
		func(head *consolev1.Metadata) (catalogyaml.Message, error) {
			if interval != 0 {
				git.Interval = durationpb.New(interval)
			}
			return &consolev1.Source{Metadata: head, Spec: &consolev1.SourceSpec{Git: git}}, nil
		})
	cmd.Flags().StringVar(&git.Url, "url", "", "`URL` of the repository")
	cmd.Flags().StringVar(&git.Secret, "secret", "", "`name` of the Secret with its credentials")
	cmd.Flags().DurationVar(&interval, "interval", 0, "how often the Git host is asked; default: 2m")
	_ = cmd.MarkFlagRequired("url") // there is such a flag
	return cmd
}

func (c *creation) clusterCommand() *cobra.Command {
	spec := &consolev1.ClusterSpec{}
	cmd := c.kindCommand("cluster NAME", "Make a cluster, for an agent to join as",
		"  fairlead create cluster edge-1 --label env=prod",
		func(head *consolev1.Metadata) (catalogyaml.Message, error) {
			return &consolev1.Cluster{Metadata: head, Spec: spec}, nil
		})
	cmd.Flags().StringVar(&spec.Description, "description", "", "what it is, for people")
	return cmd
}

func (c *creation) serviceCommand() *cobra.Command {
	spec := &consolev1.ServiceSpec{}
	var createNamespace bool
	cmd := c.kindCommand("service NAME --source SOURCE --cluster CLUSTER",
		"Make a service: a folder of a source that a cluster runs",
		"  fairlead create service web --source shop --path web --cluster edge-1 -n web --create-namespace",
		func(head *consolev1.Metadata) (catalogyaml.Message, error) {
			if createNamespace {
				spec.Sync = &deliveryv1.SyncSpec{CreateNamespace: &deliveryv1.CreateNamespace{}}
			}
			return &consolev1.Service{Metadata: head, Spec: spec}, nil
		})
	cmd.Flags().StringVar(&spec.Source, "source", "", "`name` of the source")
	cmd.Flags().StringVar(&spec.Cluster, "cluster", "", "`name` of the cluster")
	cmd.Flags().StringVar(&spec.Ref, "ref", "", "branch, tag, commit or semver:RANGE; default: the default branch")
	cmd.Flags().StringVar(&spec.Path, "path", "", "`folder` in the repository; default: all of it")
	cmd.Flags().StringVarP(&spec.Namespace, "namespace", "n", "",
		"namespace of objects that name none; default: default")
	cmd.Flags().StringVar(&spec.Project, "project", "", "`name` of the project that bounds it")
	cmd.Flags().BoolVar(&createNamespace, "create-namespace", false,
		"have the agent make the namespace where it is not there")
	_, _ = cmd.MarkFlagRequired("source"), cmd.MarkFlagRequired("cluster") // there are such flags
	return cmd
}

func (c *creation) projectCommand() *cobra.Command {
	spec := &consolev1.ProjectSpec{}
	var clusters []string
	cmd := c.kindCommand("project NAME", "Make a project, which bounds its services",
		"  fairlead create project shop --source 'shop-*' --cluster edge-1 --namespace shop",
		func(head *consolev1.Metadata) (catalogyaml.Message, error) {
			if len(clusters) > 0 {
				spec.Clusters = &consolev1.ClusterSelector{Names: clusters}
			}
			return &consolev1.Project{Metadata: head, Spec: spec}, nil
		})
	cmd.Flags().StringVar(&spec.Description, "description", "", "what it is, for people")
	cmd.Flags().StringArrayVar(&spec.Sources, "source", nil,
		"`name` of a source that its services may use, * stands for any text; may be repeated")
	cmd.Flags().StringArrayVar(&clusters, "cluster", nil,
		"`name` of a cluster that its services may go to; may be repeated")
	cmd.Flags().StringArrayVar(&spec.Namespaces, "namespace", nil,
		"namespace that its objects may be in; may be repeated")
	return cmd
}

func (c *creation) secretCommand() *cobra.Command {
	var literals, files []string
	cmd := c.kindCommand("secret NAME", "Make a Secret of the hub, such as a repository's credentials",
		"  fairlead create secret shop-git --from-literal username=git --from-file password=token.txt",
		func(head *consolev1.Metadata) (catalogyaml.Message, error) {
			data, err := parsePairs("from-literal", literals)
			if err != nil {
				return nil, err
			}
			named, err := parsePairs("from-file", files)
			if err != nil {
				return nil, err
			}
			for key, file := range named {
				text, err := os.ReadFile(file)
				if err != nil {
					return nil, err
				}
				data[key] = string(text)
			}
			return &consolev1.Secret{Metadata: head, Data: data}, nil
		})
	cmd.Flags().StringArrayVar(&literals, "from-literal", nil,
		"value, as `KEY=VALUE`: other people of this machine may see it in the list of processes")
	cmd.Flags().StringArrayVar(&files, "from-file", nil, "value in a file, as `KEY=FILE`")
	return cmd
}

// parsePairs reads KEY=VALUE.
func parsePairs(flag string, list []string) (map[string]string, error) {
	all := map[string]string{}
	for _, text := range list {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--%s: %q must be like KEY=VALUE", flag, text)
		}
		all[key] = value
	}
	return all, nil
}

// createObjects writes resources if none of them is there yet, or prints them.
func (c *creation) createObjects(cmd *cobra.Command, objects []*catalogyaml.Object) error {
	if c.format != "" {
		if c.format != app.FormatYAML {
			return fmt.Errorf("unknown form of output %q: known is yaml", c.format)
		}
		messages := make([]catalogyaml.Message, len(objects))
		for i, o := range objects {
			messages[i] = o.Message
		}
		text, err := catalogyaml.YAML(messages...)
		if err != nil {
			return err
		}
		return c.app.Printf("%s", text)
	}
	return c.app.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
		if err := requireAbsent(ctx, h, objects); err != nil {
			return err
		}
		w := writing{app: c.app, hub: h, dryRun: c.dryRun}
		err := w.writeObjects(ctx, objects)
		if c.dryRun && errors.Is(err, flags.Exit(differs)) {
			return nil // a new resource always differs from what is there
		}
		return err
	})(cmd, nil)
}

// mustBeNew is the etag of a resource that the hub makes only if there is none yet.
const mustBeNew = "new"

// requireAbsent fails if one of the objects is there. Of an object that the person may not view the hub says by the
// write which right is lacking, or that the name is taken.
func requireAbsent(ctx context.Context, h *hubclient.Hub, objects []*catalogyaml.Object) error {
	var there []error
	for _, o := range objects {
		k, err := resource.FindKind(string(o.Kind()))
		if err != nil {
			return err
		}
		_, err = k.ReadOne(ctx, h, o.Name())
		switch {
		case err == nil:
			there = append(there, fmt.Errorf("%s %q is there already: change it with `fairlead apply -f FILE` or `fairlead edit %s %s`", k.Singular(), o.Name(), k.Singular(), o.Name()))
		case !resource.IsMissing(err) && connect.CodeOf(err) != connect.CodeNotFound:
			return err
		}
		o.Message.GetMetadata().Etag = mustBeNew
	}
	return errors.Join(there...)
}
