package audit

import (
	"math"
	"slices"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

func full() *consolev1.AuditEvent {
	return &consolev1.AuditEvent{
		Id: "0123456789abcdef-1", Time: &timestamppb.Timestamp{Seconds: 1_700_000_000, Nanos: 120_000_001},
		Actor: &consolev1.AuditActor{
			Kind: "user", Name: "ada <ada@example.com> \"x\"", Groups: []string{"dev", "ünïcode & \u2028"},
		},
		Action: "tunnel.request.end", Cluster: "edge-1", Resource: "pods/exec", Namespace: "shop", Name: "web-0",
		Verb: "create",
		Code: 200, BytesSent: math.MaxInt64, BytesReceived: 17, Duration: durationpb.New(1_000_000_003),
		TraceId: "0af7651916cd43dd8448eb211c80319c", Remote: "::1", Reason: "why\nnot\x01", Request: "r",
		Recorder: "service:tunnel", Before: `{"a":1}`, After: "{}",
		Impersonated: &consolev1.AuditActor{
			Kind: "user", Name: "bob", Groups: []string{"ops"}, Uid: "7",
			Extra: []*consolev1.AuditExtra{{Key: "example.com/scopes", Values: []string{"a", ""}}, {}},
		},
	}
}

// Every field of an event is read as it was. A new field of the proto that is not stored fails here.
func TestEventIsReadAsItWasStored(t *testing.T) {
	t.Parallel()
	all := full()
	for fields, i := all.ProtoReflect().Descriptor().Fields(), 0; i < fields.Len(); i++ {
		if !all.ProtoReflect().Has(fields.Get(i)) {
			t.Errorf("%s: not in this test", fields.Get(i).Name())
		}
	}
	least := &consolev1.AuditEvent{Id: "0123456789abcdef", Time: &timestamppb.Timestamp{}, Action: "a"}
	for _, d := range []*durationpb.Duration{
		{}, {Seconds: -1, Nanos: -5}, {Nanos: -5}, {Seconds: 315_576_000_000}, {Nanos: 999_999_999},
	} {
		e := full()
		e.Duration = d
		readAsStored(t, e)
	}
	readAsStored(t, all)
	readAsStored(t, least)
}

// FuzzStoredTexts has each text of an event, and its numbers, come back as they were.
func FuzzStoredTexts(f *testing.F) {
	for _, text := range []string{
		"", "a", "\"", "\\", "</script>", "\x00", "\x7f", "\u2028", "ünïcode", "a\nb", "{}", "\xff",
	} {
		f.Add(text, int64(len(text)), int32(-3))
	}
	f.Fuzz(func(t *testing.T, text string, number int64, code int32) {
		text = strings.ToValidUTF8(text, "?") // protobuf has no others
		e := full()
		e.BytesSent, e.BytesReceived, e.Code = number, -(number + 1), code
		fields := e.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			if fields.Get(i).Kind() == protoreflect.StringKind {
				e.ProtoReflect().Set(fields.Get(i), protoreflect.ValueOfString(text))
			}
		}
		e.Actor = &consolev1.AuditActor{
			Kind: text, Name: text, Groups: []string{text, ""}, Uid: text,
			Extra: []*consolev1.AuditExtra{{Key: text, Values: []string{text, "a"}}},
		}
		readAsStored(t, e)
	})
}

func BenchmarkStored(b *testing.B) {
	e := full()
	e.Impersonated, e.Before, e.After, e.Actor.Name, e.Actor.Groups, e.Reason = nil, "", "", "ada", []string{"dev"}, ""
	b.ReportAllocs()
	for b.Loop() {
		Stored(e)
	}
}

func readAsStored(t *testing.T, e *consolev1.AuditEvent) {
	t.Helper()
	s := Stored(e)
	var got consolev1.AuditEvent
	if err := protojson.Unmarshal(s.Event, &got); err != nil || !proto.Equal(&got, e) {
		t.Errorf("%v, then %v, %v: %s", e, &got, err, s.Event)
	}
}

// FuzzCheck holds the rules by hand to those of the proto.
func FuzzCheck(f *testing.F) {
	for _, text := range []string{
		"", "a", "A", "a.b", "a..b", ".a", "a-", "a_b", "user", "root", "0123456789abcdef", "ü", "a\n", "a/b", "-",
		"0123456789ABCDEF",
	} {
		for _, n := range []int{1, 16, 32, 33, 63, 64, 65, 253, 254, 1024, 1025, 2048, 2049} {
			f.Add(text, n)
		}
	}
	f.Fuzz(func(t *testing.T, text string, n int) {
		text = strings.ToValidUTF8(strings.Repeat(text, min(max(n, 0), 3000)/max(len(text), 1)+1), "")
		fields := (&consolev1.AuditEvent{}).ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			if fields.Get(i).Kind() != protoreflect.StringKind {
				continue
			}
			e := full()
			e.ProtoReflect().Set(fields.Get(i), protoreflect.ValueOfString(text))
			same(t, e)
		}
		for _, a := range []*consolev1.AuditActor{
			{Kind: text},
			{Name: text},
			{Groups: []string{"x", text}},
			{Groups: make([]string, min(max(n, 0), 70))},
			{Uid: text},
			{Extra: []*consolev1.AuditExtra{{Key: text}}},
			{Extra: []*consolev1.AuditExtra{{}, {Values: []string{"x", text}}}},
			{Extra: []*consolev1.AuditExtra{{Values: make([]string, min(max(n, 0), 70))}}},
			{Extra: slices.Repeat([]*consolev1.AuditExtra{{}}, min(max(n, 0), 70))},
		} {
			e := full()
			e.Actor = a
			same(t, e)
		}
	})
}

func TestWithoutATimeNothingIsStored(t *testing.T) {
	t.Parallel()
	e := full()
	e.Time = nil
	same(t, e)
}

func same(t *testing.T, e *consolev1.AuditEvent) {
	t.Helper()
	want, got := protovalidate.Validate(e), Check(e)
	if (want == nil) != (got == nil) {
		t.Errorf("%v: %v, but by the proto %v", e, got, want)
	}
}
