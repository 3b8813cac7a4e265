package command

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fairlead.dev/cli/internal/hub"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/manifest"
)

const (
	// setLabel says which set a resource was applied with.
	setLabel = "fairlead.dev/set"
	// declaredLabel names the service whose folder declares a resource.
	declaredLabel = "fairlead.dev/declared-by"
)

func (a *app) exportCommand() *cobra.Command {
	var project, set string
	cmd := &cobra.Command{
		Use:   "export [KIND...]",
		Short: "Print resources as apply takes them",
		Long: `Print resources as YAML that "fairlead apply -f" takes: without what the hub fills in, in the order in
which they depend on each other. Applied to the same hub it changes nothing. Services of a global
service, and what a folder declares, are left out: they come of these.

Values of secrets are never read back: they are empty, which leaves them as they are. For another
hub, write them in.`,
		Example: `  fairlead export > hub.yaml
  fairlead export services --project shop
  fairlead export --set fleet | fairlead apply -f - --set fleet --context other`,
		Args: wantArgs(0, unlimited),
	}
	cmd.Flags().StringVar(&project, "project", "", "only the project with this `name` and what is of it")
	cmd.Flags().StringVar(&set, "set", "", "only what is of the set with this `name`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		wanted := map[manifest.Kind]kind{}
		for _, name := range args {
			k, err := findKind(name)
			if err != nil {
				return err
			}
			wanted[k.kind] = k
		}
		if len(args) == 0 {
			for _, k := range listKinds() {
				wanted[k.kind] = k
			}
		}
		return a.hubCommand(func(ctx context.Context, h *hub.Hub, _ []string) error {
			var all []manifest.Message
			for _, kind := range manifest.Kinds() {
				k, ok := wanted[kind]
				if !ok {
					continue
				}
				found, err := k.readAll(ctx, h)
				if err != nil {
					return err
				}
				for _, m := range found {
					if m.GetMetadata().GetUid() == "" {
						continue // a role that is always there
					}
					if labels := m.GetMetadata().GetLabels(); labels[globalLabel] != "" || labels[declaredLabel] != "" {
						continue // a global service makes it again, or a folder: apply takes it from nobody else
					}
					if set == "" || m.GetMetadata().GetLabels()[setLabel] == set {
						if project == "" || ofProject(m, project) {
							all = append(all, asWritten(m))
						}
					}
				}
			}
			text, err := manifest.YAML(all...)
			if err != nil {
				return err
			}
			return a.printf("%s", text)
		})(cmd, nil)
	}
	return cmd
}

// ofProject says whether a resource is the project, or names it.
func ofProject(m manifest.Message, project string) bool {
	switch m := m.(type) {
	case *consolev1.Project:
		return m.GetMetadata().GetName() == project
	case *consolev1.Service:
		return m.GetSpec().GetProject() == project
	case *consolev1.ConfigSet:
		return m.GetSpec().GetProject() == project
	case *consolev1.GlobalService:
		return m.GetSpec().GetTemplate().GetProject() == project
	}
	return false
}

// asWritten takes away what the hub fills in.
func asWritten(m manifest.Message) manifest.Message {
	r := m.ProtoReflect()
	if status := r.Descriptor().Fields().ByName("status"); status != nil {
		r.Clear(status)
	}
	if s, ok := m.(*consolev1.Service); ok {
		ofFiles(s)
		s.Levers = nil
		s.GetSpec().TestRequest = nil
	}
	head := m.GetMetadata()
	r.Set(r.Descriptor().Fields().ByName("metadata"), protoreflect.ValueOfMessage(
		(&consolev1.Metadata{Name: head.GetName(), Labels: head.GetLabels()}).ProtoReflect()))
	return m
}

// ofFiles gives a service the spec that files say: what operators pulled stands beside it, and what they asked for is no part of it.
func ofFiles(s *consolev1.Service) {
	if files := s.GetLevers().GetSpec(); files != nil {
		s.Spec, s.Levers.Spec = files, nil
	}
	if sync := s.GetSpec().GetSync(); sync != nil {
		if sync.RequestTime = nil; proto.Size(sync) == 0 {
			s.Spec.Sync = nil
		}
	}
}
