package owner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"fairlead.dev/platform/catalog"
	"fairlead.dev/services/gitcache/internal/fetch/chartrepo"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/signature"
	"fairlead.dev/services/gitcache/internal/signed"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
	"fairlead.dev/services/gitcache/internal/verify"
)

// contentTrust is what a source's policy says of charts and artifacts, and what was found by it.
type contentTrust struct {
	of  signed.Policy
	is  *signed.Trust
	err error // the keys can't be read
	// verdicts that something is signed, by what was looked at. What was refused is looked at with each poll: a
	// signature comes after its content.
	verdicts map[string]contentVerdict
	// silences are the last requests for signatures that had no answer, by what was looked at.
	silences map[string]silence
}

// silence is that no host answered for a signature.
type silence struct {
	err error
	at  time.Time
}

type contentVerdict struct {
	verify.Verdict
	until time.Time // stands so long
}

// verifyContent drops what is not signed as the source wants it, before anything of it is downloaded. What is
// downloaded after it has the digest that was signed: of a manifest, whose layers have theirs in it, or of a package. A
// signature that can't be had is in no other ref's way; if the fault is the host's, the plan keeps it for the end of
// the poll. An error means that nothing more can be done.
func (t *tenure) verifyContent(ctx context.Context, r upstream.Remote, s source.Source, p *plan) error {
	if s.Verify.IsZero() {
		t.content = nil
		return nil
	}
	if t.contentKeys(s) == nil {
		clear(p.found)
		p.noteLost("", t.content.err.Error()+". Until it is corrected nothing new is published")
		return nil
	}
	verdicts := map[string]contentVerdict{}
	p.unverified = map[string]error{}
	failed := map[string]error{} // by what was looked at
	silent := silentHosts{own: r.URL.Host, by: map[string]int{}}
	refs, before := t.leastSilent(r, p), len(p.troubles)
	for _, ref := range refs {
		f := p.found[ref]
		if f.isKept { // it is here, and signed by a key of today
			continue
		}
		if f.artifact == nil && f.listed.Chart == "" { // a pin
			f.signedBy = t.signerOf(f)
			continue
		}
		key := f.verdictKey(r)
		v, ok := verdicts[key]
		if !ok {
			err := failed[key]
			if err == nil {
				v, err = t.contentVerdict(ctx, r, f, key, &silent)
			}
			if err != nil {
				if known, ok := errors.AsType[*upstream.Error](err); !ok || known.Kind == upstream.KindStorage {
					return err
				}
				failed[key] = err
				t.forgetCredentials(err)
				if isUnanswered(err) && !chartrepo.IsElsewhere(r, f.listed) {
					p.unverified[ref] = err
				}
				p.dropFor(ref, err, fmt.Sprintf("%s of %s: %s. %s", catalog.ShowRef(f.resolved), s.NameUsers(ref), err, t.describeKept(ref)))
				continue
			}
			verdicts[key] = v
		}
		if v.No != nil {
			p.dropRef(ref, t.unsignedContent(s, ref, f, v.No))
			continue
		}
		f.signedBy = v.SignedBy
		t.bindPackage(s, p, ref, v.Sum)
	}
	maps.DeleteFunc(verdicts, func(_ string, v contentVerdict) bool { return v.No != nil })
	t.content.verdicts = verdicts
	// In one order with each poll: the same troubles are the same problem.
	slices.SortStableFunc(p.troubles[before:], func(a, b source.Trouble) int { return cmp.Compare(a.Ref, b.Ref) })
	if refs := slices.Sorted(maps.Keys(p.unverified)); len(refs) > 0 {
		p.err = &partialError{p.unverified[refs[0]]}
	}
	return nil
}

// leastSilent are the refs in the order in which they are verified: those of which no host answered are the last, the
// latest silence at the end. So the few requests of a poll that may stay without an answer get to all refs, over some
// polls.
func (t *tenure) leastSilent(r upstream.Remote, p *plan) []string {
	silences, at := map[string]silence{}, map[string]time.Time{}
	for ref, f := range p.found {
		key := f.verdictKey(r)
		if is, has := t.content.silences[key]; has {
			silences[key], at[ref] = is, is.at
		}
	}
	t.content.silences = silences // of what is not wanted any more nothing is remembered
	return slices.SortedFunc(maps.Keys(p.found), func(a, b string) int { return cmp.Or(at[a].Compare(at[b]), cmp.Compare(a, b)) })
}

// verdictKey names what a verdict is of.
func (f *found) verdictKey(r upstream.Remote) string {
	return cmp.Or(f.boundBy, f.signedContent().SignedName(r))
}

// contentKeys are the keys of a source's policy; nil: they can't be read.
func (t *tenure) contentKeys(s source.Source) *signed.Trust {
	if t.content == nil || !t.content.of.Equal(s.Verify) {
		is, err := signed.New(s.Verify)
		t.content = &contentTrust{of: s.Verify, is: is, err: err}
	}
	return t.content.is
}

