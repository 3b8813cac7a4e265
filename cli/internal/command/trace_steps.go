package command

import (
	"cmp"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/plural"
)

// mark says how a step is.
type mark string

const (
	markOK    mark = "ok"
	markWait  mark = "wait"  // On its way, or not begun.
	markStale mark = "stale" // Served, and nothing newer can be had.
	markFail  mark = "FAIL"
	markHeld  mark = "held" // An operator pulled a lever.
	markNone  mark = "?"    // Nobody knows.
)

// step is one part of the way from a commit to objects.
type step struct {
	name    string
	mark    mark
	lines   []string
	objects []*deliveryv1.ObjectReport
	// cause is why it is not ok, and next what a person can do.
	cause, next string
	since       *timestamppb.Timestamp
}

func (t *trail) listSteps() []step {
	steps := []step{t.sourceStep(), t.commitStep()}
	if s, any := t.leversStep(); any {
		steps = append(steps, s)
	}
	steps = append(steps, t.hubStep(), t.deliveryStep(), t.clusterStep())
	if t.service.GetStatus().GetCluster().GetReport().GetTests().GetId() != "" {
		steps = append(steps, t.testsStep())
	}
	return steps
}

func (s *step) addLine(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// markWrong marks a step, with the cause as a line.
func (s *step) markWrong(v view, m mark, p *consolev1.Problem, next string) {
	s.mark, s.cause, s.since, s.next = m, p.GetMessage(), p.GetSince(), next
	s.addLine("%s", v.sinceText(p.GetMessage(), p.GetSince()))
}

func (t *trail) gitTruth() *consolev1.GitTruth { return t.service.GetStatus().GetGit() }
func (t *trail) fetchedCommit() string         { return t.gitTruth().GetRevision().GetCommit() }

// wantedCommit is the commit that is to be handed out: the pin, or else the newest one.
func (t *trail) wantedCommit() string {
	return cmp.Or(t.service.GetSpec().GetSync().GetPin(), t.fetchedCommit())
}

// sourceStep is who polls the repository, and whether it answers.
func (t *trail) sourceStep() step {
	name := catalog.SourceOf(t.service.GetSpec())
	s := step{name: "SOURCE", mark: markOK}
	s.addLine("%s", strings.TrimSpace(name+"  "+withoutUser(cmp.Or(t.live.GetUrl(), catalog.UpstreamOf(t.source.GetSpec()).URL))))
	switch l := t.live; {
	case l == nil:
		s.mark = markNone
		s.addLine("no gitcache says how it is (%s)", t.noLive)
		s.addLine("below is what the console heard last%s", t.ageText(t.gitTruth().GetFetchTime()))
	case l.GetOwner() == "":
		s.mark, s.cause, s.next = t.unlessFetched(markWait), "no gitcache fetches it right now", "wait some seconds, or see `fairlead shards`"
		s.addLine("%s", s.cause)
	case !isSet(l.GetLastPollTime()):
		s.addLine("fetched by %s, which has not polled it yet or does not answer", l.GetOwner())
	default:
		s.addLine("fetched by %s, polled %s, next %s", l.GetOwner(), t.agoText(l.GetLastPollTime()), cmp.Or(t.untilText(l.GetNextPollTime()), "when it is free"))
	}
	if p := t.sourceProblem(); p.GetMessage() != "" {
		s.markWrong(t.view, t.unlessFetched(markFail), p, fmt.Sprintf("put that right; `fairlead sources refresh %s` asks at once", name))
	}
	return s
}

// unlessFetched is m, but of a source whose last commit is served on.
func (t *trail) unlessFetched(m mark) mark {
	if t.fetchedCommit() != "" {
		return markStale
	}
	return m
}

// sourceProblem is what the gitcaches say now or else the console said last, if it is about our ref.
func (t *trail) sourceProblem() *consolev1.Problem {
	p := t.gitTruth().GetProblem()
	if l := t.live.GetProblem(); p == nil && l.GetMessage() != "" && len(l.GetRefs()) == 0 {
		p = l
	}
	if p.GetMessage() == "" {
		return nil
	}
	return &consolev1.Problem{Message: withoutName("source", catalog.SourceOf(t.service.GetSpec()), p.GetMessage()), Since: p.GetSince()}
}

// ageText is an age for the end of a line, if there is one.
func (t *trail) ageText(at *timestamppb.Timestamp) string {
	if age := t.agoText(at); age != "" {
		return ", " + age
	}
	return ""
}

// commitStep is what the ref points to.
func (t *trail) commitStep() step {
	spec := t.service.GetSpec()
	if len(spec.GetSources()) > 0 {
		return t.sourcesStep()
	}
	s := step{name: "COMMIT", mark: markOK}
	ref, r := cmp.Or(spec.GetRef(), "the default branch"), t.gitTruth().GetRevision()
	if spec.GetChart() != "" {
		s.name, ref = "CHART", followedRef(spec)
	}
	isArtifact := catalog.IsArtifacts(t.source.GetSpec())
	if isArtifact {
		s.name, ref = "ARTIFACT", cmp.Or(spec.GetRef(), "tag latest")
	}
	isBucket := catalog.IsBucket(t.source.GetSpec())
	if isBucket {
		s.name, ref = "CONTENT", cmp.Or(spec.GetRef(), "the bucket")
	}
	if r.GetCommit() == "" {
		s.mark, s.cause = markWait, fmt.Sprintf("nothing was fetched at %s yet", ref)
		s.next = fmt.Sprintf("`fairlead sources refresh %s` asks at once; `fairlead sources log %s` shows what is there", catalog.SourceOf(spec), catalog.SourceOf(spec))
		s.addLine("%s", s.cause)
		return s
	}
	age := ""
	if isSet(r.GetCommitTime()) {
		age = ", " + table.FormatAge(t.now, r.GetCommitTime().AsTime()) + " old"
	}
	author := authorText(r.GetAuthor())
	if spec.GetChart() != "" || isArtifact || isBucket {
		author = "" // a package names none
	}
	s.addLine("%s is %s%s: %q%s", ref, shortHash(r.GetCommit()), age, r.GetSubject(), author)
	h := headOf(t.source, catalog.RefOf(spec))
	fetched := "fetched" + strings.TrimPrefix(t.ageText(t.gitTruth().GetFetchTime()), ",")
	if h.GetResolvedRef() != "" && spec.GetChart() == "" {
		fetched += ", by tag " + catalog.ShowRef(h.GetResolvedRef())
	}
	if h.GetSignedBy() != "" {
		fetched += ", signed by " + h.GetSignedBy()
	}
	s.addLine("%s", fetched)
	return s
}

// sourcesStep is what several sources are together.
func (t *trail) sourcesStep() step {
	spec, r := t.service.GetSpec(), t.gitTruth().GetRevision()
	s := step{name: "SOURCES", mark: markOK}
	if r.GetCommit() == "" {
		s.mark, s.cause = markWait, "they were not put together yet"
		s.next = "`fairlead get sources` says which of them lacks something"
		s.addLine("%s", s.cause)
	} else {
		s.addLine("%s: %s, put together%s", shortHash(r.GetCommit()), r.GetSubject(), strings.TrimPrefix(t.ageText(t.gitTruth().GetFetchTime()), ","))
	}
	for _, of := range spec.GetSources() {
		s.addLine("%s is source %s at %s", of.GetName(), of.GetSource(), cmp.Or(catalog.ShowRef(catalog.RefOfPart(of)), "the default branch"))
	}
	return s
}

func authorText(author string) string {
	if author == "" {
		return ""
	}
	return " by " + author
}

// headOf is the head that a service's ref names.
func headOf(s *consolev1.Source, ref string) *consolev1.Head {
	for _, h := range s.GetStatus().GetHeads() {
		if h.GetRef() == cmp.Or(ref, "HEAD") || h.GetRef() == "refs/heads/"+ref {
			return h
		}
	}
	return nil
}

// hubStep is what distributors hand out.
func (t *trail) hubStep() step {
	truth := t.service.GetStatus().GetHub()
	s := step{name: "HUB", mark: markOK, since: t.gitTruth().GetFetchTime()}
	if truth.GetDigest() != "" {
		digest := shortHash(bareDigest(truth.GetDigest()))
		if commit := truth.GetRevision().GetCommit(); commit != "" { // no revision until the first answer for a head
			digest += " of " + shortHash(commit)
		}
		s.addLine("%s%s", digest, t.ageText(truth.GetResolveTime()))
		if a := truth.GetArtifact(); a.GetDigest() != "" {
			s.addLine("artifact %s, %s in %s", shortHash(bareDigest(a.GetDigest())), table.FormatBytes(a.GetSize()), plural.Of(a.GetFiles(), "file"))
		}
	}
	wait := "wait some seconds; if it stays, `fairlead check` says what is wrong with distributors"
	switch p := truth.GetProblem(); {
	case p.GetMessage() != "":
		words := withoutName("service", t.service.GetMetadata().GetName(), p.GetMessage())
		s.markWrong(t.view, markFail, &consolev1.Problem{Message: words, Since: p.GetSince()}, "put that right and push, or change the service")
	case t.wantedCommit() == "" && truth.GetDigest() == "":
		s.mark = markWait
		s.addLine("waits for a commit")
	case truth.GetDigest() == "":
		s.mark, s.cause, s.next = markWait, fmt.Sprintf("no distributor has picked %s up yet", shortHash(t.wantedCommit())), wait
		s.addLine("%s", s.cause)
	case truth.GetRevision().GetCommit() != t.wantedCommit():
		s.mark, s.cause, s.next = markWait, fmt.Sprintf("%s is fetched and not handed out yet", shortHash(t.wantedCommit())), wait
		s.addLine("%s", s.cause)
	}
	for _, text := range t.distributors {
		s.addLine("%s", text)
	}
	if t.noDistributors && s.mark == markOK {
		s.mark, s.cause, s.since = markStale, "no distributor answers, so nothing new can be handed out", nil
		s.next = "`fairlead check` says more"
	}
	return s
}
