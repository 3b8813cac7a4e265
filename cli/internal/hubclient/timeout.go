package hubclient

import (
	"time"
)

// CallTimeout bounds one call to the hub, so that a command never hangs without a word.
const CallTimeout = 30 * time.Second

// AsideTimeout bounds a call without whose answer a command goes on, such as the renewal of a token that is still good.
const AsideTimeout = 5 * time.Second

// WriteTimeout bounds one call that writes.
const WriteTimeout = time.Minute
