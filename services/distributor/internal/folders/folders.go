// Package folders brings the folders of services for the catalog to the console, as agents are brought those for clusters: when they
// have other content, until the console has settled what becomes of it. The console says whether it wants a folder, so that of many
// distributors one sends it.
package folders

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/artifact"
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
	// retryTime is how soon a call that failed is repeated, twice that at most.
	retryTime = 5 * time.Second
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

// Changed says that something else may be delivered of these services. It never blocks.
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
}

// Run works until ctx ends.
func (f *Folders) Run(ctx context.Context) error {
	known := map[string]state{} // by service; owned by this goroutine
	for {
		wait := f.pass(ctx, known)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-f.signal:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// pass brings what is due, and says how long nothing will be.
func (f *Folders) pass(ctx context.Context, known map[string]state) time.Duration {
	f.mu.Lock()
	changed := f.changed
	f.changed = map[string]struct{}{}
	f.mu.Unlock()
	names := f.Plan.Catalog()
	maps.DeleteFunc(known, func(name string, _ state) bool {
		_, again := changed[name] // a console that was put back has forgotten it
		return again || !slices.Contains(names, name)
	})
	wait := time.Hour
	for _, name := range names {
		truth, ok := f.Plan.Truth(name)
		if !ok || truth.Delivery == nil || ctx.Err() != nil {
			continue
		}
		is := known[name]
		if key := fmt.Sprint(truth.UID, truth.Revision, truth.Delivery.Digest); is.key != key {
			is = state{key: key}
		}
		if !is.settled && !is.due.After(time.Now()) {
			after, err := f.bring(ctx, name, truth)
			if err != nil && ctx.Err() == nil {
				f.Log.InfoContext(ctx, "bring a folder to the catalog", "service", name, "err", err)
				after = retryTime
			}
			is.settled, is.due = err == nil && after == 0, time.Now().Add(after+rand.N(after+1)) //nolint:gosec // jitter is no secret
		}
		if known[name] = is; !is.settled {
			wait = min(wait, time.Until(is.due))
		}
	}
	return max(wait, 0)
}

// bring tells the console of a folder, and sends it if it is wanted. It returns when to do that again; 0: it is settled.
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
