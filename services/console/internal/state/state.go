// Package state is what the console knows of sources, clusters and services: what people say of them, the three truths
// about a service (where its ref points in Git, what the hub hands out, what the cluster reports), and the one word
// over these, with the sentence behind it.
//
// State reads and judges; catalog writes what people say, and intake what the hub and clusters say. The JSON of the
// specs and statuses is what the store keeps. A service is kept as its spec in force: levers.go takes it apart into
// what files say, levers and requests, and puts it together.
package state

import (
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
	v := verdictOn(&s, &cluster)
	message := v.message(&s, &cluster, now)
	if git := s.FollowedTruth(); git.Problem != nil && git.Head != nil {
		problem := git.Problem.Message
		isSaid := strings.Contains(message, strings.TrimPrefix(problem, fmt.Sprintf("source %q: ", s.Spec.Source)))
		if git.Problem.IsWhole() {
			since := clock(git.Problem.Since)
			problem = fmt.Sprintf("Nothing new can be fetched since %s, so this is from the cache: %s", since, problem)
		}
		if !isSaid { // a gitcache gives the problem of its source as the reason
			message = join(message, problem)
		}
	}
	if p := s.Status.Hub.Problem; p != nil && v.state != Failed {
		message = join(message, "Hub: "+p.Message)
	}
	return v.state, message, v.since
}

// verdict is a state, since when, and what to say of it to those who read it.
type verdict struct {
	state   State
	since   time.Time
	message message
}

type message func(s *Service, cluster *Cluster, now time.Time) string

func verdictOn(s *Service, cluster *Cluster) verdict {
	git, hub, status := s.FollowedTruth(), &s.Status.Hub, &cluster.Status
	switch {
	case !status.LastSeen.IsZero() && !status.Connected:
		return verdict{Unknown, status.LastSeen, sayAway}
	case git.Head == nil && git.Problem != nil:
		return verdict{Failed, git.Problem.Since, sayNotFetched}
	case git.Head == nil:
		return verdict{Pending, s.Meta.UpdateTime, sayNoHead}
	case hub.Problem != nil:
		return verdict{Failed, hub.Problem.Since, sayHubProblem}
	case s.Status.ConfigProblem != nil:
		return verdict{Failed, s.Status.ConfigProblem.Since, sayConfigProblem}
	case hub.Digest == "":
		return verdict{Pending, git.Head.FetchTime, sayNotResolved}
	case s.Spec.Catalog && hub.Revision.Commit == git.Head.Revision.Commit:
		return applied(s)
	case s.Spec.Catalog:
		return verdict{Progressing, git.Head.FetchTime, sayBehind}
	case status.JoinTime.IsZero() && status.LastSeen.IsZero():
		return verdict{Pending, later(cluster.Meta.CreateTime, s.Meta.UpdateTime), sayNoAgent}
	case status.LastSeen.IsZero():
		return verdict{Pending, status.JoinTime, sayJoined}
	case hub.Revision.Commit != git.Head.Revision.Commit:
		return verdict{Progressing, git.Head.FetchTime, sayBehind}
	}
	return applied(s)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// applied is the verdict over what a connected cluster says about what the hub hands to it.
func applied(s *Service) verdict {
	hub, r := &s.Status.Hub, s.Status.Cluster.Report
	if r == nil {
		return verdict{Progressing, hub.ResolveTime, sayNoReport}
	}
	if !hub.reportedBy(r) {
		return verdict{Progressing, hub.ResolveTime, sayOlderReport}
	}
	since := r.ObservedTime
	if since.IsZero() {
		since = s.Status.Cluster.ReceiveTime
	}
	switch r.Phase {
	case PhaseFailed:
		return verdict{Failed, since, sayFailed}
	case PhaseDegraded:
		return verdict{Degraded, since, sayDegraded}
	case PhaseHealthy:
		if hub.appliedBy(r) {
			return verdict{Healthy, since, sayHealthy}
		}
	case PhaseHeld:
		return verdict{Held, since, sayHeld}
	case PhaseWaiting:
		return verdict{Waiting, since, sayWaiting}
	case PhaseDiffers:
		return verdict{Differs, since, sayDiffers}
	case PhaseRemoved:
		return verdict{Progressing, since, sayRemoved}
	}
	return verdict{Progressing, since, sayApplying}
}
