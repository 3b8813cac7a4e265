package catalogyaml

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// Resource puts a message into the one field of a Resource that is for it.
func Resource(m Message) (*consolev1.Resource, error) {
	r := &consolev1.Resource{}
	fields := r.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if fd := fields.Get(i); fd.Message() == m.ProtoReflect().Descriptor() {
			r.ProtoReflect().Set(fd, protoreflect.ValueOfMessage(m.ProtoReflect()))
			return r, nil
		}
	}
	return nil, fmt.Errorf("a %s can't be applied", KindOf(m))
}
