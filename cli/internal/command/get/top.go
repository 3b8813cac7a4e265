package get

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// topping is how a person looks at figures.
type topping struct {
	app *app.App
	resource.Question
	by     string
	format string
	watch  bool
	curve  bool
}

func topCommand(a *app.App) *cobra.Command {
	o := topping{app: a}
	cmd := &cobra.Command{
		Use:   "top fleet|cluster|service [NAME]",
		Short: "Show figures of clusters, as their agents count them",
		Long: `Show figures of clusters, as their agents count them: nodes, what pods request of what nodes can give, pods that are not ready, restarts and
warnings of the last hour, images that can't be pulled.

The hub has the figures: no cluster is asked, and a cluster that is away shows its last ones, with their age. An unknown
figure is "-"; if an agent may not read a kind, "top cluster NAME" says so.

"top fleet" adds clusters up, by the values of labels with --group-by; "top cluster" has a line for each, the worst first, and with a
NAME all that the view of the cluster says; "top service" shows the pods of services.

--curve shows the last 24 hours of a cluster, or of all that fit added up: the last and the highest pods that are not ready, restarts and
warnings an hour, and what pods request of what nodes can give. The highest of a sum adds up the highest of each cluster.

--filter and --sort take figures beside the fields of clusters: docs/views.md has all of them.`,
		Example: `  fairlead top fleet
  fairlead top fleet --group-by env,region
  fairlead top cluster --filter 'labels.env = qa AND pods.not_ready > 0' --sort 'restarts.hour desc'
  fairlead top cluster edge-1
  fairlead top cluster edge-1 --curve
  fairlead top service shop --watch`,
		Args: app.WantArgs(1, 2),
	}
	cmd.Flags().StringVarP(&o.format, "output", "o", app.FormatTable, "form of the output: table, json, yaml")
	cmd.Flags().StringVar(&o.Filter, "filter", "",
		"only clusters that fit, such as 'labels.env = prod AND nodes.not_ready > 0'")
	cmd.Flags().StringVar(&o.Sort, "sort", "",
		"of clusters: in this order, such as 'warnings.hour desc, name'; default: the most pods that are not ready first")
	cmd.Flags().StringVar(&o.by, "group-by", "",
		"of the fleet: a line for each value of these `labels`, with commas between them")
	cmd.Flags().BoolVar(&o.curve, "curve", false, "of the fleet or one cluster: the last 24 hours")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "go on with what changes, until interrupted")
	cmd.Flags().BoolVar(&a.NoHeaders, "no-headers", false, "print tables without their heads")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		show, err := o.chooseShow(args)
		if err != nil {
			return err
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
			if o.watch {
				return o.app.RepeatText(ctx, o.format, func(ctx context.Context) (string, error) {
					var b strings.Builder
					err := show(ctx, h, &b)
					return b.String(), err
				})
			}
			return show(ctx, h, a.Stdout)
		})(cmd, nil)
	}
	return cmd
}

// chooseShow returns the function that shows the requested figures.
func (o *topping) chooseShow(args []string) (func(context.Context, *hubclient.Hub, io.Writer) error, error) {
	name := strings.Join(args[1:], "")
	if err := app.CheckOneOf(o.format, []string{app.FormatTable, app.FormatJSON, app.FormatYAML}); err != nil {
		return nil, err
	}
	kind := strings.TrimSuffix(strings.ToLower(args[0]), "s")
	switch {
	case o.by != "" && kind != "fleet":
		return nil, errors.New("--group-by is for `fairlead top fleet`")
	case o.Sort != "" && (kind != "cluster" || name != ""):
		return nil, errors.New("--sort is for `fairlead top cluster` without a name")
	case o.curve && (o.by != "" || kind == "service"):
		return nil, errors.New("--curve is for `fairlead top fleet` without --group-by, and for `fairlead top cluster NAME`")
	case o.curve && kind == "cluster" && name == "":
		return nil, errors.New("name the cluster whose curves to show, or add several up: `fairlead top fleet --curve`")
	case o.curve && name == "" && kind == "fleet", o.curve && kind == "cluster" && o.Filter == "":
		return func(ctx context.Context, h *hubclient.Hub, to io.Writer) error { return o.showCurves(ctx, h, to, name) }, nil
	case kind == "fleet" && name == "":
		return o.showFleet, nil
	case kind == "fleet":
		return nil, errors.New("the fleet has no name: choose clusters by --filter")
	case kind == "cluster" && name == "":
		return o.showClusters, nil
	case kind == "cluster" && o.Filter != "":
		return nil, errors.New("--filter chooses by itself: leave the name out")
	case kind == "cluster":
		return func(ctx context.Context, h *hubclient.Hub, to io.Writer) error {
			return o.showCluster(ctx, h, to, name)
		}, nil
	case kind == "service":
		return func(ctx context.Context, h *hubclient.Hub, to io.Writer) error {
			return o.showServices(ctx, h, to, name)
		}, nil
	}
	if kind == "pod" || kind == "node" {
		return nil, fmt.Errorf("`fairlead get %ss` lists those of all clusters, `fairlead kubectl CLUSTER -- top %ss` tells what those of a cluster use", kind, kind)
	}
	return nil, fmt.Errorf("there are no figures of %q: there are fleet, cluster and service", args[0])
}

