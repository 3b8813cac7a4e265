package views

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/clusterview"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/index"
	"fairlead.dev/services/console/internal/query"
	"fairlead.dev/services/console/internal/store"
)

const (
	defaultPage = 100
	// maxGaps bounds what a list of rows says of clusters whose rows it does not show.
	maxGaps = 1000
	// loadedWithin is how long a list waits for a console that has just begun to read the views.
	loadedWithin = 10 * time.Second
	// labelPrefix is before the labels of clusters in filters and orders.
	labelPrefix = "labels."
)

// ErrBegins is what a list gets while the console has not read the views yet.
var ErrBegins = errors.New("the console has begun a moment ago and still reads the views of clusters: try again in a moment")

// known are the figures that agents of this version count always, so that a filter may name them before an agent does.
func known() (out []string) {
	for _, section := range clusterview.Sections() {
		for _, name := range clusterview.Always(section) {
			out = append(out, section+"."+name)
		}
	}
	for _, section := range []string{
		clusterview.Nodes, clusterview.Requests, clusterview.Pods, clusterview.Restarts, clusterview.Pulls, clusterview.Workloads,
		clusterview.Claims, clusterview.Warnings,
	} {
		out = append(out, section+"."+sampled)
	}
	return out
}

// seen is a cluster with its view, nil if there is none.
type seen struct {
	index.Cluster
	view      *view
	rejection rejection
}

// Field implements query.Row: figures, and what clusters can be asked for.
func (s *seen) Field(name string) (query.Value, bool) {
	if !isFigure(name) {
		return s.Cluster.Field(name)
	}
	if s.view == nil {
		return query.Value{}, false
	}
	if strings.HasPrefix(name, reasonPrefix) {
		i := slices.IndexFunc(s.view.reasons, func(r reason) bool { return r.figure == name })
		if i < 0 {
			return query.Value{}, false
		}
		return query.Value{Number: s.view.reasons[i].count}, true
	}
	n, ok := s.view.figures.get(name)
	return query.Value{Number: n}, ok
}

// fieldsOf are the fields of clusters, the figures of known, and those others of the caller's views that the texts
// name. So nobody learns from an error the figures of clusters that they do not see, and no agent can take a figure's
// place, or a label's: "labels." belongs to clusters' labels.
func fieldsOf(all []*seen, texts ...string) query.Fields {
	out := index.Fields(store.KindCluster)
	for _, name := range known() {
		out[name] = query.Number
	}
	reasons := slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, reasonPrefix) })
	looked := map[*names]bool{}
	for _, s := range all {
		if s.view == nil {
			continue
		}
		for _, r := range s.view.reasons {
			if reasons && slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, r.figure) }) {
				out[r.figure] = query.Number
			}
		}
		if looked[s.view.figures.names] {
			continue
		}
		looked[s.view.figures.names] = true
		for name := range s.view.figures.all() {
			if _, ok := out[name]; ok || strings.HasPrefix(name, labelPrefix) {
				continue
			}
			if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, name) }) {
				out[name] = query.Number
			}
		}
	}
	return out
}

// look returns the clusters that the caller sees, by name.
func (b *Board) look(ctx context.Context, fresh bool) (all []*seen, sees index.Sees, err error) {
	if sees, err = b.Rights.Viewer(ctx, fresh); err != nil {
		return nil, nil, err
	}
	clusters, err := b.Clusters.Clusters(ctx, sees)
	if err != nil {
		return nil, nil, err
	}
	select {
	case <-b.loaded:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	case <-time.After(loadedWithin):
		return nil, nil, ErrBegins
	}
	rows := make([]seen, len(clusters)) // filters and orders ask rows by their addresses, and copy none
	all = make([]*seen, len(clusters))
	b.mu.RLock()
	defer b.mu.RUnlock()
	for i, c := range clusters {
		rows[i] = b.of(c)
		all[i] = &rows[i]
	}
	return all, sees, nil
}

// fitting are the clusters of all that fit; all is not to be used afterwards.
func fitting(all []*seen, expr *query.Expr) []*seen {
	now := time.Now()
	return slices.DeleteFunc(all, func(s *seen) bool { return !expr.Match(s, now) })
}

// show is a view without rows.
func show(s *seen) *consolev1.ClusterView {
	out := &consolev1.ClusterView{Cluster: s.Name(), Labels: s.Labels(), Connected: s.Connected(), LastSeenTime: stamp(s.LastSeen())}
	if s.view == nil {
		out.Missing = missing(s)
		return out
	}
	out.UpdateTime, out.Figures, out.Unfollowed = stamp(s.view.received), maps.Collect(s.view.figures.all()), s.unfollowed()
	return out
}

// unfollowed says why the view of a connected cluster is not of now; empty: it is, or the cluster is away.
func (s *seen) unfollowed() string {
	version, views := s.Agent()
	switch {
	case s.view == nil, !s.Connected():
		return ""
	case version != "" && !views:
		return noViews(version)
	}
	return s.rejection.String()
}

