// Package config puts together what services are configured with: project, configuration sets, cluster and service, of
// which a later one wins entry by entry.
//
// The result is kept sealed, per service, with a revision that tells nothing of the values. The revision is computed
// within the write that changes it, so that exactly the services whose values are others get another revision. Values
// leave for distributors only, which hand those of a service to its cluster.
package config

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

const (
	// keyPurpose and keyBytes are of the key of revisions.
	keyPurpose = "config/key"
	keyBytes   = 32
	// revisionBytes of a hash make a revision.
	revisionBytes = 16
	// revisionFormat keeps revisions of different forms apart.
	revisionFormat = "fairlead config 1"
	// maxReferrers is more resources than can name one.
	maxReferrers = 1_000_000
	// shownProblems is how many entries without a value a service names.
	shownProblems = 3
)

// Value is an entry with its value.
type Value struct {
	Name   string `json:"name"`
	Type   Type   `json:"type"`
	Value  string `json:"value"`
	Secret bool   `json:"secret,omitempty"`
}

// Resolver is a hook of the catalog.
type Resolver struct {
	catalog *catalog.Catalog
	store   *store.Store
	box     *seal.Box
}

// New returns a resolver.
func New(c *catalog.Catalog, s *store.Store, box *seal.Box) *Resolver {
	return &Resolver{catalog: c, store: s, box: box}
}

// Wrote implements catalog.Hook: it computes anew what the services get that name what was written.
func (r *Resolver) Wrote(ctx context.Context, w *catalog.Write, before, after *store.Resource) error {
	if after == nil {
		return nil // no resource names one that goes
	}
	if err := connected(ctx, w.Tx, *after); err != nil {
		return err
	}
	if before == nil || after.Kind == store.KindService {
		return nil // no resource names a new one yet, and services are computed together
	}
	names, err := touched(ctx, w.Tx.View, after)
	if err != nil || len(names) == 0 {
		return err
	}
	return r.again(ctx, w.Tx, names)
}

// WroteAll implements catalog.Batcher: it computes what services get that were written.
func (r *Resolver) WroteAll(ctx context.Context, tx *store.Tx, written []catalog.Written) error {
	var fresh, known []store.Resource
	for _, w := range written {
		if w.Kind != store.KindService {
			return nil // all writes are of one kind
		}
		if toCatalog(*w.After) {
			continue
		}
		moved, err := moved(w.Before, *w.After)
		if err != nil {
			return err
		}
		if moved {
			fresh = append(fresh, *w.After)
		} else {
			known = append(known, *w.After)
		}
	}
	for _, part := range []struct {
		services []store.Resource
		fresh    bool
	}{{fresh, true}, {known, false}} {
		if len(part.services) == 0 {
			continue
		}
		if err := r.compute(ctx, tx, part.services, part.fresh); err != nil {
			return err
		}
	}
	return nil
}

// moved says whether a service is for another cluster than before: what is for one is not for another.
func moved(before *store.Resource, after store.Resource) (bool, error) {
	if before == nil {
		return true, nil
	}
	was, err := clusterOf(*before)
	if err != nil {
		return false, err
	}
	is, err := clusterOf(after)
	return was != is, err
}

// again computes what services get that may get other values.
func (r *Resolver) again(ctx context.Context, tx *store.Tx, names []string) error {
	found, err := tx.Named(ctx, store.KindService, names)
	if maps.DeleteFunc(found, func(_ string, s store.Resource) bool { return toCatalog(s) }); err != nil || len(found) == 0 {
		return err
	}
	return r.compute(ctx, tx, slices.SortedFunc(maps.Values(found), byName), false)
}

func byName(a, b store.Resource) int { return cmp.Compare(a.Name, b.Name) }

// toCatalog tells services without a cluster, which nothing is configured for.
func toCatalog(service store.Resource) bool {
	cluster, err := clusterOf(service)
	return err == nil && cluster == ""
}

func clusterOf(service store.Resource) (string, error) {
	var spec state.ServiceSpec
	if err := json.Unmarshal(service.Spec, &spec); err != nil {
		return "", fmt.Errorf("decode service %q: %w", service.Name, err)
	}
	return spec.Cluster, nil
}

