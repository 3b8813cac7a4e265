// Package build answers which artifact a folder is at a commit, and makes what was never made. The same
// content is built once, however many ask at once, and is known again after a restart.
package build

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/singleflight"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/pathrules"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/tree"
)

// Errors of Resolve besides tree.ErrNotFound and artifact.ErrRefused.
var (
	// ErrNotFetched: the commit is not in the mirror.
	ErrNotFetched = errors.New("commit is not fetched")
	// ErrDamaged: the mirror turned out to be damaged. The damage is noted, and the mirror will be cloned again.
	ErrDamaged = errors.New("the mirror is damaged and is being fetched again")
	// errOtherContent: what a folder refers to is not what its record says.
	errOtherContent = errors.New("the folder refers to other content than is remembered")
)

const (
	// format is part of every source_id: raise it when the same tree would become another artifact.
	format = "fairlead-source-1"
	// formatWithParts is that of folders that refer to something beyond themselves.
	formatWithParts = "fairlead-source-2"
	// buildTime bounds one build; the limits of an artifact bound it well below.
	buildTime = 2 * time.Minute
	// builders at work at once: each holds a file in memory. As many again build for downloads.
	builders = 3
	// sourceBuilders of one source: content can be made so that every build takes all of buildTime.
	sourceBuilders = 2
	// lookers look up places at once, and sourceLookers those of one source: a commit can be made so that a look
	// takes all of reachTime.
	lookers       = 8
	sourceLookers = 4
	// maxRefused contents are known to be refused, so that nobody who asks again costs a build.
	maxRefused = 1000
)

// artifactLimits of an artifact; what agents take by default.
func artifactLimits() artifact.Limits {
	return artifact.Limits{
		Bytes: artifact.DefaultBytes, FileBytes: artifact.DefaultFileBytes, Files: artifact.DefaultFiles,
		Depth: artifact.DefaultDepth, PathBytes: artifact.DefaultPathBytes,
	}
}

// Built is the content of a place.
type Built struct {
	Commit   mirror.Commit
	SourceID string
	Artifact artifact.Summary
}

// Deps of a Builder.
type Deps struct {
	Mirrors *mirror.Mirrors
	Store   *artifact.Store
	Tracer  trace.Tracer
	Log     *slog.Logger
	// Observe is told of every build and how long it took.
	Observe func(took time.Duration, err error)
}

// Builder makes artifacts. Safe for many goroutines.
type Builder struct {
	deps     Deps
	memo     *memo
	places   *places
	alone    alone
	time     time.Duration // of one build
	lookTime time.Duration // of one look at what a folder refers to
	builds   *turns
	looks    *turns
	// again are the slots of builds for downloads: those are read by callers who may be slow.
	again chan struct{}

	flights singleflight.Group // of builds, by source_id
	lookups singleflight.Group // by place
	life    context.Context    //nolint:containedctx // of builds, which outlive their callers; ended by Close
	end     context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex // guards what follows
	closed  bool
	refused map[key]refusal // by source_id

	pins   sync.Mutex              // guards pinned, and the order in which the store is told
	pinned map[string]map[key]bool // source_ids by source; replaced, never changed
}

// refusal is why a content of a source can't be built.
type refusal struct {
	source string
	err    error
}

// New opens the memo in dir. Close ends what runs.
func New(dir string, deps Deps) (*Builder, error) {
	m, err := openMemo(filepath.Join(dir, "memo"), deps.Log)
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.Background())
	return &Builder{
		deps: deps, memo: m, time: buildTime, lookTime: reachTime, again: make(chan struct{}, builders),
		builds: newTurns(builders, sourceBuilders), looks: newTurns(lookers, sourceLookers),
		life: life, end: end, places: newPlaces(), refused: map[key]refusal{},
	}, nil
}

// Close ends builds and waits for them.
func (b *Builder) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.end()
	b.running.Wait()
	return b.memo.closeFile()
}

// beginBuild counts one more build; false once Close was called.
func (b *Builder) beginBuild() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.running.Add(1)
	}
	return !b.closed
}

// Resolve answers what a place holds, building it if it never was. An artifact that the store has no
// more is not built before somebody wants its bytes: Open does.
func (b *Builder) Resolve(ctx context.Context, p Place) (Built, error) {
	built, err := b.resolveOnce(ctx, p)
	if errors.Is(err, errOtherContent) { // a chart or base is another one than when the place was looked up
		b.places.forgetPlace(p)
		built, err = b.resolveOnce(ctx, p)
	}
	return built, err
}

