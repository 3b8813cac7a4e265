package state

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"fairlead.dev/services/console/internal/store"
)

// The state that is derived of an essence is the state of the service that is read again.
func TestEssenceJudgesLikeTheWhole(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		moment := func(name string) time.Time {
			if !rapid.Bool().Draw(t, name+" known") {
				return time.Time{}
			}
			return now.Add(-time.Duration(rapid.IntRange(0, 600).Draw(t, name)) * time.Second)
		}
		problem := func(name string) *Problem {
			if !rapid.Bool().Draw(t, name) {
				return nil
			}
			return &Problem{Message: name, Since: moment(name)}
		}
		pick := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
		source := Source{Status: SourceStatus{Problem: problem("git")}}
		if rapid.Bool().Draw(t, "fetched") {
			source.Status.Heads = []Head{{
				Ref: "refs/heads/main", Revision: Revision{Commit: pick("head", "a", "b")},
				FetchTime: moment("fetch"),
			}}
		}
		cluster := Cluster{
			Meta: Meta{Name: "edge", CreateTime: now.Add(-time.Hour)},
			Status: ClusterStatus{
				JoinTime: moment("join"), LastSeen: moment("seen"),
				Connected: rapid.Bool().Draw(t, "connected"),
			},
		}
		s := Service{Meta: Meta{UpdateTime: now.Add(-time.Minute)}, Spec: ServiceSpec{Source: "shop", Ref: "main"}}
		s.Status.ConfigProblem = problem("config")
		s.Status.Hub = HubTruth{
			Source: "uid", Ref: "refs/heads/main", Digest: pick("digest", "", "d1", "d2"),
			Revision: Revision{Commit: pick("hub", "a", "b")}, ResolveTime: moment("resolve"), Problem: problem("hub"),
		}
		if rapid.Bool().Draw(t, "reported") {
			s.Status.Cluster = ClusterTruth{ReceiveTime: now, Report: &Report{
				Phase: Phase(pick("phase", string(PhaseHealthy), string(PhaseFailed), string(PhaseDegraded),
					string(PhaseHeld), string(PhaseWaiting), string(PhaseDiffers), string(PhaseRemoved), "")),
				Digest: pick("reports", "d1", "d2"), AppliedDigest: pick("applied", "", "d1", "d2"),
				ObservedTime: moment("observed"),
			}}
		}
		essence := s.Essence()
		if is := s.Status.Cluster.Report; is != nil {
			is.Sequence = 2
			essence = s.Essence()
			before := s
			before.Status.Cluster = ClusterTruth{}
			if rapid.Bool().Draw(t, "reported before") {
				before.Status.Cluster.Report = &Report{
					Sequence: 1, Phase: PhaseHealthy, Digest: "d1", AppliedDigest: "d1", ObservedTime: now,
				}
			}
			told := before.Essence()
			if !told.Report(store.Report{Sequence: 2, ReceiveTime: now, Value: is}) || told != essence {
				t.Fatalf("told %+v, read %+v", told, essence)
			}
		}
		said := store.Hub{Value: new(s.Status.Hub)}
		refs := map[store.HubRef]RefHub{}
		if rapid.Bool().Draw(t, "of its ref") {
			s.Status.Hub.Revision = Revision{}
			said.Value = new(s.Status.Hub)
			if rapid.Bool().Draw(t, "that is known") {
				at := moment("resolve of the ref")
				refs[store.HubRef{Source: "uid", Ref: "refs/heads/main"}] = RefHub{Revision: Revision{Commit: "c"}, ResolveTime: at}
			}
			s.Status.Hub.take(refs)
			essence = s.Essence()
		}
		before := s
		before.Status.Hub = HubTruth{Digest: pick("digest before", "", "d1", "d2"), Revision: Revision{Commit: "a"}, Problem: problem("hub before")}
		told := before.Essence()
		if !told.Hub(said, refs) || told != essence {
			t.Fatalf("told %+v, read %+v", told, essence)
		}
		s.Status.Git = GitTruthOf(&source, s.Spec.EffectiveRef())
		want, _, since := judge(s, cluster, now)
		if got, at := essence.Judge(&source, &cluster, s.Meta.UpdateTime); got != want || !at.Equal(since) {
			t.Fatalf("derived %s since %s, read %s since %s", got, at, want, since)
		}
	})
}

func TestEssenceFollowsTheRef(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	source := Source{Status: SourceStatus{Heads: []Head{{Ref: "refs/heads/main", Revision: Revision{Commit: "b"}, FetchTime: now}}}}
	cluster := Cluster{Status: ClusterStatus{LastSeen: now, Connected: true}}
	s := Service{Spec: ServiceSpec{Ref: "main"}}
	s.Status.Hub = HubTruth{Source: "uid", Ref: "refs/heads/main", Digest: "d", ResolveTime: now}
	s.Status.Cluster.Report = &Report{Phase: PhaseHealthy, Digest: "d", AppliedDigest: "d", ObservedTime: now}
	essence := s.Essence()
	if state, _ := essence.Judge(&source, &cluster, now); state != Progressing {
		t.Errorf("%s before the hub hands the commit out", state)
	}
	if essence.Follow(map[store.HubRef]RefHub{{Source: "uid", Ref: "refs/heads/other"}: {Revision: Revision{Commit: "b"}}}) {
		t.Error("it followed another ref")
	}
	if !essence.Follow(map[store.HubRef]RefHub{{Source: "uid", Ref: "refs/heads/main"}: {Revision: Revision{Commit: "b"}}}) {
		t.Error("it did not follow its ref")
	}
	if state, _ := essence.Judge(&source, &cluster, now); state != Healthy {
		t.Errorf("%s when the hub hands the commit out", state)
	}
}

// The truth of a service alone does not tell whether a report on the same content under another digest is on it.
func TestEssenceReadsTheSameContentAgain(t *testing.T) {
	t.Parallel()
	essence := (&Service{}).Essence()
	if essence.Hub(store.Hub{Value: &HubTruth{Digest: "d", Revision: Revision{Commit: "a"}, Alike: []string{"c"}}}, nil) {
		t.Error("taken over")
	}
}
