package get

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/object"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalogyaml"
	"fairlead.dev/platform/kind"
)

// plurals are the words for the kinds of resources, in the order of the alphabet.
func plurals() (words []string) {
	for _, k := range kind.All() {
		words = append(words, k.Plural())
	}
	slices.Sort(words)
	return words
}

func getCommand(a *app.App) *cobra.Command {
	g := getting{app: a}
	cmd := &cobra.Command{
		Use:         "get " + strings.Join(plurals(), "|") + "|sessions|logins|objects|nodes|pods|warnings|rows [NAME...]",
		Annotations: map[string]string{resource.ReadsReferences: "yes"},
		Short:       "Show resources and how they are",
		Long: `Show resources and their state.

Of a service, three truths stand side by side, each a commit with its age: GIT, the newest at the ref; HUB, what
is handed out to the cluster; APPLIED, what runs there. SYNC compares them: "in sync", or how many commits that change
the service's folder are missing in the cluster ("3 behind"; "another line" after a force-push; "behind" without a number
if a folder changed that the service's folder refers to), and how many objects others have changed there ("1 drifted").
Below the table stands what is wrong, since when, and what to do.
With a name, or with -o wide, the objects that are not healthy are listed, too, and how the latest run of the tests went.
With -o wide HUB and APPLIED are both "digest of commit", so that they can be compared, HEALTH is what the
cluster says of the objects and since when, TESTS how the latest run of the tests went, SEEN when its agent was heard of
last. Old states are marked: "stale 5m" (Git can't be asked since), "held up 5m" (the newest commit can't be handed
out since), "unknown, was ..." (the cluster is not connected). "fairlead trace service NAME" says all of one service.

Of sources, -o wide shows besides what the gitcaches know right now: which of them fetches (OWNER), when it
asked last and asks next, since when the repository has not answered as it should (STALE), how often it was
asked in the last hour, what is on the disk (MIRROR), and which other gitcaches have a copy (STANDBYS).

--values prints the values.yaml of a chart: of the version that services name, or of another version of the repository, which
the hub fetches for this and publishes nowhere.

--filter and --sort are answered by the hub: docs/catalog.md has the fields and the language; --selector chooses by labels as
kubectl does. --watch shows the list, and then each resource that comes, changes or gets another status, until interrupted.

-o jsonpath='{...}' and -o custom-columns=HEAD:PATH,... print fields as they are called in -o json. Cells are cut and coloured on a
terminal only, and without colours where NO_COLOR is set.

Sessions are the connections of agents, over which people reach clusters; their NAME is that of the cluster.
Logins are your own: sessions in browsers, tokens of this command, and tokens that an administrator made for you. "fairlead logout" ends them.
Objects are those of services in their clusters, as agents reported them last: also while a cluster is away.

Nodes, pods and warnings are those of clusters, as their agents see them: no cluster is asked. The lists have pods that are
not well, and warnings of the last hour by reason and object; a note says how many more are counted. Rows are those of the
ViewSet NAME. Without a right to read the Kubernetes API of a cluster you see none of its rows. "fairlead top" has the
figures; -o wide shows those of clusters, too.`,
		Example: `  fairlead get services
  fairlead get service shop -o yaml
  fairlead get service shop --notes
  fairlead get sources -o wide
  fairlead get source charts --values --chart redis --chart-version 20.1.0
  fairlead get services --filter 'labels.env = prod AND state >= degraded' --sort 'state_since desc'
  fairlead get service/shop cluster/edge-1
  fairlead get services,sources -l env=prod
  fairlead get service shop -o jsonpath='{.status.git.revision.commit}'
  fairlead get services -o custom-columns=NAME:.metadata.name,STATE:.status.state --no-headers
  fairlead get services --filter 'cluster = edge-1' --watch
  fairlead get pods --cluster edge-1
  fairlead get rows certificates --cluster edge-1
  fairlead get warnings --filter 'labels.env = prod' --watch`,
		Args: app.WantArgs(1, app.Unlimited),
	}
	cmd.Flags().StringVarP(&g.format, "output", "o", app.FormatTable,
		"form of the output: table, wide, json, yaml, name, jsonpath=TEMPLATE or custom-columns=HEAD:PATH,...")
	cmd.Flags().StringVarP(&g.selector, "selector", "l", "", "only those with these labels, such as env=prod,tier!=db")
	cmd.Flags().BoolVar(&a.NoHeaders, "no-headers", false, "print tables without their heads")
	cmd.Flags().StringVar(&g.Filter, "filter", "",
		"only those that fit, such as 'labels.env = prod AND NOT state = healthy'")
	cmd.Flags().StringVar(&g.Sort, "sort", "", "in this order, such as 'update_time desc, name'; default: by name")
	cmd.Flags().BoolVar(&g.notes, "notes", false,
		"show the notes of a service's chart (NOTES.txt) instead, without secrets")
	cmd.Flags().BoolVarP(&g.watch, "watch", "w", false, "go on with what changes, until interrupted")
	g.chosen.AddFlags(cmd)
	g.of.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return g.run(cmd, args) }
	return cmd
}

