package source

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
)

// moveTimeout bounds a move: it copies a repository from one gitcache to another.
const moveTimeout = 5 * time.Minute

func shardsCommand(a *app.App) *cobra.Command {
	var format, replica string
	cmd := &cobra.Command{
		Use:     "shards",
		Aliases: []string{"shard"},
		Short:   "Show which gitcache fetches which source, and move them",
		Long: `Show the gitcaches, the other replicas of the hub with their versions, and for each source which
gitcache fetches it and which should.

The sources are shared among the gitcaches by their names. When gitcaches come or go, sources are handed
over one after the other, each to a gitcache that has copied it before.`,
		Args: app.WantArgs(0, 0),
	}
	cmd.Flags().StringVarP(&format, "output", "o", app.FormatTable, "form of the output: table, json or yaml")
	cmd.Flags().StringVar(&replica, "replica", "", "show only sources that this `gitcache` fetches or should fetch")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := app.CheckPlainFormat(format); err != nil {
			return err
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
			return showShards(ctx, a, h, replica, format)
		})(cmd, nil)
	}
	cmd.AddCommand(drainCommand(a, "drain", "Make a gitcache hand over all sources, and take none until it is taken back", true),
		drainCommand(a, "undrain", "Take a gitcache back that was drained", false), moveCommand(a))
	return cmd
}

func showShards(ctx context.Context, a *app.App, h *hubclient.Hub, replica, format string) error {
	replicas, err := app.AskGitcaches(ctx, h, hubclient.CallTimeout, func(ctx context.Context, g hubclient.Gitcache) (*gitcachev1.ListReplicasResponse, error) {
		return g.Shards.ListReplicas(ctx, &gitcachev1.ListReplicasRequest{})
	})
	if err != nil {
		return err
	}
	shards, err := app.ReadPages(0, func(size int, token string) ([]*gitcachev1.Shard, string, error) {
		page, err := app.AskGitcaches(ctx, h, hubclient.CallTimeout, func(ctx context.Context, g hubclient.Gitcache) (*gitcachev1.ListShardsResponse, error) {
			return g.Shards.ListShards(ctx,
				&gitcachev1.ListShardsRequest{PageSize: int32(size), PageToken: token, Replica: replica})
		})
		return page.GetShards(), page.GetNextPageToken(), err
	})
	if err != nil {
		return err
	}
	consoles := askConsoles(ctx, h)
	if format != app.FormatTable {
		return a.ShowPlain(format, consoles, replicas, &gitcachev1.ListShardsResponse{Shards: shards})
	}
	if err := a.WriteTable(replicaTable(a, replicas.GetReplicas())); err != nil {
		return err
	}
	if err := showOthers(a, consoles, replicas); err != nil {
		return err
	}
	if err := a.Printf("\n"); err != nil {
		return err
	}
	return a.WriteTable(shardTable(shards))
}

// askConsoles returns the consoles of the hub, or why they are missing, and nothing else.
func askConsoles(ctx context.Context, h *hubclient.Hub) *consolev1.GetHubResponse {
	ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
	defer cancel()
	is, err := h.Admin.GetHub(ctx, &consolev1.GetHubRequest{Condition: true})
	out := &consolev1.GetHubResponse{Consoles: is.GetConsoles(), ConsolesMissing: is.GetConsolesMissing()}
	if err != nil {
		out.ConsolesMissing = err.Error()
	}
	return out
}

