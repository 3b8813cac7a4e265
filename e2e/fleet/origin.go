package fleet

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"
)

// Origin is what agents' downloads cost behind the distributor.
type Origin struct {
	Builds    int // of artifacts, at the gitcache
	Transfers int // from gitcache to distributor
	Misses    int // agents that the distributor had to fetch something for
	Downloads int // by agents
	Took      time.Duration
}

// origin reads the counters.
func (r *Run) origin(ctx context.Context) Origin {
	value := func(part, name string) int {
		v, _ := r.hub.api.metric(ctx, r.hub.urls[part], name) // a metric that was never counted is not there
		return int(v)
	}
	return Origin{
		Builds:    value("gitcache", `fairlead_gitcache_builds_total{result="ok"}`),
		Transfers: value("gitcache", `fairlead_http_requests_total{route="/v1/artifacts/",status="200"}`),
		Misses:    value("distributor", `fairlead_distributor_artifact_gets_total{result="miss"}`),
	}
}

func (o Origin) since(before Origin) Origin {
	return Origin{Builds: o.Builds - before.Builds, Transfers: o.Transfers - before.Transfers, Misses: o.Misses - before.Misses}
}

// cold empties the caches of distributor and gitcache, and has all agents ask for what they have, at once.
func (r *Run) cold(ctx context.Context) error {
	earlier := maps.Clone(r.errors.Errors) // errors that agents meet while the hub is away are no errors of the run
	for _, part := range []string{"gitcache", "distributor"} {
		if err := r.hub.parts[part].Kill(); err != nil {
			return err
		}
		if err := os.RemoveAll(filepath.Join(r.hub.dir(part), "artifacts")); err != nil {
			return err
		}
		if err := r.hub.startPart(ctx, part); err != nil {
			return err
		}
	}
	err := r.until(ctx, settleTimeout, question{}, func(a answer) (bool, string) {
		return a.Stats.Watching == r.cfg.Clusters, fmt.Sprintf("%d of %d agents watch again", a.Stats.Watching, r.cfg.Clusters)
	})
	if err != nil {
		return fmt.Errorf("wait for agents after a restart: %w", err)
	}
	r.errors.Errors = earlier
	before, begin := r.origin(ctx), time.Now()
	a, err := r.ask(ctx, question{Download: true})
	if err != nil {
		return err
	}
	r.Cold = r.origin(ctx).since(before)
	r.Cold.Downloads, r.Cold.Took = a.Stats.downloads(), time.Since(begin)
	if r.Cold.Downloads != r.cfg.Clusters {
		return fmt.Errorf("%d of %d agents got their artifact from empty caches", r.Cold.Downloads, r.cfg.Clusters)
	}
	return nil
}
