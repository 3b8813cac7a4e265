// Package catalog is the domain of the console: what a platform team writes down, the rules that
// keep it whole, and what becomes of it: levers, deployments, folders that declare resources.
// What one resource may say is in package resource, and how levers are stored in package state.
//
// Rules: a resource that is named exists, and can't be deleted while it is named; an update with an
// etag changes only what it was read from; an update that changes nothing writes nothing.
package catalog

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/confirm"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

const (
	defaultPageSize = 100
	maxPageSize     = 1000
	// ShownReferrers is how many resources a refused deletion names.
	ShownReferrers = 3
	// MaxReferrers is more resources than can name one.
	MaxReferrers = 1_000_000
)

// Catalog is the catalog of one installation.
type Catalog struct {
	state.Loader
	store *store.Store
	now   func() time.Time
	box   *seal.Box
	log   *slog.Logger
	hooks []Hook
	desk  *confirm.Desk
	guard Reader
	// finder is nil in tests only.
	finder   Finder
	observer Observer // nil: nobody is told
	folders  folders
}

// Deps is what a catalog works with.
type Deps struct {
	Store *store.Store
	Box   *seal.Box
	// Finder answers lists with a filter or an order.
	Finder Finder
	// Observer is told what becomes of services. nil: nobody is.
	Observer Observer
	// Hooks returns those of a catalog, which are called in this order. nil: there are none.
	Hooks func(*Catalog) []Hook
	Log   *slog.Logger
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// New returns the catalog in a store, in which the guard decides who may see and write what.
func New(guard Reader, d Deps) *Catalog {
	if d.Now == nil {
		d.Now = time.Now
	}
	c := &Catalog{
		Loader: state.NewLoader(d.Now), store: d.Store, now: d.Now, box: d.Box, log: d.Log,
		guard: guard, finder: d.Finder, observer: d.Observer,
		desk: confirm.New(d.Box, d.Now),
	}
	if d.Observer != nil {
		d.Store.GatherEvents(d.Observer.Gather)
	}
	if d.Hooks != nil {
		c.hooks = d.Hooks(c)
	}
	return c
}

// Expectation is what the caller of an update believes.
type Expectation struct {
	// ETag is of the resource that was read before; empty: any; MustBeNew: there is none yet.
	ETag string
	// AllowMissing creates a resource that does not exist.
	AllowMissing bool
}

// Outcome says what an update did.
type Outcome string

// The outcomes.
const (
	Created   Outcome = "created"
	Updated   Outcome = "updated"
	Unchanged Outcome = "unchanged"
	Removed   Outcome = "deleted"
)

// MustBeNew is the etag of a resource that must not exist yet.
const MustBeNew = "new"

// Page asks for a part of a list.
type Page struct {
	// Size is the most; 0: 100.
	Size int
	// Token is where the page before ended; empty: the beginning.
	Token string
	// Filter chooses, and Order says in which order they come: see package filter. Both empty: all, by name.
	Filter, Order string
}

// Limit is how many resources are on it.
func (p Page) Limit() int {
	if p.Size <= 0 {
		return defaultPageSize
	}
	return min(p.Size, maxPageSize)
}

// Reader decides what callers may see.
type Reader interface {
	// MayView refuses what the caller in ctx may not see, in the words of Missing.
	MayView(ctx context.Context, r store.Resource) error
	// Missing says that there is no such resource, in words that don't tell it from one that the caller in ctx may not
	// see.
	Missing(ctx context.Context, ref store.Ref) error
	// MayTouch refuses who may neither see nor write a resource, in the words of Missing; r is nil where there is none.
	MayTouch(ctx context.Context, by By, ref store.Ref, r *store.Resource) error
	// MayMake refuses who may not create a resource.
	MayMake(ctx context.Context, by By, r store.Resource) error
	// MayName refuses who may not have a resource name another one, whether there is that or not.
	MayName(ctx context.Context, by By, ref store.Ref) error
	// MayWrite refuses a write that changes nothing of a resource, from who may not change it.
	MayWrite(ctx context.Context, by By, r store.Resource) error
	// MayDelete refuses who may not delete a resource.
	MayDelete(ctx context.Context, by By, r store.Resource) error
	// Sees tells what the caller in ctx sees; nil: everything.
	Sees(ctx context.Context) (func(store.Resource) bool, error)
}

// forgetMoved drops the reports about a service that goes to another cluster, or comes back to an
// earlier one: they are about objects that are being removed.
func forgetMoved(ctx context.Context, tx *store.Tx, current store.Resource, d store.Draft) error {
	if d.Kind != store.KindService {
		return nil
	}
	var before, after state.ServiceSpec
	if err := errors.Join(json.Unmarshal(current.Spec, &before), json.Unmarshal(d.Spec, &after)); err != nil {
		return fmt.Errorf("decode service %q: %w", d.Name, err)
	}
	if before.Cluster == after.Cluster {
		return nil
	}
	return tx.ForgetReports(ctx, current.UID)
}

// GetSource returns a source.
func (c *Catalog) GetSource(ctx context.Context, name string) (state.Source, error) {
	return Get(ctx, c, store.KindSource, name, c.Sources)
}

// GetCluster returns a cluster.
func (c *Catalog) GetCluster(ctx context.Context, name string) (state.Cluster, error) {
	return Get(ctx, c, store.KindCluster, name, c.Clusters)
}

// GetService returns a service.
func (c *Catalog) GetService(ctx context.Context, name string) (state.Service, error) {
	return Get(ctx, c, store.KindService, name, c.Services)
}

// Get returns a resource as load reads it.
func Get[T any](ctx context.Context, c *Catalog, kind store.Kind, name string, load Load[T]) (out T, err error) {
	if !resource.IsName(name) {
		return out, refusal.Missing(kind, name)
	}
	var r store.Resource
	var loaded []T
	err = c.store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		if r, err = v.Get(ctx, kind, name); err != nil {
			return err
		}
		loaded, err = load(ctx, v, []store.Resource{r})
		return err
	})
	if err = c.shown(ctx, store.Ref{Kind: kind, Name: name}, r, err); err != nil {
		return out, err
	}
	return loaded[0], nil
}

