// Package rpc is the agents' side of the distributor: it decodes, asks the domain, and maps errors.
package rpc

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/agentconfig"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/artifact/ticket"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/retry"
	"fairlead.dev/services/distributor/internal/configs"
	"fairlead.dev/services/distributor/internal/hold"
	"fairlead.dev/services/distributor/internal/nudge"
	"fairlead.dev/services/distributor/internal/observe"
	"fairlead.dev/services/distributor/internal/plan"
	"fairlead.dev/services/distributor/internal/status"
)

// Deps of Delivery.
type Deps struct {
	Plan *plan.Plan
	// Stale says whether the catalog that the plan follows may be behind.
	Stale func() (since time.Time, stale bool)
	// Confirmed is when the console last said that there is nothing newer than that catalog.
	Confirmed func() time.Time
	Nudges    *nudge.Nudger
	// Hold keeps what the catalog may have forgotten.
	Hold    *hold.Gate
	Configs *configs.Cache
	Reports *status.Reports
	Seen    *status.Seen
	Metrics *observe.Metrics
	// NextPoll is the mean time between two polls of an agent, when there is no pressure.
	NextPoll time.Duration
	// Pressure is how busy this process is, from 0 to 1.
	Pressure func() float64
	// Tickets are for the artifacts of what is delivered.
	Tickets ticket.Signer
	Log     *slog.Logger
}

// configBytes bounds the configurations in one answer.
const configBytes = 4 << 20

// Delivery implements DeliveryService.
type Delivery struct {
	deps   Deps
	claims claims
	syncs  *class
	opens  *class // of Watch streams, while the first message is found
}

// NewDelivery returns the handler.
func NewDelivery(d Deps) *Delivery {
	return &Delivery{
		deps:   d,
		claims: claims{of: map[string]claim{}},
		syncs:  newClass(syncsAtOnce, syncsWaiting, syncsPatience, d.Metrics.Away.WithLabelValues("sync").Inc),
		opens:  newClass(opensAtOnce, opensWaiting, 0, d.Metrics.Away.WithLabelValues("watch").Inc),
	}
}

var errNoAgent = connect.NewError(connect.CodePermissionDenied, errors.New("only agents have services delivered"))

// Sync implements DeliveryService.
func (d *Delivery) Sync(ctx context.Context, req *deliveryv1.SyncRequest) (*deliveryv1.SyncResponse, error) {
	cluster, ok := identity.Cluster(ctx)
	if !ok {
		return nil, errNoAgent
	}
	enter := d.syncs.enter
	if req.GetNudged() != 0 {
		enter = d.syncs.enterUrgent
	}
	defer d.deps.Nudges.Asked(cluster)
	if err := enter(ctx); err != nil {
		return nil, err
	}
	defer d.syncs.leave()
	if req.GetAgentConfig().GetStandsBy() {
		return d.standBy(ctx, cluster, req)
	}
	has := have(req.GetHave())
	behind := d.behind() // before the plan is looked at: what it says after is no older
	wanted := d.wanted(cluster)
	diff, claimed, err := d.compare(cluster, req, has)
	switch {
	case err != nil:
	case behind:
		diff = diff.Lacking(has)
	default:
		diff = d.deps.Hold.Pass(cluster, diff, claimed)
	}
	if err != nil {
		d.deps.Metrics.Syncs.WithLabelValues(result(diff, err)).Inc()
		return nil, toConnect(err, cluster)
	}
	configured, missing := d.configure(ctx, &diff, has)
	d.deps.Metrics.Syncs.WithLabelValues(result(diff, nil)).Inc()
	var config *deliveryv1.AgentConfigDelivery // of an agent that may have a newer one: unknown
	var sets *deliveryv1.ViewSetDelivery       // as config
	if !diff.Ahead {
		config, sets = d.deps.Plan.AgentConfig(cluster), d.deps.Plan.ViewSets(cluster)
	}
	now, wait := time.Now(), d.untilPoll(config, req.GetAgentConfig())
	switch {
	case missing || diff.Behind:
		wait = retry.Spread(min(soon, d.deps.NextPoll))
	case diff.Pending:
		wait = retry.Spread(min(d.pendingPoll(), d.deps.NextPoll))
	case diff.Ahead:
		wait = retry.Spread(min(believed, d.deps.NextPoll)) // its configuration waits
	}
	if diff.Behind || missing && diff.Revision <= req.GetRevision() {
		diff.Revision = 0 // the agent keeps the one that it has seen
	}
	by, _ := identity.FromContext(ctx) // as above
	d.deps.Seen.Polled(by, now, now.Add(wait), req)
	resp := &deliveryv1.SyncResponse{
		NextPoll: durationpb.New(wait), Revision: diff.Revision,
		ViewWanted: req.GetView() != nil && d.deps.Seen.ViewWanted(cluster),
	}
	if !behind {
		resp.AgentConfig, resp.ViewSets = newConfig(config, req), newSets(sets, req)
	}
	switch {
	case diff.None:
		nothing := &deliveryv1.NotModified{}
		// An agent that asks more often than it hears something goes on so.
		if diff.Same && !diff.Ahead && !diff.Pending && wait > nudge.Beat &&
			resp.AgentConfig == nil && resp.ViewSets == nil && !resp.GetViewWanted() {
			nothing.Wanted = wanted
		}
		resp.Result = &deliveryv1.SyncResponse_NotModified{NotModified: nothing}
	case diff.HaveWanted:
		resp.Result = &deliveryv1.SyncResponse_HaveWanted{HaveWanted: &deliveryv1.HaveWanted{}}
	default:
		resp.Result = &deliveryv1.SyncResponse_Changes{Changes: d.changes(ctx, cluster, diff, configured)}
		resp.ProgressHold = d.progressHold()
	}
	return resp, nil
}

