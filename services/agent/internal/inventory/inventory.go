// Package inventory keeps, inside the cluster, which objects each service put there. The inventory is what makes
// pruning safe and an agent replaceable: an agent that lost its disk finds its work again.
//
// One ConfigMap per service, `inventory.<service>` in the namespace fairlead-system, readable with
// kubectl. Invariants, which hold over a kill at any point:
//   - every object that the agent may have made is listed: the list is written as a superset before
//     the first object is sent, and shrunk after the last one is gone;
//   - a digest stands in `complete` only if all of it was applied and nothing was begun since.
//
// Lists above 128 KiB are spread over further ConfigMaps, which are named by what is in them: those that stay the
// same are not written again. The first one names them and is written last, so that a reader sees the old
// list or the new one.
package inventory

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"fairlead.dev/services/agent/internal/object"
)

const (
	// Namespace holds the inventories.
	Namespace = "fairlead-system"
	// Label marks an inventory with its service.
	Label = "fairlead.dev/inventory"
	// orphanAge is how long a part that no head names is left alone: its writer may be about to write the head.
	orphanAge = 10 * time.Minute
)

// Entry is an object that a service put into the cluster.
type Entry struct {
	object.Ref

	// UID of the object when it was last applied; "": not known to have been made.
	UID types.UID
	// Sum of the manifest that was last applied. 0: none, or it may have been applied in part.
	Sum object.Sum
	// Owned is of the fields that we had after that; see object.Owned.
	Owned object.Sum
	// Wave that it was applied in.
	Wave int32
	// Hook: it was made at a moment of a sync, and is not looked after.
	Hook bool
	// Leaving: it left the manifests, and is still there; with a Sum because removing was switched off.
	Leaving bool
	// Expires: it goes by itself once it is done. Ended is when it was; zero: it is not, as far as is known.
	Expires bool
	Ended   time.Time
}

// Going tells that the entry's object is on its way out of the cluster, or gone.
func (e Entry) Going() bool { return e.Leaving && e.Sum == 0 }

// Progress is what must not be done twice for a digest.
type Progress struct {
	Digest string `json:"digest,omitempty"`
	// Ran lists the hooks that have ended well. The list stays when the digest is applied: the digest may have to be
	// rendered anew.
	Ran []object.Run `json:"ran,omitempty"`
	// Failed lists the hooks that have ended otherwise: the objects may be gone.
	Failed []object.Run `json:"failed,omitempty"`
}

// Applied says what was applied, completely, last.
type Applied struct {
	Digest string `json:"digest"`
	// ContentDigest names the revision; "": the digest does.
	ContentDigest string `json:"contentDigest,omitempty"`
	Commit        string `json:"commit,omitempty"`
	// Set names the rendered objects on the agent's disk, see package set.
	Set  string    `json:"set,omitempty"`
	Time time.Time `json:"time"`
	// Environment that the objects were rendered for, if they depend on what the cluster can do; after an @, if they
	// have certificates that were made by the render, when these are to be renewed; and after a #, if they have values
	// of objects of the cluster, the versions of these.
	Environment string `json:"environment,omitempty"`
	// ReleaseService is what the templates of a chart saw as .Release.Service; "": no chart, or Fairlead.
	ReleaseService string `json:"releaseService,omitempty"`
	// Warnings are sentences on what was read in another way than it looks, each on its line.
	Warnings string `json:"warnings,omitempty"`
	// Values names the content that random values are kept for.
	Values string `json:"values,omitempty"`
	// PreDelete and PostDelete: there are hooks to run when the service is removed.
	PreDelete  bool `json:"preDelete,omitempty"`
	PostDelete bool `json:"postDelete,omitempty"`
	// Asked names the last request for a sync that was served.
	Asked string `json:"asked,omitempty"`
}

