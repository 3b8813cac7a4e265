package view

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/catalogyaml"
	"fairlead.dev/platform/plural"
)

func (v View) serviceRow(s *consolev1.Service) row {
	spec, status := s.GetSpec(), s.GetStatus()
	report := status.GetCluster().GetReport()
	truths := []string{
		v.commitText(status.GetGit().GetRevision().GetCommit(), commitTime(status.GetGit())),
		v.commitText(status.GetHub().GetRevision().GetCommit(), status.GetHub().GetResolveTime()),
		v.commitText(RunningCommit(status), report.GetAppliedTime()),
	}
	if v.Wide {
		truths = v.truthTexts(status)
	}
	return row{
		cells: []cell{
			{"NAME", s.GetMetadata().GetName()},
			{"CLUSTER", DestinationText(s)},
			{"STATE", StateOf(s)},
			{"SYNC", v.syncText(s)},
			{"GIT", truths[0]},
			{"HUB", truths[1]},
			{"APPLIED", truths[2]},
		},
		more: []cell{
			{"HEALTH", v.healthText(s)},
			{"TESTS", v.testsText(s)},
			{"SEEN", v.AgoText(v.Seen[spec.GetCluster()])},
			{"SOURCE", SourcesOf(spec)},
			{"REF", refOf(spec)},
			{"PATH", spec.GetPath()},
			{"NAMESPACE", spec.GetNamespace()},
		},
		notes: append(ServiceNotes(s), v.PullNotes(s)...),
	}
}

// DestinationText is where a service's folder goes.
func DestinationText(s *consolev1.Service) string {
	if s.GetSpec().GetCatalog() {
		return "(catalog)"
	}
	return s.GetSpec().GetCluster()
}

// SourcesOf is the source of a service, or several, each with its name.
func SourcesOf(spec *consolev1.ServiceSpec) string {
	var names []string
	for _, s := range spec.GetSources() {
		names = append(names, s.GetName()+"="+s.GetSource())
	}
	return cmp.Or(strings.Join(names, ","), spec.GetSource())
}

// refsOf are the refs of several sources, in their order.
func refsOf(spec *consolev1.ServiceSpec) string {
	var refs []string
	for _, s := range spec.GetSources() {
		refs = append(refs, s.GetName()+"="+cmp.Or(catalog.ShowRef(catalog.RefOfPart(s)), "HEAD"))
	}
	return strings.Join(refs, ",")
}

// refOf is what a service follows, and the pin that keeps it from that.
func refOf(spec *consolev1.ServiceSpec) string {
	if pin := spec.GetSync().GetPin(); pin != "" {
		return strings.TrimSpace(cmp.Or(refsOf(spec),
			catalog.ShowRef(catalog.RefOf(spec))) + " pinned to " + ShortHash(pin))
	}
	if len(spec.GetSources()) > 0 {
		return refsOf(spec)
	}
	if spec.GetChart() != "" {
		return catalog.ShowRef(catalog.RefOf(spec))
	}
	return spec.GetRef()
}

// truthTexts are the three with all that makes them comparable: whose digest and commit, how old, and how old
// the word itself is where nothing newer could be had.
func (v View) truthTexts(status *consolev1.ServiceStatus) []string {
	git, hub, report := status.GetGit(), status.GetHub(), status.GetCluster().GetReport()
	return []string{
		v.TruthText("", git.GetRevision().GetCommit(), commitTime(git), "stale", git.GetProblem()),
		v.TruthText(hub.GetDigest(), hub.GetRevision().GetCommit(), hub.GetResolveTime(), "held up", hub.GetProblem()),
		v.TruthText(report.GetAppliedDigest(), RunningCommit(status), report.GetAppliedTime(), "", nil),
	}
}

// TruthText is like "01234567 of fedcba98 (80s, stale 5m)".
func (v View) TruthText(digest, commit string, at *timestamppb.Timestamp, word string, p *consolev1.Problem) string {
	what := ShortHash(commit)
	if digest != "" {
		what = ShortHash(BareDigest(digest))
		if commit != "" {
			what += " of " + ShortHash(commit)
		}
	}
	var ages []string
	if IsSet(at) && what != "" {
		ages = append(ages, table.FormatAge(v.Now, at.AsTime()))
	}
	if p.GetMessage() != "" {
		ages = append(ages, strings.TrimSpace(word+" "+strings.TrimSuffix(v.AgoText(p.GetSince()), " ago")))
	}
	if len(ages) == 0 {
		return what
	}
	return strings.TrimSpace(fmt.Sprintf("%s (%s)", what, strings.Join(ages, ", ")))
}

