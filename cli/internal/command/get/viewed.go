package get

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalogyaml"
	"fairlead.dev/platform/viewset"
)

// viewedKinds are what `get` shows of clusters from the views of their agents, by the words for it.
func viewedKinds() map[string]string {
	return map[string]string{"node": "nodes", "nodes": "nodes", "pod": "pods", "pods": "pods", "warning": "warnings", "warnings": "warnings", "rows": rowsOfSet}
}

// rowsOfSet is the word for rows of a ViewSet.
const rowsOfSet = "rows"

// viewed is a look at rows of views.
type viewed struct {
	getting *getting
	section string // or rowsOfSet
	set     string // is the name of the ViewSet then
	columns []*deliveryv1.ViewColumn
}

// viewedOf returns a look if a kind is one of views.
func (g *getting) viewedOf(name string) (viewed, bool) {
	section, ok := viewedKinds()[strings.ToLower(name)]
	return viewed{getting: g, section: section}, ok
}

// IsViewed tells whether `get` has a kind of what agents see.
func IsViewed(name string) bool {
	_, ok := viewedKinds()[strings.ToLower(name)]
	return ok
}

// checkQuestion says what can't be asked for.
func (v viewed) checkQuestion(names []string) error {
	switch {
	case v.section == rowsOfSet && len(names) != 1:
		return errors.New("name the ViewSet whose rows to show, such as `fairlead get rows certificates`; `fairlead get viewsets` lists them")
	case v.section != rowsOfSet && len(names) > 0:
		return fmt.Errorf("%s are listed all: choose by --cluster, --namespace, --service or --filter; `fairlead kubectl CLUSTER get %s` asks the cluster itself", v.section, strings.TrimSuffix(v.section, "s"))
	case v.getting.Sort != "":
		return fmt.Errorf("%s come in the order of clusters, of each the worst first: leave --sort out", v.section)
	case v.getting.chosen.Kind != "" || v.getting.chosen.Health != "":
		return errors.New("--kind and --health are for `fairlead get objects`")
	case v.getting.watch && v.getting.format != app.FormatTable:
		return fmt.Errorf("--watch can't be shown as %s: leave out -o", v.getting.format)
	}
	return app.CheckOneOf(v.getting.format,
		[]string{
			app.FormatTable, app.FormatWide, app.FormatJSON, app.FormatYAML, app.FormatJSONPath, app.FormatColumns,
		})
}

// run shows rows once, or again and again.
func (v viewed) run(ctx context.Context, h *hubclient.Hub, names []string) error {
	if v.section == rowsOfSet {
		v.set = names[0]
		if err := v.readColumns(ctx, h); err != nil {
			return err
		}
	}
	if v.getting.watch {
		return v.getting.app.RepeatText(ctx, v.getting.format, func(ctx context.Context) (string, error) {
			rows, gaps, err := v.findRows(ctx, h)
			if err != nil {
				return "", err
			}
			var b strings.Builder
			if len(rows) == 0 {
				b.WriteString(v.noRowsText(gaps) + "\n")
			} else {
				t := v.buildTable(rows)
				t.MaxCell = 0
				err = t.Write(&b)
			}
			return b.String() + v.gapNotes(gaps), err
		})
	}
	rows, gaps, err := v.findRows(ctx, h)
	if err != nil {
		return err
	}
	if v.getting.format != app.FormatTable && v.getting.format != app.FormatWide {
		return v.plainRows(rows, gaps)
	}
	if len(rows) == 0 {
		v.getting.app.Notef("%s\n", v.noRowsText(gaps))
	} else if err := v.getting.app.WriteTable(v.buildTable(rows)); err != nil {
		return err
	}
	v.getting.app.Notef("%s", v.gapNotes(gaps))
	return nil
}

