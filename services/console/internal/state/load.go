package state

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	platform "fairlead.dev/platform/catalog"
	"fairlead.dev/services/console/internal/store"
)

// connectedWithin is how recent a cluster's last sign of life must be to trust what it said: two
// polls of 2 min, and a margin for their spread and for distributors that batch.
const connectedWithin = 5 * time.Minute

// lostWithin is how long a cluster whose stream broke has to be seen again: an agent dials again within half
// a minute, and a stream that it has elsewhere is a sign of life every minute and a quarter.
const lostWithin = 90 * time.Second

// connected says whether what a cluster said last can be trusted.
func connected(s store.Seen, now time.Time) bool {
	if !s.LeaveTime.IsZero() || s.LostTime.After(s.SeenTime) && now.Sub(s.LostTime) > lostWithin {
		return false
	}
	return !s.SeenTime.IsZero() && now.Sub(s.SeenTime) <= connectedWithin
}

// ConnectedUntil is when a cluster that is not heard of again counts as away; zero: it does already.
func ConnectedUntil(s store.Seen) time.Time {
	if s.SeenTime.IsZero() || !s.LeaveTime.IsZero() {
		return time.Time{}
	}
	until := s.SeenTime.Add(connectedWithin)
	if lost := s.LostTime.Add(lostWithin); s.LostTime.After(s.SeenTime) && lost.Before(until) {
		until = lost
	}
	return until
}

// Loader reads resources with their statuses.
type Loader struct{ now func() time.Time }

// NewLoader returns a loader. now is the clock; nil: time.Now.
func NewLoader(now func() time.Time) Loader {
	if now == nil {
		now = time.Now
	}
	return Loader{now}
}

// Sources decodes sources with their statuses.
func (l Loader) Sources(ctx context.Context, v store.View, rows []store.Resource) ([]Source, error) {
	heads, err := v.Heads(ctx, UIDsOf(rows))
	if err != nil {
		return nil, err
	}
	out := make([]Source, len(rows))
	for i, r := range rows {
		out[i].Meta = MetaOf(r)
		if err := Decode(r, &out[i].Spec); err != nil {
			return nil, err
		}
		if out[i].Status, err = ReadHeads(heads[r.UID]); err != nil {
			return nil, fmt.Errorf("source %q: %w", r.Name, err)
		}
	}
	return out, nil
}

// Clusters decodes clusters with their statuses.
func (l Loader) Clusters(ctx context.Context, v store.View, rows []store.Resource) ([]Cluster, error) {
	seen, err := v.Seen(ctx, UIDsOf(rows))
	if err != nil {
		return nil, err
	}
	now := l.now()
	out := make([]Cluster, len(rows))
	for i, r := range rows {
		out[i].Meta = MetaOf(r)
		if err := Decode(r, &out[i].Spec); err != nil {
			return nil, err
		}
		s, ok := seen[r.UID]
		if !ok {
			continue
		}
		status := ClusterStatus{JoinTime: s.JoinTime, LeaveTime: s.LeaveTime, LastSeen: s.SeenTime, ReuseTime: s.ReuseTime, Reuse: s.Reuse}
		if err := json.Unmarshal(s.State, &status.Agent); err != nil {
			return nil, fmt.Errorf("decode agent of cluster %q: %w", r.Name, err)
		}
		status.Connected = connected(s, now)
		out[i].Status = status
	}
	return out, nil
}

// Services decodes services with their three truths.
func (l Loader) Services(ctx context.Context, v store.View, rows []store.Resource) ([]Service, error) {
	out := make([]Service, len(rows))
	sourceNames, clusterNames := map[string]bool{}, map[string]bool{}
	for i, r := range rows {
		out[i].Meta = MetaOf(r)
		if err := Decode(r, &out[i].Spec); err != nil {
			return nil, err
		}
		sourceNames[out[i].Spec.Source], clusterNames[out[i].Spec.Cluster] = true, !out[i].Spec.Catalog
	}
	sources, err := LoadNamed(ctx, v, store.KindSource, sourceNames, l.Sources)
	if err != nil {
		return nil, err
	}
	clusters, err := LoadNamed(ctx, v, store.KindCluster, clusterNames, l.Clusters)
	if err != nil {
		return nil, err
	}
	truths, err := readTruths(ctx, v, UIDsOf(rows))
	if err != nil {
		return nil, err
	}
	now := l.now()
	times, err := timingOf(ctx, v, out, now)
	if err != nil {
		return nil, err
	}
	for i := range out {
		s := &out[i]
		source, cluster := sources[s.Spec.Source], clusters[s.Spec.Cluster]
		s.Status.Git = GitTruthOf(&source, s.Spec.Ref)
		if ref := s.Spec.EffectiveRef(); ref != s.Spec.Ref {
			pinned := GitTruthOf(&source, ref)
			s.Status.Pinned = &pinned
		}
		if err := truths.tell(s, cluster.Meta.UID); err != nil {
			return nil, fmt.Errorf("service %q: %w", s.Meta.Name, err)
		}
		s.Status.State, s.Status.Message, s.Status.Since = judge(*s, cluster, now)
		s.Status.Windows = times.judge(s, &cluster)
		s.Status.WindowFault = windowFault(s, &cluster)
		s.Status.Message = join(s.Status.Message, s.Status.WindowFault)
	}
	return out, nil
}