// touched names the services that may get other values by a change of a resource.
func touched(ctx context.Context, v store.View, of *store.Resource) ([]string, error) {
	names := map[string]bool{}
	queue := []store.Ref{{Kind: of.Kind, Name: of.Name}}
	for len(queue) > 0 {
		next := queue[0]
		queue = queue[1:]
		switch next.Kind {
		case store.KindCluster, store.KindProject, store.KindConfigSet, store.KindSecret, store.KindBackend:
		default:
			continue
		}
		refs, err := v.Referrers(ctx, next, maxReferrers)
		if err != nil {
			return nil, err
		}
		for _, ref := range refs {
			if ref.Kind == store.KindService {
				names[ref.Name] = true
			} else if next.Kind == store.KindSecret || next.Kind == store.KindBackend {
				queue = append(queue, ref)
			}
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// compute keeps what services get, where it is something else than before. fresh services have nothing that they could
// keep.
func (r *Resolver) compute(ctx context.Context, tx *store.Tx, services []store.Resource, fresh bool) error {
	effective, unread, err := r.effective(ctx, tx.View, services)
	if err != nil {
		return err
	}
	if err := want(ctx, tx, unread); err != nil {
		return err
	}
	uids := make([]string, len(services))
	some := false
	for i, s := range services {
		uids[i] = s.UID
		some = some || len(effective[i]) > 0
	}
	kept, err := tx.Configs(ctx, uids)
	if err != nil || !some && len(kept) == 0 {
		return err
	}
	key, err := r.key(ctx, tx)
	if err != nil {
		return err
	}
	var changed []store.ServiceConfig
	for i, s := range services {
		was := kept[s.UID]
		next, err := r.next(tx, key, s, effective[i], was, fresh)
		if err != nil {
			return err
		}
		if fresh {
			was.Problem = "" // of the cluster before, whose alarm has ended
		}
		if next.Revision == was.Revision && next.Problem == was.Problem && bytes.Equal(next.Sealed, was.Sealed) {
			continue
		}
		changed = append(changed, store.ServiceConfig{Service: s, Config: next})
		var entries []string
		if next.Revision != was.Revision && !fresh && was.Revision != store.HeldConfig {
			entries = different(r.kept(s.UID, was), r.kept(s.UID, next))
		}
		events, err := event.Configured(s, was, next, entries, tx.Author(), tx.Now())
		if err != nil {
			return err
		}
		tx.Tell(events...)
		if !fresh {
			tx.Reconfigure(store.Reconfigured{Service: s, Entries: entries, Problem: next.Problem})
		}
	}
	return tx.PutConfigs(ctx, changed)
}

// next is what is kept of a service from now on.
func (r *Resolver) next(tx *store.Tx, key []byte, s store.Resource, effective []Effective, was store.Config, fresh bool) (store.Config, error) {
	if problem, unread := problemOf(effective); problem != "" {
		next := was
		if fresh {
			next = store.Config{Revision: store.HeldConfig}
		}
		alarmed := event.Alarms(was) && !fresh
		if next.Problem = problem; unread && !alarmed {
			next.Problem = event.FirstRead + problem
		}
		if next.ProblemTime.IsZero() || was.Problem == "" || event.Alarms(next) && !alarmed {
			next.ProblemTime = tx.Now()
		}
		return next, nil
	}
	values := valuesOf(effective)
	if len(values) == 0 {
		return store.Config{}, nil
	}
	revision := revisionOf(key, s.UID, values)
	if revision == was.Revision && r.opens(s.UID, was) == nil {
		was.Problem = ""
		return was, nil
	}
	plain, err := json.Marshal(values)
	if err != nil {
		return store.Config{}, fmt.Errorf("encode configuration of service %q: %w", s.Name, err)
	}
	return store.Config{Revision: revision, Sealed: r.box.Seal(valuesPurpose(s.UID), plain)}, nil
}

// opens is why kept values can't be read any more; nil: they can.
func (r *Resolver) opens(uid string, c store.Config) error {
	_, err := r.box.Open(valuesPurpose(uid), c.Sealed)
	return err
}

// kept are values as they are kept; none: there are none, or they can't be read any more.
func (r *Resolver) kept(uid string, c store.Config) (out []Value) {
	if len(c.Sealed) == 0 {
		return nil
	}
	if plain, err := r.box.Open(valuesPurpose(uid), c.Sealed); err != nil || json.Unmarshal(plain, &out) != nil {
		return nil
	}
	return out
}

// different names the entries that come, go, or have another value.
func different(was, is []Value) []string {
	count := map[Value]int{}
	for _, v := range append(slices.Clip(was), is...) {
		count[v]++
	}
	names := map[string]bool{}
	for v, n := range count {
		if n == 1 {
			names[v.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// valuesPurpose binds values to the service that they are for.
func valuesPurpose(uid string) string { return "config/values/" + uid }

// problemOf names the entries without a value; unread: each of them waits for the first read of a place.
func problemOf(effective []Effective) (problem string, unread bool) {
	var list []string
	unread = true
	for _, e := range effective {
		if e.Problem != "" {
			unread = unread && e.Unread
			list = append(list, fmt.Sprintf("%q (%s): %s", e.Name, e.Origin, e.Problem))
		}
	}
	if more := len(list) - shownProblems; more > 0 {
		list = append(list[:shownProblems], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, "; "), unread
}

func valuesOf(effective []Effective) []Value {
	out := make([]Value, len(effective))
	for i, e := range effective {
		out[i] = Value{Name: e.Name, Type: e.Type, Value: e.Value, Secret: e.Secret}
	}
	return out
}

// revisionOf names values of a service. Without the key nobody can tell by it which they are, nor by the revision of
// another service whether they are the same.
func revisionOf(key []byte, uid string, values []Value) string {
	h := hmac.New(sha256.New, key)
	part := func(text string) {
		_ = binary.Write(h, binary.BigEndian, uint64(len(text))) // a hash takes everything
		h.Write([]byte(text))
	}
	part(revisionFormat)
	part(uid)
	for _, v := range values {
		secret := ""
		if v.Secret {
			secret = "secret"
		}
		part(v.Name)
		part(string(v.Type))
		part(v.Value)
		part(secret)
	}
	return hex.EncodeToString(h.Sum(nil)[:revisionBytes])
}

// key is the installation's key of revisions, which is made when it is first needed.
func (r *Resolver) key(ctx context.Context, tx *store.Tx) ([]byte, error) {
	sealed, err := tx.ConfigKey(ctx)
	if err == nil {
		key, err := r.box.Open(keyPurpose, sealed)
		if err != nil {
			return nil, fmt.Errorf("open key of configurations: %w", err)
		}
		return key, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // never fails
	return key, tx.PutConfigKey(ctx, r.box.Seal(keyPurpose, key))
}

// Preview is what a service gets.
type Preview struct {
	Entries  []Effective
	Revision string
}

// Preview says what a service gets.
func (r *Resolver) Preview(ctx context.Context, name string) (p Preview, err error) {
	service, err := r.catalog.GetService(ctx, name) // which the caller may see
	if err != nil {
		return p, err
	}
	p.Revision = service.Status.ConfigRevision
	err = r.store.Read(ctx, func(ctx context.Context, v store.View) error {
		row, err := v.Get(ctx, store.KindService, name)
		if err != nil {
			return err
		}
		effective, _, err := r.effective(ctx, v, []store.Resource{row})
		if err == nil {
			p.Entries = effective[0]
		}
		return err
	})
	return p, err
}

// errDry undoes the write of a draft.
var errDry = errors.New("dry run")

// PreviewDraft says what a service would get if it were written, which the caller has to be allowed to.
func (r *Resolver) PreviewDraft(ctx context.Context, by catalog.By, in state.Service) (p Preview, err error) {
	edit, err := catalog.DraftService(&in, catalog.Expectation{AllowMissing: true})
	if err != nil {
		return p, err
	}
	err = r.store.Write(ctx, by.Subject, func(ctx context.Context, tx *store.Tx) error {
		written, err := r.catalog.PutIn(ctx, catalog.Write{Tx: tx, By: by}, []catalog.Edit{edit})
		if err != nil {
			return err
		}
		row := *written[0].After
		effective, _, err := r.effective(ctx, tx.View, []store.Resource{row})
		if err != nil {
			return err
		}
		kept, err := tx.Configs(ctx, []string{row.UID})
		if err != nil {
			return err
		}
		p = Preview{Entries: effective[0], Revision: kept[row.UID].Revision}
		return errDry
	})
	if errors.Is(err, errDry) {
		err = nil
	}
	return p, err
}

// Secrets says whether there is one among the values.
func (v *Values) Secrets() bool {
	return slices.ContainsFunc(v.Values, func(v Value) bool { return v.Secret })
}

// Wanted is what a distributor asks for.
type Wanted struct{ Service, Revision string }

// Values are those of a service.
type Values struct {
	Name              string
	Service, Revision string
	Values            []Value
}

// Access returns values. Services that are gone, or have another revision by now, are left out, and those whose values
// are damaged and can't be computed again: they have a problem then. failed is why one could not be repaired now.
func (r *Resolver) Access(ctx context.Context, wanted []Wanted) (out []Values, failed, err error) {
	out, damaged, err := r.read(ctx, wanted)
	if err != nil || len(damaged) == 0 {
		return out, nil, err
	}
	var repaired []Wanted
	for _, d := range damaged {
		// If what the values come of is damaged, too, that is the service's problem, until one of the two is written
		// again.
		err := r.store.Write(ctx, author, func(ctx context.Context, tx *store.Tx) error {
			return r.again(ctx, tx, []string{d.Name})
		})
		if err != nil {
			failed = fmt.Errorf("configuration of service %q: %w", d.Name, err)
			continue
		}
		repaired = append(repaired, Wanted{d.Service, d.Revision})
	}
	again, _, err := r.read(ctx, repaired)
	return append(out, again...), failed, err
}

// read returns the values that can be read, and without their values those that are damaged and have no problem yet.
func (r *Resolver) read(ctx context.Context, wanted []Wanted) (out, damaged []Values, err error) {
	uids := make([]string, len(wanted))
	for i, w := range wanted {
		uids[i] = w.Service
	}
	var kept map[string]store.Config
	var names map[string]string
	err = r.store.Read(ctx, func(ctx context.Context, v store.View) error {
		if kept, err = v.Configs(ctx, uids); err == nil {
			names, err = v.Names(ctx, uids)
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	for _, w := range wanted {
		c, ok := kept[w.Service]
		if !ok || c.Revision != w.Revision || len(c.Sealed) == 0 {
			continue
		}
		one := Values{Name: names[w.Service], Service: w.Service, Revision: w.Revision}
		if one.Values = r.kept(w.Service, c); one.Values != nil {
			out = append(out, one)
		} else if c.Problem == "" {
			damaged = append(damaged, one)
		}
	}
	return out, damaged, nil
}
