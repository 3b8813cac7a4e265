package status

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/retry"
)

const (
	// seenPause is between two batches: soon enough for somebody who waits for a new cluster.
	seenPause = 2 * time.Second
	// maxTokens bounds the tokens of a cluster that are told at a time: one per replica of its agent, and copies.
	maxTokens = 8
	// maxSeen bounds the signs of life in one call, and the ends of streams (the console's own limit is 10,000 for
	// both), and leastSeen what is left of it when calls run into their deadlines.
	maxSeen, leastSeen = 1000, 50
)

// Seen tells the console which clusters gave a sign of life. Safe for concurrent use.
type Seen struct {
	console Console
	log     *slog.Logger
	signal  chan struct{} // capacity 1
	piece   int           // how many signs of life go into the next call; of Run's goroutine

	mu      sync.Mutex                       // guards what follows
	pending map[string]time.Time             // when each was seen last that the console is to be told of
	tokens  map[string][]*consolev1.TokenUse // of pending
	lost    map[string]time.Time             // when the stream of an agent broke that was not seen since
	agents  map[string]agent                 // the facts of each since its last Sync
	wanted  map[string]bool                  // clusters whose agents are to push their whole view
}

// agent is what it said of itself last, and about when it asks again.
type agent struct {
	info *deliveryv1.AgentInfo
	next time.Time
	skew time.Duration // of its clock, which is so far behind this one
	view *deliveryv1.ViewState
	// config is what it says of its configuration; nil: nothing.
	config *deliveryv1.AgentConfigState
}

// NewSeen returns Seen; Run works.
func NewSeen(c Console, log *slog.Logger) *Seen {
	return &Seen{
		console: c, log: log, signal: make(chan struct{}, 1), piece: maxSeen,
		pending: map[string]time.Time{}, tokens: map[string][]*consolev1.TokenUse{}, lost: map[string]time.Time{},
		agents: map[string]agent{}, wanted: map[string]bool{},
	}
}

// Mark notes a sign of life.
func (s *Seen) Mark(cluster string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mark(cluster, at)
}

// Polled notes a Sync: whose it was, what the agent says of itself, of its view and configuration, and when it was told
// to ask again.
func (s *Seen) Polled(by identity.Identity, at, next time.Time, req *deliveryv1.SyncRequest) {
	if req.GetAgentConfig().GetStandsBy() {
		return // it does not speak for its cluster: if the agent that works is silent, the cluster is
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if info := req.GetAgent(); info != nil {
		s.agents[by.Name] = agent{info, next, skewOf(info, at), req.GetView(), req.GetAgentConfig()}
	}
	if !s.used(by.Name, by.TokenID) {
		s.use(by.Name, &consolev1.TokenUse{Id: by.TokenID, Unbound: by.Key == ""})
	}
	s.mark(by.Name, at)
}

// ViewWanted says, once, that the console does not have the view that the agent of a cluster says it has.
func (s *Seen) ViewWanted(cluster string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := s.wanted[cluster]
	delete(s.wanted, cluster)
	return wanted
}

// IsViewWanted says whether ViewWanted is going to say so.
func (s *Seen) IsViewWanted(cluster string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted[cluster]
}

// skewOf is how far an agent's clock is behind, in whole minutes: less is not told, for a request takes its time, too.
func skewOf(info *deliveryv1.AgentInfo, now time.Time) time.Duration {
	if info.GetTime() == nil {
		return 0
	}
	return now.Sub(info.GetTime().AsTime()).Truncate(time.Minute)
}

// used says whether the use of a token is noted. mu is held.
func (s *Seen) used(cluster, token string) bool {
	return slices.ContainsFunc(s.tokens[cluster], func(t *consolev1.TokenUse) bool { return t.GetId() == token })
}

// use notes the use of a token, if there is room. mu is held.
func (s *Seen) use(cluster string, token *consolev1.TokenUse) {
	if all := s.tokens[cluster]; len(all) < maxTokens {
		s.tokens[cluster] = append(all, token)
	}
}

// mark notes a sign of life; take makes a message of it, for most are followed by a later one before that. mu is held.
func (s *Seen) mark(cluster string, at time.Time) {
	s.pending[cluster] = at
	if len(s.lost) > 0 {
		delete(s.lost, cluster)
	}
	s.wake()
}

// Lost notes that the stream of a cluster's agent broke.
func (s *Seen) Lost(cluster string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost[cluster] = at
	s.wake()
}

func (s *Seen) wake() {
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
			if !retry.Sleep(ctx, retry.Pause(failures, firstBackoff, lastBackoff)) {
				return nil
			}
			failures++
			continue
		}
		failures = 0
		if !retry.Sleep(ctx, seenPause) {
			return nil
		}
	}
}