// run shows the resources of one kind after the other.
func (g *getting) run(cmd *cobra.Command, args []string) error {
	refs, err := resource.ParseReferences(args)
	if err == nil && g.selector != "" {
		var filter string
		filter, err = resource.SelectorFilter(g.selector)
		g.Filter = resource.JoinFilters(filter, g.Filter)
	}
	if err != nil {
		return err
	}
	kinds, names := resource.ByKind(refs)
	if len(kinds) > 1 && (g.watch || g.notes || g.of.values || g.format == app.FormatJSON || app.IsTemplate(g.format)) {
		return fmt.Errorf("--watch, --notes, --values, -o json, jsonpath and custom-columns are of one kind: leave out all but %s", kinds[0])
	}
	var all []func(context.Context, *hubclient.Hub) error
	for _, kind := range kinds {
		what, err := g.chooseShow(kind, names[kind])
		if err != nil {
			return err
		}
		all = append(all, func(ctx context.Context, h *hubclient.Hub) error { return what(ctx, h, names[kind]) })
	}
	return g.app.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
		var missing []error
		for i, show := range all {
			if err := g.printSeparator(i); err != nil {
				return err
			}
			err := show(ctx, h)
			if err != nil && !resource.IsMissing(err) {
				return errors.Join(append(missing, err)...)
			}
			missing = append(missing, err)
		}
		return errors.Join(missing...)
	})(cmd, nil)
}

// printSeparator parts what is printed of one kind from the next one.
func (g *getting) printSeparator(i int) error {
	switch {
	case i == 0 || g.format == app.FormatName:
		return nil
	case g.format == app.FormatYAML:
		return g.app.Printf("---\n")
	}
	return g.app.Printf("\n")
}

// getting is what a person wants to get, and how.
type getting struct {
	app *app.App
	resource.Question
	selector string
	format   string
	watch    bool
	notes    bool
	chosen   object.Flags // of objects only
	of       chartFlags   // of sources only
}

// showNotes writes the notes of a service's chart, as Helm does after an installation.
func (g *getting) showNotes(ctx context.Context, h *hubclient.Hub, name string) error {
	got, err := h.Objects.GetServiceNotes(ctx, &consolev1.GetServiceNotesRequest{Name: name})
	if err != nil {
		return err
	}
	if g.format != app.FormatTable {
		if err := app.CheckPlainFormat(g.format); err != nil {
			return err
		}
		return g.app.ShowPlain(g.format, got)
	}
	return g.app.Printf("%s\n", strings.TrimRight(table.CleanText(got.GetText()), "\n"))
}

