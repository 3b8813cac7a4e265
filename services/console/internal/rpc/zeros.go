package rpc

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// withoutZeros writes the replacement character for each NUL in the texts of a message. Services hand on what clusters
// and Git hosts said, many of them in one call, and PostgreSQL takes no NUL: the text of one would hold up those of
// all.
func withoutZeros(m proto.Message) {
	clean := func(text string) string { return strings.ReplaceAll(text, "\x00", "\ufffd") }
	// Never fails: the function that is called never does.
	_ = protorange.Range(m.ProtoReflect(), func(p protopath.Values) error {
		at := p.Index(-1)
		text, ok := at.Value.Interface().(string)
		if !ok || !strings.Contains(text, "\x00") {
			return nil
		}
		value := protoreflect.ValueOfString(clean(text))
		switch parent := p.Index(-2).Value; at.Step.Kind() {
		case protopath.FieldAccessStep:
			parent.Message().Set(at.Step.FieldDescriptor(), value)
		case protopath.ListIndexStep:
			parent.List().Set(at.Step.ListIndex(), value)
		case protopath.MapIndexStep:
			parent.Map().Set(at.Step.MapIndex(), value)
		}
		return nil
	})
}
