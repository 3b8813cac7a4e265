//go:build !race

package child_test

import "time"

const (
	// processor is what a child gets of one.
	processor = 2 * time.Second
	// memoryIsTold: a child without memory says that this is what it died of.
	memoryIsTold = true
)