// chooseShow returns the function that shows the resources of a kind: of the catalog, or what the hub knows besides.
func (g *getting) chooseShow(
	name string, names []string,
) (func(context.Context, *hubclient.Hub, []string) error, error) {
	asked := g.Question != resource.Question{} || g.watch
	sessions := strings.EqualFold(name, "session") || strings.EqualFold(name, "sessions")
	logins := strings.EqualFold(name, "login") || strings.EqualFold(name, "logins")
	if asked && (sessions || logins || isObjects(name)) {
		return nil, fmt.Errorf("--filter, --sort and --watch are for resources of the catalog, not for %s", name)
	}
	if look, ok := g.viewedOf(name); ok {
		return look.run, look.checkQuestion(names)
	}
	switch {
	case sessions:
		return func(ctx context.Context, h *hubclient.Hub, clusters []string) error {
			return showSessions(ctx, g.app, h, clusters, g.format)
		}, nil
	case logins:
		return func(ctx context.Context, h *hubclient.Hub, ids []string) error {
			return showLogins(ctx, g.app, h, ids, g.format)
		}, nil
	case isObjects(name):
		return func(ctx context.Context, h *hubclient.Hub, names []string) error {
			return showManagedObjects(ctx, g.app, h, g.chosen, names, g.format)
		}, nil
	}
	k, err := resource.FindKind(name)
	if g.notes && err == nil {
		if k.ID != catalogyaml.Service || len(names) != 1 || asked {
			return nil, errors.New("--notes shows those of one service: fairlead get service NAME --notes")
		}
		return func(ctx context.Context, h *hubclient.Hub, names []string) error {
			return g.showNotes(ctx, h, names[0])
		}, nil
	}
	if err == nil {
		var show shower
		if show, err = g.valuesOf(k, names, asked); show != nil {
			return show, nil
		}
	}
	if err == nil {
		err = g.chosen.RefuseFlags()
	}
	if err == nil {
		err = checkFormat(g.format, k)
	}
	switch {
	case err != nil:
		return nil, err
	case g.Question != resource.Question{} && len(names) > 0:
		return nil, fmt.Errorf("--filter, --selector and --sort choose by themselves: leave the names out, or write --filter 'name = %s'", names[0])
	case g.watch && g.Sort != "":
		return nil, errors.New("--watch shows things as they happen: leave --sort out")
	case g.watch && (k.ID == catalogyaml.Alert ||
		k.ID == catalogyaml.ViewSet && (g.format == app.FormatTable || g.format == app.FormatWide)):
		return func(ctx context.Context, h *hubclient.Hub, names []string) error {
			return g.watchAsCaller(ctx, h, k, names)
		}, nil
	case g.watch:
		return func(ctx context.Context, h *hubclient.Hub, names []string) error {
			if err := requireNames(ctx, h, k, names); err != nil {
				return err
			}
			return watchResources(ctx, g.app, h, k, resource.JoinFilters(g.Filter, resource.NamedFilter(names)), g.format)
		}, nil
	}
	return func(ctx context.Context, h *hubclient.Hub, names []string) error { return g.showOnce(ctx, h, k, names) }, nil
}

// watchAsCaller asks again and again: the statuses of alerts and view sets depend on who asks, and streams of resources
// leave them out.
func (g *getting) watchAsCaller(ctx context.Context, h *hubclient.Hub, k resource.Kind, names []string) error {
	return g.app.RepeatText(ctx, g.format, func(ctx context.Context) (string, error) {
		found, err := readResources(ctx, h, k, g.Question, names)
		if err != nil {
			return "", err
		}
		look := view.View{Now: g.app.Now()}
		t, notes := look.BuildTable(k, found)
		t.MaxCell = 0
		var b strings.Builder
		err = t.Write(&b)
		return b.String() + look.NotesText(notes), err
	})
}

// requireNames fails for a name that no resource has: a watch of it would show nothing for ever.
func requireNames(ctx context.Context, h *hubclient.Hub, k resource.Kind, names []string) error {
	for _, name := range names {
		if _, err := k.ReadOne(ctx, h, name); err != nil {
			return err
		}
	}
	return nil
}

