package sink

import (
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/wildcard"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/filter"
	"fairlead.dev/services/console/internal/store"
)

// matcher says which events are for a sink.
type matcher struct {
	etag, name string
	spec       catalog.SinkSpec
	least      consolev1.Severity
	expr       *filter.Expr
}

func matcherOf(row store.Resource) (matcher, error) {
	is, err := catalog.Sinks().Decode(row)
	if err != nil {
		return matcher{}, err
	}
	m := matcher{etag: row.ETag(), name: row.Name, spec: is.Spec, least: consolev1.Severity(consolev1.Severity_value["SEVERITY_"+is.Spec.Severity])}
	if is.Spec.Severity == "" && len(is.Spec.Types) == 0 && is.Spec.Filter == "" {
		m.least = consolev1.Severity_SEVERITY_WARNING
	}
	if m.expr, err = filter.Parse(is.Spec.Filter, event.Fields()); err != nil {
		return matcher{}, catalog.Refuse(catalog.Invalid, "spec.filter: %v", err)
	}
	return m, nil
}

// fits tells whether an event is for the sink. How sending to it goes is not: it would go on telling itself.
func (m matcher) fits(e *consolev1.Event, now time.Time) bool {
	s := m.spec
	return e.GetSink() != m.name && e.GetSeverity() >= m.least &&
		(s.Project == "" || e.GetProject() == s.Project) &&
		(len(s.Types) == 0 || wildcard.Any(s.Types, e.GetType())) &&
		names(s.Projects, e.GetProject()) && names(s.Clusters, e.GetCluster()) && names(s.Services, e.GetService()) &&
		m.expr.Match(event.Row{Event: e}, now)
}

// names tells whether patterns, if there are some, fit a name that is there.
func names(patterns []string, name string) bool {
	return len(patterns) == 0 || name != "" && wildcard.Any(patterns, name)
}