func (b *Builder) resolveOnce(ctx context.Context, p Place) (Built, error) {
	c, id, err := b.findContent(ctx, p)
	if err != nil {
		return Built{}, err
	}
	built := Built{Commit: c.commit, SourceID: id.String()}
	if r, ok := b.memo.getRecord(id); ok {
		built.Artifact = r.summaryOf()
		return built, nil
	}
	if err := b.wasRefused(id); err != nil {
		return Built{}, err
	}
	built.Artifact, err = b.buildOnce(ctx, id, c.contentAt(p))
	return built, b.judgeError(p.Source, p.Commit, err)
}

// judgeError turns a damaged mirror into a note for the poll, and an error that says so. That something of a
// commit is missing is no damage before a head needs it: a copy that is only coming has a part of it.
func (b *Builder) judgeError(uid string, commit git.Hash, err error) error {
	missing := errors.Is(err, mirror.ErrMissing)
	if !missing && !errors.Is(err, mirror.ErrCorrupt) {
		return err
	}
	m, ok := b.deps.Mirrors.Lookup(uid)
	if !ok || missing && !commit.IsZero() && !m.Needs(commit) {
		return ErrNotFetched
	}
	m.Doubt(err)
	return ErrDamaged
}

// buildOnce builds under a context of its own, so that no caller's end fails the others.
func (b *Builder) buildOnce(ctx context.Context, id key, c content) (artifact.Summary, error) {
	done := b.flights.DoChan(id.String(), func() (any, error) {
		if !b.beginBuild() {
			return nil, context.Canceled
		}
		defer b.running.Done()
		own, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), b.time, b.lateError())
		defer cancel()
		defer context.AfterFunc(b.life, cancel)() //nolint:contextcheck // Close ends it, too
		return b.buildContent(own, id, c)
	})
	select {
	case <-ctx.Done():
		return artifact.Summary{}, ctx.Err()
	case r := <-done:
		sum, _ := r.Val.(artifact.Summary)
		return sum, r.Err
	}
}

func (b *Builder) lateError() error {
	return fmt.Errorf("%w: it takes longer than the limit of %s", context.DeadlineExceeded, b.time)
}

// wasRefused is the error of a build that was refused. A second build would be refused as well.
func (b *Builder) wasRefused(id key) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused[id].err
}

func (b *Builder) noteRefused(id key, source string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.refused) >= maxRefused {
		clear(b.refused) // a new build finds the refusals again
	}
	b.refused[id] = refusal{source, err}
}

func (b *Builder) buildContent(ctx context.Context, id key, c content) (sum artifact.Summary, err error) {
	leave, err := b.builds.takeTurn(ctx, c.source)
	if err != nil {
		return sum, err
	}
	defer leave()
	ctx, span := telemetry.Child(ctx, b.deps.Tracer, "gitcache.build", trace.WithAttributes(attribute.String("source_id", id.String())))
	began := time.Now()
	defer func() {
		b.deps.Observe(time.Since(began), err)
		if err != nil {
			span.SetStatus(codes.Error, "build")
		}
		span.End()
	}()
	sum, err = b.deps.Store.Build(func(w *artifact.Writer) error { return b.packContent(ctx, c, w) })
	if errors.Is(err, artifact.ErrNoSpace) {
		// The digest is known all the same; Open builds the bytes again for whoever asks.
		b.deps.Log.WarnContext(ctx, "artifact is not stored; it may have to be built again for downloads", "digest", sum.Digest, "err", err)
		err = nil
	}
	if errors.Is(err, artifact.ErrRefused) {
		b.noteRefused(id, c.source, err)
	}
	if err != nil {
		return artifact.Summary{}, err
	}
	r := c.recordOf(id, sum)
	if err := b.memo.putRecord(r); err != nil {
		b.deps.Log.WarnContext(ctx, "memo is not written; after a restart the artifact is built again", "digest", sum.Digest, "err", err)
	}
	b.pinBuilt(c.source, id)
	return sum, nil
}

func (b *Builder) packContent(ctx context.Context, c content, w *artifact.Writer) error {
	rules, err := pathrules.ParseCanonical(c.filter)
	if err != nil {
		return err
	}
	m, err := b.deps.Mirrors.Mirror(c.source)
	if err != nil {
		return err
	}
	objects := m.Objects()
	defer objects.Close()
	options := tree.Options{Limits: artifactLimits(), Rules: rules, Submodules: c.submodules}
	if !c.reach.hasRoot() {
		return tree.Pack(ctx, objects, c.tree, options, w)
	}
	parts, _, err := reachOf(ctx, m, objects, c.reach.root, c.reach.folder, c)
	if err != nil {
		return err
	}
	if c.idWith(c.reach.folder, parts) != c.reach.id {
		return fmt.Errorf("%w: folder %q of tree %s", errOtherContent, c.reach.folder, c.reach.root)
	}
	return tree.PackWith(ctx, objects, c.tree, c.reach.folder, parts, options, w)
}
