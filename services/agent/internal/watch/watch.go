// Package watch follows every kind that the memory has objects of, and no other: one stream per kind, of
// objects with Fairlead's label. Of kinds without a status, of Secrets and of ConfigMaps it reads the metadata only.
//
// A stream begins with all objects, goes on where it ended, and begins anew where the server does not remember
// that (410). An object that a new beginning does not name, and one that a stream says is gone, is asked for before
// that is believed: an object whose label was taken off looks the same.
package watch

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/retry"
	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/health"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/memory"
	"fairlead.dev/services/agent/internal/object"
)

const (
	// retryFloor and retryMax bound the wait before a stream that ended is begun again.
	retryFloor, retryMax = 200 * time.Millisecond, 30 * time.Second
	// patience is how long a kind may be without a stream before its health counts as unknown.
	patience = 30 * time.Second
	// probeEvery is between two questions to the API server that show whether it answers, probeTimeout bounds one. The
	// stream of a server that hangs stays open for minutes.
	probeEvery, probeTimeout = 15 * time.Second, 10 * time.Second
	// askEvery is between two looks at the objects of a kind that the agent may not watch.
	askEvery = 5 * time.Minute
)

// API is what is needed of the cluster; *cluster.Cluster has it.
type API interface {
	Watch(ctx context.Context, gvk schema.GroupVersionKind, metadataOnly bool, opts metav1.ListOptions) (watch.Interface, error)
	List(ctx context.Context, gvk schema.GroupVersionKind, metadataOnly bool, opts metav1.ListOptions, each func(metav1.Object)) (version string, err error)
	Metadata(ctx context.Context, ref object.Ref) (*metav1.PartialObjectMetadata, error)
	Select(ctx context.Context, gvk schema.GroupVersionKind, namespace string, opts metav1.ListOptions) ([]*unstructured.Unstructured, error)
	Kind(ctx context.Context, gvk schema.GroupVersionKind) (cluster.Kind, error)
	Refresh(group string)
	health.Claims
}

// Watcher keeps the memory up to date. A Watcher is safe for concurrent use.
type Watcher struct {
	// Silence is told that the API server does not answer any more, or that it does again; nil: nobody is. Silence must
	// not block.
	Silence func()

	api     API
	memory  *memory.Memory
	noted   func(service string)
	log     *slog.Logger
	running prometheus.Gauge
	begun   *prometheus.CounterVec
	// paged: the server can't begin a stream with all objects; they are listed first.
	paged atomic.Bool
	// custom gets a value when kinds of CRDs came or went among those that are followed.
	custom chan struct{}
	// follows gets a value when an object is to be followed.
	follows chan struct{}

	mu sync.Mutex // guards what follows
	// single are objects with a stream of their own, see Follow.
	single    map[types.UID]*followed
	sources   map[string]*sources // by service
	followers map[schema.GroupVersionKind]*follower
	rules     map[string]rules
	notes     map[string]map[string]string
	noteAll   bool // notes has those of all services
}

// rules are the health rules of a service.
type rules struct {
	specs []*deliveryv1.HealthRule
	rules []*health.Rule
}

// New returns a watcher; Run starts it. noted is called when the annotations of a service have changed; it must
// not block.
func New(api API, m *memory.Memory, noted func(service string), log *slog.Logger, metrics prometheus.Registerer) *Watcher {
	w := &Watcher{
		api: api, memory: m, noted: noted, log: log, custom: make(chan struct{}, 1), follows: make(chan struct{}, 1),
		single: map[types.UID]*followed{}, sources: map[string]*sources{},
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "fairlead_agent_watches", Help: "Kinds that are followed."}),
		begun: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_agent_watch_streams_total",
			Help: "Streams that were begun, anew or where the last one ended.",
		}, []string{"from"}),
		followers: map[schema.GroupVersionKind]*follower{}, rules: map[string]rules{}, notes: map[string]map[string]string{},
	}
	metrics.MustRegister(w.running, w.begun)
	return w
}

