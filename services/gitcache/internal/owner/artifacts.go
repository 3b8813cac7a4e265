package owner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fairlead.dev/platform/catalog"
	"fairlead.dev/services/gitcache/internal/fetch/registry"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/semver"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// A repository of artifacts is a source as any other: a tag, a range of tags or a digest is a ref, and the layers of
// the artifact become a commit in the mirror. A head's Object stands for the layers: while they stay nothing is
// downloaded, also if the manifest is another.

// listArtifacts asks the registry what the wanted refs stand for.
func (t *tenure) listArtifacts(ctx context.Context, s source.Source) (r upstream.Remote, artifacts *registry.Artifacts, err error) {
	if r, err = t.remoteOf(ctx, s); err != nil {
		return r, nil, err
	}
	artifacts, err = t.loop.o.deps.Artifacts.ListArtifacts(ctx, r, slices.Sorted(maps.Keys(s.Wants)), s.LayerType, t.artifacts)
	if err != nil {
		t.forgetCredentials(err)
		return r, nil, err
	}
	t.loop.o.deps.Metrics.CountListing(artifacts.Bytes)
	t.artifacts = artifacts
	return r, artifacts, nil
}

// planArtifacts is what a registry's answers mean for the wanted refs.
func (t *tenure) planArtifacts(s source.Source, artifacts *registry.Artifacts) *plan {
	p := &plan{fresh: t.mirror.Doubted(), found: map[string]*found{}, seen: map[string]bool{}}
	o := t.mirror.Objects()
	defer o.Close()
	for _, ref := range slices.Sorted(maps.Keys(s.Wants)) {
		f, why, isMissing := t.findArtifact(s, o, artifacts, ref)
		switch {
		case f == nil && isMissing:
			p.noteMissing(ref, why)
			continue
		case f == nil:
			p.noteLost(ref, why)
			continue
		}
		p.found[ref] = f
		if f.artifact != nil && (p.fresh || f.commit.IsZero()) {
			f.commit = git.Hash{}
			p.wants = append(p.wants, f.object)
		}
	}
	return p
}

// findArtifact looks a wanted ref up in a registry's answers; nil and why, if it is not there.
func (t *tenure) findArtifact(s source.Source, o *mirror.Objects, artifacts *registry.Artifacts, ref string) (f *found, why string, isMissing bool) {
	if id, ok := git.ParseHash(ref); ok {
		if !o.Has(id) {
			return nil, fmt.Sprintf("the artifact that %s is pinned to (%s) is not here, and a registry can't be asked for it by that id. Name its digest in the service (ref: sha256:...), or remove the pin", s.NameUsers(ref), id.Short()), true
		}
		return &found{object: id, commit: id, resolved: t.heads[ref].Resolved}, "", false
	}
	answer, ok := artifacts.Answers[ref]
	old, known := t.heads[ref]
	oldTag, _, _ := catalog.ParseArtifactRef(old.Resolved)
	isRange := strings.HasPrefix(ref, catalog.SemverPrefix)
	switch {
	case !ok:
		return nil, fmt.Sprintf("%s names %q, and the source is a registry. Write ref: tag:NAME, semver:RANGE or sha256:DIGEST in the service", s.NameUsers(ref), catalog.ShowRef(ref)), true
	case answer.Err != nil:
		return nil, fmt.Sprintf("%s of %s: %s. %s", artifactName(ref), s.NameUsers(ref), answer.Err, t.describeKept(ref)), false
	case known && isRange && (answer.Choice.Tag == "" || semver.Lower(answer.Choice.Tag, source.TagPrefix+oldTag)):
		return nil, t.lostArtifactTag(s, ref, oldTag, answer.Choice), true
	case isRange && answer.Choice.Tag == "":
		return nil, noTag(s, ref, answer.Choice), true
	case answer.Artifact == nil:
		return nil, fmt.Sprintf("the registry has no %s, which %s names. %s. Push it, or correct the ref of the service", artifactName(ref), s.NameUsers(ref), t.describeKept(ref)), true
	}
	a := *answer.Artifact
	f = &found{object: a.ID(), artifact: &a, resolved: catalog.ArtifactRef(a.Tag, string(a.Manifest))}
	f.listed.Created, f.newer = a.Created, answer.Choice.Newer()
	f.commit = t.commitOfChart(o, f.object)
	return f, "", false
}

// artifactName is a ref of a registry in words.
func artifactName(ref string) string {
	switch {
	case ref == source.RefHead:
		return "tag latest"
	case strings.HasPrefix(ref, catalog.TagPrefix):
		return "tag " + strings.TrimPrefix(ref, catalog.TagPrefix)
	case strings.HasPrefix(ref, catalog.DigestPrefix):
		return "artifact " + catalog.ShowRef(ref)
	}
	return fmt.Sprintf("%q", ref)
}

// describeKept says what stays published for a ref.
func (t *tenure) describeKept(ref string) string {
	switch old, known := t.heads[ref]; {
	case known && old.Resolved == "": // of a bucket
		return fmt.Sprintf("What was published (%s) stays", old.Commit.Short())
	case known:
		return fmt.Sprintf("%s stays published", catalog.ShowRef(old.Resolved))
	}
	return "Nothing of it is published"
}

// lostArtifactTag says that a tag is gone which was published for a range.
func (t *tenure) lostArtifactTag(s source.Source, ref, tag string, choice semver.Choice) string {
	next := "no other tag is in the range"
	if choice.Tag != "" {
		next = fmt.Sprintf("the highest in the range is now %s", tagName(choice.Tag))
	}
	return fmt.Sprintf("tag %q, which %q of %s had chosen, is gone from the registry, and %s; what was published stays. Push the tag again, or change the range so that it leaves %q out",
		tag, ref, s.NameUsers(ref), next, tag)
}

// lookForArtifact fetches an artifact that no service follows.
func (t *tenure) lookForArtifact(ctx context.Context, s source.Source, ref string) (commit git.Hash, err error) {
	if id, ok := git.ParseHash(ref); ok && t.mirror.Has(id) { // then there is nothing to ask for
		return id, nil
	}
	r, err := t.remoteOf(ctx, s)
	if err != nil {
		return commit, t.refusalError(s, ref, err)
	}
	artifacts, err := t.loop.o.deps.Artifacts.ListArtifacts(ctx, r, slices.Sorted(maps.Keys(s.Wants)), s.LayerType, nil)
	if err != nil {
		t.forgetCredentials(err)
		return commit, t.refusalError(s, ref, err)
	}
	t.loop.o.deps.Metrics.CountListing(artifacts.Bytes)
	p := t.planArtifacts(s, artifacts)
	if p.found[ref] == nil {
		return commit, notFoundError(s, p.troubles[0])
	}
	if err = t.verifyContent(ctx, r, s, p); err == nil {
		err = p.err
	}
	if err != nil {
		return commit, t.refusalError(s, ref, err)
	}
	if err := t.fetchCharts(ctx, r, s, p, t.mirror); err != nil {
		return commit, t.refusalError(s, ref, err)
	}
	f := p.found[ref]
	if f == nil {
		return commit, refuseTrouble(s, p.troubles[0])
	}
	return f.commit, nil
}
