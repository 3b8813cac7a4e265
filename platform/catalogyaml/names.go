package catalogyaml

import "google.golang.org/protobuf/reflect/protoreflect"

func fieldNames(md protoreflect.MessageDescriptor) []string {
	var names []string
	for i := range md.Fields().Len() {
		if fd := md.Fields().Get(i); !OutputOnly(fd) {
			names = append(names, fd.JSONName())
		}
	}
	return names
}

// EnumNames are the values of an enum as files have them.
func EnumNames(ed protoreflect.EnumDescriptor) []string {
	var names []string
	for i := 1; i < ed.Values().Len(); i++ { // the first says that nothing was said
		names = append(names, short(ed, string(ed.Values().Get(i).Name())))
	}
	return names
}
