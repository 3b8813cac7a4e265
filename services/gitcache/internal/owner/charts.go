package owner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache/internal/fetch/chartrepo"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/helm"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/pause"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// A repository of charts is a source as any other: a chart and a version are a ref, the package of the version that
// fits becomes a commit in the mirror, and heads are kept and published as those of Git are. A head's Object stands for
// what the index says of the package: while that stays, nothing is downloaded.

// wantedCharts are the refs of services, in order; a chart repository has no default branch.
func wantedCharts(s source.Source) []string { return slices.Sorted(maps.Keys(s.Wants)) }

// listCharts asks for the index.
func (t *tenure) listCharts(ctx context.Context, s source.Source) (r upstream.Remote, charts *chartrepo.Charts, err error) {
	if r, err = t.remoteOf(ctx, s); err != nil {
		return r, nil, err
	}
	charts, err = t.loop.o.deps.Charts.ListCharts(ctx, r, wantedCharts(s), t.charts)
	if err != nil {
		t.forgetCredentials(err)
		return r, nil, err
	}
	t.loop.o.deps.Metrics.CountListing(charts.Bytes)
	t.charts = charts
	return r, charts, nil
}

// planCharts is what an index means for the wanted refs.
func (t *tenure) planCharts(r upstream.Remote, s source.Source, charts *chartrepo.Charts) *plan {
	p := &plan{fresh: t.mirror.Doubted(), found: map[string]*found{}, seen: map[string]bool{}}
	o := t.mirror.Objects()
	defer o.Close()
	for _, ref := range wantedCharts(s) {
		f, why, isMissing := t.findChart(s, o, charts, ref)
		switch {
		case f == nil && isMissing:
			p.noteMissing(ref, why)
			continue
		case f == nil:
			p.noteLost(ref, why)
			continue
		}
		p.found[ref] = f
		t.bindEarly(r, s, f, o)
		switch {
		case f.listed.Chart == "": // a pin
		case p.fresh:
			f.commit = git.Hash{}
			p.wants = append(p.wants, f.object)
		case f.commit.IsZero():
			p.wants = append(p.wants, f.object)
		default:
			t.keepFirst(s, o, p, ref)
		}
	}
	return p
}

// findChart looks a wanted ref up in an index; nil and why, if it is not there. A chart that the registry refuses is
// not missing: nobody knows whether it is there.
func (t *tenure) findChart(s source.Source, o *mirror.Objects, charts *chartrepo.Charts, ref string) (f *found, why string, isMissing bool) {
	if id, ok := git.ParseHash(ref); ok {
		if !o.Has(id) {
			return nil, fmt.Sprintf("the chart that %s is pinned to (%s) is not here, and a chart repository can't be asked for it by that id. Pin to a version that is published, or remove the pin", s.NameUsers(ref), id.Short()), true
		}
		return &found{object: id, commit: id, resolved: t.heads[ref].Resolved}, "", false
	}
	choice, ok := charts.Choices[ref]
	old, known := t.heads[ref]
	switch {
	case choice.Err != nil:
		t.forgetCredentials(choice.Err)
		return nil, fmt.Sprintf("%s of %s: %s. %s", catalog.ShowRef(ref), s.NameUsers(ref), choice.Err, t.describeKept(ref)), false
	case !ok:
		return nil, fmt.Sprintf("%s names no chart, and the source is a repository of charts. Write chart and version in the service", s.NameUsers(ref)), true
	case known && (!choice.Found() || helm.Higher(versionOf(old), choice.Version.Version)):
		return nil, t.lostVersion(s, ref, choice), true
	case !choice.Found():
		return nil, noVersion(s, ref, choice), true
	}
	f = &found{
		object: chartrepo.ChartID(choice.Version), listed: choice.Version, newer: choice.Newer(),
		resolved: catalog.ChartRef(choice.Version.Chart, choice.Version.Version),
	}
	f.commit = t.commitOfChart(o, f.object)
	return f, "", false
}

// versionOf is the version of a chart's head.
func versionOf(h mirror.Head) string {
	_, version, _ := catalog.ParseChartRef(h.Resolved)
	return version
}