// MayView refuses a resource that there is not, or that the caller in ctx may not see.
func (c *Catalog) MayView(ctx context.Context, ref store.Ref) error {
	if !resource.IsName(ref.Name) {
		return refusal.Missing(ref.Kind, ref.Name)
	}
	var r store.Resource
	err := c.store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		r, err = v.Get(ctx, ref.Kind, ref.Name)
		return err
	})
	return c.shown(ctx, ref, r, err)
}

// Sees tells what the caller in ctx sees; nil: everything.
func (c *Catalog) Sees(ctx context.Context) (func(store.Resource) bool, error) {
	return c.guard.Sees(ctx)
}

// shown tells the caller in ctx no more of what there is not than of what it may not see. shown asks for a connection
// of its own.
func (c *Catalog) shown(ctx context.Context, ref store.Ref, r store.Resource, err error) error {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return c.guard.Missing(ctx, ref)
	case err != nil:
		return err
	}
	return c.guard.MayView(ctx, r)
}

// List returns a page of resources as load reads them, and the token of the next one.
func List[T any](ctx context.Context, c *Catalog, kind store.Kind, page Page, load Load[T]) (out []T, next string, err error) {
	if page.Filter != "" || page.Order != "" {
		return found(ctx, c, kind, page, load)
	}
	after, err := base64.RawURLEncoding.DecodeString(page.Token)
	if err != nil || len(after) > 0 && !resource.IsName(string(after)) {
		return nil, "", refusal.New(refusal.Invalid, "page_token: is not one that a list returned")
	}
	size := page.Limit()
	sees, err := c.guard.Sees(ctx)
	if err != nil {
		return nil, "", err
	}
	err = c.store.Read(ctx, func(ctx context.Context, v store.View) error {
		rows, err := visible(ctx, v, kind, string(after), size+1, sees)
		if err != nil {
			return err
		}
		if len(rows) > size {
			rows = rows[:size]
			next = base64.RawURLEncoding.EncodeToString([]byte(rows[size-1].Name))
		}
		out, err = load(ctx, v, rows)
		return err
	})
	return out, next, err
}

// visible returns up to limit resources behind a name that the caller sees.
func visible(ctx context.Context, v store.View, kind store.Kind, after string, limit int, sees func(store.Resource) bool) ([]store.Resource, error) {
	if sees == nil {
		return v.List(ctx, kind, after, limit)
	}
	var out []store.Resource
	for {
		rows, err := v.List(ctx, kind, after, maxPageSize)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if after = r.Name; sees(r) {
				out = append(out, r)
			}
			if len(out) == limit {
				return out, nil
			}
		}
		if len(rows) < maxPageSize {
			return out, nil
		}
	}
}
