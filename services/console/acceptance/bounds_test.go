package acceptance

import (
	"fmt"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/longform"
)

// Rounds, agents and views look at all resources of these kinds: there are so many at most. What is there can still be
// changed.
func TestThereAreSoManyAtMost(t *testing.T) {
	t.Parallel()
	longform.Only(t, "as many resources as there may be")
	admin := newHub(t, "").start(t).admin(t)
	nowhere := labelled("site", "none")
	for kind, tc := range map[string]struct {
		most int
		make func(name, description string) proto.Message
	}{
		"alert": {200, func(name, description string) proto.Message {
			is := newAlert(name, "name = none")
			is.Spec.Description = description
			return is
		}},
		"agentconfig": {200, func(name, description string) proto.Message {
			is := newAgentConfig(name, nowhere, &deliveryv1.AgentSettings{Concurrency: 1})
			is.Spec.Description = description
			return is
		}},
		"viewset": {50, func(name, description string) proto.Message {
			is := newViewSet(name, nowhere)
			is.Spec.Description = description
			return is
		}},
	} {
		t.Run(kind, func(t *testing.T) {
			var list []proto.Message
			for i := range tc.most {
				list = append(list, tc.make(fmt.Sprintf("a%d", i), ""))
			}
			admin.must(t, list...)
			_, err := admin.apply(t, &consolev1.ApplyRequest{Resources: anyOf(tc.make("one-more", ""))})
			wantCode(t, err, connect.CodeFailedPrecondition,
				fmt.Sprintf("%s %q: there are %d already", kind, "one-more", tc.most))
			admin.must(t, tc.make("a0", "changed"))
		})
	}
}