// String is empty if there is no rejection.
func (r rejection) String() string {
	if r.why == "" {
		return ""
	}
	return fmt.Sprintf("the hub has refused all pushes of the agent since %s: %s", r.since.Format(time.RFC3339), r.why)
}

func noViews(version string) string {
	return "the agent (" + cmp.Or(version, "unknown version") + ") pushes no views: update it"
}

// missing says why there is no view.
func missing(s *seen) string {
	version, views := s.Agent()
	switch {
	case s.LastSeen().IsZero():
		return "no agent was heard of: `fairlead cluster join` brings one into the cluster"
	case !views:
		return noViews(version)
	case s.rejection.why != "":
		return s.rejection.String()
	case !s.Connected():
		return "the agent went away before it pushed a view"
	}
	return "the agent has not pushed a view yet"
}

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// Get returns the view of one cluster, with the rows that the caller may see.
func (b *Board) Get(ctx context.Context, cluster string) (*consolev1.ClusterView, error) {
	all, sees, err := b.look(ctx, true)
	if err != nil {
		return nil, err
	}
	s, err := named(all, cluster)
	if err != nil {
		return nil, err
	}
	out := show(s)
	if s.view == nil {
		return out, nil
	}
	whole, err := s.view.decode()
	if err != nil {
		return nil, err
	}
	reads, err := b.Rights.Reader(ctx)
	if err != nil {
		return nil, err
	}
	may := reads == nil || reads(cluster)
	out.RowsHidden = !may
	for _, section := range whole.GetSections() {
		section.Rows = b.visible(section, cluster, sees, may)
		out.Sections = append(out.Sections, section)
	}
	return out, nil
}

// named is the one of a name.
func named(all []*seen, cluster string) (*seen, error) {
	at, ok := slices.BinarySearchFunc(all, cluster, func(s *seen, name string) int { return cmp.Compare(s.Name(), name) })
	if !ok {
		return nil, refusal.New(refusal.NotFound, "there is no cluster %q that you may see", cluster)
	}
	return all[at], nil
}

// visible are the rows of a section that the caller may see: with the right to read the Kubernetes API of the cluster
// all, else those that name nothing but API groups, and services that the caller sees. Rows of services that are not
// meant for the agent's cluster are left out for all.
func (b *Board) visible(s *deliveryv1.ViewSection, cluster string, sees index.Sees, mayRead bool) (rows []*deliveryv1.ViewRow) {
	switch {
	case namesAPIs(s.GetName()):
		return s.GetRows()
	case s.GetName() == "services":
		return slices.DeleteFunc(slices.Clone(s.GetRows()), func(r *deliveryv1.ViewRow) bool { return !b.Clusters.HasService(sees, cluster, r.GetService()) })
	case mayRead:
		return s.GetRows()
	}
	return nil
}

// namesAPIs says whether the rows of a section name versions of APIs and no object.
func namesAPIs(section string) bool { return section == "apis" || section == "deprecated" }

// List returns a page of views, and the sums over all that fit.
func (b *Board) List(ctx context.Context, req *consolev1.ListClusterViewsRequest) (*consolev1.ListClusterViewsResponse, error) {
	all, _, err := b.look(ctx, true)
	if err != nil {
		return nil, err
	}
	fields := fieldsOf(all, req.GetFilter(), req.GetOrderBy())
	expr, err := query.Parse(req.GetFilter(), fields)
	if err != nil {
		return nil, refusal.New(refusal.Invalid, "filter: %v", err)
	}
	order, err := query.ParseOrder(req.GetOrderBy(), fields)
	if err != nil {
		return nil, refusal.New(refusal.Invalid, "order_by: %v", err)
	}
	question := query.Question(req.GetFilter(), req.GetOrderBy())
	after, err := query.PlaceOf(req.GetPageToken(), question, len(order))
	if err != nil {
		return nil, refusal.New(refusal.Invalid, "page_token: %v", err)
	}
	fits := fitting(all, expr)
	page := query.PageOf(fits, order, after, cmp.Or(int(req.GetPageSize()), defaultPage))
	out := &consolev1.ListClusterViewsResponse{
		TotalSize: int32(len(fits)), Sums: sums(fits, req.GetGroupBy()), NextPageToken: page.Last.Token(question),
	}
	for _, s := range page.Rows {
		out.Views = append(out.Views, show(s))
	}
	return out, nil
}

// sums adds views up by the values of labels.
func sums(fits []*seen, by []string) []*consolev1.ViewSum {
	type group struct {
		*consolev1.ViewSum
		figures sum
	}
	found := map[string]*group{}
	values := make([]string, len(by))
	for _, s := range fits {
		for i, key := range by {
			values[i] = s.Label(strings.TrimPrefix(key, labelPrefix))
		}
		key := strings.Join(values, "\x00")
		of := found[key]
		if of == nil {
			of = &group{ViewSum: &consolev1.ViewSum{Values: slices.Clone(values)}}
			found[key] = of
		}
		of.Clusters++
		if s.view == nil {
			continue
		}
		of.Viewed++
		if !s.Connected() || s.unfollowed() != "" {
			of.Away++
		}
		of.figures.add(s.view.figures)
	}
	var out []*consolev1.ViewSum
	for _, of := range found {
		of.Figures = of.figures.byName()
		out = append(out, of.ViewSum)
	}
	slices.SortFunc(out, func(a, b *consolev1.ViewSum) int { return slices.Compare(a.GetValues(), b.GetValues()) })
	return out
}

