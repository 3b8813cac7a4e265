package state

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"fairlead.dev/platform/plural"
)

func sayAway(s *Service, cluster *Cluster, now time.Time) string {
	seen := cluster.Status.LastSeen
	if left := cluster.Status.LeaveTime; !left.IsZero() {
		return fmt.Sprintf("Cluster %q left at %s%s. It keeps what it has applied, and gets nothing new until an agent joins again: run `fairlead cluster join-token %s`.",
			cluster.Meta.Name, clock(left), said(s.Status.Cluster.Report), cluster.Meta.Name)
	}
	return fmt.Sprintf("Cluster %q is not connected: its agent was last seen %s ago, at %s%s. Check that the agent runs and reaches the hub.",
		cluster.Meta.Name, age(now.Sub(seen)), clock(seen), said(s.Status.Cluster.Report))
}

func sayNotFetched(s *Service, _ *Cluster, _ time.Time) string {
	return stays("Nothing could be fetched: "+s.FollowedTruth().Problem.Message, s.Status.Cluster.Report)
}

func sayNoHead(s *Service, _ *Cluster, _ time.Time) string {
	return fmt.Sprintf("Source %q has not been fetched at this ref yet.", s.Spec.Source)
}

func sayHubProblem(s *Service, _ *Cluster, _ time.Time) string {
	return stays(s.Status.Hub.Problem.Message, s.Status.Cluster.Report)
}

func sayConfigProblem(s *Service, _ *Cluster, _ time.Time) string {
	return stays("Its configuration can't be delivered: "+s.Status.ConfigProblem.Message, s.Status.Cluster.Report)
}

func sayNotResolved(s *Service, _ *Cluster, _ time.Time) string {
	return Short(s.FollowedTruth().Head.Revision.Commit) + " is fetched; no distributor has picked it up yet."
}

func sayNoAgent(_ *Service, cluster *Cluster, _ time.Time) string {
	return fmt.Sprintf("Cluster %q has no agent yet: run `fairlead cluster join-token %s`.", cluster.Meta.Name, cluster.Meta.Name)
}

func sayJoined(_ *Service, cluster *Cluster, _ time.Time) string {
	return fmt.Sprintf("The agent of cluster %q joined at %s and has not asked for work yet. Check that it runs and reaches a distributor.",
		cluster.Meta.Name, clock(cluster.Status.JoinTime))
}

func sayBehind(s *Service, _ *Cluster, _ time.Time) string {
	return fmt.Sprintf("%s is fetched; the hub still hands out %s.",
		Short(s.FollowedTruth().Head.Revision.Commit), cmp.Or(Short(s.Status.Hub.Revision.Commit), "what was before"))
}

func sayNoReport(s *Service, _ *Cluster, _ time.Time) string {
	if s.Spec.Catalog {
		return delivered(s) + " is ready; it is not in the catalog yet."
	}
	return delivered(s) + " is ready; the cluster has not reported yet."
}

func sayOlderReport(s *Service, _ *Cluster, _ time.Time) string {
	r := s.Status.Cluster.Report
	message := fmt.Sprintf("%s is ready; the %s still reports on %s.", delivered(s), s.Spec.destination(), cmp.Or(Short(r.Commit), "nothing"))
	if r.Phase == PhaseFailed {
		message = join(message, "That failed: "+r.Message)
	}
	return message
}

func sayFailed(s *Service, _ *Cluster, _ time.Time) string {
	r := s.Status.Cluster.Report
	return stays(cmp.Or(r.Message, delivered(s)+" could not be applied."), r)
}

func sayDegraded(s *Service, _ *Cluster, _ time.Time) string {
	r := s.Status.Cluster.Report
	return cmp.Or(r.Message, fmt.Sprintf("%s %s healthy.", plural.Part(r.ObjectsHealthy, r.ObjectsTotal, "object"), plural.Are(r.ObjectsTotal)))
}

func sayHealthy(s *Service, _ *Cluster, _ time.Time) string {
	r := s.Status.Cluster.Report
	if s.Spec.Catalog {
		return join(fmt.Sprintf("%s is applied; its %s %s in the catalog.", delivered(s),
			plural.Of(r.ObjectsTotal, "resource"), plural.Are(r.ObjectsTotal)), r.Message)
	}
	return join(fmt.Sprintf("%s is applied; %s %s healthy.", delivered(s), plural.Of(r.ObjectsTotal, "object"), plural.Are(r.ObjectsTotal)), r.Message)
}

func sayHeld(s *Service, _ *Cluster, _ time.Time) string {
	return cmp.Or(s.Status.Cluster.Report.Message, delivered(s)+" is not applied, on purpose.")
}

func sayWaiting(s *Service, _ *Cluster, _ time.Time) string {
	return cmp.Or(s.Status.Cluster.Report.Message, delivered(s)+" is not applied yet.")
}

func sayDiffers(s *Service, _ *Cluster, _ time.Time) string {
	if s.Spec.Catalog {
		return s.Status.Cluster.Report.Message
	}
	return join(cmp.Or(s.Status.Cluster.Report.Message, "The cluster differs from Git."), fmt.Sprintf("See `fairlead diff service %s`.", s.Meta.Name))
}

func sayRemoved(*Service, *Cluster, time.Time) string {
	return "The cluster removed it, and will apply it again when it next syncs."
}

func sayApplying(s *Service, _ *Cluster, _ time.Time) string {
	r := s.Status.Cluster.Report
	return cmp.Or(r.Message, fmt.Sprintf("%s is being applied: %s %s healthy.", delivered(s),
		plural.Part(r.ObjectsHealthy, r.ObjectsTotal, "object"), plural.Are(r.ObjectsTotal)))
}

// destination is where the folder goes.
func (s *ServiceSpec) destination() string {
	if s.Catalog {
		return "catalog"
	}
	return "cluster"
}

// delivered is the commit that the hub hands out.
func delivered(s *Service) string { return Short(s.Status.Hub.Revision.Commit) }

// stays tells what a failure leaves applied.
func stays(message string, r *Report) string {
	if r == nil || r.AppliedCommit == "" {
		return message
	}
	if strings.Contains(message, "stays applied") { // the agent has said so
		return message
	}
	return join(message, Short(r.AppliedCommit)+" stays applied.")
}

// said is what a cluster that is gone said last.
func said(r *Report) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("; it said then: %s at %s", r.Phase, cmp.Or(Short(r.AppliedCommit), "no commit"))
}

// join puts two sentences behind each other; the first may lack its full stop, as what others say does.
func join(a, b string) string {
	a, b = strings.TrimSpace(a), strings.TrimSpace(b)
	if a == "" || b == "" {
		return a + b
	}
	if !strings.ContainsAny(a[len(a)-1:], ".?!:;") {
		a += "."
	}
	if strings.Contains(a, "\n") { // a line for each sentence
		return a + "\n" + b
	}
	return a + " " + b
}

// Short is as much of a commit id as people read.
func Short(commit string) string {
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