// Run follows the kinds of the memory until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { w.followCRDs(ctx) })
	running.Go(func() { w.followNotes(ctx) })
	running.Go(func() { w.probe(ctx) })
	for {
		w.follow(ctx, &running)
		w.startFollowed(ctx, &running)
		w.startSources(ctx, &running)
		select {
		case <-ctx.Done():
			return nil
		case <-w.memory.KindsChanged():
		case <-w.follows:
		}
	}
}

// probe asks the API server now and then for an object, and says so if there is no answer for a while.
func (w *Watcher) probe(ctx context.Context) {
	defer w.memory.Silent("")
	silent := func(why string) {
		if w.memory.Silence() == why {
			return
		}
		w.memory.Silent(why)
		if w.Silence != nil {
			w.Silence()
		}
	}
	noted := object.Ref{Key: object.Key{Kind: "ConfigMap", Namespace: inventory.Namespace, Name: inventory.ClusterMap}, Version: "v1"}
	var since time.Time // of the first question that has no answer
	for retry.Sleep(ctx, retry.Spread(probeEvery)) {
		began := time.Now()
		asking, cancel := context.WithTimeout(ctx, probeTimeout)
		_, err := w.api.Metadata(asking, noted)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsTooManyRequests(err):
			if !since.IsZero() {
				silent("")
				since = time.Time{}
			}
			continue
		case since.IsZero():
			since = began
			w.log.Warn("the API server does not answer", "err", err)
		}
		if time.Since(since) > patience {
			silent("the API server has not answered since " + since.UTC().Format(time.RFC3339))
		}
	}
}

// follow starts and stops followers, so that they are those of the memory's kinds.
func (w *Watcher) follow(ctx context.Context, running *sync.WaitGroup) {
	late, kinds := w.memory.Late(), slices.Collect(w.memory.Kinds())
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, kind := range kinds {
		if f := w.followers[kind]; f != nil {
			if late[kind] {
				f.again()
			}
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		f := &follower{watcher: w, gvk: kind, end: cancel, wake: make(chan struct{}, 1), asks: make(chan struct{}, 1), asked: map[object.Key]bool{}}
		w.followers[kind] = f
		running.Go(func() { f.run(ctx) })
	}
	for kind, f := range w.followers {
		if !slices.Contains(kinds, kind) {
			f.end()
			delete(w.followers, kind)
		}
	}
	w.running.Set(float64(len(w.followers)))
	select {
	case w.custom <- struct{}{}:
	default:
	}
}

// SetRules tells the health rules of a service; nil: it has none.
func (w *Watcher) SetRules(service string, specs []*deliveryv1.HealthRule) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.rules[service]
	if slices.EqualFunc(before.specs, specs, sameRule) {
		return
	}
	now := rules{specs: specs, rules: health.Compile(specs)}
	if w.rules[service] = now; len(specs) == 0 {
		delete(w.rules, service)
	}
	for kind, f := range w.followers {
		if health.Find(before.rules, kind.GroupKind()) != nil || health.Find(now.rules, kind.GroupKind()) != nil {
			f.again()
		}
	}
}

// Rule is the health rule of a service for a kind, nil if there is none.
func (w *Watcher) Rule(service string, kind schema.GroupKind) *health.Rule {
	w.mu.Lock()
	defer w.mu.Unlock()
	return health.Find(w.rules[service].rules, kind)
}

// ruled says whether any service has a rule for a kind.
func (w *Watcher) ruled(kind schema.GroupKind) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, of := range w.rules {
		if health.Find(of.rules, kind) != nil {
			return true
		}
	}
	return false
}

// Annotations of the service's inventory, by which people hold it. known: the stream has told of all of them.
func (w *Watcher) Annotations(service string) (annotations map[string]string, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.notes[service], w.noteAll
}