// Rows returns rows of one section over clusters. set is the ViewSet of the section, if it is of one that the caller
// sees.
func (b *Board) Rows(ctx context.Context, req *consolev1.ListViewRowsRequest, set *consolev1.ViewSet) (*consolev1.ListViewRowsResponse, error) {
	all, sees, err := b.look(ctx, true)
	if err != nil {
		return nil, err
	}
	expr, err := query.Parse(req.GetFilter(), fieldsOf(all, req.GetFilter()))
	if err != nil {
		return nil, refusal.New(refusal.Invalid, "filter: %v", err)
	}
	question := query.Question(req.GetSection(), req.GetFilter(), req.GetNamespace(), req.GetService(), req.GetReason())
	after, err := query.PlaceOf(req.GetPageToken(), question, 1)
	if err != nil {
		return nil, refusal.New(refusal.Invalid, "page_token: %v", err)
	}
	reads, err := b.Rights.Reader(ctx)
	if err != nil {
		return nil, err
	}
	out := &consolev1.ListViewRowsResponse{}
	most := cmp.Or(int(req.GetPageSize()), defaultPage)
	for _, s := range fitting(all, expr) {
		rows, gap, err := b.rowsOf(s, req, sees, reads == nil || reads(s.Name()))
		if err == nil && set != nil && len(rows) == 0 {
			gap, err = s.gapOfSet(set, req.GetSection(), gap)
		}
		if err != nil {
			return nil, err
		}
		var unfollowed *timestamppb.Timestamp
		if why := s.unfollowed(); why != "" {
			unfollowed = stamp(s.view.received)
			gap = cmp.Or(gap, &consolev1.RowsGap{Cluster: s.Name()})
			gap.Reason = strings.TrimPrefix(gap.GetReason()+"; "+why, "; ")
		}
		if gap != nil && len(out.GetGaps()) < maxGaps {
			out.Gaps = append(out.Gaps, gap)
		}
		out.TotalSize += int32(len(rows)) // at most 500 of a cluster
		for i, r := range rows {
			if after != nil && cmp.Or(cmp.Compare(s.Name(), after.Name), cmp.Compare(int64(i), after.Values[0].Number)) <= 0 {
				continue
			}
			if len(out.GetRows()) < most {
				out.Rows = append(out.Rows, &consolev1.ClusterViewRow{
					Cluster: s.Name(), Row: r, Connected: s.Connected(), LastSeenTime: stamp(s.LastSeen()), UnfollowedTime: unfollowed,
				})
				if len(out.GetRows()) == most {
					out.NextPageToken = (&query.Place{Name: s.Name(), Values: []query.Value{{Number: int64(i)}}}).Token(question)
				}
				continue
			}
		}
	}
	return out, nil
}

// rowsOf returns the rows of a cluster that fit, and what they do not show.
func (b *Board) rowsOf(s *seen, req *consolev1.ListViewRowsRequest, sees index.Sees,
	mayRead bool,
) (rows []*deliveryv1.ViewRow, gap *consolev1.RowsGap, err error) {
	if s.view == nil {
		return nil, &consolev1.RowsGap{Cluster: s.Name(), Reason: missing(s)}, nil
	}
	if !s.view.rows[req.GetSection()] {
		return nil, nil, nil
	}
	whole, err := s.view.decode()
	if err != nil {
		return nil, nil, err
	}
	is := section(whole, req.GetSection())
	for _, r := range b.visible(is, s.Name(), sees, mayRead) {
		if (req.GetNamespace() == "" || r.GetNamespace() == req.GetNamespace()) && (req.GetService() == "" || r.GetService() == req.GetService()) &&
			(req.GetReason() == "" || r.GetReason() == req.GetReason()) {
			rows = append(rows, r)
		}
	}
	hides := !mayRead && !namesAPIs(is.GetName()) && is.GetName() != "services"
	switch {
	case hides && len(is.GetRows()) > 0:
		gap = &consolev1.RowsGap{
			Cluster: s.Name(), Reason: "you may not read the Kubernetes API of the cluster",
			Withheld: int64(len(is.GetRows())) + is.GetWithheld(),
		}
	case is.GetReason() != "":
		gap = &consolev1.RowsGap{Cluster: s.Name(), Reason: is.GetReason(), Withheld: is.GetWithheld()}
	case is.GetWithheld() > 0 && req.GetNamespace() == "" && req.GetService() == "" && req.GetReason() == "":
		gap = &consolev1.RowsGap{Cluster: s.Name(), Reason: "the view lists the worst alone", Withheld: is.GetWithheld()}
	}
	return rows, gap, nil
}
