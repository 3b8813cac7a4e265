package hubclient

import (
	"time"
)

// CallTimeout bounds one call to the hub, so that a command never hangs without a word.
const CallTimeout = 30 * time.Second

// WriteTimeout bounds one call that writes.
const WriteTimeout = time.Minute