// flush tells all that is pending. A record that can't be told stays, unless there is newer.
func (s *Seen) flush(ctx context.Context) error {
	for {
		some, lost := s.take()
		if len(some)+len(lost) == 0 {
			return nil
		}
		begin := time.Now()
		err := s.tell(ctx, some, lost)
		s.piece = piece{leastSeen, maxSeen, truthsTime}.next(s.piece, len(some) >= s.piece, time.Since(begin), err)
		if err != nil {
			s.putBack(some, lost)
			return err
		}
	}
}

func (s *Seen) tell(ctx context.Context, some map[string]*consolev1.ClusterSeen, lost map[string]time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req := &consolev1.RecordSeenRequest{Clusters: slices.Collect(maps.Values(some))}
	for cluster, at := range lost {
		req.Clusters = append(req.Clusters, &consolev1.ClusterSeen{Cluster: cluster, Time: timestamppb.New(at), Lost: true})
	}
	resp, err := s.console.RecordSeen(ctx, req)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cluster := range resp.GetViewsWanted() {
		s.wanted[cluster] = true
	}
	return nil
}

func (s *Seen) take() (map[string]*consolev1.ClusterSeen, map[string]time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := map[string]*consolev1.ClusterSeen{}
	for cluster, at := range some(s.pending, s.piece) {
		taken[cluster] = s.message(cluster, at)
		delete(s.tokens, cluster)
	}
	return taken, some(s.lost, s.piece)
}

// message tells all that is known of a cluster. mu is held.
func (s *Seen) message(cluster string, at time.Time) *consolev1.ClusterSeen {
	seen := &consolev1.ClusterSeen{Cluster: cluster, Time: timestamppb.New(at), Tokens: s.tokens[cluster]}
	if a := s.agents[cluster]; a.info != nil {
		seen.Agent, seen.NextPollTime, seen.View, seen.AgentConfig = a.info, timestamppb.New(a.next), a.view, a.config
		if a.skew != 0 {
			seen.ClockSkew = durationpb.New(a.skew)
		}
	}
	return seen
}

// some takes as many out as a piece may have.
func some[V any](m map[string]V, piece int) map[string]V {
	out := map[string]V{}
	for cluster, v := range m {
		if len(out) == piece {
			break
		}
		out[cluster] = v
		delete(m, cluster)
	}
	return out
}

// putBack keeps what could not be told. An end of a stream that was seen since does no harm: the console
// compares times.
func (s *Seen) putBack(some map[string]*consolev1.ClusterSeen, lost map[string]time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for cluster, seen := range some {
		if _, later := s.pending[cluster]; !later {
			s.pending[cluster] = seen.GetTime().AsTime()
		}
		for _, token := range seen.GetTokens() {
			if !s.used(cluster, token.GetId()) {
				s.use(cluster, token)
			}
		}
	}
	maps.Copy(lost, s.lost)
	s.lost = lost
	s.wake()
}

// Forget drops what is known of clusters that left the catalog.
func (s *Seen) Forget(exists func(cluster string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for cluster := range s.agents {
		if !exists(cluster) {
			delete(s.agents, cluster)
			delete(s.pending, cluster)
			delete(s.tokens, cluster)
			delete(s.lost, cluster)
		}
	}
	maps.DeleteFunc(s.wanted, func(cluster string, _ bool) bool { return !exists(cluster) })
}