// commitOfChart is the commit that a package became which is here; zero: it is not.
func (t *tenure) commitOfChart(o *mirror.Objects, object git.Hash) git.Hash {
	if commit, ok := t.fetched[object]; ok && o.Has(commit) {
		return commit
	}
	for _, h := range t.heads {
		if h.Object == object && o.Has(h.Commit) {
			return h.Commit
		}
	}
	return git.Hash{}
}

// keepFirst has other content under a version that was published before stay away, unless the source allows it: what
// runs in clusters under a number must not change. A service that names the version newly gets what the others have,
// unless that was published before the source's policy wanted a signature of it.
func (t *tenure) keepFirst(s source.Source, o *mirror.Objects, p *plan, ref string) {
	f := p.found[ref]
	if s.AllowReplaced || f.listed.Chart == "" { // a tag moves, and a bucket changes
		return
	}
	for _, at := range slices.Sorted(maps.Keys(t.heads)) {
		h := t.heads[at]
		if h.Resolved != f.resolved || h.Commit == f.commit {
			continue
		}
		old, known := t.heads[ref]
		isOwn := known && old.Resolved == f.resolved
		if !isOwn && !t.trustsHead(s, h) {
			p.dropRef(ref, fmt.Sprintf("%s of %s was replaced upstream by other content under the same number, and the content that was published first (%s) is not signed by a key of the source. %s. Publish a new version, or set helm.allowReplaced in the source",
				catalog.ShowRef(f.resolved), s.NameUsers(ref), h.Commit.Short(), t.describeKept(ref)))
			return
		}
		p.noteLost(ref, fmt.Sprintf("%s of %s was replaced upstream by other content under the same number. The content that was published first (%s) is kept. Publish a new version, or set helm.allowReplaced in the source",
			catalog.ShowRef(f.resolved), s.NameUsers(ref), h.Commit.Short()))
		if isOwn || !o.Has(h.Commit) {
			delete(p.found, ref)
			return
		}
		f.object, f.commit, f.signedBy, f.isKept = h.Object, h.Commit, h.SignedBy, true
		return
	}
}

// bringCharts downloads what the plan wants, and makes heads of it. A chart that can't be had is in no other chart's
// way.
func (t *tenure) bringCharts(ctx context.Context, r upstream.Remote, s source.Source, p *plan) (moved bool, err error) {
	if err := t.verifyContent(ctx, r, s, p); err != nil {
		return false, err
	}
	for ref := range p.unverified {
		if _, isHead := t.heads[ref]; p.fresh && isHead { // the fresh mirror would lack what is published and can't be verified just now
			return false, p.err
		}
	}
	if p.fresh {
		err = t.replaceMirror(ctx, r, s, p)
	} else {
		err = t.fetchCharts(ctx, r, s, p, t.mirror)
	}
	if err != nil {
		return false, err
	}
	if moved, err = t.settleHeads(ctx, s, p); err == nil {
		err = p.err
	}
	return moved, err
}

// replaceMirror replaces a damaged mirror by a fresh one, with what the plan wants.
func (t *tenure) replaceMirror(ctx context.Context, r upstream.Remote, s source.Source, p *plan) (err error) {
	defer func() {
		if err != nil {
			clear(t.fetched) // the packages that came are in no mirror
		}
	}()
	fresh, err := t.mirror.Fresh()
	if err != nil {
		return &upstream.Error{Kind: upstream.KindStorage, Message: "make a fresh mirror: " + err.Error()}
	}
	if err := t.fetchCharts(ctx, r, s, p, fresh); err != nil {
		return err
	}
	if err := t.carryOver(ctx, s, p, fresh); err != nil {
		return err
	}
	if err := fresh.Use(); err != nil {
		return &upstream.Error{Kind: upstream.KindStorage, Message: "use the fresh mirror: " + err.Error()}
	}
	return nil
}