// truths is what hub and clusters say of services, by uid.
type truths struct {
	hubs    map[string]HubTruth
	reports map[store.ReportKey]store.Report
	configs map[string]store.Config
}

func readTruths(ctx context.Context, v store.View, uids []string) (t truths, err error) {
	hubs, err := v.Hub(ctx, uids)
	if err != nil {
		return t, err
	}
	if t.reports, err = v.Reports(ctx, uids); err != nil {
		return t, err
	}
	if t.configs, err = v.Configs(ctx, uids); err != nil {
		return t, err
	}
	t.hubs, err = readHubs(ctx, v, hubs)
	return t, err
}

// readTruthsWithin is readTruths of all services whose uids are in a range.
func readTruthsWithin(ctx context.Context, v store.View, uids store.Range) (t truths, err error) {
	hubs, err := v.HubWithin(ctx, uids)
	if err != nil {
		return t, err
	}
	if t.reports, err = v.ReportsWithin(ctx, uids); err != nil {
		return t, err
	}
	if t.configs, err = v.ConfigsWithin(ctx, uids); err != nil {
		return t, err
	}
	t.hubs, err = readHubs(ctx, v, hubs)
	return t, err
}

// tell completes the status of a service of a cluster, by its uid, but for what comes of Git.
func (t *truths) tell(s *Service, cluster string) (err error) {
	s.Status.Hub = t.hubs[s.Meta.UID]
	config := t.configs[s.Meta.UID]
	if s.Status.ConfigRevision = config.Revision; config.Problem != "" {
		s.Status.ConfigProblem = &Problem{Message: config.Problem, Since: config.ProblemTime}
	}
	s.Status.Cluster, err = clusterTruth(t.reports[store.ReportKey{Service: s.Meta.UID, Cluster: cluster}])
	return err
}

// LoadNamed loads the resources of these names, by name, as load reads them. A name that is false is not looked up.
func LoadNamed[T any](ctx context.Context, v store.View, kind store.Kind, names map[string]bool,
	load func(context.Context, store.View, []store.Resource) ([]T, error),
) (map[string]T, error) {
	found, err := v.Named(ctx, kind, TrueKeys(names))
	if err != nil {
		return nil, err
	}
	rows := make([]store.Resource, 0, len(found))
	for _, r := range found {
		rows = append(rows, r)
	}
	list, err := load(ctx, v, rows)
	if err != nil {
		return nil, err
	}
	out := make(map[string]T, len(list))
	for i, r := range rows {
		out[r.Name] = list[i]
	}
	return out, nil
}

// GitTruthOf is what the status of a source says of a ref.
func GitTruthOf(source *Source, ref string) GitTruth {
	ref = platform.CanonicalRef(ref)
	truth := GitTruth{Problem: source.Status.Problem.Of(ref)}
	for i, h := range source.Status.Heads {
		if h.Ref == ref {
			truth.Head = &source.Status.Heads[i]
		}
	}
	return truth
}

// followed is what Git says of the commits that are delivered: those of the pin, or else of the ref.
func (s *Service) FollowedTruth() *GitTruth {
	if s.Status.Pinned != nil {
		return s.Status.Pinned
	}
	return &s.Status.Git
}

// SameTruth says whether two statuses of a source say the same of a ref.
func SameTruth(a, b *Source, ref string) bool {
	return reflect.DeepEqual(GitTruthOf(a, ref), GitTruthOf(b, ref))
}

func clusterTruth(r store.Report) (ClusterTruth, error) {
	if r.State == nil {
		return ClusterTruth{}, nil
	}
	var report Report
	if err := json.Unmarshal(r.State, &report); err != nil {
		return ClusterTruth{}, fmt.Errorf("decode report: %w", err)
	}
	return ClusterTruth{Report: &report, ReceiveTime: r.ReceiveTime}, nil
}

// UIDsOf returns the uids of resources, in their order.
func UIDsOf(rows []store.Resource) []string {
	uids := make([]string, len(rows))
	for i, r := range rows {
		uids[i] = r.UID
	}
	return uids
}

// TrueKeys returns the keys whose value is true: a name that no resource can have is not looked up.
func TrueKeys(m map[string]bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(m)), func(k string) bool { return !m[k] })
}
