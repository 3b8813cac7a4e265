// Package removals keeps services in clusters when the catalog may have forgotten them: after its database was put back
// to an earlier state nothing is removed until a person has seen what would go, and confirms it.
package removals

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/guard"
)

// Desk holds removals and lets them go.
type Desk struct {
	Store *store.Store
	Log   *slog.Logger
}

// State is what is held, and why.
type State struct {
	guard.Removals

	Clusters []guard.Held // in the order of names
	// ID names exactly this; empty: nothing is held.
	ID string
}

// Hold has removals wait for a person. That they do already is no error.
func (k *Desk) Hold(ctx context.Context, reason string) error {
	return k.Store.Write(ctx, "", func(ctx context.Context, tx *store.Tx) error {
		begun, err := tx.HoldRemovals(ctx, reason)
		if err == nil && begun {
			k.Log.WarnContext(ctx, "nothing is removed from clusters until somebody confirms it: see `fairlead confirm removals`", "reason", reason)
			tx.Tell(event.Restored(reason, tx.Now()))
		}
		return err
	})
}

// Record takes in what stays in clusters: all of each that is named.
func (k *Desk) Record(ctx context.Context, in map[string][]string) error {
	if none, err := k.noneHeld(ctx, in); err != nil || none {
		return err // as agents come: nobody writes therefore
	}
	return k.Store.Write(ctx, "", func(ctx context.Context, tx *store.Tx) error {
		clusters, err := tx.Named(ctx, store.KindCluster, slices.Sorted(maps.Keys(in)))
		if err != nil {
			return err
		}
		list, err := tx.Held(ctx)
		if err != nil {
			return err
		}
		before := map[string][]string{}
		for _, h := range list {
			before[h.Cluster] = h.Services
		}
		for name, cluster := range clusters {
			services := slices.Compact(slices.Sorted(slices.Values(in[name])))
			if slices.Equal(before[name], services) {
				continue
			}
			if err := tx.PutHeld(ctx, cluster.UID, services); err != nil {
				return err
			}
			switch {
			case len(before[name]) == 0:
				tx.Tell(event.Held(name, services, tx.Now()))
			case len(services) == 0:
				tx.Tell(event.Resolved(name, tx.Now()))
			}
		}
		return nil
	})
}

// noneHeld says that nothing stays in any of these clusters, and that this is known.
func (k *Desk) noneHeld(ctx context.Context, in map[string][]string) (none bool, err error) {
	for _, services := range in {
		if len(services) > 0 {
			return false, nil
		}
	}
	err = k.Store.Read(ctx, func(ctx context.Context, v store.View) error {
		list, err := v.Held(ctx)
		none = !slices.ContainsFunc(list, func(h guard.Held) bool { _, ok := in[h.Cluster]; return ok })
		return err
	})
	return none, err
}

// State returns what is held.
func (k *Desk) State(ctx context.Context) (out State, err error) {
	err = k.Store.Read(ctx, func(ctx context.Context, v store.View) error {
		out, err = state(ctx, v)
		return err
	})
	return out, err
}

func state(ctx context.Context, v store.View) (out State, err error) {
	if out.Removals, err = v.Removals(ctx); err != nil {
		return out, err
	}
	if out.Clusters, err = v.Held(ctx); err != nil {
		return out, err
	}
	if !out.HoldTime.IsZero() || len(out.Clusters) > 0 {
		out.ID = out.sum()
	}
	return out, nil
}

// sum tells what is held from anything else that may be.
func (s State) sum() string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %d\n", s.Confirmation, s.HoldTime.UnixMicro())
	for _, c := range s.Clusters {
		fmt.Fprintf(sum, "%s %s\n", c.Cluster, strings.Join(c.Services, " "))
	}
	const length = 6
	return hex.EncodeToString(sum.Sum(nil)[:length])
}

// Confirm lets go what an id names.
func (k *Desk) Confirm(ctx context.Context, by catalog.By, id string) error {
	return k.Store.Write(ctx, by.Subject, func(ctx context.Context, tx *store.Tx) error {
		now, err := state(ctx, tx.View)
		switch {
		case err != nil:
			return err
		case now.ID == "":
			return refusal.New(refusal.Precondition, "no removals are held: there is nothing to confirm")
		case now.ID != id:
			return refusal.New(refusal.Precondition, "removals: what is held is not what %q is about: look at it with `fairlead confirm removals`", id)
		}
		services := map[string][]string{}
		var clusters []string
		for _, c := range now.Clusters {
			services[c.Cluster] = c.Services
			clusters = append(clusters, c.Cluster)
		}
		before, err := json.Marshal(services)
		if err != nil {
			return fmt.Errorf("encode held services: %w", err)
		}
		if err := tx.ReleaseRemovals(ctx); err != nil {
			return err
		}
		tx.Tell(event.Confirmed(by.Subject, clusters, tx.Now())...)
		who := audit.Who{Identity: by.Identity, Remote: by.Remote, TraceID: by.TraceID}
		return tx.Audit(ctx, audit.Event(who, tx.Now(), audit.Act{Action: "removals.confirm", Name: id, Reason: now.Reason, Before: string(before)}))
	})
}