// standBy answers an agent that stands by: it gets its configuration alone.
func (d *Delivery) standBy(ctx context.Context, cluster string, req *deliveryv1.SyncRequest) (*deliveryv1.SyncResponse, error) {
	if _, _, err := d.deps.Plan.Changed(cluster); err != nil {
		return nil, toConnect(err, cluster)
	}
	behind := d.behind() // before the plan is looked at, as in Sync
	config := d.deps.Plan.AgentConfig(cluster)
	now, wait := time.Now(), d.untilPoll(config, req.GetAgentConfig())
	by, _ := identity.FromContext(ctx)
	d.deps.Seen.Polled(by, now, now.Add(wait), req)
	resp := &deliveryv1.SyncResponse{
		NextPoll: durationpb.New(wait), Result: &deliveryv1.SyncResponse_NotModified{NotModified: &deliveryv1.NotModified{}},
	}
	if !behind {
		resp.AgentConfig = newConfig(config, req)
	}
	return resp, nil
}

// newConfig is a configuration if an agent takes it and was not sent it last.
func newConfig(config *deliveryv1.AgentConfigDelivery, req *deliveryv1.SyncRequest) *deliveryv1.AgentConfigDelivery {
	if config.GetDigest() == req.GetAgentConfig().GetWanted() || !takesConfig(req) {
		return nil
	}
	return config
}

// newSets are sets of a view if an agent keeps such, and others.
func newSets(sets *deliveryv1.ViewSetDelivery, req *deliveryv1.SyncRequest) *deliveryv1.ViewSetDelivery {
	if sets.GetDigest() == req.GetViewSets() || !slices.Contains(req.GetAgent().GetCapabilities(), deliveryv1.AgentCapability_AGENT_CAPABILITY_VIEW_SETS) {
		return nil
	}
	return sets
}

// behind says whether agents may know of something newer than the plan.
func (d *Delivery) behind() bool {
	_, stale := d.deps.Stale()
	return stale || !d.deps.Plan.Current()
}

// wanted names what there is for the agent of a cluster, if a poll would bring nothing else; 0: it might.
func (d *Delivery) wanted(cluster string) uint64 {
	if d.behind() || d.deps.Seen.IsViewWanted(cluster) {
		return 0
	}
	return d.deps.Plan.Wanted(cluster)
}

func have(list []*deliveryv1.ServiceDigest) map[string]string {
	if len(list) == 0 {
		return nil
	}
	m := make(map[string]string, len(list))
	for _, s := range list {
		m[s.GetService()] = s.GetDigest()
	}
	return m
}

// configure gets the configurations of what has changed. A service that has none yet is left out: the agent keeps what
// it has, and asks again soon. With the answer the agent sees no later change than the service can be delivered after.
// If one that the agent lacks comes with a later answer, removals wait for that: the service may be a removed one under
// another name, whose objects go over to it if the agent hears of both at once. A configuration that the console does
// not give keeps no removal back.
func (d *Delivery) configure(
	ctx context.Context, diff *plan.Difference, has map[string]string,
) (found map[string]*deliveryv1.Configuration, missing bool) {
	var wanted []configs.Key
	for _, s := range diff.Changed {
		if s.Config != "" {
			wanted = append(wanted, configs.Key{Service: s.UID, Revision: s.Config})
		}
	}
	if len(wanted) == 0 {
		return nil, false
	}
	found, answered := d.deps.Configs.Get(ctx, wanted)
	size, later := 0, !answered
	for _, key := range wanted {
		if size += proto.Size(found[key.Service]); size > configBytes && len(found) > 1 {
			delete(found, key.Service) // the rest comes with the next answer
			later = true
		}
	}
	if len(found) == len(wanted) {
		return found, false
	}
	diff.Changed = slices.DeleteFunc(slices.Clone(diff.Changed), func(s *plan.Delivery) bool {
		out := s.Config != "" && found[s.UID] == nil
		if out {
			diff.Revision = min(diff.Revision, s.Good)
			if _, had := has[s.Service]; later && !had {
				diff.Removed = nil
			}
		}
		return out
	})
	diff.None = len(diff.Changed)+len(diff.Removed) == 0
	return found, true
}