// Asked is the last request for a sync that the agent heard of, and the content that it is about: an agent that takes
// over, or one whose disk was lost, must not take it for a request of what waits by then.
type Asked struct {
	Request string `json:"request,omitempty"`
	// Content is as in desired.Service.AskedFor; empty: the request is about nothing.
	Content string `json:"content,omitempty"`
}

// Release is what a digest is to the cluster: the first that is delivered to it, or one of those after that. A Release
// says which hooks run, and what templates see as .Release.
type Release struct {
	Digest string `json:"digest,omitempty"`
	// Revision counts from 1: the digests that were begun.
	Revision int64 `json:"revision,omitempty"`
	// Install: nothing was applied completely before it.
	Install bool `json:"install,omitempty"`
	// Numbered: an agent began the release that names the revision in the objects of hooks. Earlier versions named the
	// digest alone.
	Numbered bool `json:"numbered,omitempty"`
	// Sealed: an agent began the release that seals the objects of hooks. Earlier versions did not.
	Sealed bool `json:"sealed,omitempty"`
}

// Record is what the inventory knows of a service.
type Record struct {
	Service string
	// Applied is the last state that was applied completely. Complete is false while, and after,
	// something else was begun: then the cluster may hold parts of both.
	Applied  Applied
	Complete bool
	Asked    Asked
	// Begun names the rendered objects of which some were sent since, if it is not complete.
	Begun string
	// Some: they were sent because a person named them, so the rest waits for its own leave.
	Some     bool
	Progress Progress
	// Release is that of the digest that was begun last.
	Release Release
	// Orphan: when the service goes, its objects are to stay. Account is the service account that they are removed as,
	// empty: the agent's own. Orphan and Account are what is left to go by when the agent's disk is lost.
	Orphan  bool
	Account string
	// Kept says in sentences which objects stayed when they left the manifests, and why.
	Kept []string
	// Spared says in sentences what a removal that has not come to its end yet has kept in the cluster.
	Spared []string
	// CalledOff counts the removals that had run hooks when the service was wanted again.
	CalledOff int64
	// Left are the definitions of kinds that the manifests have, too, and that are left to another service: the service
	// takes them over when that lets go of them.
	Left []object.Key
	// Seal is random text that the service keeps for ever: it tells the objects of hooks that the agent made from those
	// that others made beforehand. Get makes one, and Save keeps it.
	Seal string
	// Cluster is the UID of the hub's cluster that the service is of; "": the one that ClusterMap names.
	Cluster string
	// Repairs counts what was put right.
	Repairs uint64
	// Tests is what package trial knows of the service's tests.
	Tests   json.RawMessage
	Entries []Entry
}

// RevisionDigest names the revision that was applied.
func (a Applied) RevisionDigest() string { return cmp.Or(a.ContentDigest, a.Digest) }

// Has tells whether exactly this digest is in the cluster, as far as the agent is concerned.
func (r Record) Has(digest string) bool {
	return r.Complete && digest != "" && r.Applied.Digest == digest
}

// ReleaseOf is what a digest is to the cluster: the same for as long as no other one is begun. A digest of an agent
// that did not count is taken for installed, as it was rendered.
func (r Record) ReleaseOf(digest string) Release {
	switch {
	case digest == r.Release.Digest:
		return r.Release
	case r.Applied.Digest == "" || r.Applied.RevisionDigest() == digest && r.Release.Digest == "":
		return Release{Digest: digest, Revision: 1, Install: true, Numbered: len(r.Entries) == 0, Sealed: len(r.Entries) == 0}
	}
	return Release{Digest: digest, Revision: max(r.Release.Revision, 1) + 1, Numbered: true, Sealed: true}
}

// Namespaces makes sure that a namespace exists.
type Namespaces interface {
	EnsureNamespace(ctx context.Context, name string) error
}

