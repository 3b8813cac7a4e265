//go:build race

package child_test

import "time"

const (
	// processor is more here: the detector makes reading many documents take long.
	processor = 20 * time.Second
	// memoryIsTold: the detector ends a child without memory in a way of its own.
	memoryIsTold = false
)
