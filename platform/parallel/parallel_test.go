package parallel_test

import (
	"flag"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fairlead.dev/platform/parallel"
)

func TestMain(m *testing.M) {
	parallel.WaitingTests()
	os.Exit(m.Run())
}

func TestMoreTestsRunAtOnceThanThereAreCores(t *testing.T) {
	t.Parallel()
	if slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-test.parallel") }) {
		t.Skip("-parallel says how many")
	}
	got, err := strconv.Atoi(flag.Lookup("test.parallel").Value.String())
	if err != nil || got < 8 || got < runtime.GOMAXPROCS(0) {
		t.Errorf("%d tests at once, %v", got, err)
	}
}
