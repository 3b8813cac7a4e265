package catalogyaml

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Short is a value of an enum as people read and write it: dry-run for SYNC_MODE_DRY_RUN.
func Short(e protoreflect.Enum) string {
	ed := e.Descriptor()
	if value := ed.Values().ByNumber(e.Number()); value != nil {
		return short(ed, string(value.Name()))
	}
	return "unknown"
}

func short(ed protoreflect.EnumDescriptor, name string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, prefix(ed)), "_", "-"))
}

// long is the name in the API's JSON of what is written in either way; "" if there is none.
func long(ed protoreflect.EnumDescriptor, text string) string {
	for i := range ed.Values().Len() {
		if name := string(ed.Values().Get(i).Name()); text == name || text == short(ed, name) {
			return name
		}
	}
	return ""
}

// prefix is what the names of an enum begin with. The first, which says that nothing was said, is nothing more.
func prefix(ed protoreflect.EnumDescriptor) string {
	return strings.TrimSuffix(string(ed.Values().Get(0).Name()), "UNSPECIFIED")
}

// shorten makes the enums of a message short in its plain data.
func shorten(tree map[string]any, md protoreflect.MessageDescriptor) {
	for name, value := range tree {
		fd := md.Fields().ByJSONName(name)
		switch {
		case fd == nil:
		case fd.IsMap():
			values, _ := value.(map[string]any)
			for key, value := range values {
				values[key] = shortened(value, fd.MapValue())
			}
		case fd.IsList():
			values, _ := value.([]any)
			for i, value := range values {
				values[i] = shortened(value, fd)
			}
		default:
			tree[name] = shortened(value, fd)
		}
	}
}

func shortened(value any, fd protoreflect.FieldDescriptor) any {
	switch value := value.(type) {
	case string:
		if fd.Kind() == protoreflect.EnumKind {
			return short(fd.Enum(), value)
		}
	case map[string]any:
		if fd.Kind() == protoreflect.MessageKind && !wellKnownType(fd.Message()) {
			shorten(value, fd.Message())
		}
	}
	return value
}

// wellKnownType tells the types that protojson writes in ways of their own.
func wellKnownType(md protoreflect.MessageDescriptor) bool {
	return md.ParentFile().Package() == "google.protobuf"
}
