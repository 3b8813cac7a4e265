package registry

import (
	"testing"

	"go.uber.org/goleak"

	"fairlead.dev/platform/parallel"
)

func TestMain(m *testing.M) {
	parallel.WaitingTests()
	goleak.VerifyTestMain(m)
}
