package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity/identitytest"
	"fairlead.dev/platform/retry"
)

const (
	// batchSize is the most that the console takes at once.
	batchSize = 1000
	// joinsAtOnce is how many agents join at the same time.
	joinsAtOnce = 64
	// tokensAge is how old kept credentials may be: well below their life of 7 days.
	tokensAge = 48 * time.Hour
	// sourceInterval is the default of sources.
	sourceInterval = 2 * time.Minute
)

// Timing is how long a step of the preparation took.
type Timing struct {
	What string
	Took time.Duration
}

// prepare writes the catalog and has all agents join. The data of an earlier run of the same size are kept.
func (r *Run) prepare(ctx context.Context) error {
	steps := []struct {
		what string
		do   func(context.Context) error
	}{
		{fmt.Sprintf("%d sources", r.cfg.Sources), r.putSources},
		{fmt.Sprintf("%d clusters", r.cfg.Clusters), r.putClusters},
		{fmt.Sprintf("%d services", r.cfg.Clusters*r.cfg.Services), r.putServices},
		{fmt.Sprintf("%d agents join", r.cfg.Clusters), r.join},
	}
	kept := r.readTokens()
	for i, step := range steps {
		if kept && i > 0 {
			r.say("%s: kept from an earlier run", step.what)
			continue
		}
		begin := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		took := time.Since(begin)
		r.say("%s: %.1f s", step.what, took.Seconds())
		r.Prepared = append(r.Prepared, Timing{step.what, took})
	}
	return nil
}

func (r *Run) putSources(ctx context.Context) error {
	secret := ""
	if r.cfg.Elsewhere != nil {
		secret = "git"
	}
	for i := range r.cfg.Sources {
		_, err := r.hub.api.sources.UpdateSource(ctx, &consolev1.UpdateSourceRequest{AllowMissing: true, Source: &consolev1.Source{
			Metadata: &consolev1.Metadata{Name: sourceName(i)},
			Spec: &consolev1.SourceSpec{Git: &consolev1.GitSource{
				Url: r.hub.git.server.URL(sourceName(i)), Secret: secret, Interval: durationpb.New(sourceInterval),
			}},
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *Run) putClusters(ctx context.Context) error {
	return r.batches(ctx, r.cfg.Clusters, func(from, to int) error {
		req := &consolev1.BatchUpdateClustersRequest{}
		for i := from; i < to; i++ {
			req.Requests = append(req.Requests, &consolev1.UpdateClusterRequest{
				AllowMissing: true, Cluster: &consolev1.Cluster{Metadata: &consolev1.Metadata{Name: clusterName(i)}},
			})
		}
		_, err := r.hub.api.clusters.BatchUpdateClusters(ctx, req)
		return err
	})
}

func (r *Run) putServices(ctx context.Context) error {
	return r.batches(ctx, r.cfg.Clusters*r.cfg.Services, func(from, to int) error {
		req := &consolev1.BatchUpdateServicesRequest{}
		for n := from; n < to; n++ {
			i, j := n/r.cfg.Services, n%r.cfg.Services
			req.Requests = append(req.Requests, &consolev1.UpdateServiceRequest{AllowMissing: true, Service: &consolev1.Service{
				Metadata: &consolev1.Metadata{Name: serviceName(i, j)},
				Spec: &consolev1.ServiceSpec{
					Source: sourceName(r.cfg.sourceOf(j)), Cluster: clusterName(i), Path: folder(j, r.cfg.groupOf(i, j)), Ref: "main",
				},
			}})
		}
		_, err := r.hub.api.services.BatchUpdateServices(ctx, req)
		return err
	})
}

// batches calls do for one batch after the other, and says now and then how far that is.
func (r *Run) batches(ctx context.Context, n int, do func(from, to int) error) error {
	told := time.Now()
	for from := 0; from < n; from += batchSize {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := do(from, min(from+batchSize, n)); err != nil {
			return err
		}
		if time.Since(told) > progressEvery {
			told = time.Now()
			r.say("  %d of %d", from+batchSize, n)
		}
	}
	return nil
}

// join has every agent join, as real ones do: a join token each, used up for a credential.
func (r *Run) join(ctx context.Context) error {
	r.tokens = make(map[string]string, r.cfg.Clusters)
	var mu sync.Mutex // guards tokens
	var done atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(joinsAtOnce)
	told := time.Now()
	for i := range r.cfg.Clusters {
		group.Go(func() error {
			name := clusterName(i)
			created, err := r.hub.api.identity.CreateJoinToken(ctx, &consolev1.CreateJoinTokenRequest{Cluster: name})
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			joined, err := r.joinOne(ctx, created.GetJoinToken())
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			r.tokens[name] = joined.GetToken().GetToken()
			done.Add(1)
			return nil
		})
		if time.Since(told) > progressEvery {
			told = time.Now()
			r.say("  %d of %d", done.Load(), r.cfg.Clusters)
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	text, err := json.Marshal(r.tokens)
	if err != nil {
		return err
	}
	return os.WriteFile(r.tokensFile(), text, 0o600)
}

// joinOne asks as an agent does: again when a busy console has taken in too many strangers at once to wait for this
// one.
func (r *Run) joinOne(ctx context.Context, token string) (*consolev1.JoinClusterResponse, error) {
	for {
		joined, err := r.hub.api.open.JoinCluster(ctx, &consolev1.JoinClusterRequest{JoinToken: token, Key: identitytest.AgentKey().ForJoin(token)})
		if connect.CodeOf(err) != connect.CodeDeadlineExceeded || !retry.Sleep(ctx, time.Second) {
			return joined, err
		}
	}
}

func (r *Run) tokensFile() string { return filepath.Join(r.cfg.Dir, "tokens.json") }

// readTokens tells whether an earlier run came to the end of its preparation.
func (r *Run) readTokens() bool {
	info, err := os.Stat(r.tokensFile())
	if errors.Is(err, fs.ErrNotExist) || err != nil || time.Since(info.ModTime()) > tokensAge || r.cfg.Postgres {
		return false
	}
	text, err := os.ReadFile(r.tokensFile())
	return err == nil && json.Unmarshal(text, &r.tokens) == nil && len(r.tokens) == r.cfg.Clusters
}

// canceled tells errors of the end from those that count.
func canceled(ctx context.Context, err error) bool {
	return ctx.Err() != nil || connect.CodeOf(err) == connect.CodeCanceled
}