// follower follows one kind. Only its own goroutine uses what has no other guard.
type follower struct {
	watcher *Watcher

	gvk  schema.GroupVersionKind
	end  context.CancelFunc
	wake chan struct{} // gets a value when it is worth another try
	// anew: what is known of the kind has to be read again.
	anew atomic.Bool
	// cut ends the stream that is under way.
	cut atomic.Pointer[context.CancelFunc]

	place   string // resourceVersion to go on from, "": from the beginning
	told    string // the last problem that was logged
	backoff retry.Backoff
	down    time.Time // since when there is no stream

	// asks gets a value when there is an object to be asked for.
	asks chan struct{}
	mu   sync.Mutex // guards asked
	// asked are objects that the stream says are gone. A stream is read on meanwhile: where very many went the news of
	// others would wait for as long as all these questions take.
	asked map[object.Key]bool
}

// again has the kind read anew.
func (f *follower) again() {
	f.anew.Store(true)
	f.stop()
}

// stop ends the stream that is under way; the next one begins at once.
func (f *follower) stop() {
	if cut := f.cut.Load(); cut != nil {
		(*cut)()
	}
	f.retry()
}

func (f *follower) retry() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *follower) run(ctx context.Context) {
	defer f.watcher.memory.Unsure(f.gvk, "")
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() { f.askAll(ctx) })
	f.backoff = retry.Backoff{Floor: retryFloor, Max: retryMax}
	for {
		heard, err := f.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if heard && f.place != "" { // else it never came to the end of the beginning
			f.backoff.Reset()
			f.down, f.told = time.Time{}, ""
		}
		timer := time.NewTimer(f.without(ctx, err))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-f.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// without does what can be done without a stream, and says how long to wait for the next.
func (f *follower) without(ctx context.Context, err error) time.Duration {
	unknown := (*cluster.UnknownKindError)(nil)
	switch {
	case err == nil:
		return f.backoff.Next()
	case errors.As(err, &unknown):
		f.place = ""
		for _, key := range f.watcher.memory.Named(f.gvk) {
			if known, ok := f.watcher.memory.Get(key); ok {
				f.watcher.memory.NotFound(key, known.Version)
			}
		}
		f.watcher.memory.Unsure(f.gvk, "")
		return retry.Spread(retryMax)
	case apierrors.IsForbidden(err):
		f.tell(err)
		why := ""
		for _, key := range f.watcher.memory.Named(f.gvk) {
			if err := f.ask(ctx, key, true); err != nil {
				why = unsaid(err)
			}
		}
		f.watcher.memory.Unsure(f.gvk, why)
		return retry.Spread(askEvery)
	}
	f.tell(err)
	if f.down.IsZero() {
		f.down = time.Now()
	} else if time.Since(f.down) > patience {
		f.watcher.memory.Unsure(f.gvk, unsaid(err))
	}
	return max(f.backoff.Next(), retryAfter(err))
}

// unsaid is why objects are not known.
func unsaid(err error) string {
	reason := "it can't be reached"
	if known := apierrors.ReasonForError(err); known != metav1.StatusReasonUnknown {
		reason = string(known)
	}
	return "the API server does not say: " + reason
}

// tell logs a problem once.
func (f *follower) tell(err error) {
	if text := err.Error(); text != f.told && !expired(err) {
		f.told = text
		f.watcher.log.Warn("a kind can't be watched", "kind", f.gvk.GroupKind().String(), "err", text)
	}
}

func retryAfter(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return min(time.Duration(seconds)*time.Second, time.Minute)
}

func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// once follows the kind until the stream ends. heard: the server had something to say.
func (f *follower) once(ctx context.Context) (heard bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.cut.Store(&cancel)
	if f.anew.Swap(false) {
		f.place = ""
	}
	kind, err := f.watcher.api.Kind(ctx, f.gvk)
	if err != nil {
		return false, err
	}
	s := stream{
		watcher: f.watcher, gvk: f.gvk, place: f.place, options: metav1.ListOptions{LabelSelector: object.ServiceLabel},
		metadataOnly: cluster.DataOnly(f.gvk) || !kind.Status && !f.watcher.ruled(f.gvk.GroupKind()),
		begin:        func() { f.watcher.memory.Sweep(f.gvk) },
		saw:          func(obj metav1.Object) { f.saw(ctx, obj) },
		gone:         f.gone,
		complete: func() {
			for _, key := range f.watcher.memory.Unnamed(f.gvk) {
				if known, _ := f.watcher.memory.Get(key); known.UID != "" || known.Manifest != 0 { // else it is about to be made, and the answer to that tells
					_ = f.ask(ctx, key, false) // it is asked for again
				}
			}
			f.watcher.memory.Unsure(f.gvk, "")
		},
	}
	if f.place != "" {
		s.opened = func() {
			f.down = time.Time{}
			f.watcher.memory.Unsure(f.gvk, "")
		}
	}
	heard, err = s.run(ctx)
	f.place = s.place
	if ctx.Err() != nil { // the stream was cut
		err = nil
	}
	return heard, err
}

// saw takes over an object.
func (f *follower) saw(ctx context.Context, obj metav1.Object) {
	whole, ok := obj.(*unstructured.Unstructured)
	if !ok {
		f.watcher.memory.Saw(f.gvk, obj, 0, health.OfMeta(obj))
		return
	}
	rule := f.watcher.Rule(obj.GetLabels()[object.ServiceLabel], f.gvk.GroupKind())
	expires, ended := object.Expiry(whole)
	h := health.With(ctx, f.watcher.api, whole, rule)
	if !ended.IsZero() {
		h = health.Health{State: health.Healthy} // also while it goes
	}
	f.watcher.memory.Saw(f.gvk, obj, object.Content(whole), h)
	if object.IsJob(f.gvk.GroupKind()) {
		f.watcher.memory.Expiring(object.RefOf(whole).Key, obj, expires, ended)
	}
}

// gone has it checked that an object that left the stream left the cluster.
func (f *follower) gone(obj metav1.Object) {
	key := object.Key{Group: f.gvk.Group, Kind: f.gvk.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	known, ok := f.watcher.memory.Get(key)
	if whole, isWhole := obj.(*unstructured.Unstructured); ok && isWhole && known.UID == obj.GetUID() {
		if expires, ended := object.Expiry(whole); !ended.IsZero() { // its last state may have come with its end only
			f.watcher.memory.Expiring(key, obj, expires, ended)
		}
	}
	switch {
	case !ok || known.UID != obj.GetUID():
	case known.Manifest == 0: // on its way out: who prunes it looks for itself
		f.watcher.memory.NotFound(key, known.Version)
	default:
		f.mu.Lock()
		f.asked[key] = true
		f.mu.Unlock()
		select {
		case f.asks <- struct{}{}:
		default:
		}
	}
}

// askAll asks for the objects that the stream says are gone, until ctx ends.
func (f *follower) askAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.asks:
		}
		f.mu.Lock()
		keys := slices.Collect(maps.Keys(f.asked))
		clear(f.asked)
		f.mu.Unlock()
		for _, key := range keys {
			if ctx.Err() != nil {
				return
			}
			_ = f.ask(ctx, key, false) // it is asked for again
		}
	}
}

