package owner

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fairlead.dev/platform/catalog"
	"fairlead.dev/services/gitcache/internal/fetch/buckets"
	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/fetch/registry"
	"fairlead.dev/services/gitcache/internal/gather"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/helm"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/semver"
	"fairlead.dev/services/gitcache/internal/source"
)

// plan is what a listing means for the wanted refs.
type plan struct {
	fresh bool // clone beside the damaged mirror
	// found is where wanted refs point now. A ref that is not in here keeps its last good head.
	found map[string]*found
	seen  map[string]bool // refs whose heads are those of this listing
	// wants are objects that have to be fetched, for refs; commits those that a service names.
	wants, commits []git.Hash
	gathered       gather.Result // charts that others depend on, and bases
	moved          bool          // heads of refs, before charts that others depend on are fetched
	troubles       []source.Trouble
	// unverified are faults of the source's host that kept signatures of charts and artifacts back, by ref.
	unverified map[string]error
	// err is the first fault of the source's host that kept single refs back. The poll goes on, and fails with it at
	// its end.
	err error
}

// found is what becomes the head of a ref, if nothing speaks against it.
type found struct {
	object     git.Hash
	resolved   string // the tag that a range chose, or the version of a chart
	newer      string // version, outside of the range
	signedBy   string
	submodules []git.Hash

	// Of a chart: what the index lists, and the commit that its package became; zero: it is not here yet.
	listed helm.Version
	// isKept: what was published first takes the place of what is listed.
	isKept bool
	// boundBy is the name of the verdict that gave the package its digest, if the index has none.
	boundBy string
	// Of an artifact: its layers. nil: it is none.
	artifact *registry.Artifact
	// Of a bucket: its list. nil: it is none.
	bucket *buckets.List
	commit git.Hash
}

func (t *tenure) makePlan(s source.Source, l *gitwire.Listing) *plan {
	p := &plan{fresh: t.mirror.Doubted(), found: map[string]*found{}, seen: map[string]bool{}}
	if l.Empty() {
		p.troubles = append(p.troubles, source.Trouble{Text: t.describeEmptied()})
		return p
	}
	o := t.mirror.Objects()
	defer o.Close()
	if !t.checked {
		t.forgetObjects(o)
	}
	has := func(id git.Hash) bool { return !p.fresh && o.Has(id) }
	lacking := map[string]git.Hash{} // by ref
	for _, ref := range s.WantedRefs() {
		f, why := t.findRef(s, l, ref)
		if f == nil {
			p.noteMissing(ref, why)
			continue
		}
		switch {
		case t.checked && !p.fresh && t.heads[ref].Object == f.object: // the usual case costs nothing
		case has(f.object):
		default:
			lacking[ref] = f.object
		}
		p.found[ref] = f
	}
	p.wantObjects(l, lacking)
	t.checked = true
	return p
}

// forgetObjects has heads whose commits are not here fetched as if they were only published, as soon as upstream can
// give them: a fresh clone lacks what upstream did not have just then.
func (t *tenure) forgetObjects(o *mirror.Objects) {
	for ref, h := range t.heads {
		if !o.Has(h.Commit) {
			h.Object = git.Hash{}
			t.heads[ref] = h
		}
	}
}

// findRef looks a wanted ref up in a listing; nil and why, if it is not there.
func (t *tenure) findRef(s source.Source, l *gitwire.Listing, ref string) (*found, string) {
	if id, ok := git.ParseHash(ref); ok {
		return &found{object: id}, ""
	}
	if strings.HasPrefix(ref, catalog.TagPrefix) || strings.HasPrefix(ref, catalog.DigestPrefix) {
		return nil, fmt.Sprintf("%s names %q, which is of a registry, and the source is a Git repository. Write a branch, refs/tags/NAME or a commit, or name a source with spec.oci", s.NameUsers(ref), ref)
	}
	if _, _, ok := catalog.ParseChartRef(ref); ok {
		return nil, fmt.Sprintf("%s names chart %q, and the source is a Git repository. Write the ref and the path in the service, or name a source with spec.helm", s.NameUsers(ref), catalog.ShowRef(ref))
	}
	if text, ok := strings.CutPrefix(ref, catalog.SemverPrefix); ok {
		return t.chooseTag(s, l, ref, text)
	}
	if id, listed := l.Refs[ref]; listed {
		return &found{object: id}, ""
	}
	return nil, t.describeLost(s, l, ref)
}

// chooseTag finds the tag for a range. A head never goes back to a lower version because a tag was deleted:
// that is a lost ref as any other.
func (t *tenure) chooseTag(s source.Source, l *gitwire.Listing, ref, text string) (*found, string) {
	r, err := semver.Parse(text)
	if err != nil {
		return nil, fmt.Sprintf("ref %q of %s: %s", ref, s.NameUsers(ref), err)
	}
	choice := r.Choose(maps.Keys(l.Refs))
	old, known := t.heads[ref]
	switch {
	case known && (choice.Tag == "" || semver.Lower(choice.Tag, old.Resolved)):
		return nil, t.lostTag(s, ref, choice)
	case choice.Tag == "":
		return nil, noTag(s, ref, choice)
	}
	return &found{object: l.Refs[choice.Tag], resolved: choice.Tag, newer: choice.Newer()}, ""
}

