package trail

import (
	"cmp"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/plural"
)

// leversStep says what keeps a service from following; it is left out where nothing does.
func (t *Trail) leversStep() (s step, any bool) {
	s = step{Name: "LEVERS", Mark: markHeld}
	for i, p := range view.ListPulled(t.Service) {
		s.addLine("%s", t.SinceText(t.DescribePulled(p), p.SinceTime()))
		if i == 0 {
			s.since, s.cause = p.SinceTime(), p.What+" "+p.PulledBy()+view.FormatReason(p.Why)
			s.next = p.End + " ends it"
		}
	}
	return s, len(s.lines) > 0
}

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
	Name    string
	Mark    mark
	lines   []string
	objects []*deliveryv1.ObjectReport
	// cause is why it is not ok, and next what a person can do.
	cause, next string
	since       *timestamppb.Timestamp
}

// ListSteps returns where a commit has been on its way, Git first.
func (t *Trail) ListSteps() []step {
	steps := []step{t.sourceStep(), t.commitStep()}
	if s, any := t.leversStep(); any {
		steps = append(steps, s)
	}
	steps = append(steps, t.hubStep(), t.deliveryStep(), t.clusterStep())
	if t.Service.GetStatus().GetCluster().GetReport().GetTests().GetId() != "" {
		steps = append(steps, t.testsStep())
	}
	return steps
}

