package sink

import (
	"encoding/json"
	"slices"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/wildcard"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/query"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/store"
)

// matcher says which events are for a sink.
type matcher struct {
	etag, name string
	// broken is why it can't be told. Then all may be, and wait.
	broken *failure
	spec   resource.SinkSpec
	least  consolev1.Severity
	expr   *query.Expr
	// earlier are those that the sink had before: what happened then has to fit them, too.
	earlier []earlier
}

// earlier is what a sink matched up to an event.
type earlier struct {
	UpTo int64             `json:"upTo"`
	Spec resource.SinkSpec `json:"spec"` // filters only
	matcher
}

func matcherOf(row store.Resource) matcher {
	is, err := resource.Sinks().Decode(row)
	if err != nil {
		return matcher{etag: row.ETag(), name: row.Name, broken: failed("%s: write it anew", err)}
	}
	m := newMatcher(row.Name, is.Spec)
	m.etag = row.ETag()
	return m
}

func newMatcher(name string, spec resource.SinkSpec) matcher {
	m := matcher{name: name, spec: spec, least: consolev1.Severity(consolev1.Severity_value["SEVERITY_"+spec.Severity])}
	if spec.Severity == "" && len(spec.Types) == 0 && spec.Filter == "" && spec.CommitStatus() == nil {
		m.least = consolev1.Severity_SEVERITY_WARNING
	}
	var err error
	if m.expr, err = query.Parse(spec.Filter, event.Fields()); err != nil {
		m.broken = failed("spec.filter: %s", err)
	}
	return m
}

// maxEarlier is how many changes of a filter there may be while events wait: each is asked about each of them.
const maxEarlier = 10

// earlierOf are what a sink matched before.
func earlierOf(name string, of store.Sending) []earlier {
	var list []earlier
	if of.Earlier == "" || json.Unmarshal([]byte(of.Earlier), &list) != nil {
		return nil
	}
	list = slices.DeleteFunc(list, func(e earlier) bool { return e.UpTo <= of.Seq })
	for i := range list {
		list[i].matcher = newMatcher(name, list[i].Spec)
	}
	return list
}

// of is what of an event is for the sink; nil: nothing is. The part of the sink's terms that is about what all services
// of an event have in common is decided without looking at each.
func (m matcher) of(e numbered, now time.Time) *consolev1.Event {
	is, _ := e.Narrow(func(whole *consolev1.Event) (fits, sure bool) {
		s := m.spec
		switch {
		case m.broken != nil:
			return true, true
		case !m.concerns(whole):
			return false, true
		case len(s.Clusters)+len(s.Services)+len(m.earlier) > 0:
			return false, false
		}
		fits, sure = event.Whole(m.expr, whole, now)
		return fits, sure
	}, func(one *consolev1.Event) bool { return m.fits(e.seq, one, now) })
	return is
}

// list returns what the sink gets of an event, in messages of its own each. A receiver that keeps an alert open per
// service has to hear of the end for each service, a Git host has a status for each, and an event of many services
// names only some of them.
func (m matcher) list(e numbered, now time.Time) []*consolev1.Event {
	if m.broken == nil && (m.spec.CommitStatus() != nil || m.spec.Alerts() && len(event.Ended(e.GetType())) > 0) {
		return e.Each(func(one *consolev1.Event) bool { return m.fits(e.seq, one, now) })
	}
	if is := m.of(e, now); is != nil {
		return []*consolev1.Event{is}
	}
	return nil
}

// concerns tells whether an event is for the sink by what all services of an event have in common.
func (m matcher) concerns(e *consolev1.Event) bool {
	s := m.spec
	return e.GetSink() != m.name && m.wants(e) && (s.Project == "" || e.GetProject() == s.Project) && names(s.Projects, e.GetProject())
}

// wants tells whether the sink asks for an event by its type and severity. Where alerts are open until their end, it
// gets the ends of what it asks for.
func (m matcher) wants(e *consolev1.Event) bool {
	if m.spec.CommitStatus() != nil {
		return isStatusEvent(e.GetType())
	}
	ofType := func(typ string) bool { return len(m.spec.Types) == 0 || wildcard.Any(m.spec.Types, typ) }
	if m.spec.Alerts() && slices.ContainsFunc(event.Ended(e.GetType()), ofType) {
		return true
	}
	return e.GetSeverity() >= m.least && ofType(e.GetType())
}

// fits tells whether an event is for the sink. How sending to it goes is not: it would go on telling itself.
func (m matcher) fits(seq int64, e *consolev1.Event, now time.Time) bool {
	s := m.spec
	return m.broken != nil || m.concerns(e) && names(s.Clusters, e.GetCluster()) && names(s.Services, e.GetService()) &&
		m.expr.Match(event.Row{Event: e}, now) &&
		!slices.ContainsFunc(m.earlier, func(was earlier) bool { return seq <= was.UpTo && !was.fits(seq, e, now) })
}

// names tells whether patterns, if there are some, fit a name that is there.
func names(patterns []string, name string) bool {
	return len(patterns) == 0 || name != "" && wildcard.Any(patterns, name)
}