// wantObjects notes what has to be fetched for refs: of those, the objects that are not here.
func (p *plan) wantObjects(l *gitwire.Listing, lacking map[string]git.Hash) {
	tips := l.FindTips(maps.Values(lacking))
	for _, ref := range slices.Sorted(maps.Keys(lacking)) {
		id := lacking[ref]
		switch tip, listed := tips[id]; {
		case listed:
			p.wants = append(p.wants, tip)
		case git.IsHash(ref):
			p.commits = append(p.commits, id)
		default:
			p.wants = append(p.wants, id)
		}
	}
}

// noteMissing notes that upstream does not have a ref.
func (p *plan) noteMissing(ref, text string) {
	if text != "" {
		p.troubles = append(p.troubles, source.Trouble{Ref: ref, Text: text, IsMissing: true})
	}
}

func (p *plan) noteLost(ref, text string) {
	if text != "" {
		p.troubles = append(p.troubles, source.Trouble{Ref: ref, Text: text})
	}
}

// dropRef keeps the last good head of a ref that was found.
func (p *plan) dropRef(ref, text string) {
	delete(p.found, ref)
	p.noteLost(ref, text)
}

// dropFor is drop for what an error kept back.
func (p *plan) dropFor(ref string, cause error, text string) {
	delete(p.found, ref)
	p.troubles = append(p.troubles, source.Trouble{Ref: ref, Text: text, Cause: cause})
}

// describeEmptied says that upstream has no refs at all.
func (t *tenure) describeEmptied() string {
	if len(t.heads) == 0 {
		return "the repository is empty. Push a first commit"
	}
	return fmt.Sprintf("the repository has no refs any more. The last good heads are kept (%s). Push again, or correct the source's url", t.commitOf(source.RefHead))
}

// describeLost says that upstream does not have a wanted ref. The default branch is missed by nobody but by
// services that use it.
func (t *tenure) describeLost(s source.Source, l *gitwire.Listing, ref string) string {
	if s.Wants[ref] == 0 {
		return ""
	}
	what := fmt.Sprintf("ref %q", ref)
	if ref == source.RefHead {
		what = "the default branch"
	}
	kind, other := "branch", namesakeOf(ref)
	if strings.HasPrefix(ref, source.BranchPrefix) {
		kind = "tag"
	}
	_, listed := l.Refs[other]
	h, known := t.heads[ref]
	switch {
	case known && listed:
		return fmt.Sprintf("%s of %s is gone upstream; its last good commit %s is kept. A %s of that name is there: to follow it write ref: %s in the service", what, s.NameUsers(ref), h.Commit.Short(), kind, other)
	case known:
		return fmt.Sprintf("%s of %s is gone upstream; its last good commit %s is kept. Push it again, or change the service", what, s.NameUsers(ref), h.Commit.Short())
	case listed:
		return fmt.Sprintf("%s of %s does not exist upstream, and a %s of that name does. To follow it write ref: %s in the service", what, s.NameUsers(ref), kind, other)
	}
	return fmt.Sprintf("%s of %s does not exist upstream. Push it, or change the service", what, s.NameUsers(ref))
}

// lostTag says that the tag is gone that a range had chosen.
func (t *tenure) lostTag(s source.Source, ref string, choice semver.Choice) string {
	h := t.heads[ref]
	next := "no other tag is in the range"
	if choice.Tag != "" {
		next = fmt.Sprintf("the highest in the range is now %s", tagName(choice.Tag))
	}
	return fmt.Sprintf("tag %s, which %q of %s had chosen, is gone upstream, and %s; its last good commit %s is kept. Push the tag again, or change the range so that it leaves %s out",
		tagName(h.Resolved), ref, s.NameUsers(ref), next, h.Commit.Short(), tagName(h.Resolved))
}

// noTag says that a range finds nothing.
func noTag(s source.Source, ref string, choice semver.Choice) string {
	highest := "no tag is named like a version (1.2.3 or v1.2.3)"
	if choice.Highest != "" {
		highest = "the highest version is " + tagName(choice.Highest)
	}
	return fmt.Sprintf("no tag is in the range %q of %s: %s. Push a tag, or change the range", ref, s.NameUsers(ref), highest)
}

// tagName is a tag as people call it.
func tagName(tag string) string { return fmt.Sprintf("%q", strings.TrimPrefix(tag, source.TagPrefix)) }

func (t *tenure) commitOf(ref string) string {
	if h, ok := t.heads[ref]; ok {
		return ref + " at " + h.Commit.Short()
	}
	return fmt.Sprintf("%d of them", len(t.heads))
}
