package command

import (
	"context"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/hub"
	"fairlead.dev/cli/internal/table"
	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/manifest"
)

func (a *app) sourcesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "sources",
		Aliases: []string{"source"},
		Short:   "Look into sources, and ask for news",
		Args:    onlyBelow,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.sourcesRefresh(), a.sourcesLog(), a.sourcesTree(), a.sourcesCat())
	return cmd
}

func (a *app) sourcesRefresh() *cobra.Command {
	return &cobra.Command{
		Use:   "refresh NAME",
		Short: "Ask the repository now whether something is new, instead of at the next interval",
		Long: `Ask the repository now whether something is new, instead of at the next interval.

It returns at once. What the repository answers is in "fairlead get source NAME" a moment later.`,
		Args: wantArgs(1, 1),
		RunE: a.hubCommand(a.refreshSources),
	}
}

// refreshSources asks any gitcache: it passes the wish on to the one that owns the source.
func (a *app) refreshSources(ctx context.Context, h *hub.Hub, args []string) error {
	_, err := atGitcache(ctx, h, callTimeout, func(ctx context.Context, g hub.Gitcache) (*gitcachev1.RefreshSourceResponse, error) {
		return g.Sources.RefreshSource(ctx, &gitcachev1.RefreshSourceRequest{Name: args[0]})
	})
	if connect.CodeOf(err) == connect.CodeNotFound {
		return sourceKind().explainMissing(args[0], err)
	}
	if err != nil {
		return fmt.Errorf("refresh source %q: %w", args[0], err)
	}
	a.notef("what it finds shows up in `fairlead get source %s`\n", args[0])
	return a.printf("source/%s is being asked\n", args[0])
}

const aboutRef = "a branch, refs/tags/TAG, a ref as a service names it, or a commit, of which 7 letters do; default: the default branch"

// logSize is how many commits are shown if nobody says.
const logSize = 20

func (a *app) sourcesLog() *cobra.Command {
	var ref, format string
	var limit int
	cmd := &cobra.Command{
		Use:   "log NAME",
		Short: "Show the history of a source",
		Long: `Show the history of a source as the hub has fetched it, newest first. Of merges, what was merged in is left out.

The repository itself is not asked: it works with the Git host down.`,
		Example: `  fairlead sources log shop
  fairlead sources log shop --ref refs/tags/v1.4.0 -n 5`,
		Args: wantArgs(1, 1),
	}
	cmd.Flags().StringVar(&ref, "ref", "", aboutRef)
	cmd.Flags().IntVarP(&limit, "limit", "n", logSize, "show at most so many commits; 0: all")
	cmd.Flags().StringVarP(&format, "output", "o", formatTable, "form of the output: table, json or yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkPlainFormat(format); err != nil {
			return err
		}
		if limit < 0 {
			return fmt.Errorf("--limit %d: must not be negative", limit)
		}
		return a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
			commits, err := readPages(limit, func(size int, token string) ([]*artifactv1.Revision, string, error) {
				page, err := atGitcache(ctx, h, callTimeout, func(ctx context.Context, g hub.Gitcache) (*gitcachev1.ListCommitsResponse, error) {
					return g.Sources.ListCommits(ctx, &gitcachev1.ListCommitsRequest{Source: args[0], Revision: ref, PageSize: int32(size), PageToken: token})
				})
				return page.GetCommits(), page.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return a.showLog(commits, format)
		})(cmd, args)
	}
	return cmd
}

func (a *app) showLog(commits []*artifactv1.Revision, format string) error {
	if format != formatTable {
		return a.showPlain(format, &gitcachev1.ListCommitsResponse{Commits: commits})
	}
	t := table.New("COMMIT", "AGE", "AUTHOR", "SUBJECT")
	for _, c := range commits {
		age := ""
		if isSet(c.GetCommitTime()) {
			age = table.FormatAge(a.Now(), c.GetCommitTime().AsTime())
		}
		t.AddRow(c.GetCommit()[:min(shortHex, len(c.GetCommit()))], age, c.GetAuthor(), c.GetSubject())
	}
	return a.writeTable(t)
}

func (a *app) sourcesTree() *cobra.Command {
	var ref, format string
	cmd := &cobra.Command{
		Use:   "tree NAME [FOLDER]",
		Short: "Show what is in a folder of a source",
		Long:  "Show what is in a folder of a source as the hub has fetched it. The repository itself is not asked.",
		Example: `  fairlead sources tree shop
  fairlead sources tree shop deploy/prod --ref main`,
		Args: wantArgs(1, 2),
	}
	cmd.Flags().StringVar(&ref, "ref", "", aboutRef)
	cmd.Flags().StringVarP(&format, "output", "o", formatTable, "form of the output: table, json or yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkPlainFormat(format); err != nil {
			return err
		}
		return a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
			folder := ""
			if len(args) > 1 {
				folder = cleanPath(args[1])
			}
			var at *artifactv1.Revision
			entries, err := readPages(0, func(size int, token string) ([]*gitcachev1.TreeEntry, string, error) {
				page, err := atGitcache(ctx, h, callTimeout, func(ctx context.Context, g hub.Gitcache) (*gitcachev1.ListTreeResponse, error) {
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
			return a.showTree(&gitcachev1.ListTreeResponse{Revision: at, Entries: entries}, format)
		})(cmd, args)
	}
	return cmd
}

func (a *app) showTree(tree *gitcachev1.ListTreeResponse, format string) error {
	if format != formatTable {
		return a.showPlain(format, tree)
	}
	t := table.New("KIND", "SIZE", "OBJECT", "NAME")
	for _, e := range tree.GetEntries() {
		kind, size, name := manifest.Short(e.GetKind()), "", e.GetName()
		switch e.GetKind() {
		case gitcachev1.TreeEntry_KIND_FOLDER:
			name += "/"
		case gitcachev1.TreeEntry_KIND_FILE, gitcachev1.TreeEntry_KIND_EXECUTABLE, gitcachev1.TreeEntry_KIND_LINK:
			size = table.FormatBytes(e.GetSize())
		}
		t.AddRow(kind, size, e.GetObjectId()[:min(shortHex, len(e.GetObjectId()))], name)
	}
	return a.writeTable(t)
}

func (a *app) sourcesCat() *cobra.Command {
	var ref string
	cmd := &cobra.Command{
		Use:   "cat NAME FILE",
		Short: "Print a file of a source",
		Long: `Print a file of a source as the hub has fetched it, byte by byte, up to 1 MiB. The repository itself is not
asked.`,
		Example: `  fairlead sources cat shop deploy/web.yaml
  fairlead sources cat shop deploy/web.yaml --ref 1a2b3c4d | diff - web.yaml`,
		Args: wantArgs(2, 2),
	}
	cmd.Flags().StringVar(&ref, "ref", "", aboutRef)
	cmd.RunE = a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
		file, err := atGitcache(ctx, h, callTimeout, func(ctx context.Context, g hub.Gitcache) (*gitcachev1.ReadFileResponse, error) {
			return g.Sources.ReadFile(ctx, &gitcachev1.ReadFileRequest{Source: args[0], Revision: ref, Path: cleanPath(args[1])})
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
