package messages

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Filling says what all fields of a message are set to.
type Filling struct {
	Text   string
	Number int64
	Many   int // items of each list
}

// mostNested bounds how far messages within messages are filled.
const mostNested = 3

// Message is a message whose fields are all set.
func (f Filling) Message(d protoreflect.MessageDescriptor) *dynamicpb.Message {
	return f.messageAt(d, 0)
}

func (f Filling) messageAt(d protoreflect.MessageDescriptor, depth int) *dynamicpb.Message {
	m := dynamicpb.NewMessage(d)
	for i := range d.Fields().Len() {
		field := d.Fields().Get(i)
		if field.IsMap() || field.Message() != nil && depth == mostNested {
			continue
		}
		if !field.IsList() {
			m.Set(field, f.value(field, depth))
			continue
		}
		items := f.Many
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

func (f Filling) value(field protoreflect.FieldDescriptor, depth int) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(f.Text)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(f.Text))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(99)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(max(min(f.Number, math.MaxInt32), math.MinInt32)))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(f.Number)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(math.MaxUint32)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(math.MaxUint64)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(math.Inf(1)))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(math.NaN())
	default:
		if f.Many > 2 { // lists within lists would be too long to send
			return protoreflect.ValueOfMessage(dynamicpb.NewMessage(field.Message()))
		}
		return protoreflect.ValueOfMessage(f.messageAt(field.Message(), depth+1))
	}
}

// NoText sets all fields of text to bytes that are none, which no library writes.
func NoText(d protoreflect.MessageDescriptor) (body []byte) {
	for i := range d.Fields().Len() {
		if field := d.Fields().Get(i); field.Kind() == protoreflect.StringKind {
			body = protowire.AppendTag(body, field.Number(), protowire.BytesType)
			body = protowire.AppendBytes(body, []byte("\xff\xfe\x00\xc0"))
		}
	}
	return body
}
