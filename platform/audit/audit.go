// Package audit records who did what for the console's audit trail.
//
// The promises. Record never waits: it puts the event into memory. Within 200 ms events are appended to the spool and
// flushed to the disk, and from then on they survive kill -9 and a power cut; Sync waits for that. A kill before it
// loses the last 200 ms, and the next start tells so (audit.lost). Events that a full or broken disk refuses go to the
// console at once. Each batch is sent to the console until the console says that it is durable there, however long that
// takes, so an event can be sent twice: its id tells, and the console keeps it once. Memory and spool are bounded; what
// doesn't fit is counted, and the count becomes an event of its own (audit.lost) as soon as there is room.
//
// Never put bodies, headers or queries into an event: they may hold secrets.
package audit

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
)

// Event is one thing that somebody did or tried. Texts are cut to what the console takes.
type Event struct {
	// ID is made by Record if it is empty.
	ID string
	// Time is now if it is zero.
	Time  time.Time
	Actor Actor
	// Action is words with dots between them: tunnel.request.end.
	Action   string
	Cluster  string
	Resource string
	// Namespace and Name of a Kubernetes object.
	Namespace, Name string
	Verb            string
	// Code is the HTTP status that came of it; 0: none.
	Code int
	// Sent and Received are bytes of bodies, towards what was asked and back.
	Sent, Received int64
	// Duration up to Time.
	Duration time.Duration
	TraceID  string
	Remote   string
	Reason   string
	// Impersonated is whom the actor passed off as at a Kubernetes API, or tried to; nil: nobody.
	Impersonated *Actor
	// Request is the same in all events of one request; empty: there is only one.
	Request string
}

// Actor is who did it.
type Actor struct {
	Kind   identity.Kind
	Name   string
	Groups []string
	// UID and Extra are of whom somebody passed off as at a Kubernetes API.
	UID   string
	Extra map[string][]string
}

// Of is the actor behind an identity.
func Of(id identity.Identity) Actor { return Actor{Kind: id.Kind, Name: id.Name, Groups: id.Groups} }

// NewID is a name for an event or a request. Those made later sort later.
func NewID() string {
	var random [10]byte
	_, _ = rand.Read(random[:]) // Read never fails
	return FirstID(time.Now()) + hex.EncodeToString(random[:])
}

// FirstID sorts before all ids that NewID makes from a moment on, and behind those that it made before.
func FirstID(at time.Time) string {
	var id [8]byte
	binary.BigEndian.PutUint64(id[:], uint64(at.UnixMilli())) // below 2^48 for 8,000 years
	return hex.EncodeToString(id[2:])
}

// Proto is the event as the console takes it: one that it refused would never get there.
func (e Event) Proto() *consolev1.AuditEvent {
	event := &consolev1.AuditEvent{
		Id: e.ID, Time: timestamppb.New(e.Time), Action: e.Action, Actor: e.Actor.proto(),
		Cluster: clip(e.Cluster, 63), Resource: clip(e.Resource, 1024), Namespace: clip(e.Namespace, 253), Name: clip(e.Name, 253),
		Verb: clip(e.Verb, 64), Code: int32(min(max(e.Code, 0), 999)),
		BytesSent: e.Sent, BytesReceived: e.Received, Duration: durationpb.New(e.Duration),
		TraceId: clip(e.TraceID, 32), Remote: clip(e.Remote, 253), Reason: clip(e.Reason, 2048), Request: clip(e.Request, 64),
	}
	if e.Impersonated != nil {
		event.Impersonated = e.Impersonated.proto()
	}
	return event
}

func (a Actor) proto() *consolev1.AuditActor {
	groups := make([]string, 0, min(len(a.Groups), identity.MaxGroups))
	for _, g := range a.Groups[:cap(groups)] {
		groups = append(groups, clip(g, 253))
	}
	return &consolev1.AuditActor{Kind: string(a.Kind), Name: clip(a.Name, 253), Groups: groups, Uid: clip(a.UID, 253), Extra: a.extra()}
}

// maxExtra bounds the keys of extra information, and the values of each, that an event tells.
const maxExtra = 64

func (a Actor) extra() []*consolev1.AuditExtra {
	if len(a.Extra) == 0 {
		return nil
	}
	keys := slices.Sorted(maps.Keys(a.Extra))
	all := make([]*consolev1.AuditExtra, 0, min(len(keys), maxExtra))
	for _, key := range keys[:cap(all)] {
		values := make([]string, 0, min(len(a.Extra[key]), maxExtra))
		for _, value := range a.Extra[key][:cap(values)] {
			values = append(values, clip(value, 253))
		}
		all = append(all, &consolev1.AuditExtra{Key: clip(key, 253), Values: values})
	}
	return all
}

// clip makes a text that a database and a terminal take, of so many characters at most.
func clip(s string, most int) string {
	if len(s) <= most && isPlain(s) {
		return s
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	for i := range s {
		if most == 0 {
			return s[:i]
		}
		most--
	}
	return s
}

func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