func (d *Delivery) changes(ctx context.Context, cluster string, diff plan.Difference, configured map[string]*deliveryv1.Configuration) *deliveryv1.Changes {
	by, _ := identity.FromContext(ctx)
	ticket, err := d.deps.Tickets.For(by.ClusterUID)
	if err != nil {
		// Delivery works without tickets, as long as distributors give out the artifacts themselves.
		d.deps.Log.WarnContext(ctx, "services are delivered without tickets for gitcaches", "err", err)
		ticket = func(artifact.Digest) string { return "" }
	}
	out := &deliveryv1.Changes{Removed: diff.Removed}
	for _, s := range diff.Changed {
		one := &deliveryv1.ServiceDelivery{}
		_ = proto.Unmarshal([]byte(s.Options), one) // ours
		one.Name, one.Digest, one.ContentDigest, one.Namespace, one.Source, one.Path = s.Service, s.Digest, s.Content, s.Namespace, s.Want.Source, s.Want.Path
		one.Revision, one.Artifact, one.Ticket = status.Revision(s.Revision), status.Artifact(s.Artifact), ticket(s.Artifact.Digest)
		one.Revision.Traceparent = d.deps.Nudges.Thin(s.Revision.Traceparent, cluster)
		one.Configuration = configured[s.UID]
		out.Services = append(out.Services, one)
	}
	return out
}

// result is the metric's label for an answer.
func result(diff plan.Difference, err error) string {
	switch {
	case errors.Is(err, plan.ErrUnknownCluster):
		return "unknown_cluster"
	case err != nil:
		return "not_ready"
	case diff.None:
		return "not_modified"
	case diff.HaveWanted:
		return "have_wanted"
	}
	return "changes"
}

// takesConfig tells whether an agent can be configured.
func takesConfig(req *deliveryv1.SyncRequest) bool {
	return slices.Contains(req.GetAgent().GetCapabilities(), deliveryv1.AgentCapability_AGENT_CAPABILITY_CONFIG)
}

// untilPoll is when an agent asks again that hears no nudge, by the configuration that it has in force.
func (d *Delivery) untilPoll(config *deliveryv1.AgentConfigDelivery, is *deliveryv1.AgentConfigState) time.Duration {
	mean := d.nextPoll()
	if config.GetDigest() == "" || is.GetInForce() != config.GetDigest() {
		return retry.Spread(mean)
	}
	s := agentconfig.Merge(config.GetLayers())
	mean = max(mean, s.PollInterval)
	part := mean * time.Duration(max(s.PollJitter, usualJitter)) / 100
	from, to := mean-part, min(mean+part, max(mean, longest))
	return retry.Between(from, to)
}

const (
	// usualJitter is how far polls are spread, in percent of their mean.
	usualJitter = 10
	// longest is an interval with its spread, whatever layers come to together: the agent adds up to a tenth, and after
	// 5m of silence the hub takes a cluster for away.
	longest = 4*time.Minute + 5*time.Second
)

// nextPoll is the mean time to the next poll: up to twice as long while this process is busy. Nudges come all the
// same.
func (d *Delivery) nextPoll() time.Duration {
	return time.Duration(float64(d.deps.NextPoll) * (1 + d.deps.Pressure()))
}

// pendingPoll is the mean time until an agent asks again of whose services some are being built. While this process is
// busy, as when a fleet comes all at once, that is longer: what is ready reaches the agent by a nudge, and a question
// before that is in vain.
func (d *Delivery) pendingPoll() time.Duration {
	return time.Duration(float64(soon) * (1 + pendingGrows*d.deps.Pressure()))
}

// longestHold is how long agents keep progress back at most: people look at what stands for longer.
const longestHold = 15 * time.Second

// progressHold is how long an agent keeps progress back that it is going to make: while more is reported than the
// console writes, most of it would be overtaken in the line. nil: as usual.
func (d *Delivery) progressHold() *durationpb.Duration {
	hold := max(d.deps.Reports.Takes(), time.Duration(d.deps.Pressure()*float64(longestHold)))
	if hold < time.Second {
		return nil
	}
	return durationpb.New(min(hold, longestHold))
}

// Report implements DeliveryService.
func (d *Delivery) Report(ctx context.Context, req *deliveryv1.ReportRequest) (*deliveryv1.ReportResponse, error) {
	cluster, ok := identity.Cluster(ctx)
	if !ok {
		return nil, errNoAgent
	}
	acks, err := d.deps.Reports.Record(ctx, cluster, req.GetReports())
	n := float64(len(req.GetReports()))
	if err != nil {
		d.deps.Metrics.Reports.WithLabelValues("failed").Add(n)
		if errors.Is(err, status.ErrBusy) {
			d.deps.Metrics.Away.WithLabelValues("report").Inc()
		}
		return nil, reportError(err, func() time.Duration { return d.deps.Reports.PutOff(cluster) })
	}
	d.deps.Metrics.Reports.WithLabelValues("durable").Add(n)
	d.deps.Seen.Mark(cluster, time.Now())
	return &deliveryv1.ReportResponse{Acknowledged: acks}, nil
}