// carryOver brings what is published or pinned to and was not downloaded into a fresh mirror, as far as the damaged one
// still has it: upstream may not have it just now, or never again.
func (t *tenure) carryOver(ctx context.Context, s source.Source, p *plan, fresh *mirror.Fresh) error {
	commits := map[git.Hash]bool{}
	for _, h := range t.heads {
		commits[h.Commit] = true
	}
	for ref := range s.Wants {
		if id, isHash := git.ParseHash(ref); isHash {
			commits[id] = true
		}
	}
	for _, f := range p.found {
		if slices.Contains(p.wants, f.object) {
			delete(commits, f.commit)
		}
	}
	for commit := range commits {
		err := fresh.CarryOver(ctx, commit)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return ctx.Err()
		case mirror.IsUnreadable(err), errors.Is(err, mirror.ErrTooLarge), errors.Is(err, mirror.ErrKind):
			t.loop.o.deps.Log.WarnContext(ctx, "a published commit is damaged here and could not be had upstream: clusters keep what they have of it, and nothing new is made of it",
				"source", s.Name, "commit", commit, "err", err)
		default:
			return upstream.StorageError(err)
		}
	}
	return nil
}

// fetchCharts downloads each wanted package once.
func (t *tenure) fetchCharts(ctx context.Context, r upstream.Remote, s source.Source, p *plan, into upstream.Target) error {
	done, silent, before := map[git.Hash]bool{}, silentHosts{own: r.URL.Host, by: map[string]int{}}, len(p.troubles)
	defer func() { // in one order with each poll: the same troubles are the same problem
		slices.SortStableFunc(p.troubles[before:], func(a, b source.Trouble) int { return cmp.Compare(a.Ref, b.Ref) })
	}()
	for _, ref := range t.servedFirst(p) {
		f, ok := p.found[ref]
		if !ok || !slices.Contains(p.wants, f.object) { // another ref of the same package may have dropped this one
			continue
		}
		if !done[f.object] {
			done[f.object] = true
			if err := t.fetchChart(ctx, r, f, into, &silent); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if known, ok := errors.AsType[*upstream.Error](err); ok && known.Kind == upstream.KindStorage {
					return err
				}
				t.forgetCredentials(err)
				delete(t.fetched, f.object)
				t.dropPackage(s, p, f.object, err)
				continue
			}
		}
		f.commit = t.fetched[f.object]
		o := t.mirror.Objects()
		t.keepFirst(s, o, p, ref)
		o.Close()
	}
	return nil
}

// servedFirst are the refs in the order in which their packages are fetched: those whose hosts did not answer are the
// last, the latest silence at the end. So the few requests of a poll that may stay without an answer get to all
// packages, over some polls.
func (t *tenure) servedFirst(p *plan) []string {
	unserved, at := map[git.Hash]silence{}, map[string]time.Time{}
	for ref, f := range p.found {
		if is, has := t.unserved[f.object]; has {
			unserved[f.object], at[ref] = is, is.at
		}
	}
	t.unserved = unserved // of what is not wanted any more nothing is remembered
	return slices.SortedFunc(maps.Keys(p.found), func(a, b string) int { return cmp.Or(at[a].Compare(at[b]), cmp.Compare(a, b)) })
}

// errUnserved is for a package that is not asked for, because too many others had no answer.
var errUnserved = &upstream.Error{
	Kind:    upstream.KindUnreachable,
	Message: "its package was not asked for in this poll, because other requests for packages had no answer",
}

// dropPackage keeps the last good heads of all refs of a package that can't be had.
func (t *tenure) dropPackage(s source.Source, p *plan, object git.Hash, err error) {
	for _, ref := range slices.Sorted(maps.Keys(p.found)) {
		f := p.found[ref]
		switch {
		case f.object != object:
			continue
		case f.bucket != nil:
			p.dropFor(ref, err, fmt.Sprintf("%s. %s", err, t.describeKept(ref)))
			continue
		}
		p.dropFor(ref, err, fmt.Sprintf("%s of %s: %s. %s", catalog.ShowRef(f.resolved), s.NameUsers(ref), err.Error(), t.describeKept(ref)))
	}
}