// ask reads the metadata of one object. With judge its health is taken from that; else it stays. The error says that
// nothing is known of the object now.
func (f *follower) ask(ctx context.Context, key object.Key, judge bool) error {
	known, ok := f.watcher.memory.Get(key)
	if !ok {
		return nil
	}
	meta, err := f.watcher.api.Metadata(ctx, object.Ref{Key: key, Version: f.gvk.Version})
	unknown := (*cluster.UnknownKindError)(nil)
	switch {
	case apierrors.IsNotFound(err) && f.failedUnseen(ctx, key, known):
		f.watcher.memory.Gone(key, known.UID, known.Version)
	case apierrors.IsNotFound(err) || errors.As(err, &unknown):
		f.watcher.memory.NotFound(key, known.Version)
	case err != nil:
		f.watcher.log.Debug("an object can't be asked for", "object", key.String(), "err", err)
		if f.anew.CompareAndSwap(false, true) { // a stream that begins anew comes back to it
			wait := retryMax
			if apierrors.IsForbidden(err) {
				wait = askEvery
			}
			time.AfterFunc(retry.Spread(wait), f.stop)
		}
		return err
	case memory.IsOlder(meta, known): // the cluster was set back to a backup: all versions of before mean nothing
		f.watcher.memory.SetBack(f.gvk)
		f.again()
	case judge:
		f.watcher.memory.Saw(f.gvk, meta, 0, health.OfMeta(meta))
	default:
		f.watcher.memory.Saw(f.gvk, meta, 0, health.Health{})
	}
	return nil
}

