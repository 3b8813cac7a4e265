// Package combination makes one commit of the files of several sources, side by side, and seals it where the commits of
// the first source have to be signed.
//
// A combination is made whole or not at all. Which sources are taken at which commits is the caller's to say.
package combination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache/internal/archive"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/pack"
	"fairlead.dev/services/gitcache/internal/source"
)

// PartQuery names a folder of a source at a commit.
type PartQuery struct {
	Source, UID string
	Commit      git.Hash
	Folder      source.PartFolder
}

// Builder makes the commits of one run. Their objects are in its files until Close.
type Builder struct {
	// Open reads the artifact of a folder of a source, wherever it is. Errors are in words for the owner of a service.
	Open   func(ctx context.Context, q PartQuery) (io.ReadCloser, error)
	Dir    string // for temporary files; empty: the system's
	Seal   Seal
	Tracer trace.Tracer

	files *archive.Builder // nil: nothing was made
}

// ID stands for the sources of a combination at their commits, and for whether it is sealed: while it stays nothing
// is made.
func ID(ref string, parts []source.Part, isSealed bool) git.Hash {
	var b strings.Builder
	fmt.Fprintln(&b, ref)
	if isSealed {
		fmt.Fprintln(&b, "sealed")
	}
	for _, p := range parts {
		fmt.Fprintln(&b, p.UID, p.Head.Commit, p.Submodules, p.Dependencies)
	}
	return pack.Name(git.Blob, []byte(b.String()))
}

// MakeCommit puts the files of all sources side by side into a commit, in the trace of the poll that found the newest.
func (b *Builder) MakeCommit(ctx context.Context, ref, traceparent string, parts []source.Part, isSealed bool) (commit git.Hash, err error) {
	ctx, span := telemetry.Of(ctx, traceparent, b.Tracer, "gitcache.combine")
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, "combine")
		}
		span.End()
	}()
	if b.files == nil {
		limits := archive.Limits{FileBytes: artifact.DefaultFileBytes, Bytes: artifact.DefaultBytes, Files: artifact.DefaultFiles}
		if b.files, err = archive.New(b.Dir, limits); err != nil {
			return commit, err
		}
		b.files.Merges = true
	}
	for _, p := range parts {
		if err := b.addPart(ctx, p); err != nil {
			b.files.Reset()
			return commit, fmt.Errorf("source %q: %w", p.Name, err)
		}
	}
	at, author := latestCommit(parts)
	if isSealed {
		return b.files.CommitBy(author, mirror.CombinedBy, at, commitMessage(ref, parts)+b.Seal.describeSigners(parts), b.Seal.signCommit)
	}
	return b.files.CommitBy(author, mirror.CombinedBy, at, commitMessage(ref, parts), nil)
}

// PackObjects has the objects of all commits that were made.
func (b *Builder) PackObjects() (io.Reader, error) { return b.files.Objects().Pack() }

// Close removes what was made.
func (b *Builder) Close() {
	if b.files != nil {
		b.files.Close()
	}
}

// addPart adds the files of a source, at their places in its repository below a folder of its name.
func (b *Builder) addPart(ctx context.Context, p source.Part) error {
	for _, folder := range p.Folders {
		r, err := b.Open(ctx, PartQuery{p.Source, p.UID, p.Head.Commit, folder})
		if err != nil {
			return err
		}
		err = artifact.Walk(r, artifact.Limits{}, func(e artifact.Entry, content io.Reader) error {
			at := path.Join(folder.Path, e.Path)
			if e.Base != "" { // then paths are those of the repository
				at = e.Path
			}
			if e.Base != "" && e.Base != folder.Path {
				return fmt.Errorf("folder %q is a link to %q: write that path in the service", folder.Path, e.Base)
			}
			return b.files.AddEntry(path.Join(p.Name, at), e, content)
		})
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
	return nil
}

// latestCommit is when the newest of the commits was made, and by whom. Packages have neither.
func latestCommit(parts []source.Part) (at time.Time, author string) {
	for _, p := range parts {
		if h := p.Head; h.CommitTime.After(at) {
			at, author = h.CommitTime, h.Author
		}
	}
	return at, strings.TrimSpace(strings.Map(func(c rune) rune {
		if strings.ContainsRune("<>\n\x00", c) {
			return -1
		}
		return c
	}, author))
}

// commitMessage says which revision of each source a commit is made of.
func commitMessage(ref string, parts []source.Part) string {
	var subject []string
	var lines strings.Builder
	for _, p := range parts {
		subject = append(subject, p.Name+" "+revisionOf(p.Head))
		fmt.Fprintf(&lines, "Source: %s %s %s %s\n", p.Name, p.Source, p.Ref, p.Head.Commit)
	}
	return fmt.Sprintf("%s\n\n%s%s\n%s", strings.Join(subject, " · "), mirror.CombinationLine, ref, strings.TrimSuffix(lines.String(), "\n"))
}

// revisionOf is a head as people read it: a version, a tag, or the beginning of a commit's id.
func revisionOf(h mirror.Head) string {
	if _, version, _ := catalog.ParseChartRef(h.Resolved); version != "" {
		return version
	}
	if tag, _, ok := catalog.ParseArtifactRef(h.Resolved); ok && tag != "" {
		return tag
	}
	return h.Commit.Short()
}
