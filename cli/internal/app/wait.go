package app

import (
	"time"
)

const (
	// WaitPatience is how long --wait waits for the cluster.
	WaitPatience = 10 * time.Minute
	WaitPause    = 500 * time.Millisecond
)
