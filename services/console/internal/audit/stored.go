package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/store"
)

// Stored is an event as the store keeps it.
func Stored(e *consolev1.AuditEvent) store.AuditEvent {
	text, _ := json.Marshal(encode(e)) // of texts and numbers
	return store.AuditEvent{
		ID: e.GetId(), Time: e.GetTime().AsTime(), Actor: subject(e.GetActor()), Cluster: e.GetCluster(), Action: e.GetAction(), Event: text,
	}
}

// stored is an AuditEvent in the JSON of protobuf, which it is read as. Events come by the thousand a second: by reflection,
// encoding and checking one takes as long as storing it.
type stored struct {
	ID            string `json:"id,omitempty"`
	Time          string `json:"time,omitempty"`
	Actor         *actor `json:"actor,omitempty"`
	Action        string `json:"action,omitempty"`
	Cluster       string `json:"cluster,omitempty"`
	Resource      string `json:"resource,omitempty"`
	Namespace     string `json:"namespace,omitempty"`
	Name          string `json:"name,omitempty"`
	Verb          string `json:"verb,omitempty"`
	Code          int32  `json:"code,omitempty"`
	BytesSent     int64  `json:"bytesSent,omitempty,string"`
	BytesReceived int64  `json:"bytesReceived,omitempty,string"`
	Duration      string `json:"duration,omitempty"`
	TraceID       string `json:"traceId,omitempty"`
	Remote        string `json:"remote,omitempty"`
	Reason        string `json:"reason,omitempty"`
	Request       string `json:"request,omitempty"`
	Recorder      string `json:"recorder,omitempty"`
	Before        string `json:"before,omitempty"`
	After         string `json:"after,omitempty"`
	Impersonated  *actor `json:"impersonated,omitempty"`
}

type actor struct {
	Kind   string   `json:"kind,omitempty"`
	Name   string   `json:"name,omitempty"`
	Groups []string `json:"groups,omitempty"`
	UID    string   `json:"uid,omitempty"`
	Extra  []extra  `json:"extra,omitempty"`
}

type extra struct {
	Key    string   `json:"key,omitempty"`
	Values []string `json:"values,omitempty"`
}

func encode(e *consolev1.AuditEvent) stored {
	s := stored{
		ID: e.GetId(), Action: e.GetAction(), Cluster: e.GetCluster(), Resource: e.GetResource(), Namespace: e.GetNamespace(), Name: e.GetName(),
		Verb: e.GetVerb(), Code: e.GetCode(), BytesSent: e.GetBytesSent(), BytesReceived: e.GetBytesReceived(), TraceID: e.GetTraceId(),
		Remote: e.GetRemote(), Reason: e.GetReason(), Request: e.GetRequest(), Recorder: e.GetRecorder(), Before: e.GetBefore(), After: e.GetAfter(),
		Time: e.GetTime().AsTime().Format(time.RFC3339Nano),
	}
	s.Actor, s.Impersonated = encodeActor(e.GetActor()), encodeActor(e.GetImpersonated())
	if d := e.GetDuration(); d != nil {
		s.Duration = seconds(d)
	}
	return s
}

func encodeActor(a *consolev1.AuditActor) *actor {
	if a == nil {
		return nil
	}
	encoded := &actor{Kind: a.GetKind(), Name: a.GetName(), Groups: a.GetGroups(), UID: a.GetUid()}
	for _, e := range a.GetExtra() {
		encoded.Extra = append(encoded.Extra, extra{e.GetKey(), e.GetValues()})
	}
	return encoded
}

// seconds is a duration in the JSON of protobuf.
func seconds(d *durationpb.Duration) string {
	whole, nanos, sign := d.GetSeconds(), d.GetNanos(), ""
	if whole < 0 || nanos < 0 {
		whole, nanos, sign = -whole, -nanos, "-"
	}
	return fmt.Sprintf("%s%d.%09ds", sign, whole, nanos)
}

// Check says why the console does not take an event that somebody sends: the rules that the proto has for it.
func Check(e *consolev1.AuditEvent) error {
	switch {
	case len(e.GetId()) < 16 || len(e.GetId()) > 64 || !made(e.GetId(), "-"):
		return errors.New("id: must be 16 to 64 of a-z, 0-9 and -")
	case !e.GetTime().IsValid():
		return errors.New("time: must be given, and between the years 1 and 9999")
	case e.GetDuration() != nil && !e.GetDuration().IsValid():
		return errors.New("duration: must be one of less than 10,000 years")
	case len(e.GetAction()) > 64 || !words(e.GetAction()):
		return errors.New("action: must be words of a-z and 0-9 with dots between them, at most 64 characters")
	case len(e.GetCluster()) > 63 || !made(e.GetCluster(), "-"):
		return errors.New("cluster: must be at most 63 of a-z, 0-9 and -")
	}
	for i, a := range [...]*consolev1.AuditActor{e.GetActor(), e.GetImpersonated()} {
		if err := checkActor(a); err != nil {
			return fmt.Errorf("%s.%w", [...]string{"actor", "impersonated"}[i], err)
		}
	}
	for _, text := range [...]struct {
		name, value string
		most        int
	}{
		{"resource", e.GetResource(), 1024},
		{"namespace", e.GetNamespace(), 253},
		{"name", e.GetName(), 253},
		{"verb", e.GetVerb(), 64},
		{"trace_id", e.GetTraceId(), 32},
		{"remote", e.GetRemote(), 253},
		{"reason", e.GetReason(), 2048},
		{"request", e.GetRequest(), 64},
	} {
		if tooLong(text.value, text.most) {
			return fmt.Errorf("%s: must be at most %d characters", text.name, text.most)
		}
	}
	return nil
}

func checkActor(a *consolev1.AuditActor) error {
	switch a.GetKind() {
	case "", "user", "agent", "service":
	default:
		return errors.New("kind: must be user, agent or service")
	}
	if tooLong(a.GetName(), 253) {
		return errors.New("name: must be at most 253 characters")
	}
	if len(a.GetGroups()) > 64 {
		return errors.New("groups: must be at most 64")
	}
	for _, g := range a.GetGroups() {
		if tooLong(g, 253) {
			return errors.New("groups: each must be at most 253 characters")
		}
	}
	if tooLong(a.GetUid(), 253) {
		return errors.New("uid: must be at most 253 characters")
	}
	return checkExtra(a.GetExtra())
}

func checkExtra(all []*consolev1.AuditExtra) error {
	if len(all) > 64 {
		return errors.New("extra: must be at most 64 keys")
	}
	for _, e := range all {
		if tooLong(e.GetKey(), 253) || len(e.GetValues()) > 64 {
			return errors.New("extra: each must be a key of at most 253 characters and at most 64 values")
		}
		for _, v := range e.GetValues() {
			if tooLong(v, 253) {
				return errors.New("extra: each value must be at most 253 characters")
			}
		}
	}
	return nil
}

func tooLong(s string, most int) bool { return len(s) > most && utf8.RuneCountInString(s) > most }

// made says whether a text is of a-z, 0-9 and some others.
func made(s, others string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return true
}

// words holds for words of a-z and 0-9 with one of ._- between each two.
func words(s string) bool {
	if !made(s, "._-") {
		return false
	}
	between := true // where a word must begin
	for _, c := range []byte(s) {
		separates := strings.IndexByte("._-", c) >= 0
		if separates && between {
			return false
		}
		between = separates
	}
	return !between
}