// Store keeps the inventories of one cluster. A Store is safe for concurrent use, but one service at a time has one
// writer.
type Store struct {
	maps       dynamic.ResourceInterface
	namespaces Namespaces

	mu sync.Mutex // guards what follows
	// records is what the cluster holds, as last read or written.
	records map[string]stored
	// broken holds the services whose inventory can't be read. The services stand still; the others go on.
	broken map[string]error
	owners owners
	// claimed are the objects of a service that are in owners and not in its record.
	claimed map[string][]object.Key
	// wanted are the objects that a service waits for, should others have them.
	wanted map[string][]object.Key
	// uid is that of the cluster that the agent joined as, notedUID that of ClusterMap. allOwn: see settle.
	uid, notedUID string
	allOwn        bool
	// seals are of services whose records have none yet.
	seals map[string]string
	// track is told what a service has, whenever that changes.
	track func(service string, entries []Entry)
	// offer is told a service that left an object to another one, when no service has that object any more.
	offer func(service string)
}

// stored is a record and the ConfigMaps that hold it.
type stored struct {
	record Record
	// version is the resourceVersion of the first ConfigMap: another writer makes the next write fail.
	version string
	chunks  []string
	bits    int
	// noted is what was applied since, to the same effect; nil: nothing. noted is written with whatever is written
	// next.
	noted *Applied
	// annotations of the first ConfigMap are people's, such as a hold: they are kept.
	annotations map[string]string
}

func (s stored) now() Record {
	record := s.record
	if s.noted != nil {
		record.Applied = *s.noted
	}
	return record
}

// New returns a store over the ConfigMaps of Namespace. Load fills it.
func New(maps dynamic.ResourceInterface, namespaces Namespaces) *Store {
	return &Store{
		maps: maps, namespaces: namespaces, records: map[string]stored{}, owners: newOwners(),
		claimed: map[string][]object.Key{}, wanted: map[string][]object.Key{}, seals: map[string]string{},
		track: func(string, []Entry) {}, offer: func(string) {},
	}
}

// Follow has track told what each service has, from Load on. track must not block, and not keep the entries.
func (s *Store) Follow(track func(service string, entries []Entry)) { s.track = track }

// Offer has offer told which service may take over what it had left to another one. offer must not block.
func (s *Store) Offer(offer func(service string)) { s.offer = offer }

// Load reads all inventories. Remains of a killed writer are removed.
func (s *Store) Load(ctx context.Context) error {
	found, err := s.list(ctx, Label)
	if err != nil {
		return fmt.Errorf("read inventories: %w", err)
	}
	records, broken, orphans := assemble(found)
	s.mu.Lock()
	s.records, s.broken, s.owners, s.claimed = records, broken, newOwners(), map[string][]object.Key{}
	for service, kept := range records {
		for _, entry := range kept.record.Entries {
			s.owners.set(entry.Key, service)
		}
		s.track(service, watched(kept.record.Entries))
	}
	s.mu.Unlock()
	return s.remove(ctx, slices.DeleteFunc(orphans, func(name string) bool {
		return time.Since(found[name].GetCreationTimestamp().Time) < orphanAge
	}))
}

// list reads the ConfigMaps page by page.
func (s *Store) list(ctx context.Context, selector string) (map[string]*unstructured.Unstructured, error) {
	const pageSize = 100 // of up to 1 MiB each
	found := map[string]*unstructured.Unstructured{}
	options := metav1.ListOptions{LabelSelector: selector, Limit: pageSize}
	for {
		page, err := s.maps.List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			found[page.Items[i].GetName()] = &page.Items[i]
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return found, nil
		}
	}
}

