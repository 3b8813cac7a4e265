package standby

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/services/gitcache/internal/build"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
)

const (
	// copyTime bounds the copy of one source.
	copyTime = 30 * time.Minute
	// maxPacks of a source, with room: an owner joins them long before.
	maxPacks = 10_000
)

var (
	// ErrBehind: another replica lacks what was published and is here, or both lack it.
	ErrBehind = errors.New("it does not have all that was published")
	errNobody = errors.New("no other replica has it")
)

// Peers are the other replicas.
type Peers interface {
	// Holders are those that may have a source, its owner first.
	Holders(ctx context.Context, uid string) []coordination.Member
	// OwnerMember is the owner, if it is another replica that can be asked.
	OwnerMember(ctx context.Context, uid string) (coordination.Member, bool)
	// Copy begins to read what one of them has; the caller closes it. ErrNothing: it has nothing.
	Copy(ctx context.Context, from coordination.Member, r Request) (Incoming, error)
	// OpenAt opens an artifact at one of them.
	OpenAt(ctx context.Context, from coordination.Member, d artifact.Digest) (io.ReadCloser, error)
}

// Incoming is a copy that comes.
type Incoming interface {
	Manifest() Manifest
	// Next returns the next pack. The pack must be read to its end; io.EOF: there are no more.
	Next() (name string, r io.Reader, err error)
	Close() error
}

// Catalog is the hub's knowledge of sources.
type Catalog interface {
	// Names are those of all sources by uid.
	Names() map[string]string
	// Heads are those that were published last.
	Heads(name string) []mirror.Head
	// Places are the folders that services use, at the published heads.
	Places(name string) []build.Place
	// Changed receives after changes; it coalesces.
	Changed() <-chan struct{}
}

// copier copies one source.
type copier struct {
	replica string
	catalog Catalog
	peers   Peers
	mirrors *mirror.Mirrors
	builder *build.Builder
	store   *artifact.Store
	tracer  trace.Tracer
	metrics *Metrics
}

// outcome of a copy.
type outcome struct {
	news bool // something was missing, and came
	// copies are the replicas known to have all of it, the one that was asked among them.
	copies []string
}

// mode of a copy.
type mode int

const (
	follow mode = iota // be what the original is
	merge              // keep what is here besides: this replica owns the source
)

// copySource makes the copy of a source what its owner has. If the owner does not answer, any other replica
// will do that has what was published and is missing here.
func (c *copier) copySource(ctx context.Context, uid, name string, how mode) (o outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, copyTime)
	defer cancel()
	ctx, span := c.tracer.Start(ctx, "gitcache.copy", trace.WithNewRoot(), trace.WithAttributes(attribute.String("source", name)))
	defer span.End()
	defer func() {
		c.metrics.countCopy(o.news, err)
		if err != nil {
			span.SetStatus(codes.Error, "copy")
		}
	}()
	owner, owned := c.peers.OwnerMember(ctx, uid)
	err = errNobody
	for _, from := range c.peers.Holders(ctx, uid) {
		if (!owned || from.ID != owner.ID) && !c.lacksPublished(uid, name) {
			return o, err // a copy of others than the owner is no better
		}
		var one outcome
		one, err = c.copyFrom(ctx, from, uid, name, how)
		o.news = o.news || one.news
		if err == nil && (from.ID == owner.ID || !c.lacksPublished(uid, name)) {
			o.copies = one.copies
			return o, nil
		}
		if err != nil {
			err = fmt.Errorf("from replica %q: %w", from.ID, err)
		}
		if ctx.Err() != nil {
			return o, err
		}
	}
	return o, err
}

func (c *copier) copyFrom(ctx context.Context, from coordination.Member, uid, name string, how mode) (o outcome, err error) {
	into, err := c.targetFor(uid)
	if err != nil {
		return o, err
	}
	in, err := c.peers.Copy(ctx, from, Request{UID: uid, Have: into.have, Replica: c.replica, State: into.state})
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	all := in.Manifest()
	if err := c.checkLosses(into.mirror, all, c.catalog.Heads(name)); err != nil {
		return o, err
	}
	for {
		pack, r, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return o, err
		}
		if err := c.takePack(ctx, into, all, pack, r); err != nil {
			return o, err
		}
		o.news = true
	}
	if o.news = o.news || State(all.Packs, all.Heads) != into.state; o.news {
		if err := into.adoptHeads(ctx, all, how); err != nil {
			return o, err
		}
	}
	c.builder.Learn(ctx, uid, all.Built)
	o.copies = append(slices.Clone(all.Copies), from.ID)
	return o, c.copyArtifacts(ctx, from, name)
}

// target is where a copy goes: the mirror, or beside it if that is damaged.
type target struct {
	mirror *mirror.Mirror
	fresh  *mirror.Fresh // nil: into the mirror
	have   []string
	state  string
}