// noRowsText says what it means that there are no rows. With gaps it means little: the notes about them say what is not
// known.
func (v viewed) noRowsText(gaps []*consolev1.RowsGap) string {
	switch {
	case len(gaps) > 0:
		return fmt.Sprintf("no %s are listed", v.section)
	case v.section == rowsOfSet:
		return "no objects are worth a row: `fairlead top cluster NAME` has the figures of set-" + v.set
	case v.section == "pods":
		return "no pods are in trouble: `fairlead top cluster` counts those that are well"
	case v.section == "warnings":
		return "no warnings in the last hour"
	}
	return "no " + v.section
}

func (v viewed) plainRows(rows []*consolev1.ClusterViewRow, gaps []*consolev1.RowsGap) error {
	list := &consolev1.ListViewRowsResponse{Rows: rows, Gaps: gaps}
	if !app.IsTemplate(v.getting.format) {
		return v.getting.app.ShowPlain(v.getting.format, list)
	}
	whole, err := catalogyaml.Plain(list)
	if err != nil {
		return err
	}
	each := make([][]byte, len(rows))
	for i, r := range rows {
		if each[i], err = catalogyaml.Plain(r); err != nil {
			return err
		}
	}
	return v.getting.app.FillTemplate(v.getting.format, whole, each)
}

// findRows reads all pages.
func (v viewed) findRows(
	ctx context.Context, h *hubclient.Hub,
) (rows []*consolev1.ClusterViewRow, gaps []*consolev1.RowsGap, err error) {
	filter := v.getting.Filter
	if v.getting.chosen.Cluster != "" {
		filter = resource.JoinFilters(fmt.Sprintf("name = %q", v.getting.chosen.Cluster), filter)
	}
	section := v.section
	if section == rowsOfSet {
		section = viewset.Section(v.set)
	}
	req := &consolev1.ListViewRowsRequest{
		Section: section, PageSize: 1000, Filter: filter,
		Namespace: v.getting.chosen.Namespace, Service: v.getting.chosen.Service,
	}
	for {
		page, err := h.Views.ListViewRows(ctx, req)
		if err != nil {
			return nil, nil, noViews(err)
		}
		rows, gaps = append(rows, page.GetRows()...), page.GetGaps() // each page has all gaps
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			break
		}
	}
	if v.getting.chosen.Cluster != "" && len(rows) == 0 && len(gaps) == 0 {
		_, err = h.Clusters.GetCluster(ctx, &consolev1.GetClusterRequest{Name: v.getting.chosen.Cluster}) // a name that is wrong has none
	}
	return rows, gaps, err
}

// readColumns reads the heads of the rows of a ViewSet. Whoever may see clusters and not the ViewSet sees the rows
// without them.
func (v *viewed) readColumns(ctx context.Context, h *hubclient.Hub) error {
	got, err := h.ViewSets.GetViewSet(ctx, &consolev1.GetViewSetRequest{Name: v.set})
	if connect.CodeOf(err) == connect.CodeNotFound {
		if rows, _, wrong := v.findRows(ctx, h); wrong == nil && len(rows) > 0 {
			return nil
		}
	}
	v.columns = got.GetViewSet().GetSpec().GetColumns()
	return err
}

var errNoViews = errors.New("the hub is older than this command and has no views of clusters: update it")

// noViews says of a hub of before views that it has none.
func noViews(err error) error {
	if connect.CodeOf(err) == connect.CodeUnimplemented {
		return errNoViews
	}
	return err
}

