package intake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// ClusterReports is what one cluster says.
type ClusterReports struct {
	Cluster string
	Reports []state.Report
}

// RecordReports makes reports durable and returns, in the order of the clusters, the highest durable
// sequence per service. A report about a service that is gone or not meant for the cluster is
// acknowledged, else its agent would send it for ever, and is kept as an event only, where its removal fails.
//
// Many are written in parts, so that a person's write waits for one part only, and what is durable of a call that
// does not come to its end stays.
func (i *Intake) RecordReports(ctx context.Context, in []ClusterReports) (acks []map[string]uint64, err error) {
	for from, to := 0, 0; from < len(in); from = to {
		most := i.store.StatusRows()
		for rows := 0; to < len(in) && (to == from || rows+len(in[to].Reports) <= most); to++ {
			rows += len(in[to].Reports)
		}
		part, err := i.recordReports(ctx, in[from:to])
		if err != nil {
			return nil, err
		}
		acks = append(acks, part...)
	}
	return acks, nil
}

func (i *Intake) recordReports(ctx context.Context, in []ClusterReports) ([]map[string]uint64, error) {
	acks := make([]map[string]uint64, len(in))
	for tries := 1; ; tries++ {
		b := &reporting{intake: i, acks: acks, known: map[string]*heard{}, rows: map[string]*news{}}
		if err := b.prepare(ctx, in, tries > 1); err != nil {
			return nil, err
		}
		lost, err := b.write(ctx)
		if err != nil || len(lost) == 0 {
			return acks, err
		}
		if tries == maxTries {
			return nil, fmt.Errorf("write reports: %w: others go on changing %d services", store.ErrUnavailable, len(lost))
		}
		in = reportsAbout(in, lost)
	}
}

// reportsAbout are the reports about some services, in the places of their clusters.
func reportsAbout(in []ClusterReports, services map[string]bool) []ClusterReports {
	out := make([]ClusterReports, len(in))
	for i, cr := range in {
		out[i] = ClusterReports{cr.Cluster, slices.DeleteFunc(slices.Clone(cr.Reports), func(r state.Report) bool { return !services[r.Service] })}
	}
	return out
}

// ClusterSeen is a sign of life.
type ClusterSeen struct {
	Cluster string
	Time    time.Time
	Agent   state.AgentInfo
	// Lost: it is none, but the end of the agent's stream.
	Lost bool
}

// RecordSeen keeps the latest sign of life per cluster, and the latest end of a stream. Clusters that are
// gone are passed over.
func (i *Intake) RecordSeen(ctx context.Context, in []ClusterSeen) error {
	now := i.now()
	seen, lost := map[string]store.Seen{}, map[string]time.Time{}
	err := i.store.Read(ctx, func(ctx context.Context, v store.View) error {
		names := map[string]bool{}
		for _, s := range in {
			names[s.Cluster] = resource.IsName(s.Cluster)
		}
		clusters, err := v.Named(ctx, store.KindCluster, state.TrueKeys(names))
		if err != nil {
			return err
		}
		for _, s := range in {
			cluster, ok := clusters[s.Cluster]
			if !ok {
				continue
			}
			agent, err := json.Marshal(s.Agent)
			if err != nil {
				return fmt.Errorf("encode agent of cluster %q: %w", s.Cluster, err)
			}
			// A distributor whose clock is ahead must not make a cluster look alive later on.
			at := s.Time
			if at.IsZero() || at.After(now) {
				at = now
			}
			switch {
			case s.Lost && at.After(lost[cluster.UID]):
				lost[cluster.UID] = at
			case !s.Lost && at.After(seen[cluster.UID].SeenTime):
				seen[cluster.UID] = store.Seen{SeenTime: at, State: agent}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return errors.Join(i.store.PutSeen(ctx, seen), i.store.PutLost(ctx, lost))
}
