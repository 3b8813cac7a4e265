package rpc_test

import (
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/kind"
	"fairlead.dev/services/console/internal/rpc"
)

// Each kind of the contract has one line in the table, in the order of the contract: engines ask the table by any of
// these kinds.
func TestEachKindOfTheContractIsDescribedOnce(t *testing.T) {
	t.Parallel()
	table, all := rpc.Kinds(), kind.All()
	for i := range max(len(table), len(all)) {
		var described, want string
		if i < len(table) {
			described = table[i].Of().Name()
		}
		if i < len(all) {
			want = all[i].Name()
		}
		if described != want {
			t.Errorf("line %d of the table describes %q, and the contract has %q there", i, described, want)
		}
	}
}

// A kind that hub services are told of has a field in the message that they are told with.
func TestEachFollowedKindIsAChange(t *testing.T) {
	t.Parallel()
	fields := (&consolev1.Change{}).ProtoReflect().Descriptor().Oneofs().ByName("change").Fields()
	for _, of := range rpc.Kinds() {
		if !of.Follows() {
			continue
		}
		found := 0
		for i := range fields.Len() {
			if fields.Get(i).Message() == of.Of().New().ProtoReflect().Descriptor() {
				found++
			}
		}
		if found != 1 {
			t.Errorf("the oneof of Change has %d fields for %s", found, of.Of().Name())
		}
	}
}
