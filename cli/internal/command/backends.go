package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/hub"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

func (v view) backendRow(b *consolev1.Backend) (r row) {
	name, state := b.GetMetadata().GetName(), "Ready"
	switch problem := b.GetStatus().GetProblem(); {
	case problem.GetMessage() != "":
		state = "Failing"
		r.notes = []note{{about: name, text: problem.GetMessage() + "; services keep the values that they have", since: problem.GetSince()}}
	case b.GetStatus().GetReadTime() == nil:
		state = "Pending"
	}
	at, secret := whereOf(b.GetSpec())
	r.cells = []cell{
		{"NAME", name},
		{"STATE", state},
		{"READ", v.agoText(b.GetStatus().GetReadTime())},
		{"AT", at},
		{"PROJECTS", strings.Join(b.GetSpec().GetProjects(), ",")},
	}
	r.more = []cell{{"PATHS", strings.Join(b.GetSpec().GetPaths(), ",")}, {"SECRET", secret}}
	return r
}

// whereOf is for people.
func whereOf(spec *consolev1.BackendSpec) (at, secret string) {
	switch of := spec.GetAt().(type) {
	case *consolev1.BackendSpec_Kubernetes:
		return strings.TrimSpace("kubernetes " + of.Kubernetes.GetServer()), of.Kubernetes.GetSecret()
	case *consolev1.BackendSpec_Vault:
		return "vault " + of.Vault.GetAddress(), of.Vault.GetSecret()
	case *consolev1.BackendSpec_Files:
		return strings.TrimSpace("files " + of.Files.GetFolder()), of.Files.GetSecret()
	}
	return "", ""
}

func (a *app) checkBackend() *cobra.Command {
	return &cobra.Command{
		Use:   "check-backend NAME [PATH]",
		Short: "Read from a backend of configuration now, and say how that went",
		Long: `Read from a backend of configuration now, and say how that went: whether it lets the hub in, or with a path, which
keys are there. Values are not shown.`,
		Example: "  fairlead admin check-backend vault\n  fairlead admin check-backend vault shop/db",
		Args:    wantArgs(1, 2),
		RunE: a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			got, err := h.Backends.GetBackend(ctx, &consolev1.GetBackendRequest{Name: args[0]})
			if err != nil {
				return err
			}
			req := &consolev1.CheckBackendRequest{Backend: got.GetBackend()}
			if len(args) > 1 {
				req.Path = args[1]
			}
			res, err := h.Backends.CheckBackend(ctx, req)
			switch {
			case err != nil:
				return err
			case res.GetProblem() != "":
				return fmt.Errorf("backend %q: %s", args[0], strings.TrimSpace(req.GetPath()+" "+res.GetProblem()))
			case req.GetPath() == "":
				return a.printf("backend %q can be read\n", args[0])
			}
			return a.printf("%s\n", strings.Join(res.GetKeys(), "\n"))
		}),
	}
}
