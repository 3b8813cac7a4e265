// Package view shows resources to people: as rows of tables with notes below them, and in the words for their states.
package view

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/catalogyaml"
)

const (
	// MaxCell is as much of a cell as a table shows: with -o wide all of it is there.
	MaxCell  = 60
	ShortHex = 8 // As the hub writes it.
	// maxNotes below a table, and maxAbout names in one of them: with -o wide all are there.
	maxNotes, maxAbout = 20, 5
)

// View turns resources into rows, and into notes on those that are not well.
type View struct {
	Now time.Time
	// Behind is how far services are behind their refs, of those that are.
	Behind map[string]Distance
	Wide   bool
	alone  bool                              // one resource is shown
	Live   map[string]*gitcachev1.LiveSource // by name; what is missing is not known
	// Seen is when clusters were heard of last, by name; what is missing is not known.
	Seen map[string]*timestamppb.Timestamp
	// Left are the clusters that have left.
	Left map[string]bool
	// Figures are the views of clusters, by name; what is missing is not known.
	Figures map[string]*consolev1.ClusterView
}

// note is what a person should know about a resource, or do about it.
type note struct {
	about string
	text  string
	since *timestamppb.Timestamp // Unset: not known.
}

// NoteText is a note, and since when it is so.
func (v View) NoteText(n note) string { return v.SinceText(n.text, n.since) }

// row is what the table of its kind shows of a resource: cells always, more with -o wide, and notes below the table.
type row struct {
	cells, more []cell
	notes       []note
}

// cell is one of a row, below its head.
type cell struct{ head, text string }

// rowOf returns the function that makes the rows of a kind.
func rowOf(k catalogyaml.Kind) func(View, catalogyaml.Message) row {
	of, ok := map[catalogyaml.Kind]func(View, catalogyaml.Message) row{
		catalogyaml.Source:         rowsOf(View.sourceRow),
		catalogyaml.Cluster:        rowsOf(View.clusterRow),
		catalogyaml.Service:        rowsOf(View.serviceRow),
		catalogyaml.Grant:          rowsOf(View.grantRow),
		catalogyaml.Project:        rowsOf(View.projectRow),
		catalogyaml.ConfigSet:      rowsOf(View.configSet),
		catalogyaml.Backend:        rowsOf(View.backendRow),
		catalogyaml.Sink:           rowsOf(View.sinkRow),
		catalogyaml.Global:         rowsOf(View.globalService),
		catalogyaml.Role:           rowsOf(View.roleRow),
		catalogyaml.ServiceAccount: rowsOf(View.serviceAccount),
		catalogyaml.Secret:         rowsOf(View.secretRow),
		catalogyaml.AgentConfig:    rowsOf(View.agentConfig),
		catalogyaml.ViewSet:        rowsOf(View.viewSet),
		catalogyaml.Alert:          rowsOf(View.alertRow),
	}[k]
	if !ok {
		return View.plainRow
	}
	return of
}

// rowsOf makes a function for resources of any kind from one for those of its own.
func rowsOf[M catalogyaml.Message](of func(View, M) row) func(View, catalogyaml.Message) row {
	return func(v View, m catalogyaml.Message) row { return of(v, m.(M)) } //nolint:forcetypeassert // the table is asked by the kind of the message
}

// plainRow is of a kind that has no columns of its own.
func (v View) plainRow(m catalogyaml.Message) row {
	return row{cells: []cell{
		{"NAME", m.GetMetadata().GetName()}, {"CHANGED", v.AgoText(m.GetMetadata().GetUpdateTime())},
	}}
}

// BuildTable makes the table of resources of a kind, and the notes that go below it.
func (v View) BuildTable(k resource.Kind, found []catalogyaml.Message) (*table.Table, []note) {
	v.alone = len(found) == 1
	show := rowOf(k.ID)
	heads, _ := v.splitRow(show(v, k.New()))
	t := table.New(heads...)
	if !v.Wide {
		t.MaxCell = MaxCell
	}
	var notes []note
	for _, m := range found {
		r := show(v, m)
		_, texts := v.splitRow(r)
		t.AddRow(texts...)
		notes = append(notes, r.notes...)
	}
	return t, notes
}

// splitRow parts the heads of a row from its texts.
func (v View) splitRow(r row) (heads, texts []string) {
	cells := r.cells
	if v.Wide {
		cells = slices.Concat(r.cells, r.more)
	}
	for _, c := range cells {
		heads, texts = append(heads, c.head), append(texts, c.text)
	}
	return heads, texts
}

// pairCells makes cells of texts and their heads.
func pairCells(heads, texts []string) []cell {
	out := make([]cell, len(heads))
	for i := range heads {
		out[i] = cell{heads[i], texts[i]}
	}
	return out
}

