package status

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

const (
	// seenPause is between two batches: soon enough for somebody who waits for a new cluster.
	seenPause = 2 * time.Second
	// maxSeen bounds one call (the console's own limit is 10,000).
	maxSeen = 5000
)

// Seen tells the console which clusters gave a sign of life. Safe for concurrent use.
type Seen struct {
	console Console
	log     *slog.Logger
	signal  chan struct{} // capacity 1

	mu      sync.Mutex // guards what follows
	pending map[string]*consolev1.ClusterSeen
	agents  map[string]*deliveryv1.AgentInfo // what each agent said of itself last
}

// NewSeen returns Seen; Run works.
func NewSeen(c Console, log *slog.Logger) *Seen {
	return &Seen{
		console: c, log: log, signal: make(chan struct{}, 1),
		pending: map[string]*consolev1.ClusterSeen{}, agents: map[string]*deliveryv1.AgentInfo{},
	}
}

// Mark notes a sign of life. info may be nil: what the agent said before still holds.
func (s *Seen) Mark(cluster string, at time.Time, info *deliveryv1.AgentInfo) {
	s.mu.Lock()
	if info == nil {
		info = s.agents[cluster]
	} else {
		s.agents[cluster] = info
	}
	s.pending[cluster] = &consolev1.ClusterSeen{Cluster: cluster, Time: timestamppb.New(at), Agent: info}
	s.mu.Unlock()
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// Run works until ctx ends.
func (s *Seen) Run(ctx context.Context) error {
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.signal:
		}
		if err := s.flush(ctx); err != nil {
			s.log.Info("tell the console who was seen", "err", err)
			if !backoff(ctx, failures) {
				return nil
			}
			failures++
			continue
		}
		failures = 0
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(seenPause):
		}
	}
}

// flush tells all that is pending. What can't be told stays, unless there is newer.
func (s *Seen) flush(ctx context.Context) error {
	for {
		some := s.take()
		if len(some) == 0 {
			return nil
		}
		if err := s.tell(ctx, some); err != nil {
			s.putBack(some)
			return err
		}
	}
}

func (s *Seen) tell(ctx context.Context, some map[string]*consolev1.ClusterSeen) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req := &consolev1.RecordSeenRequest{}
	for _, c := range some {
		req.Clusters = append(req.Clusters, c)
	}
	_, err := s.console.RecordSeen(ctx, req)
	return err
}

func (s *Seen) take() map[string]*consolev1.ClusterSeen {
	s.mu.Lock()
	defer s.mu.Unlock()
	some := map[string]*consolev1.ClusterSeen{}
	for cluster, c := range s.pending {
		if len(some) == maxSeen {
			break
		}
		some[cluster] = c
		delete(s.pending, cluster)
	}
	return some
}

func (s *Seen) putBack(some map[string]*consolev1.ClusterSeen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(some, s.pending)
	s.pending = some
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// Forget drops what is known of clusters that left the catalog.
func (s *Seen) Forget(exists func(cluster string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for cluster := range s.agents {
		if !exists(cluster) {
			delete(s.agents, cluster)
			delete(s.pending, cluster)
		}
	}
}
