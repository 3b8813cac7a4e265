//go:build !linux

package pack

import "time"

var began = time.Now() //nolint:gochecknoglobals // a constant

// processorTime is the time of the clock where threads are not counted.
func processorTime() time.Duration { return time.Since(began) }