// StateText is the state of a resource as the table of its kind has it; empty: the kind has none.
func StateText(k resource.Kind, m catalogyaml.Message) string {
	for _, c := range rowOf(k.ID)(View{}, m).cells {
		if c.head == "STATE" {
			return c.text
		}
	}
	return ""
}

// NewTable has no column for messages: what has to be said stands whole below the table, which so
// stays readable at 100 columns.
func (v View) NewTable(head []string, wideHead ...string) *table.Table {
	if v.Wide {
		return table.New(append(head, wideHead...)...)
	}
	t := table.New(head...)
	t.MaxCell = MaxCell
	return t
}

// AddRow adds a row to a table of NewTable.
func (v View) AddRow(t *table.Table, cells []string, wideCells ...string) {
	if v.Wide {
		cells = append(cells, wideCells...)
	}
	t.AddRow(cells...)
}

// NotesText prints what stands below a table. The same is said once, of all that it is about.
func (v View) NotesText(notes []note) string {
	var texts []string
	about := map[string][]string{}
	for _, n := range notes {
		text := table.CleanLine(v.NoteText(n))
		if len(about[text]) == 0 {
			texts = append(texts, text)
		}
		about[text] = append(about[text], n.about)
	}
	if len(texts) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteByte('\n')
	for i, text := range texts {
		if i == maxNotes && !v.Wide {
			fmt.Fprintf(&b, "%d more: see -o wide\n", len(texts)-i)
			break
		}
		fmt.Fprintf(&b, "%s: %s\n", v.listNames(about[text]), text)
	}
	return b.String()
}

func (v View) listNames(names []string) string {
	if more := len(names) - maxAbout; more > 0 && !v.Wide {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxAbout], ", "), more)
	}
	return strings.Join(names, ", ")
}

func (v View) sourceRow(s *consolev1.Source) (r row) {
	name, problem := s.GetMetadata().GetName(), s.GetStatus().GetProblem()
	state := "Ready"
	switch {
	case SourceFails(problem):
		state = "Failing"
		if len(problem.GetRefs()) > 0 {
			state = "Degraded" // The other refs still arrive.
		}
		r.notes = append(r.notes, SourceNote(s))
	case problem.GetMessage() != "": // of refs that are not there
	case len(s.GetStatus().GetHeads()) == 0:
		state = "Pending"
		r.notes = append(r.notes, note{about: name, text: "nothing was fetched yet"})
	}
	if text := v.newerVersions(s); text != "" && (v.Wide || v.alone) {
		r.notes = append(r.notes, note{about: name, text: text})
	}
	head, fetched := "", ""
	for _, h := range s.GetStatus().GetHeads() {
		if h.GetRef() == "HEAD" {
			head = v.commitText(h.GetRevision().GetCommit(), h.GetRevision().GetCommitTime())
		}
		if at := v.AgoText(h.GetFetchTime()); fetched == "" && at != "" {
			fetched = at
		}
	}
	if catalog.IsCharts(s.GetSpec()) {
		head = "(charts)"
	}
	if catalog.IsArtifacts(s.GetSpec()) {
		head = "(artifacts)"
	}
	r.cells = []cell{
		{"NAME", name},
		{"STATE", state},
		{"DEFAULT-BRANCH", head},
		{"FETCHED", fetched},
		{"URL", WithoutUser(catalog.UpstreamOf(s.GetSpec()).URL)},
	}
	r.more = v.liveCells(s)
	return r
}

// newerVersions says which newer versions there are than those that services get, outside of their ranges; empty: none.
func (v View) newerVersions(s *consolev1.Source) string {
	var all []string
	for _, h := range s.GetStatus().GetHeads() {
		if h.GetNewerVersion() == "" {
			continue
		}
		_, has, ok := catalog.ParseChartRef(h.GetResolvedRef())
		if !ok {
			has = catalog.ShowRef(h.GetResolvedRef())
		}
		all = append(all, fmt.Sprintf("%s has %s, and there is %s", catalog.ShowRef(h.GetRef()), has, h.GetNewerVersion()))
	}
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	return "newer versions: " + v.listNames(all)
}