// writeTable writes a table as wide as it has to be.
func (o *topping) writeTable(t *table.Table, to io.Writer) error {
	if to == o.app.Stdout {
		return o.app.WriteTable(t)
	}
	t.MaxCell = 0
	return t.Write(to)
}

func (o *topping) showFleet(ctx context.Context, h *hubclient.Hub, to io.Writer) error {
	var by []string
	for key := range strings.SplitSeq(o.by, ",") {
		if key != "" {
			by = append(by, key)
		}
	}
	got, err := h.Views.ListClusterViews(ctx, &consolev1.ListClusterViewsRequest{PageSize: 1, Filter: o.Filter, GroupBy: by})
	if err != nil {
		return noViews(err)
	}
	if o.format != app.FormatTable {
		return o.app.ShowPlain(o.format,
			&consolev1.ListClusterViewsResponse{Sums: got.GetSums(), TotalSize: got.GetTotalSize()})
	}
	var head []string
	for _, key := range by {
		head = append(head, strings.ToUpper(key))
	}
	t := table.New(append(append(head, "CLUSTERS", "AWAY", "NO-VIEW"), view.FigureHead()...)...)
	for _, s := range got.GetSums() {
		cells := append(slices.Clone(s.GetValues()), fmt.Sprint(s.GetClusters()), fmt.Sprint(s.GetAway()),
			fmt.Sprint(s.GetClusters()-s.GetViewed()))
		t.AddRow(append(cells, view.FigureCells(view.FairShares(s.GetFigures()))...)...)
	}
	return o.writeTable(t, to)
}

// allViews reads all pages.
func allViews(ctx context.Context, h *hubclient.Hub, q resource.Question) (out []*consolev1.ClusterView, err error) {
	req := &consolev1.ListClusterViewsRequest{PageSize: 1000, Filter: q.Filter, OrderBy: q.Sort}
	for {
		page, err := h.Views.ListClusterViews(ctx, req)
		if err != nil {
			return nil, noViews(err)
		}
		out = append(out, page.GetViews()...)
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			return out, nil
		}
	}
}

func (o *topping) showClusters(ctx context.Context, h *hubclient.Hub, to io.Writer) error {
	q := o.Question
	if q.Sort == "" {
		q.Sort = "pods.not_ready desc, nodes.not_ready desc, warnings.hour desc"
	}
	views, err := allViews(ctx, h, q)
	if err != nil {
		return err
	}
	if o.format != app.FormatTable {
		return o.app.ShowPlain(o.format,
			&consolev1.ListClusterViewsResponse{Views: views, TotalSize: int32(len(views))})
	}
	look := view.View{Now: o.app.Now()}
	t := table.New(append(append([]string{"CLUSTER"}, view.FigureHead()...), "VIEW")...)
	for _, v := range views {
		t.AddRow(append(append([]string{v.GetCluster()}, view.FigureCells(v.GetFigures())...), viewState(look, v))...)
	}
	return o.writeTable(t, to)
}

// viewState says how far a view can be trusted; empty: it is of now.
func viewState(v view.View, of *consolev1.ClusterView) string {
	switch {
	case of.GetMissing() != "":
		return of.GetMissing()
	case !of.GetConnected():
		return "away, as of " + v.AgoText(of.GetLastSeenTime())
	case of.GetUnfollowed() != "":
		return of.GetUnfollowed() + "; as of " + v.AgoText(of.GetUpdateTime())
	}
	return ""
}

// showCluster shows all that the view of a cluster says, section by section.
func (o *topping) showCluster(ctx context.Context, h *hubclient.Hub, to io.Writer, name string) error {
	got, err := h.Views.GetClusterView(ctx, &consolev1.GetClusterViewRequest{Cluster: name})
	if err != nil {
		return noViews(err)
	}
	if o.format != app.FormatTable {
		return o.app.ShowPlain(o.format, got.GetView())
	}
	v, look := got.GetView(), view.View{Now: o.app.Now()}
	state := viewState(look, v)
	if state == "" {
		state = "current, last change " + look.AgoText(v.GetUpdateTime())
	}
	if _, err := fmt.Fprintf(to, "Cluster %s: %s\n", v.GetCluster(), table.CleanLine(state)); err != nil ||
		v.GetMissing() != "" {
		return err
	}
	t := table.New("SECTION", "FIGURES", "TRUST")
	for _, s := range v.GetSections() {
		t.AddRow(s.GetName(), figuresOf(s), describeTrust(s))
	}
	if err := o.writeTable(t, to); err != nil {
		return err
	}
	if v.GetRowsHidden() {
		_, err = fmt.Fprintln(to, "You may not read the Kubernetes API of the cluster: names and texts are left out.")
	}
	return err
}

