package descriptor

import (
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// Masked leaves of resources what the request's mask names; without one all.
func Masked[M proto.Message](req interface {
	GetReadMask() *fieldmaskpb.FieldMask
}, list []M,
) ([]M, error) {
	paths := req.GetReadMask().GetPaths()
	if len(paths) == 0 {
		return list, nil
	}
	var kind M
	for _, path := range paths {
		if !(&fieldmaskpb.FieldMask{Paths: []string{path}}).IsValid(kind) {
			name := kind.ProtoReflect().Descriptor().Name()
			return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("read_mask: %q is no field of %s: write it like metadata.name", path, name))
		}
	}
	for _, m := range list {
		prune(m.ProtoReflect(), paths)
	}
	return list, nil
}

// prune clears what no path leads to.
func prune(m protoreflect.Message, paths []string) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		name := string(fd.Name())
		if slices.Contains(paths, name) {
			return true
		}
		var below []string
		for _, p := range paths {
			if rest, ok := strings.CutPrefix(p, name+"."); ok {
				below = append(below, rest)
			}
		}
		if len(below) == 0 {
			m.Clear(fd)
			return true
		}
		prune(v.Message(), below)
		return true
	})
}
