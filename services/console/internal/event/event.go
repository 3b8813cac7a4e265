// Package event tells what happens, by types that stay the same over releases: docs/events.md lists them.
//
// An event is written in the transaction of what it tells, so that there is neither without the other. An event that
// two consoles, or one that comes back, may see twice has an id that is made of what happened, and the database keeps
// the first. An event of many services has an id of all of them: two consoles that are told the same of them at the
// same moment, by other calls, may both tell it.
package event

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/query"
	"fairlead.dev/services/console/internal/store"
)

// The types.
const (
	SourceFetched   = "source.fetched"
	SourceRefused   = "source.refused"
	SourceFailing   = "source.failing"
	SourceRecovered = "source.recovered"

	ServiceDelivered     = "service.delivered"
	ServiceApplied       = "service.applied"
	ServiceHealthy       = "service.healthy"
	ServiceDegraded      = "service.degraded"
	ServiceFailed        = "service.failed"
	ServiceRecovered     = "service.recovered"
	ServiceHeld          = "service.held"
	ServiceDriftRepaired = "service.drift_repaired"
	ServicePruned        = "service.pruned"
	ServiceRemovalFailed = "service.removal_failed"
	ServiceDeleted       = "service.deleted"
	ServiceMoved         = "service.moved"
	ServiceRolledBack    = "service.rolled_back"
	ServiceTestsPassed   = "service.tests_passed"
	ServiceTestsFailed   = "service.tests_failed"

	ConfigChanged   = "config.changed"
	ConfigFailing   = "config.failing"
	ConfigRecovered = "config.recovered"

	GuardTripped   = "guard.tripped"
	GuardConfirmed = "guard.confirmed"
	GuardReleased  = "guard.released"
	PinSet         = "pin.set"
	PinReleased    = "pin.released"
	HoldSet        = "hold.set"
	HoldReleased   = "hold.released"
	LeverEnding    = "lever.ending"
	FreezeSet      = "freeze.set"
	FreezeReleased = "freeze.released"

	ClusterJoined = "cluster.joined"
	ClusterLost   = "cluster.lost"
	ClusterBack   = "cluster.back"
	ClusterLeft   = "cluster.left"
	// TokenReused: somebody may have a copy of an agent's data folder.
	TokenReused = "cluster.token_reused"

	// The fates of requests for access to a cluster.
	AccessRequest = "access.requested"
	AccessLent    = "access.approved"
	AccessRefused = "access.denied"
	AccessTaken   = "access.revoked"
	AccessOver    = "access.ended"

	CatalogRestored   = "catalog.restored"
	RemovalsHeld      = "removals.held"
	RemovalsConfirmed = "removals.confirmed"
	RemovalsResolved  = "removals.resolved"

	SinkFailing       = "sink.failing"
	SinkRecovered     = "sink.recovered"
	SinkDropped       = "sink.dropped"
	AlertFiring       = "alert.firing"
	AlertResolved     = "alert.resolved"
	AlertAcknowledged = "alert.acknowledged"
	AlertSilenced     = "alert.silenced"
	AlertUnsilenced   = "alert.unsilenced"

	// Test is never recorded: it is sent to try a sink.
	Test = "test"
)

const (
	info    = consolev1.Severity_SEVERITY_INFO
	warning = consolev1.Severity_SEVERITY_WARNING
	failing = consolev1.Severity_SEVERITY_ERROR
)

// Levels are the severities as filters have them.
func levels() query.Type { return query.Levels("INFO", "WARNING", "ERROR") }

// Types are those of events that are recorded, as docs/events.md lists them.
func Types() []string {
	return []string{
		SourceFetched, SourceRefused, SourceFailing, SourceRecovered,
		ServiceDelivered, ServiceApplied, ServiceHealthy, ServiceDegraded, ServiceFailed, ServiceRecovered, ServiceHeld,
		ServiceDriftRepaired, ServicePruned, ServiceRemovalFailed, ServiceDeleted, ServiceMoved,
		ServiceRolledBack, ServiceTestsPassed, ServiceTestsFailed,
		ConfigChanged, ConfigFailing, ConfigRecovered,
		GuardTripped, GuardConfirmed, GuardReleased, PinSet, PinReleased, HoldSet, HoldReleased, LeverEnding, FreezeSet, FreezeReleased,
		ClusterJoined, ClusterLost, ClusterBack, ClusterLeft, TokenReused,
		AccessRequest, AccessLent, AccessRefused, AccessTaken, AccessOver,
		CatalogRestored, RemovalsHeld, RemovalsConfirmed, RemovalsResolved,
		SinkFailing, SinkRecovered, SinkDropped,
		AlertFiring, AlertResolved, AlertAcknowledged, AlertSilenced, AlertUnsilenced,
	}
}

