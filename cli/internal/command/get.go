package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/cli/internal/hub"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/manifest"
)

func (a *app) getCommand() *cobra.Command {
	g := getting{app: a}
	cmd := &cobra.Command{
		Use:         "get sources|clusters|services|secrets|grants|projects|configsets|backends|sinks|agentconfigs|viewsets|alerts|globalservices|roles|serviceaccounts|sessions|logins|objects|nodes|pods|warnings|rows [NAME...]",
		Annotations: map[string]string{readsReferences: "yes"},
		Short:       "Show resources and how they are",
		Long: `Show resources and how they are.

Of a service, three truths stand side by side, each a commit with its age: GIT, the newest at the ref; HUB, what
is handed out to the cluster; APPLIED, what runs there. SYNC compares them: "in sync", or how many commits that change
the service's folder are missing in the cluster ("3 behind"; "another line" after a force-push), and how many objects others
have changed there ("1 drifted"). Below the table stands what is wrong, since when, and what to do.
With a name, or with -o wide, the objects that are not healthy are listed, too, and how the latest run of the tests went.
With -o wide HUB and APPLIED are both "digest of commit", so that they can be compared, HEALTH is what the
cluster says of the objects and since when, TESTS how the latest run of the tests went, SEEN when its agent was heard of last. What is older than it
should be says so: "stale 5m" (Git can't be asked since), "held up 5m" (the newest commit can't be handed
out since), "unknown, was ..." (the cluster is not connected). "fairlead trace service NAME" says all of one.

Of sources, -o wide shows besides what the gitcaches know right now: which of them fetches (OWNER), when it
asked last and asks next, since when the repository has not answered as it should (STALE), how often it was
asked in the last hour, what is on the disk (MIRROR), and which other gitcaches have a copy (STANDBYS).

--values prints the values.yaml of a chart: of the version that services name, or of any other one of the repository, which the hub
fetches for it. Nothing is published by that.

--filter and --sort are answered by the hub: docs/catalog.md has the fields and the language; --selector chooses by labels as
kubectl does. --watch shows what is there, and then each resource that comes, changes or gets another status, until interrupted.

-o jsonpath='{...}' and -o custom-columns=HEAD:PATH,... print fields as they are called in -o json. Cells are cut and coloured on a
terminal only, and without colours where NO_COLOR is set.

Sessions are the connections of agents, over which people reach clusters; NAME is that of a cluster then.
Logins are your own: sessions in browsers, tokens of this command, and tokens that an administrator made for you. "fairlead logout" ends them.
Objects are what services have in their clusters, as agents told it: with the cluster away, too.

Nodes, pods and warnings are those of clusters, as their agents see them: no cluster is asked. Of pods those are listed that are not well, of
warnings those of the last hour, by reason and object; what is counted and not listed is said. Rows are those of the ViewSet NAME. Whoever may not read the Kubernetes API of a
cluster sees none of its rows. "fairlead top" has the figures, which -o wide shows of clusters, too.`,
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
		Args: wantArgs(1, unlimited),
	}
	cmd.Flags().StringVarP(&g.format, "output", "o", formatTable,
		"form of the output: table, wide, json, yaml, name, jsonpath=TEMPLATE or custom-columns=HEAD:PATH,...")
	cmd.Flags().StringVarP(&g.selector, "selector", "l", "", "only those with these labels, such as env=prod,tier!=db")
	cmd.Flags().BoolVar(&a.noHeaders, "no-headers", false, "print tables without their heads")
	cmd.Flags().StringVar(&g.filter, "filter", "", "only those that fit, such as 'labels.env = prod AND NOT state = healthy'")
	cmd.Flags().StringVar(&g.sort, "sort", "", "in this order, such as 'update_time desc, name'; default: by name")
	cmd.Flags().BoolVar(&g.notes, "notes", false, "show the notes of a service's chart (NOTES.txt) instead, without secrets")
	cmd.Flags().BoolVarP(&g.watch, "watch", "w", false, "go on with what changes, until interrupted")
	g.chosen.addFlags(cmd)
	g.of.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return g.run(cmd, args) }
	return cmd
}