// figuresOf are those of a section in one line.
func figuresOf(s *deliveryv1.ViewSection) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.GetFigures())) {
		n := s.GetFigures()[name]
		show := fmt.Sprint(n)
		switch {
		case strings.Contains(name, "cpu"):
			show = view.FormatCores(n)
		case strings.Contains(name, "memory"), strings.HasSuffix(name, "bytes"):
			show = table.FormatBytes(n)
		}
		if n != 0 || name == "total" {
			out = append(out, name+"="+show)
		}
	}
	return strings.Join(out, " ")
}

// describeTrust says how far a section can be trusted; empty: it is whole.
func describeTrust(s *deliveryv1.ViewSection) string {
	var out []string
	switch s.GetState() {
	case deliveryv1.SectionState_SECTION_STATE_WHOLE:
		if s.GetReason() != "" { // such as that nothing in the cluster counts it
			out = append(out, s.GetReason())
		}
	case deliveryv1.SectionState_SECTION_STATE_READING:
		out = append(out, "being read again")
	case deliveryv1.SectionState_SECTION_STATE_DENIED:
		out = append(out, "denied: "+s.GetReason())
	case deliveryv1.SectionState_SECTION_STATE_STALE:
		out = append(out, "stale: "+s.GetReason())
	default:
		out = append(out, s.GetReason())
	}
	if s.GetSample() > 1 {
		out = append(out, fmt.Sprintf("a sample: one object of %d", s.GetSample()))
	}
	if s.GetWithheld() > 0 {
		out = append(out, fmt.Sprintf("%d rows not listed", s.GetWithheld()))
	}
	return strings.Join(out, "; ")
}

func (o *topping) showServices(ctx context.Context, h *hubclient.Hub, to io.Writer, name string) error {
	req := &consolev1.ListViewRowsRequest{Section: "services", PageSize: 1000, Filter: o.Filter, Service: name}
	var rows []*consolev1.ClusterViewRow
	for {
		page, err := h.Views.ListViewRows(ctx, req)
		if err != nil {
			return noViews(err)
		}
		rows = append(rows, page.GetRows()...)
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			break
		}
	}
	if name != "" && len(rows) == 0 {
		if _, err := h.Services.GetService(ctx, &consolev1.GetServiceRequest{Name: name}); err != nil {
			return err
		}
	}
	if o.format != app.FormatTable {
		return o.app.ShowPlain(o.format, &consolev1.ListViewRowsResponse{Rows: rows})
	}
	if len(rows) == 0 {
		o.app.Notef("no pods of services are known\n")
		return nil
	}
	look := view.View{Now: o.app.Now()}
	t := table.New("SERVICE", "CLUSTER", "PODS", "READY", "NOT-READY", "RESTARTS", "VIEW")
	for _, r := range rows {
		f := r.GetRow().GetFigures()
		t.AddRow(r.GetRow().GetName(), r.GetCluster(), fmt.Sprint(f["pods"]), fmt.Sprint(f["ready"]),
			fmt.Sprint(f["not_ready"]), fmt.Sprint(f["restarts"]), look.RowState(r))
	}
	return o.writeTable(t, to)
}

// readFigures reads those of all clusters for a wide table, by cluster; nil: the hub has no views.
func readFigures(ctx context.Context, h *hubclient.Hub) (map[string]*consolev1.ClusterView, error) {
	views, err := allViews(ctx, h, resource.Question{})
	if errors.Is(err, errNoViews) {
		return nil, nil //nolint:nilnil // nil has a meaning
	}
	out := map[string]*consolev1.ClusterView{}
	for _, v := range views {
		out[v.GetCluster()] = v
	}
	return out, err
}

// figuresOfOne reads those of one cluster for its description; nil: they are not known. All else of the description is
// known without them, so that an error is a note.
func figuresOfOne(ctx context.Context, a *app.App, h *hubclient.Hub, name string) map[string]*consolev1.ClusterView {
	ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
	defer cancel()
	got, err := h.Views.GetClusterView(ctx, &consolev1.GetClusterViewRequest{Cluster: name})
	if err = noViews(err); errors.Is(err, errNoViews) {
		return nil
	}
	if err != nil {
		a.Notef("the figures of cluster %s can't be shown: %v\n", name, err)
		return nil
	}
	return map[string]*consolev1.ClusterView{name: got.GetView()}
}