// fetchChart downloads one package. A host that is silent is not asked: what it did not answer before stays the error.
func (t *tenure) fetchChart(ctx context.Context, r upstream.Remote, f *found, into upstream.Target, silent *silentHosts) error {
	object, host := f.object, chartrepo.PackageHost(r, f.listed)
	key := pause.KeyOf(object)
	if err := t.pauses.Check(key); err != nil {
		return err
	}
	if !silent.mayAsk(host) {
		if before, has := t.unserved[object]; has {
			return before.err
		}
		return errUnserved
	}
	ctx, span := telemetry.Child(ctx, t.loop.o.deps.Tracer, "gitcache.fetch", trace.WithAttributes(attribute.String("chart",
		f.listed.Chart), attribute.String("version", f.listed.Version)))
	defer span.End()
	commit, n, err := t.fetchPackage(ctx, r, f, into)
	span.SetAttributes(attribute.Int64("bytes", n))
	t.loop.o.deps.Metrics.CountFetch(n, err)
	delete(t.unserved, object)
	if err == nil {
		t.pauses.Clear(key)
		t.grown = true
		if len(t.fetched) >= maxFetched {
			clear(t.fetched)
		}
		t.fetched[f.object] = commit
		return nil
	}
	span.SetStatus(codes.Error, "fetch")
	switch known, _ := errors.AsType[*upstream.Error](err); {
	case known == nil:
	case known.Kind == upstream.KindContent:
		t.pauses.Add(key, err, pause.MostSpoiled) // the same would come again
	case known.Kind == upstream.KindTimeout, known.Kind == upstream.KindUnreachable:
		silent.addHost(host)
		t.unserved[object] = silence{err, time.Now()}
	}
	return err
}

func (t *tenure) fetchPackage(ctx context.Context, r upstream.Remote, f *found, into upstream.Target) (git.Hash, int64, error) {
	switch {
	case f.artifact != nil:
		return t.loop.o.deps.Artifacts.FetchArtifact(ctx, r, *f.artifact, into)
	case f.bucket != nil:
		return t.fetchBucket(ctx, r, f, into)
	}
	return t.loop.o.deps.Charts.FetchChart(ctx, r, f.listed, into)
}

// maxFetched bounds what is remembered of packages: those of heads are known by the heads.
const maxFetched = 1000

// lostVersion says that a version is gone that was published, or all of the chart. A head never goes back to a lower
// version by itself.
func (t *tenure) lostVersion(s source.Source, ref string, choice helm.Choice) string {
	h := t.heads[ref]
	next := "no other version fits"
	if choice.Found() {
		next = fmt.Sprintf("the highest that fits is now %s", choice.Version.Version)
	}
	return fmt.Sprintf("%s, which was published for %s, is gone from the %s, and %s; what was published (%s) is kept. Push the version again, or change the version in the service",
		catalog.ShowRef(h.Resolved), s.NameUsers(ref), describeIndex(s), next, h.Commit.Short())
}

// describeIndex is what has the versions of a source's charts.
func describeIndex(s source.Source) string {
	if s.Registry.Is {
		return "registry"
	}
	return "index"
}

// noVersion says that no version fits.
func noVersion(s source.Source, ref string, choice helm.Choice) string {
	chart, version, _ := catalog.ParseChartRef(ref)
	var why strings.Builder
	switch {
	case choice.Highest == "" && choice.Bad == "":
		return fmt.Sprintf("chart %q of %s is not in the %s. Check its name, and the source's url", chart, s.NameUsers(ref), describeIndex(s))
	case choice.Highest == "":
		why.WriteString("no version of it can be used")
	default:
		fmt.Fprintf(&why, "the highest version is %s", choice.Highest)
	}
	if choice.Bad != "" {
		fmt.Fprintf(&why, " (of an entry of the index: %s)", choice.Bad)
	}
	if version == "" {
		version = "*"
	}
	return fmt.Sprintf("no version of chart %q fits %q of %s: %s. Change the version in the service; pre-releases count only if it names one, like >=1.0.0-0", chart, version, s.NameUsers(ref), why.String())
}
