package resource

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalogyaml"
)

const (
	// SetLabel says which set a resource was applied with.
	SetLabel = "fairlead.dev/set"
	// DeclaredLabel names the service whose folder declares a resource.
	DeclaredLabel = "fairlead.dev/declared-by"
)

// AsWritten takes away what the hub fills in.
func AsWritten(m catalogyaml.Message) catalogyaml.Message {
	r := m.ProtoReflect()
	if status := r.Descriptor().Fields().ByName("status"); status != nil {
		r.Clear(status)
	}
	if s, ok := m.(*consolev1.Service); ok {
		OfFiles(s)
		s.Levers = nil
		s.GetSpec().TestRequest = nil
	}
	head := m.GetMetadata()
	r.Set(r.Descriptor().Fields().ByName("metadata"), protoreflect.ValueOfMessage(
		(&consolev1.Metadata{Name: head.GetName(), Labels: head.GetLabels()}).ProtoReflect()))
	return m
}

// OfFiles gives a service the spec that files say: what operators pulled stands beside it, and what they asked for is
// no part of it.
func OfFiles(s *consolev1.Service) {
	if files := s.GetLevers().GetSpec(); files != nil {
		s.Spec, s.Levers.Spec = files, nil
	}
	if sync := s.GetSpec().GetSync(); sync != nil {
		if sync.RequestTime = nil; proto.Size(sync) == 0 {
			s.Spec.Sync = nil
		}
	}
}

// GlobalLabel is on services that come of a global service.
const GlobalLabel = "fairlead.dev/global"