// trustsHead tells whether content that was published may be published for another ref, too: by who signed it, and the
// keys of today.
func (t *tenure) trustsHead(s source.Source, h mirror.Head) bool {
	if s.Verify.IsZero() {
		return true
	}
	keys := t.contentKeys(s)
	return keys != nil && h.SignedBy != "" && keys.Has(h.SignedBy)
}

const (
	// maxSilent signatures that a host does not answer for are waited for in a poll: each takes as long as a request
	// may.
	maxSilent = 3
	// maxSilentElsewhere is the same of all hosts but the source's: an index may name many.
	maxSilentElsewhere = 2 * maxSilent
)

// silentHosts counts the requests of a poll for signatures that had no answer.
type silentHosts struct {
	own       string // the source's host
	by        map[string]int
	elsewhere int // of all hosts but own
}

func (s *silentHosts) addHost(host string) {
	if s.by[host]++; host != s.own {
		s.elsewhere++
	}
}

// mayAsk tells whether a host may be asked for another signature.
func (s *silentHosts) mayAsk(host string) bool {
	return s.by[host] < maxSilent && (host == s.own || s.elsewhere < maxSilentElsewhere)
}

// errSilent is for a signature that is not asked for, because too many others had no answer.
var errSilent = &upstream.Error{
	Kind:    upstream.KindUnreachable,
	Message: "whether it is signed was not asked in this poll, because other requests for signatures had no answer",
}

// signerOf is the signer of content that was published before.
func (t *tenure) signerOf(f *found) string {
	for _, ref := range slices.Sorted(maps.Keys(t.heads)) {
		if h := t.heads[ref]; h.Commit == f.commit && h.SignedBy != "" {
			return h.SignedBy
		}
	}
	return ""
}

func (f *found) signedContent() verify.Content {
	return verify.Content{Listed: f.listed, Artifact: f.artifact, Name: f.resolved}
}

func (t *tenure) newAsker() verify.Asker {
	return verify.Asker{Signatures: t.loop.o.deps.Signatures, Metrics: t.loop.o.deps.Metrics, Tracer: t.loop.o.deps.Tracer}
}

// bindEarly binds a package without a digest in the index to what a verdict says that still stands: it is no news then.
func (t *tenure) bindEarly(r upstream.Remote, s source.Source, f *found, o *mirror.Objects) {
	if s.Verify.IsZero() || f.listed.Chart == "" || f.listed.Digest != "" || t.contentKeys(s) == nil {
		return
	}
	key := f.signedContent().SignedName(r)
	if v, ok := t.content.verdicts[key]; ok && v.Sum != "" && time.Now().Before(v.until) {
		f.boundBy, f.listed.Digest = key, v.Sum
		f.object = chartrepo.ChartID(f.listed)
		f.commit = t.commitOfChart(o, f.object)
	}
}

// bindPackage has a package without a digest in the index be the one that its provenance file names.
func (t *tenure) bindPackage(s source.Source, p *plan, ref, sum string) {
	f := p.found[ref]
	if sum == "" || f.listed.Digest != "" {
		return
	}
	f.listed.Digest = sum
	f.object = chartrepo.ChartID(f.listed)
	o := t.mirror.Objects()
	defer o.Close()
	if f.commit = t.commitOfChart(o, f.object); !f.commit.IsZero() && !p.fresh {
		t.keepFirst(s, o, p, ref)
		return
	}
	f.commit, p.wants = git.Hash{}, append(p.wants, f.object)
}

// contentVerdict verifies what was found, or remembers. A host that is silent is not asked: what it did not answer
// before stays the error.
func (t *tenure) contentVerdict(ctx context.Context, r upstream.Remote, f *found, key string, silent *silentHosts) (v contentVerdict, err error) {
	now := time.Now()
	if v, ok := t.content.verdicts[key]; ok && now.Before(v.until) {
		return v, nil
	}
	host := chartrepo.PackageHost(r, f.listed)
	if !silent.mayAsk(host) {
		if before, has := t.content.silences[key]; has {
			return v, before.err
		}
		return v, errSilent
	}
	v.Verdict, err = t.newAsker().JudgeContent(ctx, t.content.is, r, f.signedContent(), now)
	delete(t.content.silences, key)
	if err != nil {
		if known, ok := errors.AsType[*upstream.Error](err); ok && (known.Kind == upstream.KindTimeout || known.Kind == upstream.KindUnreachable) {
			silent.addHost(host)
			t.content.silences[key] = silence{err, time.Now()}
		}
		return v, err
	}
	v.until = now.Add(verdictTime)
	return v, nil
}

// unsignedContent says what speaks against a ref.
func (t *tenure) unsignedContent(s source.Source, ref string, f *found, no *signature.Refusal) string {
	kept := "Nothing of it is published"
	switch old, known := t.heads[ref]; {
	case known && old.Object == f.object:
		kept = "It was published before and is kept"
	case known:
		kept = fmt.Sprintf("%s stays published", catalog.ShowRef(old.Resolved))
	}
	return fmt.Sprintf("%s of %s %s. %s. %s", catalog.ShowRef(f.resolved), s.NameUsers(ref), no, kept, s.Verify.Advice(no))
}
