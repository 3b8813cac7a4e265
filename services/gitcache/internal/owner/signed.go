package owner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache/internal/fetch/chartrepo"
	"fairlead.dev/services/gitcache/internal/fetch/registry"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/oci"
	"fairlead.dev/services/gitcache/internal/signature"
	"fairlead.dev/services/gitcache/internal/signed"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
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
	signedBy string
	sum      string // of a provenance file: the SHA-256 of the package
	no       *signature.Refusal
	until    time.Time
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
		if v.no != nil {
			p.dropRef(ref, t.unsignedContent(s, ref, f, v.no))
			continue
		}
		f.signedBy = v.signedBy
		t.bindPackage(s, p, ref, v.sum)
	}
	maps.DeleteFunc(verdicts, func(_ string, v contentVerdict) bool { return v.no != nil })
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
func (f *found) verdictKey(r upstream.Remote) string { return cmp.Or(f.boundBy, f.signedName(r)) }

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

// signedName is what is signed: the manifest in its repository, or what the index of a repository says of a package.
func (f *found) signedName(r upstream.Remote) string {
	name := registry.RepositoryName(r, f.listed.Chart) + "\x00"
	if f.artifact != nil {
		return name + string(f.artifact.Manifest)
	}
	return name + f.listed.Version + "\x00" + cmp.Or(f.listed.Manifest, f.object.String())
}

// bindEarly binds a package without a digest in the index to what a verdict says that still stands: it is no news then.
func (t *tenure) bindEarly(r upstream.Remote, s source.Source, f *found, o *mirror.Objects) {
	if s.Verify.IsZero() || f.listed.Chart == "" || f.listed.Digest != "" || t.contentKeys(s) == nil {
		return
	}
	key := f.signedName(r)
	if v, ok := t.content.verdicts[key]; ok && v.sum != "" && time.Now().Before(v.until) {
		f.boundBy, f.listed.Digest = key, v.sum
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
	v, err = t.lookAtContent(ctx, t.content, r, f, now)
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

// lookAtContent asks for the signatures of what was found, and says who signed it.
func (t *tenure) lookAtContent(ctx context.Context, by *contentTrust, r upstream.Remote, f *found, now time.Time) (v contentVerdict, err error) {
	ctx, span := telemetry.Child(ctx, t.loop.o.deps.Tracer, "gitcache.verify", trace.WithAttributes(attribute.String("object", f.resolved)))
	defer span.End()
	if by.of.Provider == signed.Provenance {
		v, err = t.lookAtProvenance(ctx, by, r, f, now)
	} else {
		v, err = t.lookAtSignatures(ctx, by, r, f, now)
	}
	if err != nil {
		span.SetStatus(codes.Error, "verify")
		return v, err
	}
	result := "ok"
	if v.no != nil {
		result = string(v.no.Kind)
		span.SetStatus(codes.Error, result)
	}
	t.loop.o.deps.Metrics.CountVerification(result)
	return v, nil
}

// lookAtSignatures is content with one good signature, and else says what is wrong with the last.
func (t *tenure) lookAtSignatures(ctx context.Context, by *contentTrust, r upstream.Remote, f *found, now time.Time) (v contentVerdict, err error) {
	of := signed.Subject{Digest: oci.Digest(f.listed.Manifest), Repository: registry.RepositoryName(r, f.listed.Chart)}
	if f.artifact != nil {
		of.Digest = f.artifact.Manifest
	}
	if named := by.of.Repository; named != "" {
		of.Repository = path.Join(named, f.listed.Chart)
	}
	v.no = signature.Refuse(signature.Unsigned, "is not signed")
	look := registry.Signed{Chart: f.listed.Chart, Digest: of.Digest, Form: oci.FormCosign}
	if by.of.Provider == signed.Notation {
		look.Form = oci.FormNotation
	}
	n, err := t.loop.o.deps.Signatures.Signatures(ctx, r, look, func(s oci.Signature) bool {
		v.signedBy, v.no = by.is.Signature(s, of, now)
		return v.no == nil
	})
	t.loop.o.deps.Metrics.CountListing(n)
	return v, err
}

// lookAtProvenance verifies the provenance file of a package, which names the package's digest.
func (t *tenure) lookAtProvenance(ctx context.Context, by *contentTrust, r upstream.Remote, f *found, now time.Time) (v contentVerdict, err error) {
	text, err := t.loop.o.deps.Signatures.Provenance(ctx, r, f.listed)
	if known, ok := errors.AsType[*upstream.Error](err); ok && known.Kind == upstream.KindNotFound {
		v.no = signature.Refuse(signature.Unsigned, "has no provenance file (.prov) that can be read (%s)", known.Message)
		return v, nil
	}
	if err != nil {
		return v, err
	}
	t.loop.o.deps.Metrics.CountListing(int64(len(text)))
	if text == nil {
		v.no = signature.Refuse(signature.Unsigned, "has no provenance file (.prov)")
		return v, nil
	}
	v.signedBy, v.sum, v.no = by.is.Provenance(text, signed.PackageFile(f.listed.Chart, f.listed.Version), now)
	if v.no == nil && f.listed.Digest != "" && f.listed.Digest != v.sum {
		v.no = signature.Refuse(signature.Invalid, "has a provenance file by key %s that is of another package: it names sha256:%s..., and %s sha256:%s...",
			v.signedBy, v.sum[:12], "what is listed is", f.listed.Digest[:12])
	}
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
	return fmt.Sprintf("%s of %s %s. %s. %s", catalog.ShowRef(f.resolved), s.NameUsers(ref), no, kept, contentAdvice(s.Verify, no))
}

// contentAdvice is the next step with content that does not count as signed.
func contentAdvice(by signed.Policy, no *signature.Refusal) string {
	switch {
	case no.Kind == signature.Invalid:
	case by.Provider == signed.Notation:
		return "Sign it with a certificate of one of the source's authorities, as one of its trusted identities"
	case by.IsKeyless():
		return "Sign it as one of the source's identities (cosign 3, with the Sigstore of the trusted root)"
	}
	return advice[no.Kind]
}