// run shows the resources of one kind after the other.
func (g *getting) run(cmd *cobra.Command, args []string) error {
	refs, err := parseReferences(args)
	if err == nil && g.selector != "" {
		var filter string
		filter, err = selectorFilter(g.selector)
		g.filter = joinFilters(filter, g.filter)
	}
	if err != nil {
		return err
	}
	kinds, names := byKind(refs)
	if len(kinds) > 1 && (g.watch || g.notes || g.of.values || g.format == formatJSON || isTemplate(g.format)) {
		return fmt.Errorf("--watch, --notes, --values, -o json, jsonpath and custom-columns are of one kind: leave out all but %s", kinds[0])
	}
	var all []func(context.Context, *hub.Hub) error
	for _, kind := range kinds {
		what, err := g.chooseShow(kind, names[kind])
		if err != nil {
			return err
		}
		all = append(all, func(ctx context.Context, h *hub.Hub) error { return what(ctx, h, names[kind]) })
	}
	return g.app.hubCommand(func(ctx context.Context, h *hub.Hub, _ []string) error {
		var missing []error
		for i, show := range all {
			if err := g.printSeparator(i); err != nil {
				return err
			}
			err := show(ctx, h)
			if err != nil && !isMissing(err) {
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
	case i == 0 || g.format == formatName:
		return nil
	case g.format == formatYAML:
		return g.app.printf("---\n")
	}
	return g.app.printf("\n")
}

// getting is what a person wants to get, and how.
type getting struct {
	app *app
	question
	selector string
	format   string
	watch    bool
	notes    bool
	chosen   objectFlags // of objects only
	of       chartFlags  // of sources only
}

// showNotes writes the notes of a service's chart, as Helm does after an installation.
func (g *getting) showNotes(ctx context.Context, h *hub.Hub, name string) error {
	got, err := h.Objects.GetServiceNotes(ctx, &consolev1.GetServiceNotesRequest{Name: name})
	if err != nil {
		return err
	}
	if g.format != formatTable {
		if err := checkPlainFormat(g.format); err != nil {
			return err
		}
		return g.app.showPlain(g.format, got)
	}
	return g.app.printf("%s\n", strings.TrimRight(stripControls(got.GetText()), "\n"))
}

// stripControls leaves out what a terminal would take for an order: notes are written by anybody.
func stripControls(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
}

// chooseShow returns the function that shows the resources of a kind: of the catalog, or what the hub knows besides.
func (g *getting) chooseShow(name string, names []string) (func(context.Context, *hub.Hub, []string) error, error) {
	asked := g.question != question{} || g.watch
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
		return func(ctx context.Context, h *hub.Hub, clusters []string) error {
			return g.app.showSessions(ctx, h, clusters, g.format)
		}, nil
	case logins:
		return func(ctx context.Context, h *hub.Hub, ids []string) error {
			return g.app.showLogins(ctx, h, ids, g.format)
		}, nil
	case isObjects(name):
		return func(ctx context.Context, h *hub.Hub, names []string) error {
			return g.app.showManagedObjects(ctx, h, g.chosen, names, g.format)
		}, nil
	}
	k, err := findKind(name)
	if g.notes && err == nil {
		if k.kind != manifest.Service || len(names) != 1 || asked {
			return nil, errors.New("--notes shows those of one service: fairlead get service NAME --notes")
		}
		return func(ctx context.Context, h *hub.Hub, names []string) error { return g.showNotes(ctx, h, names[0]) }, nil
	}
	if err == nil {
		var show shower
		if show, err = g.valuesOf(k, names, asked); show != nil {
			return show, nil
		}
	}
	if err == nil {
		err = g.chosen.refuseFlags()
	}
	if err == nil {
		err = checkFormat(g.format, k)
	}
	switch {
	case err != nil:
		return nil, err
	case g.question != question{} && len(names) > 0:
		return nil, fmt.Errorf("--filter, --selector and --sort choose by themselves: leave the names out, or write --filter 'name = %s'", names[0])
	case g.watch && g.sort != "":
		return nil, errors.New("--watch shows things as they happen: leave --sort out")
	case g.watch && k.kind == manifest.Alert:
		return func(ctx context.Context, h *hub.Hub, names []string) error { return g.watchAlerts(ctx, h, k, names) }, nil
	case g.watch:
		return func(ctx context.Context, h *hub.Hub, names []string) error {
			if err := requireNames(ctx, h, k, names); err != nil {
				return err
			}
			return g.app.watchResources(ctx, h, k, joinFilters(g.filter, namedFilter(names)), g.format)
		}, nil
	}
	return func(ctx context.Context, h *hub.Hub, names []string) error { return g.showOnce(ctx, h, k, names) }, nil
}

// watchAlerts asks again and again: what an alert finds depends on who asks, and streams of resources leave it out.
func (g *getting) watchAlerts(ctx context.Context, h *hub.Hub, k kind, names []string) error {
	return g.app.repeatText(ctx, g.format, func(ctx context.Context) (string, error) {
		found, err := readResources(ctx, h, k, g.question, names)
		if err != nil {
			return "", err
		}
		look := view{now: g.app.Now()}
		t, notes := look.buildTable(k, found)
		t.MaxCell = 0
		var b strings.Builder
		err = t.Write(&b)
		return b.String() + look.notesText(notes), err
	})
}

// requireNames fails for a name that no resource has: a watch of it would show nothing for ever.
func requireNames(ctx context.Context, h *hub.Hub, k kind, names []string) error {
	for _, name := range names {
		if _, err := k.readOne(ctx, h, name); err != nil {
			return err
		}
	}
	return nil
}

// showOnce shows resources as they are now. A name that no resource has does not keep the others from being shown, and is an error behind them.
func (g *getting) showOnce(ctx context.Context, h *hub.Hub, k kind, names []string) error {
	found, missing := readResources(ctx, h, k, g.question, names)
	if missing != nil && (len(found) == 0 || !isMissing(missing)) {
		return missing
	}
	return errors.Join(g.showFound(ctx, h, k, found, len(names) > 0), missing)
}

// showFound shows resources with what the hub knows besides; named says that they were asked for by name.
func (g *getting) showFound(ctx context.Context, h *hub.Hub, k kind, found []manifest.Message, named bool) (err error) {
	if len(found) == 0 && g.filter != "" && (g.format == formatTable || g.format == formatWide) {
		g.app.notef("no %s fit the filter\n", k.plural())
		return nil
	}
	v := view{now: g.app.Now(), wide: g.format == formatWide}
	if v.wide && k.kind == manifest.Source && len(found) > 0 {
		v.live = g.app.readLiveSources(ctx, h)
	}
	if v.wide && k.kind == manifest.Cluster {
		if v.figures, err = readFigures(ctx, h); err != nil {
			return err
		}
	}
	if v.wide && k.kind == manifest.Service {
		v.seen = g.app.readSeenTimes(ctx, h, found)
	}
	if k.kind == manifest.Service && (g.format == formatTable || v.wide) {
		v.behind = g.app.findBehind(ctx, h, found)
	}
	if k.kind == manifest.Grant && (g.format == formatTable || v.wide) {
		v.left = findLeftGrants(ctx, h, found)
	}
	return g.app.showResources(k, found, g.format, named, v)
}

func checkFormat(format string, k kind) error {
	if err := checkOneOf(format, []string{formatTable, formatWide, formatJSON, formatYAML, formatName, formatJSONPath, formatColumns}); err != nil {
		return err
	}
	if k.kind == manifest.Secret && (format == formatJSON || format == formatYAML) {
		return fmt.Errorf("secrets can't be shown as %s: their values are never read back, and applying the output would erase them", format)
	}
	return nil
}

// readResources returns the resources of these names, or without any those that are asked for. The resources that are there come with the error of those that
// are not.
func readResources(ctx context.Context, h *hub.Hub, k kind, q question, names []string) ([]manifest.Message, error) {
	if len(names) == 0 {
		return k.readMatching(ctx, h, q)
	}
	var found []manifest.Message
	var missing []error
	for _, name := range names {
		m, err := k.readOne(ctx, h, name)
		switch {
		case err == nil:
			found = append(found, m)
		case isMissing(err):
			missing = append(missing, err)
		default:
			return nil, err
		}
	}
	return found, errors.Join(missing...)
}

// showResources prints resources; named says that they were asked for by name.
func (a *app) showResources(k kind, found []manifest.Message, format string, named bool, v view) error {
	if format == formatYAML || format == formatJSON || isTemplate(format) {
		for _, m := range found {
			if s, ok := m.(*consolev1.Service); ok {
				ofFiles(s)
			}
		}
	}
	switch format {
	case formatName:
		for _, m := range found {
			if err := a.printf("%s/%s\n", k.singular(), m.GetMetadata().GetName()); err != nil {
				return err
			}
		}
		return nil
	case formatYAML:
		text, err := manifest.YAML(found...)
		if err != nil {
			return err
		}
		return a.printf("%s", text)
	case formatJSON:
		text, err := jsonOf(found, named)
		if err != nil {
			return err
		}
		return a.printf("%s", text)
	}
	if isTemplate(format) {
		return a.fillResources(format, found, named)
	}
	if len(found) == 0 {
		a.notef("no %s yet: %s\n", k.plural(), firstStep(k))
		return nil
	}
	t, notes := v.buildTable(k, found)
	if err := a.writeTable(t); err != nil {
		return err
	}
	text := v.notesText(notes)
	if k.kind == manifest.Service && (named || v.wide) {
		text += v.listUnhealthy(found)
	}
	if k.kind == manifest.Service && named && !v.wide {
		text += v.listTests(found)
	}
	return a.printf("%s", text)
}

func (a *app) fillResources(format string, found []manifest.Message, named bool) error {
	whole, err := jsonOf(found, named)
	if err != nil {
		return err
	}
	rows := make([][]byte, len(found))
	for i, m := range found {
		if rows[i], err = manifest.JSON(m); err != nil {
			return err
		}
	}
	return a.fillTemplate(format, whole, rows)
}

func jsonOf(found []manifest.Message, named bool) ([]byte, error) {
	if named && len(found) == 1 {
		return manifest.JSON(found[0])
	}
	return manifest.JSONList(found...)
}

// firstStep says how to get the first resource of a kind.
func firstStep(k kind) string {
	if k.kind == manifest.Cluster {
		return "describe one with `fairlead apply`, then `fairlead cluster join-token NAME`"
	}
	return "describe one with `fairlead apply -f FILE`"
}

// fewClusters are read one by one; of more all are.
const fewClusters = 20

// readSeenTimes returns when each of the clusters of services was heard of last, by name.
func (a *app) readSeenTimes(ctx context.Context, h *hub.Hub, services []manifest.Message) map[string]*timestamppb.Timestamp {
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
	found, err := readResources(ctx, h, clusterKind(), question{}, wanted)
	if err != nil {
		a.notef("when clusters were seen last can't be shown: %v\n", err)
	}
	seen := make(map[string]*timestamppb.Timestamp, len(found))
	for _, m := range found {
		seen[m.GetMetadata().GetName()] = m.(*consolev1.Cluster).GetStatus().GetLastSeenTime()
	}
	return seen
}

// findLeftGrants returns the clusters that have left, of those that grants name. A cluster that can't be read is left out: a grant may name a cluster that is not
// there, or that the caller may not see.
func findLeftGrants(ctx context.Context, h *hub.Hub, grants []manifest.Message) map[string]bool {
	names := map[string]bool{}
	for _, m := range grants {
		for _, name := range m.(*consolev1.Grant).GetSpec().GetClusters().GetNames() {
			names[name] = true
		}
	}
	var found []manifest.Message
	if len(names) > fewClusters {
		found, _ = clusterKind().readAll(ctx, h)
	} else {
		for name := range names {
			if m, err := clusterKind().readOne(ctx, h, name); err == nil {
				found = append(found, m)
			}
		}
	}
	out := map[string]bool{}
	for _, m := range found {
		if isSet(m.(*consolev1.Cluster).GetStatus().GetLeaveTime()) {
			out[m.GetMetadata().GetName()] = true
		}
	}
	return out
}
