package owner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/signature"
	"fairlead.dev/services/gitcache/internal/source"
)

const (
	// maxSignedBytes of a commit or tag that is verified.
	maxSignedBytes = 4 << 20
	// verdictTime is how long a verdict stands: keys expire.
	verdictTime = time.Hour
)

// trust is what a source's verification says, and what was found by it.
type trust struct {
	of       source.Verification
	keys     *signature.Keys
	err      error // the keys can't be read
	verdicts map[subject]verdict
}

// subject is what was verified. The name matters for tags: it is part of what is signed.
type subject struct {
	object git.Hash
	name   string // the ref, or the tag that a range chose
}

func (f *found) signedSubject(ref string) subject {
	if f.resolved != "" {
		ref = f.resolved
	}
	return subject{f.object, ref}
}

type verdict struct {
	signedBy string
	what     string // the object that was looked at, for messages
	err      *signature.Refusal
	until    time.Time
}

// trustIn is what the verification of a source says; nil: nothing has to be signed.
func (t *tenure) trustIn(s source.Source) *trust {
	switch {
	case !s.Verification.IsWanted():
		t.trust = nil
	case t.trust == nil || !t.trust.of.Equal(s.Verification):
		t.trust = newTrust(s.Verification)
	}
	return t.trust
}

// trustedKeys tells of fingerprints whether they are those of keys that a source trusts.
func (t *tenure) trustedKeys(s source.Source) func(fingerprint string) bool {
	return func(fingerprint string) bool {
		in := t.trustIn(s)
		return in != nil && in.err == nil && fingerprint != "" && in.keys.Has(fingerprint)
	}
}

// dropUnsigned drops what is not signed as the source wants it. verify comes before submodules are fetched: an unsigned
// commit must not say whom to ask.
func (t *tenure) dropUnsigned(ctx context.Context, s source.Source, p *plan) error {
	if t.trustIn(s) == nil {
		return nil
	}
	if t.trust.err != nil {
		clear(p.found)
		p.noteLost("", t.trust.err.Error()+". Until it is corrected nothing new is published")
		return nil
	}
	o := t.mirror.Objects()
	defer o.Close()
	verdicts := map[subject]verdict{}
	for _, ref := range slices.Sorted(maps.Keys(p.found)) {
		f := p.found[ref]
		v, err := t.verdictOf(ctx, o, ref, f)
		switch {
		case err != nil && mirror.IsUnreadable(err):
			return t.markDamaged(ref, err)
		case err != nil: // the signature was not looked at, whatever the error is
			p.dropRef(ref, describeUnusable(s, ref, err))
			continue
		}
		verdicts[f.signedSubject(ref)] = v
		if f.signedBy = v.signedBy; v.err != nil {
			p.dropRef(ref, t.describeUnsigned(s, ref, f, v))
		}
	}
	t.trust.verdicts = verdicts
	return nil
}

func newTrust(v source.Verification) *trust {
	keys, err := signature.ParseKeys(v.Keys)
	return &trust{of: v, keys: keys, err: err, verdicts: map[subject]verdict{}}
}

// verdictOf verifies what a ref points to, or remembers.
func (t *tenure) verdictOf(ctx context.Context, o *mirror.Objects, ref string, f *found) (verdict, error) {
	now := time.Now()
	if v, ok := t.trust.verdicts[f.signedSubject(ref)]; ok && now.Before(v.until) {
		return v, nil
	}
	_, span := telemetry.Child(ctx, t.loop.o.deps.Tracer, "gitcache.verify", trace.WithAttributes(attribute.String("object", f.object.String())))
	defer span.End()
	v, err := t.trust.verifySignature(o, ref, f, now)
	if err != nil {
		return verdict{}, err
	}
	result := "ok"
	if v.err != nil {
		result = string(v.err.Kind)
		span.SetStatus(codes.Error, result)
	}
	t.loop.o.deps.Metrics.CountVerification(result)
	v.until = now.Add(verdictTime)
	return v, nil
}

// verifySignature verifies. The error is about reading; a refusal is in the verdict.
func (t *trust) verifySignature(o *mirror.Objects, ref string, f *found, now time.Time) (v verdict, err error) {
	if t.of.Commit {
		if v, err = t.lookAtCommit(o, f, now); err != nil || v.err != nil {
			return v, err
		}
	}
	if t.of.Tag {
		return t.lookAtTag(o, f.signedSubject(ref), now)
	}
	return v, nil
}

func (t *trust) lookAtCommit(o *mirror.Objects, f *found, now time.Time) (verdict, error) {
	commit, err := o.Peel(f.object)
	if err != nil {
		return verdict{}, err
	}
	raw, err := o.Read(git.Commit, commit, maxSignedBytes)
	if err != nil {
		return verdict{}, err
	}
	signedBy, refusal := t.keys.Commit(raw, now)
	return verdict{what: "commit " + commit.Short(), signedBy: signedBy, err: refusal}, nil
}

func (t *trust) lookAtTag(o *mirror.Objects, s subject, now time.Time) (verdict, error) {
	kind, err := o.Kind(s.object)
	if err != nil {
		return verdict{}, err
	}
	name, isTag := strings.CutPrefix(s.name, source.TagPrefix)
	if !isTag || kind != git.Tag {
		return verdict{what: "what it points to", err: signature.NoTag()}, nil
	}
	raw, err := o.Read(git.Tag, s.object, maxSignedBytes)
	if err != nil {
		return verdict{}, err
	}
	signedBy, refusal := t.keys.Tag(raw, name, now)
	return verdict{what: fmt.Sprintf("tag %q", name), signedBy: signedBy, err: refusal}, nil
}

// describeUnsigned says what speaks against a ref. The default branch is missed by nobody but by services that
// use it, or by a source that is only being set up.
func (t *tenure) describeUnsigned(s source.Source, ref string, f *found, v verdict) string {
	if s.Wants[ref] == 0 && (len(s.Wants) > 0 || s.Verification.Tag) {
		return ""
	}
	of := ""
	if s.Wants[ref] > 0 {
		of = " of " + s.NameUsers(ref)
	}
	kept := "Nothing of it is published"
	switch old, known := t.heads[ref]; {
	case known && old.Object == f.object:
		kept = "It was published before and is kept"
	case known:
		kept = fmt.Sprintf("The last good commit %s is kept", old.Commit.Short())
	}
	return fmt.Sprintf("ref %q%s: %s %s. %s. %s", ref, of, v.what, v.err, kept, v.err.Advice())
}