// Get returns what is known of a service; an empty record if nothing. Get fails for an inventory that can't be read,
// after having tried again.
func (s *Store) Get(ctx context.Context, service string) (Record, error) {
	s.mu.Lock()
	broken := s.broken[service]
	s.mu.Unlock()
	if broken != nil {
		if err := s.reload(ctx, service); err != nil {
			return Record{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	record := s.records[service].now()
	record.Service = service
	if record.Seal == "" {
		if s.seals[service] == "" {
			s.seals[service] = rand.Text()
		}
		record.Seal = s.seals[service]
	}
	record.Entries = slices.Clone(record.Entries)
	return record, nil
}

// Glance is what is known of a service without its entries; ok is false if nothing is, or it can't be read.
func (s *Store) Glance(service string) (record Record, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, ok := s.records[service]
	record = kept.now()
	record.Entries = nil
	return record, ok && s.broken[service] == nil
}

// Sealed tells whether the cluster has the seal of a service: without it an agent that is started anew does not know
// its hooks again.
func (s *Store) Sealed(service string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[service].record.Seal != ""
}

// Depends tells whether something was rendered for what the cluster can do.
func (s *Store) Depends() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kept := range s.records {
		if environment := kept.record.Applied.Environment; environment != "" && !strings.ContainsAny(environment[:1], "@#") {
			return true
		}
	}
	return false
}

// ValuesName is the Secret in which the agent keeps the random values of a service.
func ValuesName(service string) string { return "values." + service }

// Own tells the ConfigMaps and Secrets that are the agent's own: no service may have them.
func Own(key object.Key) bool {
	if key.Group == "" && key.Kind == "Secret" && key.Namespace == Namespace && strings.HasPrefix(key.Name, ValuesName("")) {
		return true
	}
	return key.Group == "" && key.Kind == "ConfigMap" && key.Namespace == Namespace && (key.Name == ClusterMap || strings.HasPrefix(key.Name, headName("")))
}

// Annotations are what people noted at the inventory of a service, as it was read or written last.
func (s *Store) Annotations(service string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[service].annotations
}

// reload reads the inventory of one service anew.
func (s *Store) reload(ctx context.Context, service string) error {
	found, err := s.list(ctx, Label+"="+service)
	if err != nil {
		return fmt.Errorf("read inventory: %w", err)
	}
	records, broken, _ := assemble(found)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := broken[service]; err != nil {
		return err
	}
	delete(s.broken, service)
	s.own(service, records[service].record.Entries)
	delete(s.records, service)
	if kept, ok := records[service]; ok {
		s.records[service] = kept
	}
	return nil
}

// Services lists the services that have an inventory.
func (s *Store) Services() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	services := make([]string, 0, len(s.records)+len(s.broken))
	for service := range s.records {
		services = append(services, service)
	}
	for service := range s.broken {
		services = append(services, service)
	}
	slices.Sort(services)
	return services
}

// Claim reserves objects for a service until the next Save of that service, or Release. If another
// service has one of them nothing is reserved, and the answer says who has which.
func (s *Store) Claim(service string, keys []object.Key) map[object.Key]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := map[object.Key]string{}
	for _, key := range keys {
		if owner := s.owners.of(key); owner != "" && owner != service {
			taken[key] = owner
		}
	}
	if len(taken) > 0 {
		return taken
	}
	for _, key := range keys {
		if s.owners.of(key) != service {
			s.owners.set(key, service)
			s.claimed[service] = append(s.claimed[service], key)
		}
	}
	return nil
}

// Release gives back what was claimed and is not in the inventory.
func (s *Store) Release(service string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own(service, s.records[service].record.Entries)
}

// own makes exactly these entries belong to the service, and no longer those of its record. The caller holds mu.
func (s *Store) own(service string, entries []Entry) {
	before := s.records[service].record.Entries
	for _, entry := range before {
		s.owners.unset(entry.Key, service)
	}
	for _, key := range s.claimed[service] {
		s.owners.unset(key, service)
	}
	delete(s.claimed, service)
	for _, entry := range entries {
		s.owners.set(entry.Key, service)
	}
	s.track(service, watched(entries))
	for heir, kept := range s.records {
		if slices.ContainsFunc(kept.record.Left, func(key object.Key) bool {
			return s.owners.of(key) == "" && slices.ContainsFunc(before, func(entry Entry) bool { return entry.Key == key })
		}) {
			s.offer(heir)
		}
	}
}

// Inherits tells whether the service left an object to another one, and no service has it any more.
func (s *Store) Inherits(record Record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(record.Left, func(key object.Key) bool { return s.owners.of(key) == "" })
}

