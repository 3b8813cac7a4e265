// Package event asks the hub what happened, and prints it.
package event

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalogyaml"
)

// EventField is the field of events that names a resource of a kind.
func EventField(k resource.Kind) (string, bool) {
	fields := map[catalogyaml.Kind]string{
		catalogyaml.Service: "service", catalogyaml.Cluster: "cluster",
		catalogyaml.Source: "source", catalogyaml.Sink: "sink",
		catalogyaml.Global: "globalservice", catalogyaml.Project: "project",
		catalogyaml.Alert: "alert",
	}
	field, ok := fields[k.ID]
	return field, ok
}

// About is a filter for events about any of some resources.
func About(refs []resource.Reference) (string, error) {
	var terms []string
	for _, r := range refs {
		k, err := resource.FindKind(r.Kind)
		if err != nil {
			return "", err
		}
		field, ok := EventField(k)
		switch {
		case !ok:
			return "", fmt.Errorf("there are no events about %s: there are about services, clusters, sources, sinks, globalservices, alerts and projects", k.Plural())
		case r.Name == "":
			return "", fmt.Errorf("name the %s whose events are wanted, as %s/NAME", k.Singular(), k.Singular())
		}
		terms = append(terms, field+" = "+table.CleanLine(r.Name))
	}
	slices.Sort(terms)
	return strings.Join(slices.Compact(terms), " OR "), nil
}

// Query is what a person asks of events.
type Query struct {
	Filter string
	Limit  int
	Watch  bool
	Format string
}

// AddResources adds to a filter which resources it is about.
func (q *Query) AddResources(args []string) error {
	if len(args) == 0 {
		return nil
	}
	refs, err := resource.ParseReferences(args)
	if err != nil {
		return err
	}
	filter, err := About(refs)
	q.Filter = resource.JoinFilters(filter, q.Filter)
	return err
}

// List returns the newest events, the oldest of them first, and where to go on.
func List(ctx context.Context, h *hubclient.Hub, q Query) (list []*consolev1.Event, resume string, err error) {
	for token := ""; ; {
		size := resource.PageSize
		if q.Limit > 0 {
			size = min(size, q.Limit-len(list))
		}
		call, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
		res, err := h.Events.ListEvents(call, &consolev1.ListEventsRequest{Filter: q.Filter, PageSize: int32(size), PageToken: token})
		cancel()
		if err != nil {
			return nil, "", err
		}
		if resume == "" {
			resume = res.GetResumeToken()
		}
		list = append(list, res.GetEvents()...)
		if token = res.GetNextPageToken(); token == "" || q.Limit > 0 && len(list) >= q.Limit {
			slices.Reverse(list)
			return list, resume, nil
		}
	}
}

// PrintHappened prints events, oldest first, in the form that was asked for.
func PrintHappened(a *app.App, list []*consolev1.Event, format string) error {
	for _, e := range list {
		line := HappenedLine(e)
		if format == app.FormatJSON {
			var err error
			if line, err = app.JSONLine(e); err != nil {
				return err
			}
		}
		if err := a.Printf("%s\n", line); err != nil {
			return err
		}
	}
	return nil
}

// HappenedLine is an event in one line.
func HappenedLine(e *consolev1.Event) string {
	var what []string
	for _, part := range []struct{ Kind, name string }{
		{"service", e.GetService()},
		{"cluster", e.GetCluster()},
		{"source", e.GetSource()},
		{"sink", e.GetSink()},
		{"global service", e.GetGlobalService()},
		{"alert", e.GetAlert()},
		{"group", e.GetGroup()},
	} {
		if part.name != "" {
			what = append(what, part.Kind+" "+part.name)
		}
	}
	text := e.GetMessage()
	if len(what) > 0 {
		text = strings.Join(what, " at ") + ": " + text
	}
	if e.GetActor() != "" {
		text += " (" + strings.TrimPrefix(e.GetActor(), "user:") + ")"
	}
	level := catalogyaml.Short(e.GetSeverity())
	return fmt.Sprintf("%s %-7s %-22s %s", e.GetTime().AsTime().UTC().Format("2006-01-02 15:04:05"), level,
		table.CleanLine(e.GetType()), table.CleanLine(text))
}