// Asked are the fields of a filter that a person writes now: a type that does not exist is a mistake there.
func Asked() query.Fields {
	out := Fields()
	out["type"] = query.OneOf(Types()...)
	return out
}

// Fields are those that events can be asked for. Any text may be a type: a kept filter may be of another version.
func Fields() query.Fields {
	out := query.Fields{"time": query.Time, "severity": levels(), "count": query.Number}
	for _, name := range []string{
		"id", "type", "project", "cluster", "service", "source", "message", "commit",
		"digest", "actor", "sink", "globalservice", "alert", "group",
	} {
		out[name] = query.Text
	}
	return out
}

// Row is an event for filters.
type Row struct{ *consolev1.Event }

// Field implements query.Row.
func (r Row) Field(name string) (query.Value, bool) {
	text := func(s string) (query.Value, bool) { return query.Value{Text: s}, s != "" }
	switch name {
	case "id":
		return text(r.GetId())
	case "type":
		return text(r.GetType())
	case "project":
		return text(r.GetProject())
	case "cluster":
		return text(r.GetCluster())
	case "service":
		return text(r.GetService())
	case "source":
		return text(r.GetSource())
	case "message":
		return text(r.GetMessage())
	case "commit":
		return text(r.GetCommit())
	case "digest":
		return text(r.GetDigest())
	case "actor":
		return text(r.GetActor())
	case "sink":
		return text(r.GetSink())
	case "globalservice":
		return text(r.GetGlobalService())
	case "alert":
		return text(r.GetAlert())
	case "group":
		return text(r.GetGroup())
	case "severity":
		return text(SeverityName(r.GetSeverity()))
	case "time":
		return query.Value{Number: r.GetTime().AsTime().UnixMicro()}, true
	case "count":
		return query.Value{Number: int64(r.GetCount())}, r.GetCount() != 0
	}
	return query.Value{}, false
}

// SeverityName is how people write a severity.
func SeverityName(s consolev1.Severity) string {
	const prefix = len("SEVERITY_")
	return s.String()[prefix:]
}

// stored is an event on its way into the store. parts make its id; none: there is no other like it.
func stored(e *consolev1.Event, at time.Time, parts ...string) store.Event {
	e.Time = timestamppb.New(at.UTC().Truncate(time.Microsecond))
	if e.Id = store.NewEventID(); len(parts) > 0 {
		e.Id = store.EventID(append([]string{e.GetType()}, parts...)...)
	}
	const longest = 8192
	e.Message = cut(e.GetMessage(), longest)
	text, err := protojson.Marshal(e)
	if err != nil {
		// A text that is no UTF-8, which messages of agents can't be: protobuf refused it before.
		e.Message = "(can't be shown)"
		text, _ = protojson.Marshal(e)
	}
	return store.Event{ID: e.GetId(), Time: e.GetTime().AsTime(), Type: e.GetType(), Cluster: e.GetCluster(), Service: e.GetService(), Event: text}
}

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xc0 == 0x80 { // not within a character
		most--
	}
	return text[:most] + "…"
}

// Reused is the event of a token that was used although it had been renewed.
func Reused(cluster, how string, at time.Time) store.Event {
	return stored(&consolev1.Event{
		Type: TokenReused, Severity: failing, Cluster: cluster,
		Message: fmt.Sprintf("Somebody may have a copy of its agent's data folder: %s. If nobody restored that folder, run fairlead cluster leave %s, which ends the credentials of its agents, and let it join again.", how, cluster),
	}, at)
}

// Decode reads an event. Of a later version, after a rollback, there may be more fields.
func Decode(s store.Event) (Told, error) {
	e := &consolev1.Event{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(s.Event, e); err != nil {
		return Told{}, fmt.Errorf("decode event %s: %w", s.ID, err)
	}
	if s.Members != nil && e.GetCluster() == "" {
		e.Cluster = s.Cluster
	}
	return Told{e, s.Members}, nil
}

// span is nil for no time, and for times that are out of order.
func span(from, to time.Time) *durationpb.Duration {
	if from.IsZero() || !to.After(from) {
		return nil
	}
	return durationpb.New(to.Sub(from))
}
