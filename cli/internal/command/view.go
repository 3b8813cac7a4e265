package command

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/cli/internal/manifest"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

const (
	// messageCell is as much of a message as a table shows: with -o wide all of it is there.
	messageCell = 100
	shortHex    = 8 // As the hub writes it.
)

// view turns resources into rows.
type view struct {
	now  time.Time
	wide bool
}

func (v view) table(k kind, found []manifest.Message) *table.Table {
	var t *table.Table
	switch k.kind {
	case manifest.Source:
		t = v.sources(found)
	case manifest.Cluster:
		t = v.clusters(found)
	case manifest.Service:
		t = v.services(found)
	default:
		t = v.secrets(found)
	}
	return t
}

func (v view) newTable(head []string, wideHead ...string) *table.Table {
	if v.wide {
		// The last column is a message in every table: it stays last.
		head = slices.Insert(head, len(head)-1, wideHead...)
	}
	t := table.New(head...)
	if !v.wide {
		t.MaxCell = messageCell
	}
	return t
}

func (v view) row(t *table.Table, cells []string, wideCells ...string) {
	if v.wide {
		cells = slices.Insert(cells, len(cells)-1, wideCells...)
	}
	t.Row(cells...)
}

func (v view) sources(found []manifest.Message) *table.Table {
	t := v.newTable([]string{"NAME", "STATE", "DEFAULT-BRANCH", "FETCHED", "URL", "MESSAGE"}, "HEADS", "OWNER", "EPOCH")
	for _, m := range found {
		s := m.(*consolev1.Source)
		state, message := "Ready", v.problem(s.GetStatus().GetProblem())
		switch {
		case message != "":
			state = "Failing"
		case len(s.GetStatus().GetHeads()) == 0:
			state, message = "Pending", "nothing was fetched yet"
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
		v.row(t, []string{s.GetMetadata().GetName(), state, head, fetched, withoutUser(s.GetSpec().GetGit().GetUrl()), message},
			fmt.Sprint(len(s.GetStatus().GetHeads())), s.GetStatus().GetOwner(), fmt.Sprint(s.GetStatus().GetEpoch()))
	}
	return t
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

func (v view) clusters(found []manifest.Message) *table.Table {
	t := v.newTable([]string{"NAME", "STATE", "LAST-SEEN", "AGENT", "KUBERNETES", "MESSAGE"}, "JOINED", "DESCRIPTION")
	for _, m := range found {
		c := m.(*consolev1.Cluster)
		s := c.GetStatus()
		state, message := v.cluster(c)
		v.row(t, []string{c.GetMetadata().GetName(), state, v.ago(s.GetLastSeenTime()), s.GetAgentVersion(), s.GetKubernetesVersion(), message},
			v.ago(s.GetJoinTime()), c.GetSpec().GetDescription())
	}
	return t
}

// cluster says how a cluster is and, if something has to be done, what.
func (v view) cluster(c *consolev1.Cluster) (state, message string) {
	s, name := c.GetStatus(), c.GetMetadata().GetName()
	switch {
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

func (v view) services(found []manifest.Message) *table.Table {
	t := v.newTable([]string{"NAME", "CLUSTER", "STATE", "GIT", "HUB", "CLUSTER-APPLIED", "MESSAGE"}, "SOURCE", "REF", "PATH", "NAMESPACE", "OBJECTS")
	for _, m := range found {
		s := m.(*consolev1.Service)
		spec, status := s.GetSpec(), s.GetStatus()
		report := status.GetCluster().GetReport()
		objects := ""
		if report != nil {
			objects = fmt.Sprintf("%d/%d", report.GetObjectsHealthy(), report.GetObjectsTotal())
		}
		v.row(t, []string{
			s.GetMetadata().GetName(), spec.GetCluster(), stateName(status.GetState()),
			v.commit(status.GetGit().GetRevision().GetCommit(), commitTime(status.GetGit())),
			v.commit(strings.TrimPrefix(status.GetHub().GetDigest(), "sha256:"), status.GetHub().GetResolveTime()),
			v.commit(report.GetAppliedCommit(), report.GetAppliedTime()),
			v.serviceMessage(status),
		}, spec.GetSource(), spec.GetRef(), spec.GetPath(), spec.GetNamespace(), objects)
	}
	return t
}

// commitTime is when the commit was made or, for hosts that don't say, when it was fetched.
func commitTime(git *consolev1.GitTruth) *timestamppb.Timestamp {
	if t := git.GetRevision().GetCommitTime(); isSet(t) {
		return t
	}
	return git.GetFetchTime()
}

func stateName(s consolev1.ServiceState) string {
	name := strings.TrimPrefix(s.String(), "SERVICE_STATE_")
	if s == consolev1.ServiceState_SERVICE_STATE_UNSPECIFIED {
		name = "PENDING"
	}
	return name[:1] + strings.ToLower(name[1:])
}

// serviceMessage is every cause of trouble, each with how long it lasts.
func (v view) serviceMessage(s *consolev1.ServiceStatus) string {
	var parts []string
	if text := s.GetStateMessage(); text != "" {
		if s.GetState() != consolev1.ServiceState_SERVICE_STATE_HEALTHY {
			text = v.since(text, s.GetStateSince())
		}
		parts = append(parts, text)
	}
	for _, p := range []*consolev1.Problem{s.GetGit().GetProblem(), s.GetHub().GetProblem()} {
		if p.GetMessage() != "" && !strings.Contains(s.GetStateMessage(), p.GetMessage()) {
			parts = append(parts, v.problem(p))
		}
	}
	return strings.Join(parts, "; ")
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

// objects lists what is not healthy in the clusters, service by service.
func (v view) objects(found []manifest.Message) string {
	var b strings.Builder
	for _, m := range found {
		s := m.(*consolev1.Service)
		report := s.GetStatus().GetCluster().GetReport()
		if len(report.GetObjects()) == 0 && report.GetMessage() == "" {
			continue
		}
		fmt.Fprintf(&b, "\nservice %s in cluster %s (%s", s.GetMetadata().GetName(), s.GetSpec().GetCluster(), phaseName(report.GetPhase()))
		if at := v.ago(report.GetObservedTime()); at != "" {
			fmt.Fprintf(&b, " for %s", strings.TrimSuffix(at, " ago"))
		}
		b.WriteString("):\n")
		if text := table.Clean(report.GetMessage()); text != "" {
			fmt.Fprintf(&b, "  %s\n", text)
		}
		t := table.New("  OBJECT", "HEALTH", "MESSAGE")
		for _, o := range report.GetObjects() {
			t.Row(objectName(o), o.GetHealth(), o.GetMessage())
		}
		if len(report.GetObjects()) > 0 {
			_ = t.Write(indented{&b}) // A strings.Builder takes everything.
		}
	}
	return b.String()
}

type indented struct{ b *strings.Builder }

func (w indented) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		if !strings.HasPrefix(line, "  ") {
			w.b.WriteString("  ")
		}
		w.b.WriteString(line)
	}
	return len(p), nil
}

func objectName(o *deliveryv1.ObjectReport) string {
	name := o.GetKind() + "/" + o.GetName()
	if o.GetGroup() != "" {
		name = o.GetKind() + "." + o.GetGroup() + "/" + o.GetName()
	}
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + ": " + name
	}
	return name
}

func phaseName(p deliveryv1.Phase) string {
	return strings.ToLower(strings.TrimPrefix(p.String(), "PHASE_"))
}

func (v view) commit(hex string, at *timestamppb.Timestamp) string {
	if hex == "" {
		return ""
	}
	short := hex[:min(shortHex, len(hex))]
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

func (v view) problem(p *consolev1.Problem) string {
	if p.GetMessage() == "" {
		return ""
	}
	return v.since(p.GetMessage(), p.GetSince())
}

func (v view) since(text string, at *timestamppb.Timestamp) string {
	if !isSet(at) {
		return text
	}
	return fmt.Sprintf("for %s: %s", table.Age(v.now, at.AsTime()), text)
}

// isSet tells a time from none at all.
func isSet(t *timestamppb.Timestamp) bool { return t.GetSeconds() != 0 || t.GetNanos() != 0 }
