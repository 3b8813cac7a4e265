package source

import (
	"context"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/catalogyaml"
)

func sourcesCommand(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "sources",
		Aliases: []string{"source"},
		Short:   "Look into sources, and poll them now",
		Args:    app.OnlyBelow,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(sourcesRefresh(a), sourcesLog(a), sourcesTree(a), sourcesCat(a))
	return cmd
}

func sourcesRefresh(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "refresh SOURCE",
		Short: "Ask the repository now whether something is new, instead of at the next interval",
		Long: `Ask the repository now whether something is new, instead of at the next interval.

The command returns at once. A moment later "fairlead get source SOURCE" has the answer of the repository.`,
		Args: app.WantArgs(1, 1),
		RunE: a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
			return refreshSources(ctx, a, h, args)
		}),
	}
}

// refreshSources asks any gitcache: it passes the wish on to the one that owns the source.
func refreshSources(ctx context.Context, a *app.App, h *hubclient.Hub, args []string) error {
	_, err := app.AskGitcaches(ctx, h, hubclient.CallTimeout, func(ctx context.Context, g hubclient.Gitcache) (*gitcachev1.RefreshSourceResponse, error) {
		return g.Sources.RefreshSource(ctx, &gitcachev1.RefreshSourceRequest{Name: args[0]})
	})
	if connect.CodeOf(err) == connect.CodeNotFound {
		return resource.SourceKind().ExplainMissing(args[0], err)
	}
	if err != nil {
		return fmt.Errorf("refresh source %q: %w", args[0], err)
	}
	a.Notef("what it finds shows up in `fairlead get source %s`\n", args[0])
	return a.Printf("source/%s is being asked\n", args[0])
}

const aboutRef = "a branch, refs/tags/TAG, a ref as a service names it, or a commit, of which 7 letters do; default: the default branch"

// logSize is how many commits are shown if nobody says.
const logSize = 20

func sourcesLog(a *app.App) *cobra.Command {
	var ref, format string
	var limit int
	cmd := &cobra.Command{
		Use:   "log SOURCE",
		Short: "Show the history of a source",
		Long: `Show the history of a source as the hub has fetched it, newest first. Of a merge only the merge commit is shown.

The repository itself is not asked: the command works with the Git host down.`,
		Example: `  fairlead sources log shop
  fairlead sources log shop --ref refs/tags/v1.4.0 -n 5`,
		Args: app.WantArgs(1, 1),
	}
	cmd.Flags().StringVar(&ref, "ref", "", aboutRef)
	cmd.Flags().IntVarP(&limit, "limit", "n", logSize, "show at most so many commits; 0: all")
	cmd.Flags().StringVarP(&format, "output", "o", app.FormatTable, "form of the output: table, json or yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := app.CheckPlainFormat(format); err != nil {
			return err
		}
		if err := app.CheckLeast("limit", limit, 0); err != nil {
			return err
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
			commits, err := app.ReadPages(limit, func(size int, token string) ([]*artifactv1.Revision, string, error) {
				page, err := app.AskGitcaches(ctx, h, hubclient.CallTimeout, func(ctx context.Context, g hubclient.Gitcache) (*gitcachev1.ListCommitsResponse, error) {
					return g.Sources.ListCommits(ctx,
						&gitcachev1.ListCommitsRequest{
							Source: args[0], Revision: ref, PageSize: int32(size), PageToken: token,
						})
				})
				return page.GetCommits(), page.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return showLog(a, commits, format)
		})(cmd, args)
	}
	return cmd
}

func showLog(a *app.App, commits []*artifactv1.Revision, format string) error {
	if format != app.FormatTable {
		return a.ShowPlain(format, &gitcachev1.ListCommitsResponse{Commits: commits})
	}
	t := table.New("COMMIT", "AGE", "AUTHOR", "SUBJECT")
	for _, c := range commits {
		age := ""
		if view.IsSet(c.GetCommitTime()) {
			age = table.FormatAge(a.Now(), c.GetCommitTime().AsTime())
		}
		t.AddRow(c.GetCommit()[:min(view.ShortHex, len(c.GetCommit()))], age, c.GetAuthor(), c.GetSubject())
	}
	return a.WriteTable(t)
}

