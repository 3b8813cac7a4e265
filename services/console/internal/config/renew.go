package config

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/identity"
	"fairlead.dev/services/console/internal/outage"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/store"
)

// renewEvery is how often it is looked for what an older key has sealed: a console that has not been told of the newest
// one yet may go on using it.
const renewEvery = 10 * time.Minute

// renewRetry is the pause after the database did not answer in time.
const renewRetry = 10 * time.Second

// Renewer seals under the first master key what others have sealed.
type Renewer struct {
	Store *store.Store
	Box   *seal.Box
	Log   *slog.Logger

	looked atomic.Bool
	older  atomic.Int64
}

// Older is how much older keys have sealed that can't be sealed anew; no number before it was looked for.
func (r *Renewer) Older() float64 {
	if !r.looked.Load() {
		return math.NaN()
	}
	return float64(r.older.Load())
}

// Run looks at once, and then now and then, until ctx ends.
func (r *Renewer) Run(ctx context.Context) error {
	timer := time.NewTimer(renewEvery)
	defer timer.Stop()
	var away outage.Outage
	for {
		err := r.renew(ctx)
		switch {
		case err == nil:
			away.Over(ctx, r.Log, time.Now(), "what older master keys have sealed can be sealed anew")
		case ctx.Err() == nil:
			away.Failed(ctx, r.Log, time.Now(), "what older master keys have sealed stays so for now", err)
		}
		pause := renewEvery
		if errors.Is(err, store.ErrUnavailable) {
			pause = renewRetry
		}
		timer.Reset(pause)
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
	}
}

func (r *Renewer) renew(ctx context.Context) error {
	var renewed, failed int64
	var first error
	err := r.Store.RenewSealed(ctx, func(v store.Sealed) ([]byte, error) {
		next, err := r.Box.Renew(purposeOf(v), v.Value)
		if err != nil {
			failed++
			if first == nil {
				first = err
			}
			return nil, nil // a damaged value must not hold up the others
		}
		if next != nil {
			renewed++
		}
		return next, nil
	})
	if err == nil {
		err = first
	}
	if err == nil || failed > 0 {
		r.older.Store(failed)
		r.looked.Store(true)
	}
	if renewed > 0 {
		r.Log.InfoContext(ctx, "sealed anew under the first master key", "values", renewed)
	}
	return err
}

func purposeOf(v store.Sealed) string {
	switch v.Table {
	case "configs":
		return valuesPurpose(v.UID)
	case "places":
		return placePurpose(v.UID)
	case "config_key":
		return keyPurpose
	case "signing_keys":
		return identity.KeysPurpose
	}
	return catalog.SealPurpose(v.Kind, v.Name)
}
