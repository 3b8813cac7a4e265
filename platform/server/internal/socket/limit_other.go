//go:build !unix

package socket

import "math"

// MostConnections is not known here.
func MostConnections() int64 { return math.MaxInt32 }