// liveCells is what the gitcaches say, and of what they don't the console.
func (v View) liveCells(s *consolev1.Source) []cell {
	owner, epoch := s.GetStatus().GetOwner(), s.GetStatus().GetEpoch()
	l, known := v.Live[s.GetMetadata().GetName()]
	if known {
		owner = l.GetOwner()
	}
	requests, mirror := "", ""
	if l.GetEpoch() > 0 || IsSet(l.GetLastPollTime()) { // its owner has answered
		epoch, requests, mirror = l.GetEpoch(), fmt.Sprint(l.GetUpstreamRequestsLastHour()),
			table.FormatBytes(l.GetMirrorBytes())
	}
	return []cell{
		{"HEADS", fmt.Sprint(len(s.GetStatus().GetHeads()))},
		{"OWNER", owner},
		{"EPOCH", fmt.Sprint(epoch)},
		{"POLLED", v.AgoText(l.GetLastPollTime())},
		{"NEXT-POLL", v.UntilText(l.GetNextPollTime())},
		{"STALE", strings.TrimSuffix(v.AgoText(l.GetStaleSince()), " ago")},
		{"REQUESTS/H", requests},
		{"MIRROR", mirror},
		{"STANDBYS", strings.Join(l.GetStandbys(), ", ")},
	}
}

// UntilText says when a time comes.
func (v View) UntilText(at *timestamppb.Timestamp) string {
	switch {
	case !IsSet(at):
		return ""
	case !at.AsTime().After(v.Now):
		return "now"
	}
	return "in " + table.FormatAge(at.AsTime(), v.Now)
}

// SourceFails tells a problem of a source from one of refs that the Git host does not have: those are problems of the
// services that follow them.
func SourceFails(p *consolev1.Problem) bool {
	if p.GetMessage() == "" {
		return false
	}
	isRefused := slices.ContainsFunc(p.GetRefProblems(),
		func(one *consolev1.RefProblem) bool { return !one.GetMissing() })
	return isRefused || len(p.GetRefProblems()) == 0 || len(p.GetRefs()) == 0
}

// SourceNote is what is wrong with a source. Its name stands before it anyway.
func SourceNote(s *consolev1.Source) note {
	name, problem := s.GetMetadata().GetName(), s.GetStatus().GetProblem()
	return note{name, WithoutName("source", name, problem.GetMessage()), problem.GetSince()}
}

// WithoutName takes the name of a resource off the beginning of a message about it.
func WithoutName(kind, name, message string) string {
	return strings.TrimPrefix(message, fmt.Sprintf("%s %q: ", kind, name))
}

// WithoutUser hides credentials that someone wrote into a URL.
func WithoutUser(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return text
	}
	u.User = nil
	return u.String()
}

func (v View) clusterRow(c *consolev1.Cluster) (r row) {
	s, name := c.GetStatus(), c.GetMetadata().GetName()
	state, message := v.ClusterState(c)
	if message != "" {
		r.notes = append(r.notes, note{about: name, text: message})
	} else if s.GetSkew() != "" {
		r.notes = append(r.notes, note{
			about: name,
			text:  fmt.Sprintf("its agent is %s: `fairlead cluster manifest %s | kubectl apply --server-side -f -` upgrades it", s.GetSkew(), name),
		})
	}
	if text := configTrouble(s.GetAgentConfig()); text != "" {
		r.notes = append(r.notes, note{about: name, text: text, since: s.GetAgentConfig().GetSinceTime()})
	}
	switch of := v.Figures[name]; {
	case of.GetMissing() != "" && of.GetConnected():
		r.notes = append(r.notes, note{about: name, text: "its figures are not known: " + of.GetMissing()})
	case of.GetUnfollowed() != "":
		r.notes = append(r.notes, note{about: name, text: "its figures are of before: " + of.GetUnfollowed()})
	}
	if words := DescribeFreeze(c.GetFreeze()); words != "" {
		r.notes = append(r.notes, note{
			about: name, text: "its services are " + words + ": `fairlead unfreeze cluster " + name + "` ends it",
		})
	}
	r.cells = []cell{
		{"NAME", name},
		{"STATE", state},
		{"LAST-SEEN", v.AgoText(s.GetLastSeenTime())},
		{"AGENT", s.GetAgentVersion()},
		{"KUBERNETES", s.GetKubernetesVersion()},
	}
	r.more = slices.Concat([]cell{{"JOINED", v.AgoText(s.GetJoinTime())}},
		pairCells(FigureHead(), FigureCells(v.Figures[name].GetFigures())),
		[]cell{{"DESCRIPTION", c.GetSpec().GetDescription()}})
	return r
}

