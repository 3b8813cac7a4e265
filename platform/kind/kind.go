// Package kind is the table of the kinds of resources. The table is the oneof of the message Resource in proto/: its order, and each
// kind's name, message, number and service follow from there, so that no part of the suite keeps a list of its own.
package kind

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// Message is a resource of any kind.
type Message interface {
	proto.Message
	GetMetadata() *consolev1.Metadata
}

// Kind is a kind of resources. The zero value is none.
type Kind struct {
	field protoreflect.FieldDescriptor // of Resource
}

// All are the kinds, a kind behind those that it may name.
func All() []Kind {
	fields := (&consolev1.Resource{}).ProtoReflect().Descriptor().Oneofs().ByName("resource").Fields()
	out := make([]Kind, fields.Len())
	for i := range out {
		out[i] = Kind{fields.Get(i)}
	}
	return out
}

// Named returns the kind with a name, as YAML has it (GlobalService) or in lower case.
func Named(name string) (Kind, bool) {
	return first(func(k Kind) bool { return k.Name() == name || k.Singular() == name })
}

// Numbered returns the kind with a number of the API.
func Numbered(number consolev1.Kind) (Kind, bool) {
	return first(func(k Kind) bool { return k.Number() == number })
}

func first(is func(Kind) bool) (Kind, bool) {
	all := All()
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i], true
	}
	return Kind{}, false
}

// Name is the kind as YAML has it: GlobalService.
func (k Kind) Name() string { return string(k.field.Message().Name()) }

// Singular is the kind as the store and commands have it: globalservice.
func (k Kind) Singular() string { return strings.ToLower(k.Name()) }

// Plural is several of the kind: globalservices.
func (k Kind) Plural() string { return k.Singular() + "s" }

// Number is the kind as requests have it: KIND_GLOBAL_SERVICE.
func (k Kind) Number() consolev1.Kind {
	return consolev1.Kind(consolev1.Kind_value["KIND_"+strings.ToUpper(string(k.field.Name()))])
}

// New returns an empty resource.
func (k Kind) New() Message {
	return (&consolev1.Resource{}).ProtoReflect().NewField(k.field).Message().Interface().(Message) //nolint:forcetypeassert // a test sees to it
}

// Method describes a call of the kind's service: Get, List, Update or Delete.
func (k Kind) Method(verb string) protoreflect.MethodDescriptor {
	if verb == "List" {
		return k.service().Methods().ByName(protoreflect.Name(verb + k.Name() + "s"))
	}
	return k.service().Methods().ByName(protoreflect.Name(verb + k.Name()))
}

func (k Kind) service() protoreflect.ServiceDescriptor {
	name := k.field.Message().FullName().Parent().Append(protoreflect.Name(k.Name() + "Service"))
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		panic(fmt.Sprintf("kind %s: %v", k.Name(), err)) // a test sees to it
	}
	return d.(protoreflect.ServiceDescriptor) //nolint:forcetypeassert // by its name
}

// Wrap puts a resource into the message for any; nil stays nil.
func Wrap(m Message) *consolev1.Resource {
	if m == nil {
		return nil
	}
	k, ok := Named(string(m.ProtoReflect().Descriptor().Name()))
	if !ok {
		return nil
	}
	out := &consolev1.Resource{}
	out.ProtoReflect().Set(k.field, protoreflect.ValueOfMessage(m.ProtoReflect()))
	return out
}

// Unwrap takes a resource out of the message for any. Nothing is in that of a kind which is not known yet.
func Unwrap(r *consolev1.Resource) (Kind, Message) {
	of := r.ProtoReflect()
	field := of.WhichOneof(of.Descriptor().Oneofs().ByName("resource"))
	if field == nil {
		return Kind{}, nil
	}
	m, _ := of.Get(field).Message().Interface().(Message)
	return Kind{field}, m
}