func (s *step) addLine(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// markWrong marks a step, with the cause as a line.
func (s *step) markWrong(v view.View, m mark, p *consolev1.Problem, next string) {
	s.Mark, s.cause, s.since, s.next = m, p.GetMessage(), p.GetSince(), next
	s.addLine("%s", v.SinceText(p.GetMessage(), p.GetSince()))
}

// lackGrant says of a step that nobody answers for that the person may not ask for it.
func (s *step) lackGrant(of string) {
	s.cause = fmt.Sprintf("%s is not shown, since you lack a grant to view %s", s.Name, of)
	s.next = "an administrator can add a grant: see `fairlead get grants`"
}

func (t *Trail) gitTruth() *consolev1.GitTruth { return t.Service.GetStatus().GetGit() }

func (t *Trail) fetchedCommit() string { return t.gitTruth().GetRevision().GetCommit() }

// wantedCommit is the commit that is to be handed out: the pin, or else the newest one.
func (t *Trail) wantedCommit() string {
	return cmp.Or(t.Service.GetSpec().GetSync().GetPin(), t.fetchedCommit())
}

// sourceStep is who polls the repository, and whether it answers.
func (t *Trail) sourceStep() step {
	name := catalog.SourceOf(t.Service.GetSpec())
	s := step{Name: "SOURCE", Mark: markOK}
	s.addLine("%s", strings.TrimSpace(name+"  "+view.WithoutUser(cmp.Or(t.Live.GetUrl(), catalog.UpstreamOf(t.Source.GetSpec()).URL))))
	switch l := t.Live; {
	case l == nil:
		s.Mark = markNone
		s.addLine("no gitcache says how it is (%s)", t.noLive)
		if t.hiddenLive {
			s.lackGrant("source " + name)
		}
		s.addLine("below is what the console heard last%s", t.ageText(t.gitTruth().GetFetchTime()))
	case l.GetOwner() == "":
		s.Mark, s.cause, s.next = t.unlessFetched(markWait), "no gitcache fetches it right now",
			"wait some seconds, or see `fairlead shards`"
		s.addLine("%s", s.cause)
	case !view.IsSet(l.GetLastPollTime()):
		s.addLine("fetched by %s, which has not polled it yet or does not answer", l.GetOwner())
	default:
		s.addLine("fetched by %s, polled %s, next %s", l.GetOwner(), t.AgoText(l.GetLastPollTime()),
			cmp.Or(t.UntilText(l.GetNextPollTime()), "when it is free"))
	}
	if p := t.sourceProblem(); p.GetMessage() != "" {
		s.markWrong(t.View, t.unlessFetched(markFail), p,
			fmt.Sprintf("put that right; `fairlead sources refresh %s` asks at once", name))
	}
	return s
}

// unlessFetched is m, but of a source whose last commit is served on.
func (t *Trail) unlessFetched(m mark) mark {
	if t.fetchedCommit() != "" {
		return markStale
	}
	return m
}

// sourceProblem is what the gitcaches say now or else the console said last, if it is about our ref.
func (t *Trail) sourceProblem() *consolev1.Problem {
	p := t.gitTruth().GetProblem()
	if l := t.Live.GetProblem(); p == nil && l.GetMessage() != "" && len(l.GetRefs()) == 0 {
		p = l
	}
	if p.GetMessage() == "" {
		return nil
	}
	return &consolev1.Problem{Message: view.WithoutName("source", catalog.SourceOf(t.Service.GetSpec()), p.GetMessage()), Since: p.GetSince()}
}

// ageText is an age for the end of a line, if there is one.
func (t *Trail) ageText(at *timestamppb.Timestamp) string {
	if age := t.AgoText(at); age != "" {
		return ", " + age
	}
	return ""
}

// commitStep is what the ref points to.
func (t *Trail) commitStep() step {
	spec := t.Service.GetSpec()
	if len(spec.GetSources()) > 0 {
		return t.sourcesStep()
	}
	s := step{Name: "COMMIT", Mark: markOK}
	ref, r := cmp.Or(spec.GetRef(), "the default branch"), t.gitTruth().GetRevision()
	if spec.GetChart() != "" {
		s.Name, ref = "CHART", view.FollowedRef(spec)
	}
	isArtifact := catalog.IsArtifacts(t.Source.GetSpec())
	if isArtifact {
		s.Name, ref = "ARTIFACT", cmp.Or(spec.GetRef(), "tag latest")
	}
	isBucket := catalog.IsBucket(t.Source.GetSpec())
	if isBucket {
		s.Name, ref = "CONTENT", cmp.Or(spec.GetRef(), "the bucket")
	}
	if r.GetCommit() == "" {
		s.Mark, s.cause = markWait, fmt.Sprintf("nothing was fetched at %s yet", ref)
		s.next = fmt.Sprintf("`fairlead sources refresh %s` asks at once; `fairlead sources log %s` shows what is there", catalog.SourceOf(spec), catalog.SourceOf(spec))
		s.addLine("%s", s.cause)
		return s
	}
	age := ""
	if view.IsSet(r.GetCommitTime()) {
		age = ", " + table.FormatAge(t.Now, r.GetCommitTime().AsTime()) + " old"
	}
	author := authorText(r.GetAuthor())
	if spec.GetChart() != "" || isArtifact || isBucket {
		author = "" // a package names none
	}
	s.addLine("%s is %s%s: %q%s", ref, view.ShortHash(r.GetCommit()), age, r.GetSubject(), author)
	h := headOf(t.Source, catalog.RefOf(spec))
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
func (t *Trail) sourcesStep() step {
	spec, r := t.Service.GetSpec(), t.gitTruth().GetRevision()
	s := step{Name: "SOURCES", Mark: markOK}
	if r.GetCommit() == "" {
		s.Mark, s.cause = markWait, "they were not put together yet"
		s.next = "`fairlead get sources` says which of them lacks something"
		s.addLine("%s", s.cause)
	} else {
		s.addLine("%s: %s, put together%s", view.ShortHash(r.GetCommit()), r.GetSubject(),
			strings.TrimPrefix(t.ageText(t.gitTruth().GetFetchTime()), ","))
	}
	for _, of := range spec.GetSources() {
		s.addLine("%s is source %s at %s", of.GetName(), of.GetSource(),
			cmp.Or(catalog.ShowRef(catalog.RefOfPart(of)), "the default branch"))
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
func (t *Trail) hubStep() step {
	truth := t.Service.GetStatus().GetHub()
	s := step{Name: "HUB", Mark: markOK, since: t.gitTruth().GetFetchTime()}
	if truth.GetDigest() != "" {
		digest := view.ShortHash(view.BareDigest(truth.GetDigest()))
		if commit := truth.GetRevision().GetCommit(); commit != "" { // no revision until the first answer for a head
			digest += " of " + view.ShortHash(commit)
		}
		s.addLine("%s%s", digest, t.ageText(truth.GetResolveTime()))
		if a := truth.GetArtifact(); a.GetDigest() != "" {
			s.addLine("artifact %s, %s in %s", view.ShortHash(view.BareDigest(a.GetDigest())),
				table.FormatBytes(a.GetSize()), plural.Of(a.GetFiles(), "file"))
		}
	}
	wait := "wait some seconds; if it stays, `fairlead check` says what is wrong with distributors"
	switch p := truth.GetProblem(); {
	case p.GetMessage() != "":
		words := view.WithoutName("service", t.Service.GetMetadata().GetName(), p.GetMessage())
		s.markWrong(t.View, markFail, &consolev1.Problem{Message: words, Since: p.GetSince()},
			"put that right and push, or change the service")
	case t.wantedCommit() == "" && truth.GetDigest() == "":
		s.Mark = markWait
		s.addLine("waits for a commit")
	case truth.GetDigest() == "":
		s.Mark, s.cause, s.next = markWait,
			fmt.Sprintf("no distributor has picked %s up yet", view.ShortHash(t.wantedCommit())), wait
		s.addLine("%s", s.cause)
	case truth.GetRevision().GetCommit() != t.wantedCommit():
		s.Mark, s.cause, s.next = markWait,
			fmt.Sprintf("%s is fetched and not handed out yet", view.ShortHash(t.wantedCommit())), wait
		s.addLine("%s", s.cause)
	}
	for _, text := range t.distributors {
		s.addLine("%s", text)
	}
	if t.noDistributors && s.Mark == markOK {
		s.Mark, s.cause, s.since = markStale, "no distributor answers, so nothing new can be handed out", nil
		s.next = "`fairlead check` says more"
	}
	return s
}
