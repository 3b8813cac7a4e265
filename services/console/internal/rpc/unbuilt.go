package rpc

import (
	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/catalog"
)

// unbuilt refuses what the API can say and this console does not do: better than to take it and do nothing.
func unbuilt(who string, spec proto.Message) error {
	field := ""
	switch s := spec.(type) {
	case *consolev1.ServiceSpec:
		switch {
		case s.GetCatalog():
			field = "catalog"
		}
	}
	if field == "" {
		return nil
	}
	return catalog.Refuse(catalog.Invalid, "%sspec.%s: this console can't do that yet: leave it out", who, field)
}
