package owner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairlead.dev/platform/plural"
	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/semver"
)

// maxTold is how many troubles a message has the texts of, and maxSingle how many refs have one of their own. A source
// may have one for each of thousands of refs, and the console takes 4 MiB with all heads.
const maxTold, maxSingle = 10, 1000

// trouble is what a poll could not do.
type trouble struct {
	ref       string // the ref of the trouble; "": all of the source
	text      string
	isMissing bool // upstream does not have the ref
	// cause is what kept the ref back; nil: its content. isHere: what the trouble is about is in the mirror all the
	// same.
	cause  error
	isHere bool
}

// describeTroubles puts troubles into words. A problem that was there before, too, keeps its beginning.
func describeTroubles(s Source, troubles []trouble, before Problem, now time.Time) (p Problem) {
	var whole, single []string
	told, listed := map[string]bool{}, map[RefProblem]bool{}
	if s.LeftOut > 0 {
		whole = append(whole, fmt.Sprintf("services follow %s beyond the limit of %d for a source, which are not fetched. "+
			"Add another source with the same url for a part of the services", plural.Of(s.LeftOut, "ref"), len(s.Wants)))
	}
	for _, t := range troubles {
		if t.ref == "" {
			whole = append(whole, t.text)
			continue
		}
		if !told[t.text] { // of a ref and of a combination with it
			told[t.text] = true
			single = append(single, t.text)
		}
		p.Refs = append(p.Refs, t.ref)
		one := RefProblem{Ref: t.ref, Message: s.messagePrefix() + t.text, Since: now, Missing: t.isMissing}
		if !listed[one] { // a file may be reached by several folders
			listed[one] = true
			p.Single = append(p.Single, one)
		}
	}
	slices.SortFunc(p.Single, func(a, b RefProblem) int { return cmp.Or(cmp.Compare(a.Ref, b.Ref), cmp.Compare(a.Message, b.Message)) })
	p.Single = p.Single[:min(len(p.Single), maxSingle)]
	for i := range p.Single {
		one := &p.Single[i]
		if at := slices.IndexFunc(before.Single, func(was RefProblem) bool { return was.Ref == one.Ref && was.Message == one.Message }); at >= 0 {
			one.Since = before.Single[at].Since
		}
	}
	texts := single
	if len(whole) > 0 {
		texts, p.Refs = whole, nil
	}
	if len(texts) == 0 {
		return Problem{}
	}
	if more := len(texts) - maxTold; more > 0 {
		texts = append(slices.Clip(texts[:maxTold]), fmt.Sprintf("and %d more", more))
	}
	p.Message, p.Since = s.messagePrefix()+strings.Join(texts, "; "), now
	if before.Message == p.Message && before.IsWhole() == p.IsWhole() {
		p.Since = before.Since
	}
	slices.Sort(p.Refs)
	p.Refs = slices.Compact(p.Refs)
	return p
}

// textIn is the text of the trouble that the problem of a ref was made of.
func (p RefProblem) textIn(s Source) string { return strings.TrimPrefix(p.Message, s.messagePrefix()) }

// messagePrefix begins what is told of a source.
func (s Source) messagePrefix() string { return fmt.Sprintf("source %q: ", s.Name) }

// describeUnusable says that what a ref points to is no commit, or can't be read.
func describeUnusable(s Source, ref string, err error) string {
	return fmt.Sprintf("ref %q of %s can't be used: %v", ref, s.nameUsers(ref), err)
}

// describeEmptied says that upstream has no refs at all.
func (t *tenure) describeEmptied() string {
	if len(t.heads) == 0 {
		return "the repository is empty. Push a first commit"
	}
	return fmt.Sprintf("the repository has no refs any more. The last good heads are kept (%s). Push again, or correct the source's url", t.commitOf(RefHead))
}

// describeLost says that upstream does not have a wanted ref. The default branch is missed by nobody but by
// services that use it.
func (t *tenure) describeLost(s Source, l *gitwire.Listing, ref string) string {
	if s.Wants[ref] == 0 {
		return ""
	}
	what := fmt.Sprintf("ref %q", ref)
	if ref == RefHead {
		what = "the default branch"
	}
	kind, other := "branch", namesakeOf(ref)
	if strings.HasPrefix(ref, branchPrefix) {
		kind = "tag"
	}
	_, listed := l.Refs[other]
	h, known := t.heads[ref]
	switch {
	case known && listed:
		return fmt.Sprintf("%s of %s is gone upstream; its last good commit %s is kept. A %s of that name is there: to follow it write ref: %s in the service", what, s.nameUsers(ref), h.Commit.Short(), kind, other)
	case known:
		return fmt.Sprintf("%s of %s is gone upstream; its last good commit %s is kept. Push it again, or change the service", what, s.nameUsers(ref), h.Commit.Short())
	case listed:
		return fmt.Sprintf("%s of %s does not exist upstream, and a %s of that name does. To follow it write ref: %s in the service", what, s.nameUsers(ref), kind, other)
	}
	return fmt.Sprintf("%s of %s does not exist upstream. Push it, or change the service", what, s.nameUsers(ref))
}

// lostTag says that the tag is gone that a range had chosen.
func (t *tenure) lostTag(s Source, ref string, choice semver.Choice) string {
	h := t.heads[ref]
	next := "no other tag is in the range"
	if choice.Tag != "" {
		next = fmt.Sprintf("the highest in the range is now %s", tagName(choice.Tag))
	}
	return fmt.Sprintf("tag %s, which %q of %s had chosen, is gone upstream, and %s; its last good commit %s is kept. Push the tag again, or change the range so that it leaves %s out",
		tagName(h.Resolved), ref, s.nameUsers(ref), next, h.Commit.Short(), tagName(h.Resolved))
}

// noTag says that a range finds nothing.
func noTag(s Source, ref string, choice semver.Choice) string {
	highest := "no tag is named like a version (1.2.3 or v1.2.3)"
	if choice.Highest != "" {
		highest = "the highest version is " + tagName(choice.Highest)
	}
	return fmt.Sprintf("no tag is in the range %q of %s: %s. Push a tag, or change the range", ref, s.nameUsers(ref), highest)
}

// tagName is a tag as people call it.
func tagName(tag string) string { return fmt.Sprintf("%q", strings.TrimPrefix(tag, tagPrefix)) }

// maxNamed services in one message; the rest is counted.
const maxNamed = 5

// nameUsers names the services that want a ref.
func (s Source) nameUsers(ref string) string {
	if s.only != "" {
		return "this comparison"
	}
	var services []string
	if s.Users != nil {
		services = s.Users()(ref)
	}
	if len(services) == 0 { // not any more
		return "a service"
	}
	quoted := make([]string, 0, maxNamed)
	for _, s := range services[:min(maxNamed, len(services))] {
		quoted = append(quoted, fmt.Sprintf("%q", s))
	}
	text := "service " + strings.Join(quoted, ", ")
	if more := len(services) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (t *tenure) commitOf(ref string) string {
	if h, ok := t.heads[ref]; ok {
		return ref + " at " + h.Commit.Short()
	}
	return fmt.Sprintf("%d of them", len(t.heads))
}
