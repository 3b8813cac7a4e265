package attack

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// filling says what all fields of a message are set to.
type filling struct {
	text   string
	number int64
	many   int // items of each list
}

// deepest bounds how far messages within messages are filled.
const deepest = 3

// badFields has an attack for each procedure of the API: an administrator sends what no field is meant for. The part says
// what is wrong with each value and does not fail.
func badFields() (attacks []Attack) {
	for _, p := range procedures() {
		if leftAlone(p) {
			continue
		}
		attacks = append(attacks, Attack{
			Name: "bad fields for " + strings.TrimPrefix(p.path(), "/fairlead."), Part: p.part,
			Run: func(ctx context.Context, t *Try) (string, error) { return t.badFields(ctx, p) },
		})
	}
	return attacks
}

// leftAlone are procedures that do the same to the whole hub, or to the caller, whatever is in their fields.
func leftAlone(p procedure) bool {
	return p.Input().Fields().Len() == 0 || p.Parent().Name() == "AdminService" || slices.Contains([]protoreflect.Name{"Logout", "RotateSigningKey", "DrainReplica"}, p.Name())
}

func (t *Try) badFields(ctx context.Context, p procedure) (string, error) {
	token := t.world.callers.admin
	codes := map[int]int{}
	for _, f := range []filling{
		{"\x00", math.MaxInt64, 1},
		{strings.Repeat("x", 70_000), math.MinInt64, 1},
		{"\u202e'\"\\;--%s${x}{{.}}<img>\U0010ffff\ufffe", -1, 2},
		{"", 0, 20_000},
	} {
		whole, err := proto.Marshal(f.message(p.Input(), 0))
		if err != nil {
			return "", err
		}
		for _, body := range [][]byte{whole, whole[:len(whole)/2], noText(p.Input())} {
			a, err := t.binary(ctx, p, token, body)
			if err != nil {
				return "", err
			}
			if codes[a.Code]++; a.Code >= http.StatusInternalServerError && a.Code != http.StatusServiceUnavailable && a.Code != http.StatusNotImplemented {
				return a.String(), fmt.Errorf("with %d items of %.20q and %d", f.many, f.text, f.number)
			}
			if err := silentOf(strings.ToLower(a.Body), "sqlstate", "goroutine ", "panic:", "runtime error"); err != nil {
				return a.String(), err
			}
		}
	}
	return fmt.Sprintf("answered with %v", codes), t.untouched(ctx)
}

// binary calls a procedure of any kind with the bytes of a message.
func (t *Try) binary(ctx context.Context, p procedure, token string, body []byte) (Answer, error) {
	if p.IsStreamingServer() || p.IsStreamingClient() {
		return t.streamAs(ctx, p.part, p.path(), token, "application/connect+proto", string(body))
	}
	a, err := t.send(ctx, http.MethodPost, t.world.Hub[p.part]+p.path(), token, strings.NewReader(string(body)), "Content-Type", "application/proto")
	if errors.Is(err, context.DeadlineExceeded) {
		return Answer{Code: http.StatusGatewayTimeout}, nil
	}
	return a, err
}

func (f filling) message(d protoreflect.MessageDescriptor, depth int) *dynamicpb.Message {
	m := dynamicpb.NewMessage(d)
	for i := range d.Fields().Len() {
		field := d.Fields().Get(i)
		if field.IsMap() || field.Message() != nil && depth == deepest {
			continue
		}
		if !field.IsList() {
			m.Set(field, f.value(field, depth))
			continue
		}
		items := f.many
		if field.Message() != nil {
			items = min(items, 2000)
		}
		list := m.Mutable(field).List()
		for range items {
			list.Append(f.value(field, depth+1))
		}
	}
	return m
}

func (f filling) value(field protoreflect.FieldDescriptor, depth int) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(f.text)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(f.text))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(99)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(max(min(f.number, math.MaxInt32), math.MinInt32)))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(f.number)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(math.MaxUint32)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(math.MaxUint64)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(math.Inf(1)))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(math.NaN())
	default:
		if f.many > 2 { // lists within lists would be too long to send
			return protoreflect.ValueOfMessage(dynamicpb.NewMessage(field.Message()))
		}
		return protoreflect.ValueOfMessage(f.message(field.Message(), depth+1))
	}
}

// noText sets all fields of text to bytes that are none, which no library writes.
func noText(d protoreflect.MessageDescriptor) (body []byte) {
	for i := range d.Fields().Len() {
		if field := d.Fields().Get(i); field.Kind() == protoreflect.StringKind {
			body = protowire.AppendTag(body, field.Number(), protowire.BytesType)
			body = protowire.AppendBytes(body, []byte("\xff\xfe\x00\xc0"))
		}
	}
	return body
}