// Want notes which objects of others a service waits for, in place of those that it waited for before.
func (s *Store) Want(service string, keys []object.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted[service] = keys; len(keys) == 0 {
		delete(s.wanted, service)
	}
}

// Heir names a service that left this object to another one, or waits for it; "": there is none for which may is true.
func (s *Store) Heir(key object.Key, may func(service string) bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var heirs []string
	for service, kept := range s.records {
		if slices.Contains(kept.record.Left, key) {
			heirs = append(heirs, service)
		}
	}
	for service, keys := range s.wanted {
		if slices.Contains(keys, key) {
			heirs = append(heirs, service)
		}
	}
	slices.Sort(heirs)
	if at := slices.IndexFunc(heirs, may); at >= 0 {
		return heirs[at]
	}
	return ""
}

// watched leaves out hooks: once they have run nobody looks after them.
func watched(entries []Entry) []Entry {
	if !slices.ContainsFunc(entries, func(entry Entry) bool { return entry.Hook }) {
		return entries
	}
	return slices.DeleteFunc(slices.Clone(entries), func(entry Entry) bool { return entry.Hook })
}

// Holds names an object that matches and that any service has, or is about to make; "": there is none. Holds also names
// a service, if there is one, whose inventory can't be read, after having tried again.
func (s *Store) Holds(ctx context.Context, match func(object.Key) bool) (held, unreadable string) {
	s.mu.Lock()
	broken := slices.Sorted(maps.Keys(s.broken))
	s.mu.Unlock()
	for _, service := range broken {
		if s.reload(ctx, service) != nil {
			unreadable = service
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var first object.Key
	consider := func(key object.Key, service string) {
		if match(key) && (held == "" || object.Compare(key, first) < 0) {
			first, held = key, fmt.Sprintf("%s of service %q", key, service)
		}
	}
	for service, kept := range s.records {
		for _, entry := range kept.record.Entries {
			consider(entry.Key, service)
		}
	}
	for service, keys := range s.claimed {
		for _, key := range keys {
			consider(key, service)
		}
	}
	return held, unreadable
}

// Note is Save for a record that says the same as the one before, but for the digest that it is of and the sync that
// asked for it: it is not written before something else is. An agent that does not get to know compares once more, and
// finds the same. false: it has to be saved.
func (s *Store) Note(record Record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, ok := s.records[record.Service]
	if !ok || s.broken[record.Service] != nil || len(s.claimed[record.Service]) > 0 {
		return false
	}
	applied := record.Applied
	record.Entries = slices.Clone(record.Entries)
	slices.SortFunc(record.Entries, func(a, b Entry) int { return object.Compare(a.Key, b.Key) })
	record.Applied.Digest, record.Applied.Commit, record.Applied.Time = before.record.Applied.Digest, before.record.Applied.Commit, before.record.Applied.Time
	record.Applied.ContentDigest, record.Applied.Asked = before.record.Applied.ContentDigest, before.record.Applied.Asked
	record.Release = before.record.Release // no apply was begun for it, so that the next digest may have its revision
	if !reflect.DeepEqual(record, before.record) {
		return false
	}
	before.noted = &applied
	s.records[record.Service] = before
	return true
}

// Noted tells whether something was noted of a service and not written.
func (s *Store) Noted(service string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[service].noted != nil
}

// Save writes the record of a service. Save fails if anybody else wrote it since it was read; then it is read anew, for
// the next attempt.
func (s *Store) Save(ctx context.Context, record Record) error {
	record.Entries = slices.Clone(record.Entries)
	slices.SortFunc(record.Entries, func(a, b Entry) int { return object.Compare(a.Key, b.Key) })
	s.mu.Lock()
	before := s.records[record.Service]
	if record.Seal == "" {
		record.Seal = before.record.Seal
	}
	s.stamp(&record)
	s.mu.Unlock()
	after, err := s.write(ctx, before, record)
	if apierrors.IsNotFound(err) && before.version == "" {
		// The namespace is missing: the first write of all.
		if err := s.namespaces.EnsureNamespace(ctx, Namespace); err != nil {
			return fmt.Errorf("write inventory: %w", err)
		}
		after, err = s.write(ctx, before, record)
	}
	if apierrors.IsConflict(err) && s.reload(ctx, record.Service) == nil {
		s.mu.Lock()
		now := s.records[record.Service]
		s.mu.Unlock()
		if reflect.DeepEqual(now.record, before.record) { // an annotation was set
			before = now
			after, err = s.write(ctx, before, record)
		}
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		// Another client wrote, or an earlier write of ours went through and its answer was lost.
		return errors.Join(fmt.Errorf("write inventory: %w", err), s.reload(ctx, record.Service))
	}
	if err != nil {
		return fmt.Errorf("write inventory: %w", err)
	}
	s.mu.Lock()
	s.own(record.Service, record.Entries)
	s.records[record.Service] = after
	if after.record.Seal != "" {
		delete(s.seals, record.Service)
	}
	s.mu.Unlock()
	return s.remove(ctx, slices.DeleteFunc(slices.Clone(before.chunks), func(name string) bool { return slices.Contains(after.chunks, name) }))
}

// write sends further chunks first and the head last: until then the old list is the valid one.
func (s *Store) write(ctx context.Context, before stored, record Record) (stored, error) {
	head, chunks, bits, err := disassemble(record, before.bits)
	if err != nil {
		return stored{}, err
	}
	head.SetAnnotations(before.annotations)
	after := stored{record: record, bits: bits, annotations: before.annotations}
	for _, chunk := range chunks {
		after.chunks = append(after.chunks, chunk.GetName())
		if slices.Contains(before.chunks, chunk.GetName()) {
			continue
		}
		_, err := s.maps.Create(ctx, chunk, metav1.CreateOptions{FieldManager: object.FieldManager})
		if apierrors.IsAlreadyExists(err) { // of a writer that was killed before it wrote the head
			_, err = s.maps.Update(ctx, chunk, metav1.UpdateOptions{FieldManager: object.FieldManager})
		}
		if err != nil {
			return stored{}, err
		}
	}
	var written *unstructured.Unstructured
	if before.version == "" {
		written, err = s.maps.Create(ctx, head, metav1.CreateOptions{FieldManager: object.FieldManager})
	} else {
		head.SetResourceVersion(before.version)
		written, err = s.maps.Update(ctx, head, metav1.UpdateOptions{FieldManager: object.FieldManager})
	}
	if err != nil {
		return stored{}, err
	}
	after.version = written.GetResourceVersion()
	return after, nil
}

// Delete forgets a service. The head goes first, as it was read or written last: chunks without it mean nothing. Delete
// fails if anybody else wrote it since; then it is read anew, for the next attempt.
func (s *Store) Delete(ctx context.Context, service string) error {
	s.mu.Lock()
	before := s.records[service]
	delete(s.wanted, service)
	s.mu.Unlock()
	err := s.deleteHead(ctx, service, before)
	if apierrors.IsConflict(err) && s.reload(ctx, service) == nil {
		s.mu.Lock()
		now := s.records[service]
		s.mu.Unlock()
		if reflect.DeepEqual(now.record, before.record) { // an annotation was set
			err = s.deleteHead(ctx, service, now)
		}
	}
	if err != nil {
		return fmt.Errorf("remove inventory of %s: %w", service, err)
	}
	if err := s.remove(ctx, before.chunks); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own(service, nil)
	delete(s.records, service)
	return nil
}

func (s *Store) deleteHead(ctx context.Context, service string, known stored) error {
	if known.version == "" {
		return nil // there is none
	}
	err := s.maps.Delete(ctx, headName(service), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &known.version}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (s *Store) remove(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := s.maps.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove inventory %s: %w", name, err)
		}
	}
	return nil
}