// buildTable returns what a person reads. A cell never has what a terminal takes for an order: names and texts are
// those of any cluster.
func (v viewed) buildTable(rows []*consolev1.ClusterViewRow) *table.Table {
	look := view.View{Now: v.getting.app.Now(), Wide: v.getting.format == app.FormatWide}
	ages := look.RowState
	switch v.section {
	case "nodes":
		t := look.NewTable([]string{"CLUSTER", "NODE", "STATUS", "VERSION", "CPU", "MEMORY", "VIEW"})
		for _, r := range rows {
			n := r.GetRow()
			look.AddRow(t, []string{
				r.GetCluster(), n.GetName(), n.GetReason(), n.GetVersion(),
				view.FormatCores(n.GetFigures()["cpu_allocatable"]),
				table.FormatBytes(n.GetFigures()["memory_allocatable"]), ages(r),
			})
		}
		return t
	case "pods":
		t := look.NewTable([]string{"CLUSTER", "NAMESPACE", "POD", "STATUS", "RESTARTS", "SINCE", "SERVICE", "VIEW"}, "NODE")
		for _, r := range rows {
			p := r.GetRow()
			look.AddRow(t, []string{
				r.GetCluster(), p.GetNamespace(), p.GetName(), p.GetReason(),
				fmt.Sprint(p.GetFigures()["restarts"]), look.AgoText(p.GetSinceTime()), p.GetService(), ages(r),
			}, p.GetNode())
		}
		return t
	case rowsOfSet:
		return v.setTable(look, rows, ages)
	}
	t := look.NewTable([]string{"CLUSTER", "NAMESPACE", "OBJECT", "REASON", "COUNT", "LAST", "VIEW", "MESSAGE"}, "FIRST")
	for _, r := range rows {
		w := r.GetRow()
		look.AddRow(t, []string{
			r.GetCluster(), w.GetNamespace(), w.GetKind() + "/" + w.GetName(), w.GetReason(),
			fmt.Sprint(w.GetFigures()["hour"]), look.AgoText(w.GetLastTime()), ages(r), w.GetText(),
		}, look.AgoText(w.GetSinceTime()))
	}
	return t
}

// setTable has the columns of a ViewSet behind what every row has.
func (v viewed) setTable(
	look view.View, rows []*consolev1.ClusterViewRow, ages func(*consolev1.ClusterViewRow) string,
) *table.Table {
	heads := []string{"CLUSTER", "NAMESPACE", "NAME", "REASON", "SINCE"}
	most := len(v.columns)
	for _, r := range rows {
		most = max(most, len(r.GetRow().GetCells()))
	}
	for i := range most {
		if i < len(v.columns) {
			heads = append(heads, strings.ToUpper(v.columns[i].GetName()))
		} else {
			heads = append(heads, fmt.Sprintf("COLUMN-%d", i+1))
		}
	}
	t := look.NewTable(append(heads, "VIEW"), "SERVICE")
	for _, r := range rows {
		o := r.GetRow()
		cells := []string{r.GetCluster(), o.GetNamespace(), o.GetName(), o.GetReason(), look.AgoText(o.GetSinceTime())}
		for i := range most {
			text := ""
			if i < len(o.GetCells()) {
				text = o.GetCells()[i]
			}
			if i < len(v.columns) && v.columns[i].GetType() == "date" {
				text = dateText(look, text)
			}
			cells = append(cells, text)
		}
		look.AddRow(t, append(cells, ages(r)), o.GetService())
	}
	return t
}

// dateText says how long ago a time was, or until when it is.
func dateText(v view.View, text string) string {
	at, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		return text
	case at.After(v.Now):
		return "in " + table.FormatAge(at, v.Now)
	}
	return table.FormatAge(v.Now, at) + " ago"
}

// gapNotes say what rows do not show. The same is said once, of all clusters that it is about.
func (v viewed) gapNotes(gaps []*consolev1.RowsGap) string {
	const named = 5
	clusters, withheld := map[string][]string{}, map[string]int64{}
	var reasons []string
	for _, g := range gaps {
		if clusters[g.GetReason()] == nil {
			reasons = append(reasons, g.GetReason())
		}
		clusters[g.GetReason()] = append(clusters[g.GetReason()], g.GetCluster())
		withheld[g.GetReason()] += g.GetWithheld()
	}
	slices.Sort(reasons)
	var b strings.Builder
	for _, reason := range reasons {
		of := clusters[reason]
		more := ""
		if len(of) > named {
			more = fmt.Sprintf(" and %d more", len(of)-named)
		}
		count := ""
		if n := withheld[reason]; n > 0 {
			count = fmt.Sprintf(" (%d %s are counted and not listed)", n, v.section)
		}
		fmt.Fprintf(&b, "%s%s: %s%s\n", strings.Join(of[:min(len(of), named)], ", "), more, table.CleanLine(reason), count)
	}
	return b.String()
}
