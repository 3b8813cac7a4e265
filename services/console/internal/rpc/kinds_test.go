package rpc

import (
	"strings"
	"testing"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/kind"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/kinds/sink"
	"fairlead.dev/services/console/internal/store"
)

func TestAKindThatNoDescriptorIsThereForIsRefused(t *testing.T) {
	t.Parallel()
	d := Deps{Kinds: descriptor.Table{sourceKind()}}
	for _, r := range []*consolev1.Resource{{}, kind.Wrap(&consolev1.Sink{})} {
		_, err := d.draftAny(r)
		if connect.CodeOf(err) != connect.CodeInvalidArgument ||
			!strings.HasSuffix(err.Error(), "this console does not know that yet") {
			t.Errorf("%v: got %v", r, err)
		}
	}
}

func TestAFollowedKindWithoutAFieldInChangeIsNotSent(t *testing.T) {
	t.Parallel()
	of := sink.Kind()
	of.Follow = func(store.Change) (*consolev1.Sink, error) { return &consolev1.Sink{}, nil }
	s := &followers{Deps{Kinds: descriptor.Table{of}}}
	if got, err := s.change(store.Change{
		Kind: store.KindSink, Name: "hook", Resource: store.Resource{Kind: store.KindSink, Name: "hook"},
	}); err == nil {
		t.Errorf("sent %v", got)
	}
}