// showOnce shows resources as they are now. A name that no resource has does not keep the others from being shown, and
// is an error behind them.
func (g *getting) showOnce(ctx context.Context, h *hubclient.Hub, k resource.Kind, names []string) error {
	found, missing := readResources(ctx, h, k, g.Question, names)
	if missing != nil && (len(found) == 0 || !resource.IsMissing(missing)) {
		return missing
	}
	return errors.Join(g.showFound(ctx, h, k, found, len(names)), missing)
}

// showFound shows resources with what the hub knows besides; named is how many were asked for by name.
func (g *getting) showFound(
	ctx context.Context, h *hubclient.Hub, k resource.Kind, found []catalogyaml.Message, named int,
) (err error) {
	if len(found) == 0 && g.Filter != "" && (g.format == app.FormatTable || g.format == app.FormatWide) {
		g.app.Notef("no %s fit the filter\n", k.Plural())
		return nil
	}
	v := view.View{Now: g.app.Now(), Wide: g.format == app.FormatWide}
	if v.Wide && k.ID == catalogyaml.Source && len(found) > 0 {
		v.Live = g.app.ReadLiveSources(ctx, h)
	}
	if v.Wide && k.ID == catalogyaml.Cluster {
		if v.Figures, err = readFigures(ctx, h); err != nil {
			return err
		}
	}
	if v.Wide && k.ID == catalogyaml.Service {
		v.Seen = readSeenTimes(ctx, g.app, h, found)
	}
	if k.ID == catalogyaml.Service && (g.format == app.FormatTable || v.Wide) {
		v.Behind = findBehind(ctx, g.app, h, found)
	}
	if k.ID == catalogyaml.Grant && (g.format == app.FormatTable || v.Wide) {
		v.Left = findLeftGrants(ctx, h, found)
	}
	return showResources(g.app, k, found, g.format, named, v)
}

func checkFormat(format string, k resource.Kind) error {
	if err := app.CheckOneOf(format, []string{app.FormatTable, app.FormatWide, app.FormatJSON, app.FormatYAML, app.FormatName, app.FormatJSONPath, app.FormatColumns}); err != nil {
		return err
	}
	if k.ID == catalogyaml.Secret && (format == app.FormatJSON || format == app.FormatYAML) {
		return fmt.Errorf("secrets can't be shown as %s, for their values are never read back: "+
			"`fairlead export secrets` prints them with empty values, and applying that leaves the values as they are", format)
	}
	return nil
}

// readResources returns the resources of these names, or without any those that are asked for. The resources that are
// there come with the error of those that are not.
func readResources(
	ctx context.Context, h *hubclient.Hub, k resource.Kind, q resource.Question, names []string,
) ([]catalogyaml.Message, error) {
	if len(names) == 0 {
		return k.ReadMatching(ctx, h, q)
	}
	var found []catalogyaml.Message
	var missing []error
	for _, name := range names {
		m, err := k.ReadOne(ctx, h, name)
		switch {
		case err == nil:
			found = append(found, m)
		case resource.IsMissing(err):
			missing = append(missing, err)
		default:
			return nil, err
		}
	}
	return found, errors.Join(missing...)
}

