// Package kind is the table of the kinds of resources. The table is the oneof of the message Resource in proto/: its
// order, and each kind's name, message, number and service follow from there, so that no part of the suite keeps a list
// of its own.
package kind

import (
	"fmt"
	"slices"
	"strings"
	"sync"

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
	field          protoreflect.FieldDescriptor // of Resource
	name, singular string
	number         consolev1.Kind
}

// table is made once: rights and lists look a kind up for each resource.
type table struct {
	all      []Kind
	byName   map[string]Kind
	byNumber map[consolev1.Kind]Kind
	byField  map[protoreflect.FieldNumber]Kind
}

var known = sync.OnceValue(func() table { //nolint:gochecknoglobals // a constant
	t := table{byName: map[string]Kind{}, byNumber: map[consolev1.Kind]Kind{}, byField: map[protoreflect.FieldNumber]Kind{}}
	fields := (&consolev1.Resource{}).ProtoReflect().Descriptor().Oneofs().ByName("resource").Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		k := Kind{field: fd, name: string(fd.Message().Name())}
		k.singular = strings.ToLower(k.name)
		k.number = consolev1.Kind(consolev1.Kind_value["KIND_"+strings.ToUpper(string(fd.Name()))])
		t.all = append(t.all, k)
		t.byName[k.name], t.byName[k.singular], t.byNumber[k.number], t.byField[fd.Number()] = k, k, k, k
	}
	return t
})

// All are the kinds, a kind behind those that it may name.
func All() []Kind { return slices.Clone(known().all) }

// Named returns the kind with a name, as YAML has it (GlobalService) or in lower case.
func Named(name string) (Kind, bool) {
	k, ok := known().byName[name]
	return k, ok
}

// Numbered returns the kind with a number of the API.
func Numbered(number consolev1.Kind) (Kind, bool) {
	k, ok := known().byNumber[number]
	return k, ok
}

// Name is the kind as YAML has it: GlobalService.
func (k Kind) Name() string { return k.name }

// Singular is the kind as the store and commands have it: globalservice.
func (k Kind) Singular() string { return k.singular }

// Plural is several of the kind: globalservices.
func (k Kind) Plural() string { return k.singular + "s" }

// Number is the kind as requests have it: KIND_GLOBAL_SERVICE.
func (k Kind) Number() consolev1.Kind { return k.number }

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
	return known().byField[field.Number()], m
}
