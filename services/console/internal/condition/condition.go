// Package condition says how the hub is: the version of its console, its database, and the alerts that fire.
package condition

import (
	"context"
	"time"

	"fairlead.dev/platform/pulse"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/database"
)

// aboutPatience bounds a look at the database's size: the rest is known without it.
const aboutPatience = 2 * time.Second

// Observer looks at how the hub is. Its fields do not change.
type Observer struct {
	Store *store.Store
	// Database is how the store answers.
	Database *pulse.Pulse
	Alerts   *Alerts
	Consoles *Consoles
	// TraceURL is where a trace is shown, with {trace} in place of its id; empty: not known.
	TraceURL string
}

// About is what is known of the database. Version and Bytes are zero while it is away.
func (k *Observer) About(ctx context.Context) database.About {
	ctx, cancel := context.WithTimeout(ctx, aboutPatience)
	defer cancel()
	about, _ := k.Store.About(ctx) // the pulse says what is wrong
	return about
}