// showResources prints resources; named is how many were asked for by name. Of one that was asked for by name JSON has no
// list around it.
func showResources(
	a *app.App, k resource.Kind, found []catalogyaml.Message, format string, named int, v view.View,
) error {
	if format == app.FormatYAML || format == app.FormatJSON || app.IsTemplate(format) {
		for _, m := range found {
			if s, ok := m.(*consolev1.Service); ok {
				resource.OfFiles(s)
			}
		}
	}
	switch format {
	case app.FormatName:
		for _, m := range found {
			if err := a.Printf("%s/%s\n", k.Singular(), m.GetMetadata().GetName()); err != nil {
				return err
			}
		}
		return nil
	case app.FormatYAML:
		text, err := catalogyaml.YAML(found...)
		if err != nil {
			return err
		}
		return a.Printf("%s", text)
	case app.FormatJSON:
		text, err := jsonOf(found, named)
		if err != nil {
			return err
		}
		return a.Printf("%s", text)
	}
	if app.IsTemplate(format) {
		return fillResources(a, format, found, named)
	}
	if len(found) == 0 {
		a.Notef("no %s that you may see; %s\n", k.Plural(), firstStep(k))
		return nil
	}
	t, notes := v.BuildTable(k, found)
	if err := a.WriteTable(t); err != nil {
		return err
	}
	text := v.NotesText(notes)
	if k.ID == catalogyaml.Service && (named > 0 || v.Wide) {
		text += v.ListUnhealthy(found)
	}
	if k.ID == catalogyaml.Service && named > 0 && !v.Wide {
		text += v.ListTests(found)
	}
	return a.Printf("%s", text)
}

func fillResources(a *app.App, format string, found []catalogyaml.Message, named int) error {
	whole, err := jsonOf(found, named)
	if err != nil {
		return err
	}
	rows := make([][]byte, len(found))
	for i, m := range found {
		if rows[i], err = catalogyaml.JSON(m); err != nil {
			return err
		}
	}
	return a.FillTemplate(format, whole, rows)
}

func jsonOf(found []catalogyaml.Message, named int) ([]byte, error) {
	if named == 1 && len(found) == 1 {
		return catalogyaml.JSON(found[0])
	}
	return catalogyaml.JSONList(found...)
}

// firstStep says how to get the first resource of a kind.
func firstStep(k resource.Kind) string {
	if k.ID == catalogyaml.Cluster {
		return "`fairlead cluster join NAME` brings one in"
	}
	return "make one with `fairlead apply -f FILE`"
}

// fewClusters are read one by one; of more all are.
const fewClusters = 20

// readSeenTimes returns when each of the clusters of services was heard of last, by name.
func readSeenTimes(
	ctx context.Context, a *app.App, h *hubclient.Hub, services []catalogyaml.Message,
) map[string]*timestamppb.Timestamp {
	names := map[string]bool{}
	for _, m := range services {
		if cluster := m.(*consolev1.Service).GetSpec().GetCluster(); cluster != "" {
			names[cluster] = true
		}
	}
	if len(names) == 0 {
		return nil
	}
	var wanted []string // none: all
	if len(names) <= fewClusters {
		wanted = slices.Sorted(maps.Keys(names))
	}
	found, err := readResources(ctx, h, resource.ClusterKind(), resource.Question{}, wanted)
	if err != nil {
		a.Notef("when clusters were seen last can't be shown: %v\n", err)
	}
	seen := make(map[string]*timestamppb.Timestamp, len(found))
	for _, m := range found {
		seen[m.GetMetadata().GetName()] = m.(*consolev1.Cluster).GetStatus().GetLastSeenTime()
	}
	return seen
}

// findLeftGrants returns the clusters that have left, of those that grants name. A cluster that can't be read is left
// out: a grant may name a cluster that is not there, or that the caller may not see.
func findLeftGrants(ctx context.Context, h *hubclient.Hub, grants []catalogyaml.Message) map[string]bool {
	names := map[string]bool{}
	for _, m := range grants {
		for _, name := range m.(*consolev1.Grant).GetSpec().GetClusters().GetNames() {
			names[name] = true
		}
	}
	var found []catalogyaml.Message
	if len(names) > fewClusters {
		found, _ = resource.ClusterKind().ReadAll(ctx, h)
	} else {
		for name := range names {
			if m, err := resource.ClusterKind().ReadOne(ctx, h, name); err == nil {
				found = append(found, m)
			}
		}
	}
	out := map[string]bool{}
	for _, m := range found {
		if view.IsSet(m.(*consolev1.Cluster).GetStatus().GetLeaveTime()) {
			out[m.GetMetadata().GetName()] = true
		}
	}
	return out
}
