//go:build !unix

package server

import "math"

func mostConnections() int64 { return math.MaxInt32 }
