package owner

import (
	"context"
	"fmt"

	"fairlead.dev/platform/catalog"
	"fairlead.dev/services/gitcache/internal/fetch/buckets"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// A bucket is a source as any other: it has one ref, HEAD, and its content is a commit in the mirror. The head's Object
// stands for the list of the bucket: while that stays nothing is downloaded.

// listBucket asks what there is.
func (t *tenure) listBucket(ctx context.Context, s source.Source) (r upstream.Remote, l *buckets.List, err error) {
	if r, err = t.remoteOf(ctx, s); err != nil {
		return r, nil, err
	}
	if l, err = t.loop.o.deps.Buckets.ListBucket(ctx, r); err != nil {
		t.forgetCredentials(err)
		return r, nil, err
	}
	t.loop.o.deps.Metrics.CountListing(l.Bytes)
	return r, l, nil
}

// planBucket is what a list means for the wanted refs.
func (t *tenure) planBucket(s source.Source, l *buckets.List) *plan {
	p := &plan{fresh: t.mirror.Doubted(), found: map[string]*found{}, seen: map[string]bool{}}
	if len(l.Objects) == 0 { // all at once: rather the wrong place than what is wanted
		p.troubles = append(p.troubles, source.Trouble{Text: fmt.Sprintf("the bucket has no object there. %s. Upload the files, or correct bucketName and prefix of the source", t.describeKept(source.RefHead))})
	}
	o := t.mirror.Objects()
	defer o.Close()
	for _, ref := range s.WantedRefs() {
		f, why := t.findBucket(s, o, l, ref)
		if f == nil {
			p.noteMissing(ref, why)
			continue
		}
		p.found[ref] = f
		if f.bucket != nil && (p.fresh || f.commit.IsZero()) {
			f.commit = git.Hash{}
			p.wants = append(p.wants, f.object)
		}
	}
	return p
}

// findBucket finds the content of a ref; nil and why, if there is none.
func (t *tenure) findBucket(s source.Source, o *mirror.Objects, l *buckets.List, ref string) (f *found, why string) {
	id, isHash := git.ParseHash(ref)
	switch {
	case isHash:
		if !o.Has(id) {
			return nil, fmt.Sprintf("the content that %s is pinned to (%s) is not here, and a bucket can't be asked for it by that id. Remove the pin", s.NameUsers(ref), id.Short())
		}
		return &found{object: id, commit: id}, ""
	case ref != source.RefHead:
		return nil, fmt.Sprintf("%s names %q, and the source is a bucket, which has no refs. Remove the ref from the service", s.NameUsers(ref), catalog.ShowRef(ref))
	case len(l.Objects) == 0: // which is told of the whole source
		return nil, ""
	}
	f = &found{object: l.ID(), bucket: l}
	f.listed.Created = l.Modified()
	f.commit = t.commitOfChart(o, f.object)
	return f, ""
}

// fetchBucket brings the objects. The bucket may have changed since it was listed: then what is found is what it is
// now.
func (t *tenure) fetchBucket(ctx context.Context, r upstream.Remote, f *found, into upstream.Target) (git.Hash, int64, error) {
	o := t.mirror.Objects()
	defer o.Close()
	has := func(id git.Hash) bool { return into == upstream.Target(t.mirror) && o.Has(id) } // a fresh mirror has nothing
	now, commit, n, err := t.loop.o.deps.Buckets.FetchBucket(ctx, r, f.bucket, t.bucket, has, into)
	if err != nil {
		return commit, n, err
	}
	t.bucket = now
	f.bucket, f.object, f.listed.Created = now, now.ID(), now.Modified()
	return commit, n, nil
}

// lookForBucket finds a revision that no service follows: one that was here, or what the bucket holds now.
func (t *tenure) lookForBucket(ctx context.Context, s source.Source, ref string) (commit git.Hash, err error) {
	if id, ok := git.ParseHash(ref); ok && t.mirror.Has(id) { // then there is nothing to ask for
		return id, nil
	}
	r, l, err := t.listBucket(ctx, s)
	if err != nil {
		return commit, t.refusalError(s, ref, err)
	}
	p := t.planBucket(s, l)
	if p.found[ref] == nil {
		return commit, notFoundError(s, p.troubles[0])
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
