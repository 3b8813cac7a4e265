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

func (v view) say(n note) string { return v.since(n.text, n.since) }

func (v view) table(k kind, found []manifest.Message) (*table.Table, []note) {
	switch k.kind {
	case manifest.Source:
		return v.sources(found)
	case manifest.Cluster:
		return v.clusters(found)
	case manifest.Service:
		return v.services(found)
	case manifest.Grant:
		return v.grants(found), nil
	case manifest.Project:
		return v.projects(found), nil
	case manifest.ConfigSet:
		return v.configSets(found), nil
	case manifest.Backend:
		return v.backends(found)
	case manifest.Sink:
		return v.sinks(found)
	case manifest.Global:
		return v.globals(found)
	case manifest.Role:
		return v.roles(found), nil
	case manifest.ServiceAccount:
		return v.accounts(found), nil
	case manifest.Secret:
		return v.secrets(found), nil
	case manifest.AgentConfig:
		return v.agentConfigs(found)
	case manifest.Alert:
		return v.alerts(found)
	default:
		return v.plain(found), nil
	}
}

// plain is the table of a kind that has no columns of its own.
func (v view) plain(found []manifest.Message) *table.Table {
	t := v.newTable([]string{"NAME", "CHANGED"})
	for _, m := range found {
		v.row(t, []string{m.GetMetadata().GetName(), v.ago(m.GetMetadata().GetUpdateTime())})
	}
	return t
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

func (v view) row(t *table.Table, cells []string, wideCells ...string) {
	if v.wide {
		cells = append(cells, wideCells...)
	}
	t.Row(cells...)
}

// notes prints what stands below a table. The same is said once, of all that it is about.
func (v view) notes(notes []note) string {
	var texts []string
	about := map[string][]string{}
	for _, n := range notes {
		text := table.Clean(v.say(n))
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
		fmt.Fprintf(&b, "%s: %s\n", v.listed(about[text]), text)
	}
	return b.String()
}

func (v view) listed(names []string) string {
	if more := len(names) - maxAbout; more > 0 && !v.wide {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxAbout], ", "), more)
	}
	return strings.Join(names, ", ")
}

func (v view) sources(found []manifest.Message) (*table.Table, []note) {
	t := v.newTable([]string{"NAME", "STATE", "DEFAULT-BRANCH", "FETCHED", "URL"}, "HEADS", "OWNER", "EPOCH", "POLLED", "NEXT-POLL", "STALE", "REQUESTS/H", "MIRROR", "STANDBYS")
	var notes []note
	for _, m := range found {
		s := m.(*consolev1.Source)
		name, problem := s.GetMetadata().GetName(), s.GetStatus().GetProblem()
		state := "Ready"
		switch {
		case fails(problem):
			state = "Failing"
			if len(problem.GetRefs()) > 0 {
				state = "Degraded" // The other refs still arrive.
			}
			notes = append(notes, sourceNote(s))
		case problem.GetMessage() != "": // of refs that are not there
		case len(s.GetStatus().GetHeads()) == 0:
			state = "Pending"
			notes = append(notes, note{about: name, text: "nothing was fetched yet"})
		}
		if text := v.newer(s); text != "" && (v.wide || len(found) == 1) {
			notes = append(notes, note{about: name, text: text})
		}
		head, fetched := "", ""
		for _, h := range s.GetStatus().GetHeads() {
			if h.GetRef() == "HEAD" {
				head = v.commit(h.GetRevision().GetCommit(), h.GetRevision().GetCommitTime())
			}
			if at := v.ago(h.GetFetchTime()); fetched == "" && at != "" {
				fetched = at
			}
		}
		if catalog.IsCharts(s.GetSpec()) {
			head = "(charts)"
		}
		if catalog.IsArtifacts(s.GetSpec()) {
			head = "(artifacts)"
		}
		v.row(t, []string{name, state, head, fetched, withoutUser(catalog.UpstreamOf(s.GetSpec()).URL)}, v.liveCells(s)...)
	}
	return t, notes
}

// newer says which newer versions there are than those that services get, outside of their ranges; empty: none.
func (v view) newer(s *consolev1.Source) string {
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
	return "newer versions: " + v.listed(all)
}

// liveCells is what the gitcaches say, and of what they don't the console.
func (v view) liveCells(s *consolev1.Source) []string {
	heads, owner, epoch := fmt.Sprint(len(s.GetStatus().GetHeads())), s.GetStatus().GetOwner(), fmt.Sprint(s.GetStatus().GetEpoch())
	l, known := v.live[s.GetMetadata().GetName()]
	if !known {
		return []string{heads, owner, epoch, "", "", "", "", "", ""}
	}
	requests, mirror := "", ""
	if l.GetEpoch() > 0 || isSet(l.GetLastPollTime()) { // its owner has answered
		epoch, requests = fmt.Sprint(l.GetEpoch()), fmt.Sprint(l.GetUpstreamRequestsLastHour())
		mirror = table.Bytes(l.GetMirrorBytes())
	}
	stale := strings.TrimSuffix(v.ago(l.GetStaleSince()), " ago")
	return []string{
		heads, l.GetOwner(), epoch, v.ago(l.GetLastPollTime()), v.until(l.GetNextPollTime()), stale, requests, mirror, strings.Join(l.GetStandbys(), ", "),
	}
}

