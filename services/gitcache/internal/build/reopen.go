package build

import (
	"context"
	"errors"
	"io"
	"slices"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/gitcache/internal/git"
)

// Open builds an artifact that was built before and is not in the store any more, as a
// artifact.FetchFunc. ErrNotFound: its content is not known or not in a mirror here.
func (b *Builder) Open(ctx context.Context, d artifact.Digest) (io.ReadCloser, error) {
	all := b.memo.getDigest(d)
	i := slices.IndexFunc(all, b.isHere)
	if i < 0 {
		return nil, artifact.ErrNotFound
	}
	if !b.beginBuild() {
		return nil, context.Canceled
	}
	reader, writer := io.Pipe()
	go func() {
		defer b.running.Done()
		ctx, cancel := context.WithTimeoutCause(ctx, b.time, b.lateError())
		defer cancel()
		defer context.AfterFunc(b.life, func() { //nolint:contextcheck // Close ends it, too
			cancel()
			_ = reader.CloseWithError(context.Canceled) // never fails
		})()
		_ = writer.CloseWithError(b.rebuildArtifact(ctx, all[i], writer)) // never fails
	}()
	return reader, nil
}

// isHere tells whether the mirror of a record's source has the content.
func (b *Builder) isHere(r record) bool {
	m, ok := b.deps.Mirrors.Lookup(r.Source)
	if !ok {
		return false
	}
	objects := m.Objects()
	defer objects.Close()
	c := r.contentOf()
	return objects.Has(c.tree) && (!c.reach.hasRoot() || objects.Has(c.reach.root))
}

// rebuildArtifact writes the artifact of a record.
func (b *Builder) rebuildArtifact(ctx context.Context, r record, out io.Writer) error {
	select {
	case b.again <- struct{}{}:
		defer func() { <-b.again }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	w := artifact.NewWriter(out, artifactLimits())
	err := b.packContent(ctx, r.contentOf(), w)
	if errors.Is(err, errOtherContent) {
		// The record is another replica's word: the next request builds the content.
		b.deps.Log.ErrorContext(ctx, "a record does not fit its content", "source_id", r.SourceID, "err", err)
		b.memo.forgetRecord(r.SourceID)
		return artifact.ErrCorrupt
	}
	if err != nil {
		return b.judgeError(r.Source, git.Hash{}, err)
	}
	sum, err := w.Close()
	if err != nil {
		return err
	}
	if sum != r.summaryOf() {
		// The record is the word of another replica, or of another release: the next request builds the content.
		b.deps.Log.ErrorContext(ctx, "content became another artifact than is remembered", "source_id", r.SourceID,
			"digest", sum.Digest, "remembered", r.Digest)
		b.memo.forgetRecord(r.SourceID)
		return artifact.ErrCorrupt
	}
	return nil
}
