package command

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/manifest"
)

const (
	// maxCell is as much of a cell as a table shows: with -o wide all of it is there.
	maxCell  = 60
	shortHex = 8 // As the hub writes it.
	// maxNotes below a table, and maxAbout names in one of them: with -o wide all are there.
	maxNotes, maxAbout = 20, 5
)

// view turns resources into rows, and into notes on those that are not well.
type view struct {
	now time.Time
	// behind is how far services are behind their refs, of those that are.
	behind map[string]distance
	wide   bool
	alone  bool                              // one resource is shown
	live   map[string]*gitcachev1.LiveSource // by name; what is missing is not known
	// seen is when clusters were heard of last, by name; what is missing is not known.
	seen map[string]*timestamppb.Timestamp
	// left are the clusters that have left.
	left map[string]bool
	// figures are the views of clusters, by name; what is missing is not known.
	figures map[string]*consolev1.ClusterView
}

// note is what a person should know about a resource, or do about it.
type note struct {
	about string
	text  string
	since *timestamppb.Timestamp // Unset: not known.
}

func (v view) noteText(n note) string { return v.sinceText(n.text, n.since) }

// row is what the table of its kind shows of a resource: cells always, more with -o wide, and notes below the table.
type row struct {
	cells, more []cell
	notes       []note
}

// cell is one of a row, below its head.
type cell struct{ head, text string }

// rowOf returns the function that makes the rows of a kind.
func rowOf(k manifest.Kind) func(view, manifest.Message) row {
	of, ok := map[manifest.Kind]func(view, manifest.Message) row{
		manifest.Source:         rowsOf(view.sourceRow),
		manifest.Cluster:        rowsOf(view.clusterRow),
		manifest.Service:        rowsOf(view.serviceRow),
		manifest.Grant:          rowsOf(view.grantRow),
		manifest.Project:        rowsOf(view.projectRow),
		manifest.ConfigSet:      rowsOf(view.configSet),
		manifest.Backend:        rowsOf(view.backendRow),
		manifest.Sink:           rowsOf(view.sinkRow),
		manifest.Global:         rowsOf(view.globalService),
		manifest.Role:           rowsOf(view.roleRow),
		manifest.ServiceAccount: rowsOf(view.serviceAccount),
		manifest.Secret:         rowsOf(view.secretRow),
		manifest.AgentConfig:    rowsOf(view.agentConfig),
		manifest.ViewSet:        rowsOf(view.viewSet),
		manifest.Alert:          rowsOf(view.alertRow),
	}[k]
	if !ok {
		return view.plainRow
	}
	return of
}

// rowsOf makes a function for resources of any kind from one for those of its own.
func rowsOf[M manifest.Message](of func(view, M) row) func(view, manifest.Message) row {
	return func(v view, m manifest.Message) row { return of(v, m.(M)) } //nolint:forcetypeassert // the table is asked by the kind of the message
}

// plainRow is of a kind that has no columns of its own.
func (v view) plainRow(m manifest.Message) row {
	return row{cells: []cell{{"NAME", m.GetMetadata().GetName()}, {"CHANGED", v.agoText(m.GetMetadata().GetUpdateTime())}}}
}

