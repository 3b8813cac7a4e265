// Package folders brings the folders of services for the catalog to the console, as agents are brought those for
// clusters: when they have other content, until the console has settled what becomes of it. The console says whether it
// wants a folder, so that of many distributors one sends it.
package folders

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/retry"
	"fairlead.dev/services/distributor/internal/plan"
	"fairlead.dev/services/distributor/internal/status"
)

const (
	// maxBytes of a folder's files: what the console takes in one call, and a transaction of seconds.
	maxBytes = 3 << 20
	// maxFiles of a folder (the console's own limit).
	maxFiles = 10_000
	// callTimeout bounds one call: thousands of resources in one transaction.
	callTimeout = time.Minute
	// retryTime is how soon a call that failed is repeated. A folder that is not settled is asked about again after
	// twice as long each time, up to retryMost unless the console says later, and up to twice that for the jitter.
	retryTime, retryMost = 5 * time.Second, time.Minute
	// maxAtOnce is how many folders are brought at the same time: the console writes one after the other, and one may
	// be slow to come here.
	maxAtOnce = 4
)

// Console takes folders in.
type Console interface {
	ApplyFolder(ctx context.Context, req *consolev1.ApplyFolderRequest) (*consolev1.ApplyFolderResponse, error)
}

// Plan says what is delivered.
type Plan interface {
	Catalog() []string
	Truth(service string) (plan.Truth, bool)
}

// Origin makes the artifact of a want local.
type Origin interface {
	Warm(ctx context.Context, w plan.Want, d artifact.Digest) error
}

// Deps is what Folders work with.
type Deps struct {
	Console Console
	Plan    Plan
	Origin  Origin
	Store   *artifact.Store
	Log     *slog.Logger
}

// Folders is made by New; Run works.
type Folders struct {
	Deps
	signal chan struct{} // capacity 1

	mu      sync.Mutex // guards what follows
	changed map[string]struct{}
}

// New returns Folders that have told nothing.
func New(d Deps) *Folders {
	return &Folders{Deps: d, signal: make(chan struct{}, 1), changed: map[string]struct{}{}}
}

// Changed says that something else may be delivered of these services. Changed never blocks.
func (f *Folders) Changed(services map[string]struct{}) {
	if len(services) == 0 {
		return
	}
	f.mu.Lock()
	maps.Copy(f.changed, services)
	f.mu.Unlock()
	select {
	case f.signal <- struct{}{}:
	default:
	}
}

// state is what is known of a folder; zero: nothing.
type state struct {
	key     string
	settled bool
	due     time.Time
	after   time.Duration // the pause before the last call
}

// brought is what became of a folder.
type brought struct {
	service, key string
	after        time.Duration // 0: it is settled
}

// run is a Run on its way. One goroutine owns it.
type run struct {
	folders *Folders
	known   map[string]state    // by service
	busy    map[string]struct{} // services whose folder is on its way
	done    chan brought        // capacity maxAtOnce
}