// healthText is what the cluster says of the objects. Of a cluster that is not connected nobody knows: what it
// said last is told with its age.
func (v View) healthText(s *consolev1.Service) string {
	r := s.GetStatus().GetCluster().GetReport()
	if r == nil {
		return ""
	}
	said := fmt.Sprintf("%s %d/%d", catalogyaml.Short(r.GetPhase()), r.GetObjectsHealthy(), r.GetObjectsTotal())
	if s.GetStatus().GetState() == consolev1.ServiceState_SERVICE_STATE_UNKNOWN {
		return strings.TrimSpace(fmt.Sprintf("unknown, was %s %s", said, v.AgoText(s.GetStatus().GetStateSince())))
	}
	if !IsSet(r.GetObservedTime()) {
		return said
	}
	return fmt.Sprintf("%s (%s)", said, table.FormatAge(v.Now, r.GetObservedTime().AsTime()))
}

// testsText is how the latest run of the tests went, and whether that was of something older.
func (v View) testsText(s *consolev1.Service) string {
	t := s.GetStatus().GetCluster().GetReport().GetTests()
	text := SummarizeTests(t)
	if text == "" {
		return ""
	}
	var about []string
	if at := cmp.Or(t.GetEndTime(), t.GetStartTime()); IsSet(at) {
		about = append(about, table.FormatAge(v.Now, at.AsTime()))
	}
	if !OfCurrent(s, t) {
		about = append(about, "older revision")
	}
	if len(about) == 0 {
		return text
	}
	return fmt.Sprintf("%s (%s)", text, strings.Join(about, ", "))
}

// ListTests lists how the latest runs of tests went.
func (v View) ListTests(found []catalogyaml.Message) string {
	var b strings.Builder
	for _, m := range found {
		s := m.(*consolev1.Service)
		if text := v.testsText(s); text != "" {
			fmt.Fprintf(&b, "\ntests of %s: %s\n", s.GetMetadata().GetName(), text)
		}
	}
	return b.String()
}

// OfCurrent says whether tests ran with what is handed out now.
func OfCurrent(s *consolev1.Service, t *deliveryv1.TestSummary) bool {
	hub := s.GetStatus().GetHub()
	return t.GetDigest() == cmp.Or(hub.GetContentDigest(), hub.GetDigest())
}

// FailedTests is what a person should know of tests that failed, unless it is said already.
func FailedTests(s *consolev1.Service) string {
	t := s.GetStatus().GetCluster().GetReport().GetTests()
	if !WentWrong(t.GetOutcome()) || t.GetOutcome() == deliveryv1.TestOutcome_TEST_OUTCOME_ABORTED || !OfCurrent(s, t) {
		return ""
	}
	text := "its tests " + TestOutcome(t.GetOutcome())
	switch {
	case t.GetOutcome() == deliveryv1.TestOutcome_TEST_OUTCOME_ERROR:
		text = "its tests could not run"
	case t.GetFailed() > 0:
		text = fmt.Sprintf("%d of its %s failed", t.GetFailed(), plural.Of(t.GetPassed()+t.GetFailed(), "test"))
	}
	return text
}

// AppliedCommit is the newest commit whose content runs in the cluster: one that changed nothing in the
// folder needs no applying.
func AppliedCommit(r *deliveryv1.ServiceReport) string {
	if r.GetAppliedDigest() != "" && r.GetAppliedDigest() == r.GetDigest() {
		return cmp.Or(r.GetCommit(), r.GetAppliedCommit())
	}
	return r.GetAppliedCommit()
}

// RunningCommit is the newest commit whose content runs in the cluster. The hub hands out the same digest for commits
// that change other folders only, and the agent never hears of them.
func RunningCommit(status *consolev1.ServiceStatus) string {
	hub, report := status.GetHub(), status.GetCluster().GetReport()
	if hub.GetDigest() != "" && report.GetAppliedDigest() == hub.GetDigest() {
		return cmp.Or(hub.GetRevision().GetCommit(), AppliedCommit(report))
	}
	return AppliedCommit(report)
}

// commitTime is when the commit was made or, for hosts that don't say, when it was fetched.
func commitTime(git *consolev1.GitTruth) *timestamppb.Timestamp {
	if t := git.GetRevision().GetCommitTime(); IsSet(t) {
		return t
	}
	return git.GetFetchTime()
}

// StateName is a state as people read it.
func StateName(s consolev1.ServiceState) string {
	if s == consolev1.ServiceState_SERVICE_STATE_UNSPECIFIED {
		s = consolev1.ServiceState_SERVICE_STATE_PENDING
	}
	name := catalogyaml.Short(s)
	return strings.ToUpper(name[:1]) + name[1:]
}