// failedUnseen tells a Job that failed, and went, before this process saw it: the events about it say so for as long as
// the API server keeps them. Without them a Job that went by itself counts as complete, see memory.NotFound.
func (f *follower) failedUnseen(ctx context.Context, key object.Key, known memory.Known) bool {
	if !object.IsJob(f.gvk.GroupKind()) || known.State != memory.Unseen || known.UID == "" {
		return false
	}
	const most = 50 // events about one Job, which has few
	events, err := f.watcher.api.Select(ctx, schema.GroupVersionKind{Version: "v1", Kind: "Event"}, key.Namespace, metav1.ListOptions{
		FieldSelector: "involvedObject.uid=" + string(known.UID) + ",type=Warning", Limit: most,
	})
	if err != nil {
		f.watcher.log.Debug("the events about a Job that is gone can't be read", "object", key.String(), "err", err)
		return false
	}
	return slices.ContainsFunc(events, func(event *unstructured.Unstructured) bool { return object.IsJobFailure(event.Object["reason"]) })
}

// sameRule compares rules by what they say.
func sameRule(a, b *deliveryv1.HealthRule) bool { return a.String() == b.String() }

// followNotes follows the annotations of inventories.
func (w *Watcher) followNotes(ctx context.Context) {
	note := func(obj metav1.Object, annotations map[string]string) {
		service := obj.GetLabels()[inventory.Label]
		if obj.GetName() != "inventory."+service {
			return // a further part of one
		}
		own := map[string]string{}
		for key, value := range annotations {
			if strings.HasPrefix(key, "fairlead.dev/") {
				own[key] = value
			}
		}
		w.mu.Lock()
		same := maps.Equal(w.notes[service], own)
		if w.notes[service] = own; len(own) == 0 {
			delete(w.notes, service)
		}
		w.mu.Unlock()
		if !same {
			w.noted(service)
		}
	}
	var named map[string]bool // while a stream begins
	w.keep(ctx, &stream{
		watcher: w, gvk: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, metadataOnly: true,
		options: metav1.ListOptions{LabelSelector: inventory.Label, FieldSelector: "metadata.namespace=" + inventory.Namespace},
		begin:   func() { named = map[string]bool{} },
		saw: func(obj metav1.Object) {
			if named != nil {
				named[obj.GetName()] = true
			}
			note(obj, obj.GetAnnotations())
		},
		gone: func(obj metav1.Object) { note(obj, nil) },
		complete: func() {
			w.mu.Lock()
			services, first := slices.Collect(maps.Keys(w.notes)), !w.noteAll
			w.noteAll = true
			w.mu.Unlock()
			for _, service := range services {
				if !named["inventory."+service] {
					note(&metav1.ObjectMeta{Name: "inventory." + service, Labels: map[string]string{inventory.Label: service}}, nil)
				}
			}
			for name := range named {
				if first { // until now they were as the inventory was read
					w.noted(strings.TrimPrefix(name, "inventory."))
				}
			}
			named = nil
		},
	})
}

// keep runs a stream again and again until ctx ends.
func (w *Watcher) keep(ctx context.Context, s *stream) {
	backoff := retry.Backoff{Floor: retryFloor, Max: retryMax}
	for ctx.Err() == nil {
		heard, err := s.run(ctx)
		if heard {
			backoff.Reset()
		}
		wait := backoff.Next()
		if apierrors.IsForbidden(err) {
			wait = retry.Spread(askEvery)
		}
		retry.Sleep(ctx, max(wait, retryAfter(err)))
	}
}