// until says when a time comes.
func (v view) until(at *timestamppb.Timestamp) string {
	switch {
	case !isSet(at):
		return ""
	case !at.AsTime().After(v.now):
		return "now"
	}
	return "in " + table.Age(at.AsTime(), v.now)
}

// fails tells a problem of a source from one of refs that the Git host does not have: those are problems of the services that follow them.
func fails(p *consolev1.Problem) bool {
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

func (v view) clusters(found []manifest.Message) (*table.Table, []note) {
	t := v.newTable([]string{"NAME", "STATE", "LAST-SEEN", "AGENT", "KUBERNETES"}, slices.Concat([]string{"JOINED"}, figureHead(), []string{"DESCRIPTION"})...)
	var notes []note
	for _, m := range found {
		c := m.(*consolev1.Cluster)
		s, name := c.GetStatus(), c.GetMetadata().GetName()
		state, message := v.cluster(c)
		if message != "" {
			notes = append(notes, note{about: name, text: message})
		} else if s.GetSkew() != "" {
			notes = append(notes, note{about: name, text: fmt.Sprintf("its agent is %s: `fairlead cluster manifest %s | kubectl apply --server-side -f -` upgrades it", s.GetSkew(), name)})
		}
		if text := configTrouble(s.GetAgentConfig()); text != "" {
			notes = append(notes, note{about: name, text: text, since: s.GetAgentConfig().GetSinceTime()})
		}
		if words := frozen(c.GetFreeze()); words != "" {
			notes = append(notes, note{about: name, text: "its services are " + words + ": `fairlead unfreeze cluster " + name + "` ends it"})
		}
		v.row(t, []string{name, state, v.ago(s.GetLastSeenTime()), s.GetAgentVersion(), s.GetKubernetesVersion()},
			slices.Concat([]string{v.ago(s.GetJoinTime())}, figureCells(v.figures[name].GetFigures()), []string{c.GetSpec().GetDescription()})...)
	}
	return t, notes
}

// cluster says how a cluster is and, if something has to be done, what.
func (v view) cluster(c *consolev1.Cluster) (state, message string) {
	s, name := c.GetStatus(), c.GetMetadata().GetName()
	switch {
	case isSet(s.GetLeaveTime()):
		return "Left", fmt.Sprintf("left %s ago, and keeps what it has applied: `fairlead cluster join-token %s` lets an agent join again, `fairlead delete cluster %s` forgets it",
			table.Age(v.now, s.GetLeaveTime().AsTime()), name, name)
	case isSet(s.GetTokenReuseTime()):
		return "Copied", fmt.Sprintf("%s ago a token of its agent was used that had been renewed before, so somebody may have a copy of the agent's data folder (%s): "+
			"`fairlead cluster leave %s` ends it, then let the agent join again with `fairlead cluster join-token %s`", table.Age(v.now, s.GetTokenReuseTime().AsTime()), s.GetTokenReuse(), name, name)
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
		return "Disconnected", fmt.Sprintf("not heard of for %s: is its agent running, and can it reach the hub?", table.Age(v.now, s.GetLastSeenTime().AsTime()))
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

func (v view) secrets(found []manifest.Message) *table.Table {
	t := v.newTable([]string{"NAME", "CHANGED", "KEYS"})
	for _, m := range found {
		s := m.(*consolev1.Secret)
		keys := make([]string, 0, len(s.GetData()))
		for k := range s.GetData() {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		v.row(t, []string{s.GetMetadata().GetName(), v.ago(s.GetMetadata().GetUpdateTime()), strings.Join(keys, ", ")})
	}
	return t
}

func (v view) grants(found []manifest.Message) *table.Table {
	t := v.newTable([]string{"NAME", "ROLE", "SUBJECTS", "CLUSTERS"}, "UNTIL")
	for _, m := range found {
		g := m.(*consolev1.Grant)
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
		v.row(t, []string{g.GetMetadata().GetName(), g.GetSpec().GetRole(), strings.Join(subjects, ", "), strings.Join(clusters, ", ")}, until)
	}
	return t
}

func (v view) commit(hex string, at *timestamppb.Timestamp) string {
	if hex == "" {
		return ""
	}
	short := short(hex)
	if !isSet(at) {
		return short
	}
	return fmt.Sprintf("%s (%s)", short, table.Age(v.now, at.AsTime()))
}

func (v view) ago(at *timestamppb.Timestamp) string {
	if !isSet(at) {
		return ""
	}
	return table.Age(v.now, at.AsTime()) + " ago"
}

func (v view) since(text string, at *timestamppb.Timestamp) string {
	if !isSet(at) {
		return text
	}
	return fmt.Sprintf("for %s: %s", table.Age(v.now, at.AsTime()), text)
}

// isSet tells a time from none at all.
func isSet(t *timestamppb.Timestamp) bool { return t.GetSeconds() != 0 || t.GetNanos() != 0 }