// showOthers lists the consoles, and the replicas of the other services that share the store of the gitcaches, if there
// are any.
func showOthers(a *app.App, is *consolev1.GetHubResponse, of *gitcachev1.ListReplicasResponse) error {
	if is.GetConsolesMissing() != "" {
		which := "Other consoles"
		if len(is.GetConsoles()) == 0 {
			which = "Consoles"
		}
		if err := a.Printf("\n%s are not listed: %s\n", which, table.CleanLine(is.GetConsolesMissing())); err != nil {
			return err
		}
	}
	if of.GetOthersMissing() != "" {
		why := table.CleanLine(of.GetOthersMissing())
		if err := a.Printf("\nDistributors and tunnels are not listed: %s\n", why); err != nil {
			return err
		}
	}
	if len(is.GetConsoles()) == 0 && len(of.GetOthers()) == 0 {
		return nil
	}
	t := table.New("SERVICE", "REPLICA", "STATE", "VERSION", "AGE", "URL")
	for _, c := range is.GetConsoles() {
		t.AddRow("console", c.GetName(), consoleState(c.GetAnswers()), c.GetVersion(), formatAge(a, c.GetStartTime()), "")
	}
	for _, r := range of.GetOthers() {
		t.AddRow(r.GetService(), r.GetName(), replicaState(r.GetDraining()), r.GetVersion(),
			formatAge(a, r.GetStartTime()), r.GetUrl())
	}
	if err := a.Printf("\n"); err != nil {
		return err
	}
	return a.WriteTable(t)
}

func replicaState(draining bool) string {
	if draining {
		return "Draining"
	}
	return "Ready"
}

func consoleState(answers bool) string {
	if answers {
		return "Ready, answers"
	}
	return "Ready"
}

// formatAge is how long ago something was; empty for never.
func formatAge(a *app.App, at *timestamppb.Timestamp) string {
	if !view.IsSet(at) {
		return ""
	}
	return table.FormatAge(a.Now(), at.AsTime())
}

func replicaTable(a *app.App, replicas []*gitcachev1.Replica) *table.Table {
	t := table.New("REPLICA", "STATE", "OWNED", "PREFERRED", "COPIES", "VERSION", "AGE", "URL")
	for _, r := range replicas {
		t.AddRow(r.GetName(), replicaState(r.GetDraining()), fmt.Sprint(r.GetOwned()), fmt.Sprint(r.GetPreferred()),
			fmt.Sprint(r.GetCopies()), r.GetVersion(), formatAge(a, r.GetStartTime()), r.GetUrl())
	}
	return t
}

func shardTable(shards []*gitcachev1.Shard) *table.Table {
	t := table.New("SOURCE", "OWNER", "EPOCH", "PREFERRED", "COPY", "NOTE")
	for _, s := range shards {
		preferred, second := "", ""
		if len(s.GetPreferred()) > 0 {
			preferred = s.GetPreferred()[0]
		}
		if len(s.GetPreferred()) > 1 {
			second = s.GetPreferred()[1]
		}
		t.AddRow(s.GetSource(), s.GetOwner(), fmt.Sprint(s.GetEpoch()), preferred, second, s.GetNote())
	}
	return t
}

func drainCommand(a *app.App, verb, short string, draining bool) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " REPLICA",
		Short: short,
		Long:  short + ".\n\nIt goes on serving what it has. `fairlead shards` shows how far it is.",
		Args:  app.WantArgs(1, 1),
		RunE: a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
			_, err := app.AskGitcaches(ctx, h, hubclient.CallTimeout, func(ctx context.Context, g hubclient.Gitcache) (*gitcachev1.SetDrainingResponse, error) {
				return g.Shards.SetDraining(ctx, &gitcachev1.SetDrainingRequest{Replica: args[0], Draining: draining})
			})
			if err != nil {
				return err
			}
			did := "is taken back"
			if draining {
				did = "drains"
				a.Notef("see `fairlead shards --replica %s` for what it still has\n", args[0])
			}
			return a.Printf("replica/%s %s\n", args[0], did)
		}),
	}
}

func moveCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "move SOURCE REPLICA",
		Short: "Hand a source over to another gitcache",
		Long: `Hand a source over to another gitcache. The command returns when that gitcache has a copy and fetches the source. The source
stays there until that gitcache drains or ends.`,
		Args: app.WantArgs(2, 2),
		RunE: a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
			_, err := app.AskGitcaches(ctx, h, moveTimeout, func(ctx context.Context, g hubclient.Gitcache) (*gitcachev1.MoveSourceResponse, error) {
				return g.Shards.MoveSource(ctx, &gitcachev1.MoveSourceRequest{Source: args[0], Replica: args[1]})
			})
			if err != nil {
				return err
			}
			return a.Printf("source/%s is fetched by %s\n", args[0], args[1])
		}),
	}
}