// ServiceNotes is every cause of trouble, each with how long it lasts. A service that is well has none:
// the table says all of it.
func ServiceNotes(s *consolev1.Service) []note {
	name, status := s.GetMetadata().GetName(), s.GetStatus()
	about := func(text string, since *timestamppb.Timestamp) note {
		return note{name, WithoutName("service", name, text), since}
	}
	var notes []note
	said := ""
	if status.GetState() != consolev1.ServiceState_SERVICE_STATE_HEALTHY && status.GetStateMessage() != "" {
		said = status.GetStateMessage()
		notes = append(notes, about(said, status.GetStateSince()))
	}
	if w := status.GetWindows(); w.GetClosed() && !strings.Contains(said, "Closed") {
		notes = append(notes, about(w.GetMessage(), nil))
	}
	if fault := status.GetWindows().GetFault(); fault != "" && !strings.Contains(said, fault) {
		notes = append(notes, about(fault, nil))
	}
	for _, p := range []*consolev1.Problem{status.GetGit().GetProblem(), status.GetHub().GetProblem()} {
		if p.GetMessage() != "" && !strings.Contains(said, p.GetMessage()) {
			notes = append(notes, about(p.GetMessage(), p.GetSince()))
		}
	}
	if text := FailedTests(s); text != "" && status.GetState() == consolev1.ServiceState_SERVICE_STATE_HEALTHY {
		notes = append(notes, about(fmt.Sprintf("%s: see `fairlead test results service %s`", text, name),
			status.GetCluster().GetReport().GetTests().GetEndTime()))
	}
	return notes
}

// ShortHash is as much of a commit or digest as people read.
func ShortHash(hex string) string { return hex[:min(ShortHex, len(hex))] }

// BareDigest is a digest without the name of its algorithm.
func BareDigest(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

// ListUnhealthy lists what is not healthy in the clusters, service by service.
func (v View) ListUnhealthy(found []catalogyaml.Message) string {
	var b strings.Builder
	for _, m := range found {
		s := m.(*consolev1.Service)
		report := s.GetStatus().GetCluster().GetReport()
		message := table.CleanLine(report.GetMessage())
		if strings.Contains(table.CleanLine(s.GetStatus().GetStateMessage()), message) {
			message = "" // The note on the service says it.
		}
		if len(report.GetObjects()) == 0 && message == "" {
			continue
		}
		fmt.Fprintf(&b, "\n%s in cluster %s, %s", s.GetMetadata().GetName(), s.GetSpec().GetCluster(),
			catalogyaml.Short(report.GetPhase()))
		if at := v.AgoText(report.GetObservedTime()); at != "" {
			fmt.Fprintf(&b, " for %s", strings.TrimSuffix(at, " ago"))
		}
		b.WriteString(":\n")
		if message != "" {
			fmt.Fprintf(&b, "  %s\n", message)
		}
		v.ObjectTable(&b, report.GetObjects())
	}
	return b.String()
}

// ObjectTable is empty without objects.
func (v View) ObjectTable(b *strings.Builder, objects []*deliveryv1.ObjectReport) {
	if len(objects) == 0 {
		return
	}
	t := table.New("OBJECT", "HEALTH", "MESSAGE")
	for _, o := range objects {
		t.AddRow(ObjectName(o), o.GetHealth(), v.objectMessage(o))
	}
	_ = t.Write(indented{b}) // A strings.Builder takes everything.
}

// objectMessage is what is said of an object, with how old that is, and when the agent repairs it next.
func (v View) objectMessage(o *deliveryv1.ObjectReport) string {
	text := o.GetMessage()
	if at := o.GetDriftTime(); IsSet(at) {
		text = strings.TrimSpace(fmt.Sprintf("%s (seen %s)", strings.TrimSuffix(text, "."), v.AgoText(at)))
	}
	if at := o.GetNextAttemptTime(); IsSet(at) {
		text = strings.TrimSpace(fmt.Sprintf("%s (next attempt %s)", strings.TrimSuffix(text, "."), v.UntilText(at)))
	}
	return text
}

// ObjectName is an object of a report as people name it.
func ObjectName(o *deliveryv1.ObjectReport) string {
	name := o.GetKind() + "/" + o.GetName()
	if o.GetGroup() != "" {
		name = o.GetKind() + "." + o.GetGroup() + "/" + o.GetName()
	}
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + ": " + name
	}
	return name
}

// Indent returns a writer that writes to b, two spaces to the right.
func Indent(b *strings.Builder) io.Writer { return indented{b} }

type indented struct{ b *strings.Builder }

func (w indented) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		w.b.WriteString("  " + line)
	}
	return len(p), nil
}