// Run works until ctx ends.
func (f *Folders) Run(ctx context.Context) error {
	r := &run{folders: f, known: map[string]state{}, busy: map[string]struct{}{}, done: make(chan brought, maxAtOnce)}
	var work sync.WaitGroup
	defer work.Wait()
	for {
		timer := time.NewTimer(r.pass(ctx, &work))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case b := <-r.done:
			r.take(b)
		case <-f.signal:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// pass begins to bring what is due, as far as there is room, and says how long nothing more will be. The folder that
// has been due longest comes first, and folders that were never brought come before that: folders that hang again and
// again starve no other.
func (r *run) pass(ctx context.Context, work *sync.WaitGroup) time.Duration {
	known := r.known
	r.folders.mu.Lock()
	changed := r.folders.changed
	r.folders.changed = map[string]struct{}{}
	r.folders.mu.Unlock()
	names := r.folders.Plan.Catalog()
	maps.DeleteFunc(known, func(name string, _ state) bool {
		_, again := changed[name] // a console that was put back has forgotten it
		return again || !slices.Contains(names, name)
	})
	wait := time.Hour
	type folder struct {
		state
		name  string
		truth plan.Truth
	}
	var due []folder
	for _, name := range names {
		truth, ok := r.folders.Plan.Truth(name)
		if !ok || truth.Delivery == nil || ctx.Err() != nil {
			continue
		}
		if _, busy := r.busy[name]; busy {
			continue // the call under way counts for nothing if something changed since
		}
		is := known[name]
		if key := fmt.Sprint(truth.UID, truth.Revision, truth.Delivery.Digest); is.key != key {
			is = state{key: key}
		}
		known[name] = is
		switch left := time.Until(is.due); {
		case is.settled:
		case left > 0:
			wait = min(wait, left)
		default:
			due = append(due, folder{is, name, truth})
		}
	}
	slices.SortStableFunc(due, func(a, b folder) int { return a.due.Compare(b.due) })
	for _, is := range due[:min(len(due), maxAtOnce-len(r.busy))] { // for others there is room when one is done
		r.busy[is.name] = struct{}{}
		work.Go(func() { r.done <- r.folders.try(ctx, is.name, is.key, is.truth) })
	}
	return wait
}

// try brings a folder.
func (f *Folders) try(ctx context.Context, service, key string, t plan.Truth) brought {
	after, err := f.bring(ctx, service, t)
	if err != nil {
		if ctx.Err() == nil {
			f.Log.InfoContext(ctx, "bring a folder to the catalog", "service", service, "err", err)
		}
		after = retryTime
	}
	return brought{service, key, after}
}

// take notes what became of a folder, unless there is other content by now.
func (r *run) take(b brought) {
	delete(r.busy, b.service)
	is := r.known[b.service]
	if is.key != b.key {
		return
	}
	if is.settled = b.after == 0; !is.settled {
		is.after = max(b.after, min(2*is.after, retryMost))
		is.due = time.Now().Add(retry.Between(is.after, 2*is.after))
	}
	r.known[b.service] = is
}

// bring tells the console of a folder, and sends it if it is wanted. bring returns when to do that again; 0: the folder
// is settled.
func (f *Folders) bring(ctx context.Context, name string, t plan.Truth) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	tell := func(content *consolev1.FolderContent) (*consolev1.ApplyFolderResponse, error) {
		return f.Console.ApplyFolder(ctx, &consolev1.ApplyFolderRequest{
			Service: name, Uid: t.UID, ServiceRevision: t.Revision, Digest: t.Delivery.Digest, Revision: status.Revision(t.Delivery.Revision), Content: content,
		})
	}
	res, err := tell(nil)
	if err == nil && res.GetWanted() {
		var content *consolev1.FolderContent
		if content, err = f.content(ctx, t.Delivery); err != nil {
			return 0, err
		}
		res, err = tell(content)
		if code := connect.CodeOf(err); err != nil && (code == connect.CodeInvalidArgument || code == connect.CodeResourceExhausted) {
			res, err = tell(&consolev1.FolderContent{Refusal: "the console does not take it: " + err.Error()})
		}
	}
	if err != nil || res.GetSettled() {
		return 0, err
	}
	if after := res.GetRetryAfter().AsDuration(); after > 0 {
		return after, nil
	}
	return retryTime, nil
}

// errRefused ends reading a folder that the console would not take.
type errRefused string

func (e errRefused) Error() string { return string(e) }

// content reads the files of a folder that hold resources.
func (f *Folders) content(ctx context.Context, d *plan.Delivery) (*consolev1.FolderContent, error) {
	if err := f.Origin.Warm(ctx, d.Want, d.Artifact.Digest); err != nil {
		return nil, err
	}
	blob, err := f.Store.Open(d.Artifact.Digest)
	if err != nil {
		return nil, err
	}
	defer func() { _ = blob.Close() }() // opened for reading: nothing to lose
	out := &consolev1.FolderContent{}
	size := 0
	err = artifact.Walk(blob, artifact.Limits{}, func(e artifact.Entry, r io.Reader) error {
		if !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(e.Path)) {
			return nil
		}
		file := path.Join(d.Want.Path, e.Path)
		if e.Base != "" { // paths are those of the repository, and what is beyond the folder declares nothing
			if file = e.Path; !strings.HasPrefix(file, e.Base+"/") {
				return nil
			}
		}
		file = artifact.Printable(file) // travels as UTF-8
		if e.Link != "" {
			return errRefused(fmt.Sprintf("%s: is a link: put the file itself there", file))
		}
		if size += int(min(e.Size, maxBytes+1)); size > maxBytes || len(out.Files) == maxFiles {
			return errRefused(fmt.Sprintf("its files have more than %d MiB, or are more than %d: make several services of it, of a folder each", maxBytes>>20, maxFiles))
		}
		data, err := io.ReadAll(r)
		out.Files = append(out.Files, &consolev1.FolderFile{Path: file, Data: data})
		return err
	})
	if refused, ok := errors.AsType[errRefused](err); ok {
		return &consolev1.FolderContent{Refusal: string(refused)}, nil
	}
	return out, err
}
