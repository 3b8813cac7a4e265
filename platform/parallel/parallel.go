// Package parallel is for packages whose tests wait more than they work.
package parallel

import (
	"flag"
	"runtime"
	"strconv"
)

// atOnce is how many tests of such a package run at once on a small machine.
const atOnce = 8

// WaitingTests lets more tests run at once than there are cores, unless -parallel says how many. TestMain calls it
// before Run.
func WaitingTests() {
	if err := flag.Set("test.parallel", strconv.Itoa(max(atOnce, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err) // the call is outside of a test
	}
}