func (v view) buildTable(k kind, found []manifest.Message) (*table.Table, []note) {
	v.alone = len(found) == 1
	show := rowOf(k.kind)
	heads, _ := v.splitRow(show(v, k.New()))
	t := table.New(heads...)
	if !v.wide {
		t.MaxCell = maxCell
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
func (v view) splitRow(r row) (heads, texts []string) {
	cells := r.cells
	if v.wide {
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

// newTable has no column for messages: what has to be said stands whole below the table, which so
// stays readable at 100 columns.
func (v view) newTable(head []string, wideHead ...string) *table.Table {
	if v.wide {
		return table.New(append(head, wideHead...)...)
	}
	t := table.New(head...)
	t.MaxCell = maxCell
	return t
}

func (v view) addRow(t *table.Table, cells []string, wideCells ...string) {
	if v.wide {
		cells = append(cells, wideCells...)
	}
	t.AddRow(cells...)
}

// notesText prints what stands below a table. The same is said once, of all that it is about.
func (v view) notesText(notes []note) string {
	var texts []string
	about := map[string][]string{}
	for _, n := range notes {
		text := table.CleanLine(v.noteText(n))
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
		if i == maxNotes && !v.wide {
			fmt.Fprintf(&b, "%d more: see -o wide\n", len(texts)-i)
			break
		}
		fmt.Fprintf(&b, "%s: %s\n", v.listNames(about[text]), text)
	}
	return b.String()
}

func (v view) listNames(names []string) string {
	if more := len(names) - maxAbout; more > 0 && !v.wide {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxAbout], ", "), more)
	}
	return strings.Join(names, ", ")
}

func (v view) sourceRow(s *consolev1.Source) (r row) {
	name, problem := s.GetMetadata().GetName(), s.GetStatus().GetProblem()
	state := "Ready"
	switch {
	case sourceFails(problem):
		state = "Failing"
		if len(problem.GetRefs()) > 0 {
			state = "Degraded" // The other refs still arrive.
		}
		r.notes = append(r.notes, sourceNote(s))
	case problem.GetMessage() != "": // of refs that are not there
	case len(s.GetStatus().GetHeads()) == 0:
		state = "Pending"
		r.notes = append(r.notes, note{about: name, text: "nothing was fetched yet"})
	}
	if text := v.newerVersions(s); text != "" && (v.wide || v.alone) {
		r.notes = append(r.notes, note{about: name, text: text})
	}
	head, fetched := "", ""
	for _, h := range s.GetStatus().GetHeads() {
		if h.GetRef() == "HEAD" {
			head = v.commitText(h.GetRevision().GetCommit(), h.GetRevision().GetCommitTime())
		}
		if at := v.agoText(h.GetFetchTime()); fetched == "" && at != "" {
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
		{"URL", withoutUser(catalog.UpstreamOf(s.GetSpec()).URL)},
	}
	r.more = v.liveCells(s)
	return r
}

// newerVersions says which newer versions there are than those that services get, outside of their ranges; empty: none.
func (v view) newerVersions(s *consolev1.Source) string {
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
func (v view) liveCells(s *consolev1.Source) []cell {
	owner, epoch := s.GetStatus().GetOwner(), s.GetStatus().GetEpoch()
	l, known := v.live[s.GetMetadata().GetName()]
	if known {
		owner = l.GetOwner()
	}
	requests, mirror := "", ""
	if l.GetEpoch() > 0 || isSet(l.GetLastPollTime()) { // its owner has answered
		epoch, requests, mirror = l.GetEpoch(), fmt.Sprint(l.GetUpstreamRequestsLastHour()), table.FormatBytes(l.GetMirrorBytes())
	}
	return []cell{
		{"HEADS", fmt.Sprint(len(s.GetStatus().GetHeads()))},
		{"OWNER", owner},
		{"EPOCH", fmt.Sprint(epoch)},
		{"POLLED", v.agoText(l.GetLastPollTime())},
		{"NEXT-POLL", v.untilText(l.GetNextPollTime())},
		{"STALE", strings.TrimSuffix(v.agoText(l.GetStaleSince()), " ago")},
		{"REQUESTS/H", requests},
		{"MIRROR", mirror},
		{"STANDBYS", strings.Join(l.GetStandbys(), ", ")},
	}
}

// untilText says when a time comes.
func (v view) untilText(at *timestamppb.Timestamp) string {
	switch {
	case !isSet(at):
		return ""
	case !at.AsTime().After(v.now):
		return "now"
	}
	return "in " + table.FormatAge(at.AsTime(), v.now)
}

// sourceFails tells a problem of a source from one of refs that the Git host does not have: those are problems of the services that follow them.
func sourceFails(p *consolev1.Problem) bool {
	if p.GetMessage() == "" {
		return false
	}
	isRefused := slices.ContainsFunc(p.GetRefProblems(), func(one *consolev1.RefProblem) bool { return !one.GetMissing() })
	return isRefused || len(p.GetRefProblems()) == 0 || len(p.GetRefs()) == 0
}

// sourceNote is what is wrong with a source. Its name stands before it anyway.
func sourceNote(s *consolev1.Source) note {
	name, problem := s.GetMetadata().GetName(), s.GetStatus().GetProblem()
	return note{name, withoutName("source", name, problem.GetMessage()), problem.GetSince()}
}

// withoutName takes the name of a resource off the beginning of a message about it.
func withoutName(kind, name, message string) string {
	return strings.TrimPrefix(message, fmt.Sprintf("%s %q: ", kind, name))
}

// withoutUser hides credentials that someone wrote into a URL.
func withoutUser(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return text
	}
	u.User = nil
	return u.String()
}

func (v view) clusterRow(c *consolev1.Cluster) (r row) {
	s, name := c.GetStatus(), c.GetMetadata().GetName()
	state, message := v.clusterState(c)
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
	switch of := v.figures[name]; {
	case of.GetMissing() != "" && of.GetConnected():
		r.notes = append(r.notes, note{about: name, text: "its figures are not known: " + of.GetMissing()})
	case of.GetUnfollowed() != "":
		r.notes = append(r.notes, note{about: name, text: "its figures are of before: " + of.GetUnfollowed()})
	}
	if words := describeFreeze(c.GetFreeze()); words != "" {
		r.notes = append(r.notes, note{about: name, text: "its services are " + words + ": `fairlead unfreeze cluster " + name + "` ends it"})
	}
	r.cells = []cell{
		{"NAME", name},
		{"STATE", state},
		{"LAST-SEEN", v.agoText(s.GetLastSeenTime())},
		{"AGENT", s.GetAgentVersion()},
		{"KUBERNETES", s.GetKubernetesVersion()},
	}
	r.more = slices.Concat([]cell{{"JOINED", v.agoText(s.GetJoinTime())}}, pairCells(figureHead(), figureCells(v.figures[name].GetFigures())),
		[]cell{{"DESCRIPTION", c.GetSpec().GetDescription()}})
	return r
}

// clusterState says how a cluster is and, if something has to be done, what.
func (v view) clusterState(c *consolev1.Cluster) (state, message string) {
	s, name := c.GetStatus(), c.GetMetadata().GetName()
	switch {
	case isSet(s.GetLeaveTime()):
		return "Left", fmt.Sprintf("left %s ago, and keeps what it has applied: `fairlead cluster join-token %s` lets an agent join again, `fairlead delete cluster %s` forgets it",
			table.FormatAge(v.now, s.GetLeaveTime().AsTime()), name, name)
	case isSet(s.GetTokenReuseTime()):
		return "Copied", fmt.Sprintf("%s ago a token of its agent was used that had been renewed before, so somebody may have a copy of the agent's data folder (%s): "+
			"`fairlead cluster leave %s` ends it, then let the agent join again with `fairlead cluster join-token %s`",
			table.FormatAge(v.now, s.GetTokenReuseTime().AsTime()), s.GetTokenReuse(), name, name)
	case s.GetConnected() && s.GetTokenUnbound():
		return "Connected", "its agent's token is bound to no key, so a copy of it can't be told from it: upgrade the agent before the hub stops to accept it (--unsigned-members)"
	case s.GetConnected() && s.GetClockSkew() != nil:
		return "Connected", clockTrouble(s.GetClockSkew().AsDuration())
	case s.GetConnected():
		return "Connected", ""
	case !isSet(s.GetJoinTime()):
		return "Pending", fmt.Sprintf("no agent has joined: run `fairlead cluster join-token %s`", name)
	case !isSet(s.GetLastSeenTime()):
		return "Disconnected", "an agent joined and was never heard of again: look at its log"
	default:
		return "Disconnected", fmt.Sprintf("not heard of for %s: is its agent running, and can it reach the hub?",
			table.FormatAge(v.now, s.GetLastSeenTime().AsTime()))
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

func (v view) secretRow(s *consolev1.Secret) row {
	return row{cells: []cell{
		{"NAME", s.GetMetadata().GetName()},
		{"CHANGED", v.agoText(s.GetMetadata().GetUpdateTime())},
		{"KEYS", strings.Join(slices.Sorted(maps.Keys(s.GetData())), ", ")},
	}}
}

func (v view) grantRow(g *consolev1.Grant) row {
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
		if v.left[name] {
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
	if isSet(g.GetSpec().GetUntilTime()) {
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

func (v view) commitText(hex string, at *timestamppb.Timestamp) string {
	if hex == "" {
		return ""
	}
	short := shortHash(hex)
	if !isSet(at) {
		return short
	}
	return fmt.Sprintf("%s (%s)", short, table.FormatAge(v.now, at.AsTime()))
}

func (v view) agoText(at *timestamppb.Timestamp) string {
	if !isSet(at) {
		return ""
	}
	return table.FormatAge(v.now, at.AsTime()) + " ago"
}

func (v view) sinceText(text string, at *timestamppb.Timestamp) string {
	if !isSet(at) {
		return text
	}
	return fmt.Sprintf("for %s: %s", table.FormatAge(v.now, at.AsTime()), text)
}

// isSet tells a time from none at all.
func isSet(t *timestamppb.Timestamp) bool { return t.GetSeconds() != 0 || t.GetNanos() != 0 }