// ClusterState says how a cluster is and, if something has to be done, what.
func (v View) ClusterState(c *consolev1.Cluster) (state, message string) {
	s, name := c.GetStatus(), c.GetMetadata().GetName()
	switch {
	case IsSet(s.GetLeaveTime()):
		return "Left", fmt.Sprintf("left %s ago, and keeps what it has applied: `fairlead cluster join-token %s` lets an agent join again, `fairlead delete cluster %s` forgets it",
			table.FormatAge(v.Now, s.GetLeaveTime().AsTime()), name, name)
	case IsSet(s.GetTokenReuseTime()):
		return "Copied", fmt.Sprintf("%s ago a token of its agent was used that had been renewed before, so somebody may have a copy of the agent's data folder (%s): "+
			"`fairlead cluster leave %s` ends it, then let the agent join again with `fairlead cluster join-token %s`",
			table.FormatAge(v.Now, s.GetTokenReuseTime().AsTime()), s.GetTokenReuse(), name, name)
	case s.GetConnected() && s.GetTokenUnbound():
		return "Connected", "its agent's token is bound to no key, so a copy of it can't be told from it: upgrade the agent before the hub stops to accept it (--unsigned-members)"
	case s.GetConnected() && s.GetClusterProblem() != "":
		return "Connected", "its agent can do nothing in it: " + s.GetClusterProblem() +
			". See how its API server is, and what the agent's log says"
	case s.GetConnected() && s.GetClockSkew() != nil:
		return "Connected", clockTrouble(s.GetClockSkew().AsDuration())
	case s.GetConnected():
		return "Connected", ""
	case !IsSet(s.GetJoinTime()):
		return "Pending", fmt.Sprintf("no agent has joined: run `fairlead cluster join-token %s`", name)
	case !IsSet(s.GetLastSeenTime()):
		return "Disconnected", "an agent joined and was never heard of again: look at its log"
	default:
		return "Disconnected", fmt.Sprintf("not heard of for %s: is its agent running, and can it reach the hub?",
			table.FormatAge(v.Now, s.GetLastSeenTime().AsTime()))
	}
}

// clockTrouble says that the clock of a cluster is wrong.
func clockTrouble(behind time.Duration) string {
	way := "behind"
	if behind < 0 {
		behind, way = -behind, "ahead of"
	}
	return fmt.Sprintf("its clock is %s %s the hub's, and windows and freezes open and close by it: have its nodes set their clocks (NTP)", strings.TrimSuffix(behind.String(), "0s"), way)
}

func (v View) secretRow(s *consolev1.Secret) row {
	return row{cells: []cell{
		{"NAME", s.GetMetadata().GetName()},
		{"CHANGED", v.AgoText(s.GetMetadata().GetUpdateTime())},
		{"KEYS", strings.Join(slices.Sorted(maps.Keys(s.GetData())), ", ")},
	}}
}

func (v View) grantRow(g *consolev1.Grant) row {
	var subjects []string
	for _, s := range g.GetSpec().GetSubjects() {
		switch {
		case s.GetUser() != "":
			subjects = append(subjects, "user:"+s.GetUser())
		case s.GetServiceAccount() != "":
			subjects = append(subjects, "serviceaccount:"+s.GetServiceAccount())
		default:
			subjects = append(subjects, "group:"+s.GetGroup())
		}
	}
	var clusters []string
	for _, name := range g.GetSpec().GetClusters().GetNames() {
		if v.Left[name] {
			name += " (left)"
		}
		clusters = append(clusters, name)
	}
	for _, key := range slices.Sorted(maps.Keys(g.GetSpec().GetClusters().GetLabels())) {
		clusters = append(clusters, key+"="+g.GetSpec().GetClusters().GetLabels()[key])
	}
	if g.GetSpec().GetClusters().GetAll() {
		clusters = []string{"all"}
	}
	until := ""
	if IsSet(g.GetSpec().GetUntilTime()) {
		until = g.GetSpec().GetUntilTime().AsTime().Local().Format(time.RFC3339)
	}
	return row{
		cells: []cell{
			{"NAME", g.GetMetadata().GetName()},
			{"ROLE", g.GetSpec().GetRole()},
			{"SUBJECTS", strings.Join(subjects, ", ")},
			{"CLUSTERS", strings.Join(clusters, ", ")},
		},
		more: []cell{{"UNTIL", until}},
	}
}

func (v View) commitText(hex string, at *timestamppb.Timestamp) string {
	if hex == "" {
		return ""
	}
	short := ShortHash(hex)
	if !IsSet(at) {
		return short
	}
	return fmt.Sprintf("%s (%s)", short, table.FormatAge(v.Now, at.AsTime()))
}

// AgoText says how long ago a time was.
func (v View) AgoText(at *timestamppb.Timestamp) string {
	if !IsSet(at) {
		return ""
	}
	return table.FormatAge(v.Now, at.AsTime()) + " ago"
}

// SinceText says since when something is so.
func (v View) SinceText(text string, at *timestamppb.Timestamp) string {
	if !IsSet(at) {
		return text
	}
	return fmt.Sprintf("for %s: %s", table.FormatAge(v.Now, at.AsTime()), text)
}

// IsSet tells a time from none at all.
func IsSet(t *timestamppb.Timestamp) bool { return t.GetSeconds() != 0 || t.GetNanos() != 0 }
