package audit

import (
	"fmt"
	"strings"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	trail "fairlead.dev/platform/audit"
	platform "fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/store/audittrail"
)

// Who says which identity did something, and from where.
type Who struct {
	Identity platform.Identity
	// Remote is an address.
	Remote string
	// Program is what the caller's program calls itself; empty: not known.
	Program string
	TraceID string
}

// Console is the console itself.
func Console() Who {
	return Who{Identity: platform.Identity{Kind: platform.KindService, Name: platform.ServiceConsole}}
}

// Act is what was done.
type Act struct {
	// Action is words with dots between them: catalog.update.
	Action string
	// Verb is how, where the action does not say it.
	Verb string
	// Resource is a kind as in YAML.
	Resource, Name, Cluster string
	Reason                  string
	// Before and After are JSON, without secrets.
	Before, After string
}

// Event is an entry of the trail for what the console itself saw.
func Event(who Who, at time.Time, a Act) audittrail.Event {
	e := trail.Event{
		ID: trail.NewID(), Time: at, Actor: trail.Of(who.Identity), Action: a.Action, Verb: a.Verb,
		Cluster: a.Cluster, Resource: a.Resource, Name: a.Name,
		Reason: a.Reason, Remote: who.Remote, TraceID: who.TraceID,
	}.Proto()
	e.Recorder, e.Before, e.After = Console().Identity.Subject(), a.Before, a.After
	return Stored(e)
}

// Trimmed is the event which says that the oldest events went because there were too many.
func Trimmed(at time.Time, dropped int64) audittrail.Event {
	return Event(Console(), at, Act{
		Action: "audit.trimmed",
		Reason: fmt.Sprintf("%d of the oldest events went: the trail is at the bound of --audit-max-bytes", dropped),
	})
}

// Gap is the event in an export which says that events are missing before it.
func Gap(at time.Time) audittrail.Event {
	return Event(Console(), at, Act{
		Action: "audit.gap",
		Reason: "events between this one and the one before may be missing: " +
			"they went out of the trail before they were exported",
	})
}

// subject is what events are found by. A database's text has no NUL.
func subject(a *consolev1.AuditActor) string {
	return strings.ReplaceAll(platform.Identity{Kind: platform.Kind(a.GetKind()), Name: a.GetName()}.Subject(), "\x00", "")
}
