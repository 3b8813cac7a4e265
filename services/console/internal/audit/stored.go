package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/store/audittrail"
)

// Stored is an event as the store keeps it.
func Stored(e *consolev1.AuditEvent) audittrail.Event {
	return audittrail.Event{
		ID: e.GetId(), Time: e.GetTime().AsTime(), Actor: subject(e.GetActor()), Cluster: e.GetCluster(), Action: e.GetAction(), Event: encode(e),
	}
}

// usualEvent is room for most events, in bytes.
const usualEvent = 512

// encode writes an event in the JSON of protobuf, which it is read as. Events come by the thousand a second: by
// reflection, encoding and checking one takes as long as storing it.
func encode(e *consolev1.AuditEvent) []byte {
	o := object{append(make([]byte, 0, usualEvent), '{')}
	o.text("id", e.GetId())
	o.text("time", e.GetTime().AsTime().Format(time.RFC3339Nano))
	o.actor("actor", e.GetActor())
	o.text("action", e.GetAction())
	o.text("cluster", e.GetCluster())
	o.text("resource", e.GetResource())
	o.text("namespace", e.GetNamespace())
	o.text("name", e.GetName())
	o.text("verb", e.GetVerb())
	if code := e.GetCode(); code != 0 {
		o.field("code")
		o.json = strconv.AppendInt(o.json, int64(code), 10)
	}
	o.number("bytesSent", e.GetBytesSent())
	o.number("bytesReceived", e.GetBytesReceived())
	if d := e.GetDuration(); d != nil {
		o.text("duration", seconds(d))
	}
	o.text("traceId", e.GetTraceId())
	o.text("remote", e.GetRemote())
	o.text("reason", e.GetReason())
	o.text("request", e.GetRequest())
	o.text("recorder", e.GetRecorder())
	o.text("before", e.GetBefore())
	o.text("after", e.GetAfter())
	o.actor("impersonated", e.GetImpersonated())
	return append(o.json, '}')
}

// object is a JSON object that is being written: its fields are left out where they have nothing.
type object struct{ json []byte }

// field begins a field. Names need no escapes.
func (o *object) field(name string) {
	if o.json[len(o.json)-1] != '{' {
		o.json = append(o.json, ',')
	}
	o.json = append(append(append(o.json, '"'), name...), '"', ':')
}

func (o *object) text(name, value string) {
	if value != "" {
		o.field(name)
		o.json = appendText(o.json, value)
	}
}

// number writes a number of 64 bits, which is a text in the JSON of protobuf.
func (o *object) number(name string, value int64) {
	if value != 0 {
		o.field(name)
		o.json = append(strconv.AppendInt(append(o.json, '"'), value, 10), '"')
	}
}

func (o *object) texts(name string, values []string) {
	if len(values) == 0 {
		return
	}
	o.field(name)
	o.json = append(o.json, '[')
	for i, value := range values {
		if i > 0 {
			o.json = append(o.json, ',')
		}
		o.json = appendText(o.json, value)
	}
	o.json = append(o.json, ']')
}

func (o *object) actor(name string, a *consolev1.AuditActor) {
	if a == nil {
		return
	}
	o.field(name)
	o.json = append(o.json, '{')
	o.text("kind", a.GetKind())
	o.text("name", a.GetName())
	o.texts("groups", a.GetGroups())
	o.text("uid", a.GetUid())
	o.extra(a.GetExtra())
	o.json = append(o.json, '}')
}

func (o *object) extra(all []*consolev1.AuditExtra) {
	if len(all) == 0 {
		return
	}
	o.field("extra")
	o.json = append(o.json, '[')
	for i, e := range all {
		if i > 0 {
			o.json = append(o.json, ',')
		}
		o.json = append(o.json, '{')
		o.text("key", e.GetKey())
		o.texts("values", e.GetValues())
		o.json = append(o.json, '}')
	}
	o.json = append(o.json, ']')
}

// appendText writes a text in JSON. Most texts need no escapes.
func appendText(to []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(text) // a text can be
			return append(to, quoted...)
		}
	}
	return append(append(append(to, '"'), text...), '"')
}

// seconds is a duration in the JSON of protobuf.
func seconds(d *durationpb.Duration) string {
	whole, nanos := d.GetSeconds(), int64(d.GetNanos())
	var room [32]byte
	text := room[:0]
	if whole < 0 || nanos < 0 {
		whole, nanos, text = -whole, -nanos, append(text, '-')
	}
	text = append(strconv.AppendInt(text, whole, 10), '.')
	digits := strconv.AppendInt(nil, nanos+1_000_000_000, 10) // a one, and nine digits
	return string(append(append(text, digits[1:]...), 's'))
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
	case !IsAction(e.GetAction()):
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

// IsAction says whether an event may have an action.
func IsAction(s string) bool { return len(s) <= 64 && words(s) }

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
