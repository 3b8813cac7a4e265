package catalog

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// State is one word over a service's three truths.
type State string

// The states.
const (
	Pending     State = "pending"
	Progressing State = "progressing"
	Healthy     State = "healthy"
	Degraded    State = "degraded"
	Failed      State = "failed"
	Unknown     State = "unknown"
	Held        State = "held"
	Waiting     State = "waiting"
	Differs     State = "differs"
)

// judge returns a service's state, what is behind it and what to do, and since when.
//
// The order matters. A cluster that was connected and is not any more comes first: disconnected is
// never green, whatever was said before. Then what keeps Git's commit from reaching the cluster, on
// its way: Git, hub, cluster. A source that can't be polled while its last commit is delivered is no
// failure of the service: the message says that it is served from the cache, and since when.
func judge(s Service, cluster Cluster, now time.Time) (State, string, time.Time) {
	state, message, since := verdict(s, cluster, now)
	if p := s.Status.Git.Problem; p != nil && s.Status.Git.Head != nil {
		message = join(message, fmt.Sprintf("Git can't be asked since %s, so this is from the cache: %s", clock(p.Since), p.Message))
	}
	if p := s.Status.Hub.Problem; p != nil && state != Failed {
		message = join(message, "Hub: "+p.Message)
	}
	return state, message, since
}

func verdict(s Service, cluster Cluster, now time.Time) (State, string, time.Time) {
	git, hub, status := s.Status.Git, s.Status.Hub, cluster.Status
	switch {
	case !status.LastSeen.IsZero() && !status.Connected:
		return Unknown, fmt.Sprintf("Cluster %q is not connected: its agent was last seen %s ago, at %s%s. Check that the agent runs and reaches the hub.",
			cluster.Meta.Name, age(now.Sub(status.LastSeen)), clock(status.LastSeen), said(s.Status.Cluster.Report)), status.LastSeen
	case git.Head == nil && git.Problem != nil:
		return Failed, stays("Nothing could be fetched: "+git.Problem.Message, s.Status.Cluster.Report), git.Problem.Since
	case git.Head == nil:
		return Pending, fmt.Sprintf("Source %q has not been fetched at this ref yet.", s.Spec.Source), s.Meta.UpdateTime
	case hub.Problem != nil:
		return Failed, stays(hub.Problem.Message, s.Status.Cluster.Report), hub.Problem.Since
	case s.Status.ConfigProblem != nil:
		return Failed, stays("Its configuration can't be delivered: "+s.Status.ConfigProblem.Message, s.Status.Cluster.Report), s.Status.ConfigProblem.Since
	case hub.Digest == "":
		return Pending, fmt.Sprintf("%s is fetched; no distributor has picked it up yet.", short(git.Head.Revision.Commit)), git.Head.FetchTime
	case status.JoinTime.IsZero() && status.LastSeen.IsZero():
		return Pending, fmt.Sprintf("Cluster %q has no agent yet: run `fairlead cluster join-token %s`.", cluster.Meta.Name, cluster.Meta.Name), cluster.Meta.CreateTime
	case status.LastSeen.IsZero():
		return Pending, fmt.Sprintf("The agent of cluster %q joined at %s and has not asked for work yet. Check that it runs and reaches a distributor.",
			cluster.Meta.Name, clock(status.JoinTime)), status.JoinTime
	case hub.Revision.Commit != git.Head.Revision.Commit:
		return Progressing, fmt.Sprintf("%s is fetched; the hub still hands out %s.", short(git.Head.Revision.Commit), cmp.Or(short(hub.Revision.Commit), "what was before")), git.Head.FetchTime
	}
	return applied(s)
}

// applied is the verdict over what a connected cluster says about what the hub hands to it.
func applied(s Service) (State, string, time.Time) {
	hub, r := s.Status.Hub, s.Status.Cluster.Report
	commit := short(hub.Revision.Commit)
	if r == nil {
		return Progressing, fmt.Sprintf("%s is ready; the cluster has not reported yet.", commit), hub.ResolveTime
	}
	since := r.ObservedTime
	if since.IsZero() {
		since = s.Status.Cluster.ReceiveTime
	}
	if r.Digest != hub.Digest {
		message := fmt.Sprintf("%s is ready; the cluster reports on %s still.", commit, cmp.Or(short(r.Commit), "nothing"))
		if r.Phase == PhaseFailed {
			message = join(message, "That failed: "+r.Message)
		}
		return Progressing, message, hub.ResolveTime
	}
	switch r.Phase {
	case PhaseFailed:
		return Failed, stays(cmp.Or(r.Message, fmt.Sprintf("%s could not be applied.", commit)), r), since
	case PhaseDegraded:
		return Degraded, cmp.Or(r.Message, fmt.Sprintf("%d of %d objects are healthy.", r.ObjectsHealthy, r.ObjectsTotal)), since
	case PhaseHealthy:
		if r.AppliedDigest == hub.Digest {
			return Healthy, join(fmt.Sprintf("%s is applied; %d objects are healthy.", commit, r.ObjectsTotal), r.Message), since
		}
	case PhaseHeld:
		return Held, cmp.Or(r.Message, fmt.Sprintf("%s is not applied, on purpose.", commit)), since
	case PhaseWaiting:
		return Waiting, cmp.Or(r.Message, fmt.Sprintf("%s is not applied yet.", commit)), since
	case PhaseDiffers:
		return Differs, join(cmp.Or(r.Message, "The cluster differs from Git."), fmt.Sprintf("See `fairlead diff service %s`.", s.Meta.Name)), since
	case PhaseRemoved:
		return Progressing, "The cluster removed it, and will apply it again when it next syncs.", since
	}
	return Progressing, cmp.Or(r.Message, fmt.Sprintf("%s is being applied: %d of %d objects are healthy.", commit, r.ObjectsHealthy, r.ObjectsTotal)), since
}

// stays tells what a failure leaves applied.
func stays(message string, r *Report) string {
	if r == nil || r.AppliedCommit == "" {
		return message
	}
	return join(message, short(r.AppliedCommit)+" stays applied.")
}

// said is what a cluster that is gone said last.
func said(r *Report) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("; it said then: %s at %s", r.Phase, cmp.Or(short(r.AppliedCommit), "no commit"))
}

func join(a, b string) string {
	return strings.TrimSpace(a + " " + b)
}

// short is as much of a commit id as people read.
func short(commit string) string {
	return commit[:min(len(commit), 8)]
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// age is a duration in one unit.
func age(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
