// Package messages makes messages of any type of the API: about the victim's things, or with what no field is meant
// for.
package messages

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Victims is a message about the victim's things: names where the fields are names, and something that passes where
// not.
func Victims(d protoreflect.MessageDescriptor) *dynamicpb.Message { return victimsAt(d, 0) }

func victimsAt(d protoreflect.MessageDescriptor, depth int) *dynamicpb.Message {
	const deepest = 4
	m := dynamicpb.NewMessage(d)
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		if one := f.ContainingOneof(); one != nil && one.Fields().Get(0) != f || f.IsMap() || leftOut(f) {
			continue
		}
		var value protoreflect.Value
		switch f.Kind() {
		case protoreflect.StringKind:
			text := textOf(f)
			if text == "" {
				continue
			}
			value = protoreflect.ValueOfString(text)
		case protoreflect.MessageKind:
			if f.Name() == "duration" {
				lasts := dynamicpb.NewMessage(f.Message())
				lasts.Set(f.Message().Fields().ByName("seconds"), protoreflect.ValueOfInt64(3600))
				m.Set(f, protoreflect.ValueOfMessage(lasts))
				continue
			}
			if depth == deepest || strings.HasPrefix(string(f.Message().FullName()), "google.") || f.Name() == "status" {
				continue
			}
			value = protoreflect.ValueOfMessage(victimsAt(f.Message(), depth+1))
		case protoreflect.EnumKind:
			kind := f.Enum().Values().ByName("KIND_SERVICE")
			if kind == nil || f.IsList() {
				continue
			}
			value = protoreflect.ValueOfEnum(kind.Number())
		default:
			continue
		}
		if f.Name() == "template" { // which goes to the clusters of the selector
			spec := value.Message()
			spec.Clear(spec.Descriptor().Fields().ByName("cluster"))
		}
		if !f.IsList() {
			m.Set(f, value)
			continue
		}
		if f.Kind() == protoreflect.MessageKind || f.Name() == "names" {
			m.Mutable(f).List().Append(value)
		}
	}
	return m
}

// leftOut are fields that can't stand beside the others of their message, or take more than names.
func leftOut(f protoreflect.FieldDescriptor) bool {
	if m := f.Message(); m != nil && m.FullName() == "fairlead.delivery.v1.SyncWindow" {
		return true // a schedule, an action and a duration belong together
	}
	switch f.FullName().Parent() {
	case "fairlead.console.v1.SourceSpec":
		return f.Name() != "git"
	case "fairlead.console.v1.RoleSpec":
		return f.Name() == "rules"
	case "fairlead.console.v1.ServiceSpec":
		return slices.Contains([]protoreflect.Name{"chart", "version", "render", "sync", "service_account", "tests", "test_request"}, f.Name())
	case "fairlead.console.v1.GlobalServiceSpec":
		return f.Name() == "overrides"
	case "fairlead.console.v1.GitSource":
		return f.Name() == "verification"
	case "fairlead.console.v1.RenewTokenRequest", "fairlead.console.v1.JoinClusterRequest":
		return f.Name() == "key"
	default:
		return false
	}
}

// textOf is what a field of text says about the victim's things; empty: nothing.
func textOf(f protoreflect.FieldDescriptor) string {
	if parent := f.FullName().Parent().Name(); f.Name() == "kind" && (parent == "FreezeRequest" || parent == "UnfreezeRequest") {
		return "project"
	}
	if f.FullName() == "fairlead.console.v1.SearchRequest.text" {
		return "victim"
	}
	switch f.Name() {
	case "name", "service", "global_service", "secret", "path", "namespace", "service_account":
		return "victim"
	case "cluster", "names":
		return "a"
	case "verb":
		return "view"
	case "section":
		return "pods"
	case "source":
		return "sample"
	case "ref", "revision":
		return "main"
	case "user", "subject":
		return "user:ada"
	case "role":
		return "admin"
	case "reason", "guard", "id", "confirmation":
		return "x"
	case "hub_secret", "join_token", "link", "id_token", "token":
		return "xxxxxxxxxxxxxxxxxxxx"
	case "url":
		return "https://git.example.com/x.git"
	default:
		return ""
	}
}
