package index

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"fairlead.dev/services/console/internal/query"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/database"
)

// Cluster is a cluster as the board knows it. Immutable.
type Cluster struct{ row *row }

// Clusters returns the clusters that somebody sees, by name, up to date with what this console has written.
func (b *Index) Clusters(ctx context.Context, sees Sees) ([]Cluster, error) {
	if err := b.current(ctx); err != nil {
		return nil, err
	}
	names := b.sortedClusters()
	b.mu.RLock()
	defer b.mu.RUnlock()
	out := make([]Cluster, 0, len(names))
	for _, name := range names {
		if r := b.rows[store.KindCluster][name]; r != nil && r.seenBy(sees) {
			out = append(out, Cluster{r})
		}
	}
	return out, nil
}

// sortedClusters are the names of all clusters in order. They are sorted once until a cluster comes or goes.
func (b *Index) sortedClusters() []string {
	b.mu.RLock()
	names := b.clusterNames
	b.mu.RUnlock()
	if names != nil {
		return names
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clusterNames = slices.Sorted(maps.Keys(b.rows[store.KindCluster]))
	return b.clusterNames
}

// HasService says whether somebody sees a service of a cluster: what an agent says of services that are not meant for
// its cluster counts for nothing.
func (b *Index) HasService(sees Sees, cluster, service string) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	r := b.rows[store.KindService][service]
	return r != nil && r.cluster.Value() == cluster && r.seenBy(sees)
}

// Name is that of the cluster.
func (c Cluster) Name() string { return c.row.name }

// UID is that of the cluster.
func (c Cluster) UID() string { return c.row.uid }

// Labels are those of the cluster.
func (c Cluster) Labels() map[string]string {
	out := map[string]string{}
	for text := c.row.labels.Value(); text != ""; {
		var key, value string
		key, text, _ = strings.Cut(text, labelEnd)
		value, text, _ = strings.Cut(text, labelEnd)
		out[key] = value
	}
	return out
}

// LabelText is the same for the same labels, and of no other use.
func (c Cluster) LabelText() string { return c.row.labels.Value() }

// Label is one of them; empty: the cluster does not have it.
func (c Cluster) Label(key string) string {
	value, _ := c.row.labels.get(key)
	return value
}

// Connected says whether what the cluster said last can be trusted.
func (c Cluster) Connected() bool { return c.row.alive }

// LastSeen is the last sign of life; zero: there was none.
func (c Cluster) LastSeen() time.Time { return database.FromMicros(c.row.seen) }

// Agent is the version of the agent, and whether it pushes views. Empty: none was seen.
func (c Cluster) Agent() (version string, views bool) { return c.row.version.Value(), c.row.viewing }

// KeepsSets tells whether the agent keeps ViewSets.
func (c Cluster) KeepsSets() bool { return c.row.keepsSets }

// Field implements query.Row.
func (c Cluster) Field(name string) (query.Value, bool) { return c.row.Field(name) }

// UIDs fills in the uids of clusters by their names. false: the board does not know them yet.
func (b *Index) UIDs(names map[string]string) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for name := range names {
		if r := b.rows[store.KindCluster][name]; r != nil {
			names[name] = r.uid
		}
	}
	return b.ready
}
