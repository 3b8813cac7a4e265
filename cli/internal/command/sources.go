package command

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/hub"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
)

func (a *app) sources() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "source",
		Aliases: []string{"sources"},
		Short:   "Act on sources",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "refresh NAME",
		Short: "Ask the repository now whether something is new, instead of at the next interval",
		Long: `Ask the repository now whether something is new, instead of at the next interval.

It returns at once. What the repository answers is in "fairlead get source NAME" a moment later.`,
		Args: wants(1, 1),
		RunE: a.hubCommand(a.refresh),
	})
	return cmd
}

// refresh asks any gitcache: it passes the wish on to the one that owns the source.
func (a *app) refresh(ctx context.Context, h *hub.Hub, args []string) error {
	if len(h.Context.Endpoints.Gitcaches) == 0 {
		return errors.New("the hub did not say where its gitcaches are: set --advertise-gitcaches at the console, then run `fairlead login` again")
	}
	var errs []error
	for _, url := range h.Context.Endpoints.Gitcaches {
		err := refreshAt(ctx, h, url, args[0])
		if err == nil {
			a.notef("what it finds shows up in `fairlead get source %s`\n", args[0])
			return a.printf("source/%s is being asked\n", args[0])
		}
		if connect.CodeOf(err) == connect.CodeNotFound {
			return sourceKind().missing(args[0], err)
		}
		errs = append(errs, err)
		if connect.CodeOf(err) != connect.CodeUnavailable {
			break
		}
	}
	return fmt.Errorf("refresh source %q: %w", args[0], errors.Join(errs...))
}

func refreshAt(ctx context.Context, h *hub.Hub, url, source string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := h.Gitcache(url).RefreshSource(ctx, &gitcachev1.RefreshSourceRequest{Name: source})
	return err
}