func (c *copier) targetFor(uid string) (t target, err error) {
	if t.mirror, err = c.mirrors.Mirror(uid); err != nil {
		return t, err
	}
	if t.mirror.Doubted() {
		t.fresh, err = t.mirror.Fresh()
		return t, err
	}
	if t.have, err = packNames(t.mirror); err != nil {
		return t, err
	}
	t.state = State(t.have, headsOf(t.mirror))
	parts, err := t.mirror.Parts() // of a copy that was cut short
	t.have = append(t.have, parts...)
	return t, err
}

func (t target) addPack(ctx context.Context, r io.Reader) (int64, error) {
	if t.fresh != nil {
		return t.fresh.AddPack(ctx, r)
	}
	return t.mirror.AddPart(ctx, r)
}

func (t target) adoptHeads(ctx context.Context, all Manifest, how mode) error {
	if t.fresh != nil {
		if err := t.fresh.Use(); err != nil {
			return err
		}
	}
	if how == follow {
		return t.mirror.Adopt(ctx, all.Packs, all.Heads)
	}
	packs, err := packNames(t.mirror)
	if err != nil {
		return err
	}
	heads := t.mirror.Heads()
	for _, h := range all.Heads {
		heads[h.Ref] = h
	}
	packs = slices.Compact(slices.Sorted(slices.Values(append(packs, all.Packs...))))
	return t.mirror.Adopt(ctx, packs, slices.Collect(maps.Values(heads)))
}

// checkLosses refuses what would lose a published commit that is here.
func (c *copier) checkLosses(m *mirror.Mirror, all Manifest, published []mirror.Head) error {
	if len(all.Packs) > maxPacks {
		return fmt.Errorf("it has %d packs, more than the limit of %d", len(all.Packs), maxPacks)
	}
	theirs := map[git.Hash]bool{}
	for _, h := range all.Heads {
		theirs[h.Commit] = true
	}
	objects := m.Objects()
	defer objects.Close()
	for _, h := range published {
		if !m.Doubted() && !theirs[h.Commit] && objects.Has(h.Commit) {
			return ErrBehind
		}
	}
	return nil
}

func (c *copier) takePack(ctx context.Context, into target, all Manifest, pack string, r io.Reader) error {
	if !slices.Contains(all.Packs, pack) {
		return fmt.Errorf("pack %q is not one of the manifest's", pack)
	}
	n, err := into.addPack(ctx, r)
	c.metrics.countBytes(n)
	if err == nil {
		_, err = io.Copy(io.Discard, r) // to the end of the last piece
	}
	if err != nil {
		return fmt.Errorf("take pack %s: %w", pack, err)
	}
	return nil
}

// copyArtifacts brings those that services use now and that the other replica has built. An artifact that was not asked
// for yet is built from the mirror when it is.
func (c *copier) copyArtifacts(ctx context.Context, from coordination.Member, name string) error {
	for _, p := range c.catalog.Places(name) {
		r, ok := c.builder.Lookup(ctx, p)
		if !ok || c.store.Has(r.Digest) {
			continue
		}
		b, err := c.store.Fill(ctx, r.Digest, func(ctx context.Context, d artifact.Digest) (io.ReadCloser, error) {
			return c.peers.OpenAt(ctx, from, d)
		})
		switch {
		case err == nil:
			c.metrics.countBytes(b.Size())
			if err := b.Close(); err != nil {
				return fmt.Errorf("copy artifact: %w", err)
			}
		case errors.Is(err, artifact.ErrNotFound), errors.Is(err, artifact.ErrNoSpace): // the artifact is built here, or passed through
		default:
			return fmt.Errorf("copy artifact: %w", err)
		}
	}
	return nil
}

// lacksPublished tells whether a published commit is not here.
func (c *copier) lacksPublished(uid, name string) bool {
	published := c.catalog.Heads(name)
	if len(published) == 0 {
		return false
	}
	m, ok := c.mirrors.Lookup(uid)
	return !ok || m.Doubted() || !hasAll(m, published)
}

func hasAll(m *mirror.Mirror, heads []mirror.Head) bool {
	objects := m.Objects()
	defer objects.Close()
	for _, h := range heads {
		if !objects.Has(h.Commit) {
			return false
		}
	}
	return true
}

// isElsewhere tells whether the owner has all that was published, and one more replica as well.
func (c *copier) isElsewhere(ctx context.Context, uid, name string) (bool, error) {
	owner, ok := c.peers.OwnerMember(ctx, uid)
	if !ok {
		return false, nil
	}
	in, err := c.peers.Copy(ctx, owner, Request{UID: uid, Replica: c.replica, ManifestOnly: true})
	if err != nil {
		return false, err
	}
	defer func() { _ = in.Close() }() // the peer has said what it had to
	theirs := map[git.Hash]bool{}
	for _, h := range in.Manifest().Heads {
		theirs[h.Commit] = true
	}
	for _, h := range c.catalog.Heads(name) {
		if !theirs[h.Commit] {
			return false, nil
		}
	}
	others := slices.DeleteFunc(slices.Clone(in.Manifest().Copies), func(n string) bool { return n == c.replica || n == owner.ID })
	return len(others) > 0, nil
}