func sourcesTree(a *app.App) *cobra.Command {
	var ref, format string
	cmd := &cobra.Command{
		Use:   "tree SOURCE [FOLDER]",
		Short: "Show what is in a folder of a source",
		Long:  "Show what is in a folder of a source as the hub has fetched it. The repository itself is not asked.",
		Example: `  fairlead sources tree shop
  fairlead sources tree shop deploy/prod --ref main`,
		Args: app.WantArgs(1, 2),
	}
	cmd.Flags().StringVar(&ref, "ref", "", aboutRef)
	cmd.Flags().StringVarP(&format, "output", "o", app.FormatTable, "form of the output: table, json or yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := app.CheckPlainFormat(format); err != nil {
			return err
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
			folder := ""
			if len(args) > 1 {
				folder = cleanPath(args[1])
			}
			var at *artifactv1.Revision
			entries, err := app.ReadPages(0, func(size int, token string) ([]*gitcachev1.TreeEntry, string, error) {
				page, err := app.AskGitcaches(ctx, h, hubclient.CallTimeout, func(ctx context.Context, g hubclient.Gitcache) (*gitcachev1.ListTreeResponse, error) {
					return g.Sources.ListTree(ctx, &gitcachev1.ListTreeRequest{
						Source: args[0], Revision: ref,
						Path: folder, PageSize: int32(size), PageToken: token,
					})
				})
				at = page.GetRevision()
				return page.GetEntries(), page.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return showTree(a, &gitcachev1.ListTreeResponse{Revision: at, Entries: entries}, format)
		})(cmd, args)
	}
	return cmd
}

func showTree(a *app.App, tree *gitcachev1.ListTreeResponse, format string) error {
	if format != app.FormatTable {
		return a.ShowPlain(format, tree)
	}
	t := table.New("KIND", "SIZE", "OBJECT", "NAME")
	for _, e := range tree.GetEntries() {
		kind, size, name := catalogyaml.Short(e.GetKind()), "", e.GetName()
		switch e.GetKind() {
		case gitcachev1.TreeEntry_KIND_FOLDER:
			name += "/"
		case gitcachev1.TreeEntry_KIND_FILE, gitcachev1.TreeEntry_KIND_EXECUTABLE, gitcachev1.TreeEntry_KIND_LINK:
			size = table.FormatBytes(e.GetSize())
		}
		t.AddRow(kind, size, e.GetObjectId()[:min(view.ShortHex, len(e.GetObjectId()))], name)
	}
	return a.WriteTable(t)
}

func sourcesCat(a *app.App) *cobra.Command {
	var ref string
	cmd := &cobra.Command{
		Use:   "cat SOURCE FILE",
		Short: "Print a file of a source",
		Long: `Print a file of a source as the hub has fetched it, byte by byte, up to 1 MiB. The repository itself is not
asked.`,
		Example: `  fairlead sources cat shop deploy/web.yaml
  fairlead sources cat shop deploy/web.yaml --ref 1a2b3c4d | diff - web.yaml`,
		Args: app.WantArgs(2, 2),
	}
	cmd.Flags().StringVar(&ref, "ref", "", aboutRef)
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
		file, err := app.AskGitcaches(ctx, h, hubclient.CallTimeout, func(ctx context.Context, g hubclient.Gitcache) (*gitcachev1.ReadFileResponse, error) {
			return g.Sources.ReadFile(ctx,
				&gitcachev1.ReadFileRequest{Source: args[0], Revision: ref, Path: cleanPath(args[1])})
		})
		if err != nil {
			return err
		}
		if file.GetEntry().GetKind() == gitcachev1.TreeEntry_KIND_LINK {
			return fmt.Errorf("%s is a link to %q: name that", args[1], file.GetContent())
		}
		_, err = a.Stdout.Write(file.GetContent())
		return err
	})
	return cmd
}

// cleanPath takes what shells complete, too: ./deploy/.
func cleanPath(path string) string {
	return strings.Trim(strings.TrimPrefix(path, "./"), "/")
}
