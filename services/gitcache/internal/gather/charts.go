package gather

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/giturl"
	"fairlead.dev/platform/loopback"
	"fairlead.dev/platform/pathrules"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache/internal/depend"
	"fairlead.dev/services/gitcache/internal/fetch/chartrepo"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/helm"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/pause"
	"fairlead.dev/services/gitcache/internal/signed"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/submodule"
	"fairlead.dev/services/gitcache/internal/tree"
	"fairlead.dev/services/gitcache/internal/upstream"
	"fairlead.dev/services/gitcache/internal/verify"
)

// maxNeeded charts of repositories are fetched for the folders of services, all in all: each is a head, of which a
// source publishes at most 10,000.
const maxNeeded = 500

// A chart of a repository that a chart in Git depends on is kept as a head whose ref has the name, the version and the
// repository. What was fetched first stays: a version is never asked for again.

// dependencies fetches the charts for one poll.
type dependencies struct {
	p       *Poll
	indexes map[string]*index // by the key of the repository
	failed  map[depend.Chart]error
	found   map[string]mirror.Head // by ref
	needed  map[string]bool        // refs
	kept    map[depend.Chart]bool  // charts that would not be fetched today, and are here
	// isUnknown: a folder could not be read, and what it needs is not in needed.
	isUnknown bool
	isGrown   bool // the mirror
}

// repository is where charts are that others depend on.
type repository struct {
	url string
	// source is asked as it says; nil: the repository is none, and asked as everybody may.
	source *source.Source
}

// repositoryKey tells repositories apart. The same URL may be that of two sources that are asked in other ways, and
// what changes there is tried at once.
func (r repository) repositoryKey() string {
	s := r.source
	if s == nil {
		return r.url
	}
	return fmt.Sprintf("%s %s %s@%d %s %s %+v", s.UID, r.url, s.Secret, s.SecretRevision, s.Cloud, s.Proxy, s.Registry)
}

// index is what a repository has of the wanted charts.
type index struct {
	repository
	remote upstream.Remote
	charts *chartrepo.Charts
	trust  *signed.Trust // nil: it was not needed yet
	err    error
}

// need is a chart that the folder of a service wants at a ref.
type need struct {
	ref    string
	commit git.Hash
	chart  depend.Wanted
}

// GatherCharts fetches the charts of repositories that charts in the folders of services depend on. What can't be
// had is told, and the refs are published all the same: a folder that lacks something is refused by itself, and others
// go on.
func (p *Poll) GatherCharts(ctx context.Context) (to Result, err error) {
	to = Result{Heads: map[string]mirror.Head{}, Needed: map[string]bool{}}
	if !p.Source.HasDependencies {
		return to, nil
	}
	m := p.Memory
	if p.IsFresh || len(m.depended) > maxDepended {
		clear(m.depended)
	}
	d := &dependencies{
		p: p, indexes: map[string]*index{}, failed: map[depend.Chart]error{},
		found: map[string]mirror.Head{}, needed: map[string]bool{}, kept: map[depend.Chart]bool{},
	}
	defer func() { to.IsGrown = d.isGrown }()
	needs, err := d.findNeeds(ctx, &to)
	if err != nil {
		return to, err
	}
	if p.Publish != nil && slices.ContainsFunc(needs, func(n need) bool { return n.chart.Problem == "" }) {
		if err := p.Publish(ctx); err != nil {
			return to, err
		}
	}
	until, cancel := context.WithTimeoutCause(ctx, dependTime, ErrTime)
	defer cancel()
	for _, n := range d.inTurn(needs) {
		_ = d.bringChart(until, n.chart, needs) // d keeps the error
		if ctx.Err() != nil {
			return to, ctx.Err()
		}
	}
	for _, n := range needs { // in one order with each poll: the same troubles are the same problem
		if err := d.bringChart(until, n.chart, needs); err != nil {
			text := fmt.Sprintf("%s at commit %s: %s", n.chart.Where(), n.commit.Short(), err)
			to.Troubles = append(to.Troubles, source.Trouble{Ref: n.ref, Text: text, Cause: err, IsHere: d.kept[n.chart.Chart]})
		}
	}
	if to.Heads, to.Needed = d.found, d.needed; d.isUnknown {
		to.Needed = nil // no head is dropped then
	}
	clear(m.indexes)
	for key, at := range d.indexes {
		if at.charts != nil {
			m.indexes[key] = at.charts
		}
	}
	return to, nil
}

// inTurn are the needs in the order in which they are fetched: charts that failed are the last, the latest failure at
// the end. The time of one poll gets to all of them so, over some polls.
func (d *dependencies) inTurn(needs []need) []need {
	failed := map[depend.Chart]time.Time{}
	for _, n := range needs {
		if at, has := d.p.Memory.failed[n.chart.Chart]; has {
			failed[n.chart.Chart] = at
		}
	}
	d.p.Memory.failed = failed // of charts that are needed no more nothing is remembered
	return slices.SortedStableFunc(slices.Values(needs), func(a, b need) int {
		return failed[a.chart.Chart].Compare(failed[b.chart.Chart])
	})
}

// findNeeds finds what folders want that is not here.
func (d *dependencies) findNeeds(ctx context.Context, to *Result) ([]need, error) {
	o := d.p.Mirror.Objects()
	defer o.Close()
	var needs []need
	for _, ref := range slices.Sorted(maps.Keys(d.p.Source.Folders)) {
		commit, root, err := d.p.pointsTo(ref)
		if commit.IsZero() && err == nil { // upstream never had the ref
			continue
		}
		if err != nil { // which is told where heads are made
			d.isUnknown = true
			continue
		}
		for _, folder := range d.p.Source.Folders[ref] {
			more, err := d.lookInto(ctx, o, root, folder)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				d.isUnknown = true
				to.noteLost(ref, fmt.Sprintf("folder %q at commit %s: what its charts depend on can't be read: %s",
					folder.Path, commit.Short(), submodule.Words(err)))
				continue
			}
			for _, w := range more {
				needs = append(needs, need{ref, commit, w})
			}
		}
	}
	return needs, nil
}

// lookInto finds what a folder wants that is not here.
func (d *dependencies) lookInto(ctx context.Context, o *mirror.Objects, root git.Hash, folder source.Folder) ([]depend.Wanted, error) {
	key := wholeFolder{root, folder}
	if charts, known := d.p.Memory.depended[key]; known && !slices.ContainsFunc(charts, func(c depend.Chart) bool { return d.admitChart(c) != nil || d.p.Heads[c.Ref()].Object.IsZero() }) {
		for _, c := range charts {
			d.needed[c.Ref()] = true
		}
		return nil, nil
	}
	delete(d.p.Memory.depended, key)
	rules, err := pathrules.ParseCanonical(folder.Rules)
	if err != nil {
		return nil, err
	}
	wanted, err := tree.Charts(ctx, o, root, folder.Path, tree.Options{Limits: folderLimits(), Rules: rules, Submodules: d.p.Source.Submodules})
	if err != nil {
		return nil, err
	}
	var charts []depend.Chart
	var lacking []depend.Wanted
	for _, w := range wanted {
		h, known := d.p.Heads[w.Ref()]
		has := known && o.Has(h.Commit)
		if err := d.admitLocked(w); err != nil && w.Problem == "" {
			w.Problem = fmt.Sprintf("dependency %s %s of %s: %s", w.Name, w.Version, w.Repository, err)
			d.kept[w.Chart] = has
		}
		if has && h.Object.IsZero() { // the console told of the head, and a copy brought its commit: the mirror keeps both from now on
			h.Object = h.Commit
			d.found[w.Ref()] = h
		}
		if w.Problem != "" || !has {
			lacking = append(lacking, w)
		}
		if w.Problem == "" {
			charts = append(charts, w.Chart)
		}
		if known || w.Problem == "" { // what was fetched is delivered, also if it would not be fetched today
			d.needed[w.Ref()] = true
		}
	}
	if len(lacking) == 0 {
		d.p.Memory.depended[key] = charts
	}
	return lacking, nil
}

// findRepository is where a chart is: in a source that is named, or whose URL is written.
func (d *dependencies) findRepository(c depend.Chart) (repository, error) {
	name, isNamed := c.Source()
	for i := range d.p.Source.ChartSources {
		of := &d.p.Source.ChartSources[i]
		if url := strings.TrimRight(of.URL, "/"); isNamed && of.Name == name || !isNamed && sameRepository(url, c.Repository) {
			return repository{url, of}, nil
		}
	}
	if isNamed { // whether there is such a source is not said: who writes a chart may see less
		return repository{}, fmt.Errorf("git.chartSources of the source has no source with helm of the name %q. Add its name there, or write the https:// or oci:// URL of the repository", name)
	}
	return repository{url: c.Repository}, nil
}

// sameRepository tells whether two URLs are of one repository: who writes a chart must not get around what a source
// says by another form of its URL.
func sameRepository(a, b string) bool {
	x, errX := url.Parse(a)
	y, errY := url.Parse(b)
	return errX == nil && errY == nil && upstream.SameOrigin(x, y) && path.Clean("/"+x.Path) == path.Clean("/"+y.Path) && x.RawQuery == y.RawQuery
}

// admitLocked is admit, and says that the lock is about another repository than the source of the name.
func (d *dependencies) admitLocked(w depend.Wanted) error {
	if err := d.admitChart(w.Chart); err != nil || w.Locked == "" {
		return err
	}
	if at, _ := d.findRepository(w.Chart); at.url != w.Locked {
		const remedy = "Write the https:// or oci:// URL into the chart, or run `helm dependency update` with the url of the source"
		return fmt.Errorf("the lock has another repository than the source of that name. %s", remedy)
	}
	return nil
}

// admitChart says why a chart is not one that folders of this source may depend on; nil: it is. The limit of charts is
// for those that would be fetched.
func (d *dependencies) admitChart(c depend.Chart) error {
	at, err := d.findRepository(c)
	if err != nil {
		return err
	}
	if host := c.Host(); at.source == nil && !slices.Contains(d.p.Source.Allow, host) {
		return fmt.Errorf("the source does not allow the host %s. Add it to git.allow in the source, or push the chart into charts/", host)
	}
	if _, isHead := d.p.Heads[c.Ref()]; len(d.needed) >= maxNeeded && !isHead && !d.needed[c.Ref()] {
		return fmt.Errorf("it is one more than the limit of %d for a source. Push charts into charts/, or split the source", maxNeeded)
	}
	return nil
}

// bringChart fetches one chart, once. needs are all that are fetched now.
func (d *dependencies) bringChart(ctx context.Context, w depend.Wanted, needs []need) error {
	if w.Problem != "" {
		return errors.New(w.Problem)
	}
	if _, done := d.found[w.Ref()]; done {
		return nil
	}
	err, tried := d.failed[w.Chart]
	if !tried && ctx.Err() != nil {
		err = context.Cause(ctx)
	} else if !tried {
		err = d.fetchChart(ctx, w.Chart, needs)
		if d.failed[w.Chart] = err; err != nil {
			d.p.Memory.failed[w.Chart] = time.Now()
		}
	}
	if err != nil {
		return fmt.Errorf("dependency %s %s of %s: %w", w.Name, w.Version, w.Repository, err)
	}
	return nil
}

func (d *dependencies) fetchChart(ctx context.Context, c depend.Chart, needs []need) error {
	upstream, err := d.findRepository(c)
	if err != nil {
		return err
	}
	at := d.readIndex(ctx, upstream, needs)
	if at.err != nil {
		return explainError(at.err, at.repository, c)
	}
	choice := at.charts.Choices[catalog.ChartRef(c.Name, c.Version)]
	if choice.Err != nil {
		d.forgetCredentials(at.repository, choice.Err)
		return explainError(choice.Err, at.repository, c)
	}
	if !choice.Found() || !isVersion(choice.Version.Version, c.Version) {
		return fmt.Errorf("the repository has no such version%s. Push it there, or run `helm dependency update`, and push the lock", describeHighest(choice))
	}
	version, signedBy, err := d.verifyChart(ctx, at, choice.Version)
	if err != nil {
		return explainError(err, at.repository, c)
	}
	commit, err := d.downloadChart(ctx, at, version)
	if err != nil {
		return explainError(err, at.repository, c)
	}
	return d.keepHead(ctx, c, version, commit, signedBy)
}

// verifyChart says who signed a version, if its source wants that. The version has the digest that was signed.
func (d *dependencies) verifyChart(ctx context.Context, at *index, v helm.Version) (helm.Version, string, error) {
	if at.source == nil || at.source.Verify.IsZero() {
		return v, "", nil
	}
	if at.trust == nil {
		var err error
		if at.trust, err = signed.New(at.source.Verify); err != nil {
			return v, "", fmt.Errorf("%w. Correct verify in that source", err)
		}
	}
	is := verify.Content{Listed: v}
	key := "signature of " + is.SignedName(at.remote) + at.repositoryKey()
	if err := d.p.Pauses.Check(key); err != nil {
		return v, "", err
	}
	verdict, err := d.p.Asker.JudgeContent(ctx, at.trust, at.remote, is, time.Now())
	if err != nil {
		d.forgetCredentials(at.repository, err)
		return v, "", d.holdOff(ctx, key, err)
	}
	d.p.Pauses.Clear(key)
	if verdict.No != nil {
		return v, "", fmt.Errorf("it %w. %s", verdict.No, at.source.Verify.Advice(verdict.No))
	}
	v.Digest = cmp.Or(v.Digest, verdict.Sum)
	return v, verdict.SignedBy, nil
}

// isVersion tells whether a version that a repository has is the one that a chart wants. As in Helm v1.2.3 is 1.2.3.
func isVersion(has, wants string) bool {
	return strings.TrimPrefix(has, "v") == strings.TrimPrefix(wants, "v") || !helm.Higher(has, wants) && !helm.Higher(wants, has)
}

func describeHighest(choice helm.Choice) string {
	switch {
	case choice.Highest == "" && choice.Bad == "":
		return ", and no chart of that name"
	case choice.Bad != "":
		return fmt.Sprintf(" (of an entry of its index: %s)", choice.Bad)
	}
	return fmt.Sprintf(" (the highest is %s)", choice.Highest)
}

// explainError says of which source the trouble is, and what a repository means that wants credentials: a secret of the
// Git host would not help.
func explainError(err error, at repository, c depend.Chart) error {
	if at.source != nil {
		return fmt.Errorf("source %q: %w", at.source.Name, err)
	}
	if known, ok := errors.AsType[*upstream.Error](err); !ok || known.Kind != upstream.KindCredentials {
		return err
	}
	return fmt.Errorf("%s wants credentials for it, or does not have it, and what is of no source is fetched without. Add a source with helm, its url and a secret, "+
		"and name it in git.chartSources, or push the chart into charts/", c.Host())
}

// forgetCredentials has the credentials of a source read again that its repository does not take.
func (d *dependencies) forgetCredentials(at repository, err error) {
	if at.source != nil {
		d.p.ForgetCredentials(*at.source, err)
	}
}

// readIndex asks a repository once for all charts of it that are wanted now.
func (d *dependencies) readIndex(ctx context.Context, of repository, needs []need) *index {
	if known, ok := d.indexes[of.repositoryKey()]; ok {
		return known
	}
	var refs []string
	for _, n := range needs {
		if at, err := d.findRepository(n.chart.Chart); err == nil && n.chart.Problem == "" && at.repositoryKey() == of.repositoryKey() {
			refs = append(refs, catalog.ChartRef(n.chart.Name, n.chart.Version))
		}
	}
	slices.Sort(refs)
	at, key := &index{repository: of}, "index of "+of.repositoryKey()
	if at.err = d.p.Pauses.Check(key); at.err == nil {
		at.remote, at.err = d.remoteOf(ctx, of)
	}
	if at.err == nil {
		at.charts, at.err = d.p.Charts.ListCharts(ctx, at.remote, slices.Compact(refs), d.p.Memory.indexes[of.repositoryKey()])
		if at.err == nil {
			d.p.Metrics.CountListing(at.charts.Bytes)
			d.p.Pauses.Clear(key)
		} else {
			d.forgetCredentials(of, at.err)
			at.err = d.holdOff(ctx, key, at.err)
		}
	}
	d.indexes[of.repositoryKey()] = at
	return at
}

// downloadChart fetches a package into the mirror.
func (d *dependencies) downloadChart(ctx context.Context, at *index, v helm.Version) (git.Hash, error) {
	key := pause.KeyOf(chartrepo.ChartID(v)) + at.repositoryKey()
	if err := d.p.Pauses.Check(key); err != nil {
		return git.Hash{}, err
	}
	ctx, span := telemetry.Child(ctx, d.p.Tracer,
		"gitcache.dependency", trace.WithAttributes(attribute.String("chart", v.Chart), attribute.String("version", v.Version)))
	defer span.End()
	commit, n, err := d.p.Charts.FetchChart(ctx, at.remote, v, d.p.Mirror)
	d.p.Metrics.CountFetch(n, err)
	if err != nil {
		span.SetStatus(codes.Error, "fetch")
		d.forgetCredentials(at.repository, err)
		return git.Hash{}, d.holdOff(ctx, key, err)
	}
	d.p.Pauses.Clear(key)
	d.isGrown = true
	return commit, nil
}

// holdOff puts off what did not work, also what took the time of others, so that the next poll begins with these.
// Nothing is put off by the end of the tenure.
func (d *dependencies) holdOff(ctx context.Context, key string, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrTime) {
		err = cause
	} else if ctx.Err() != nil {
		return err
	}
	d.p.Pauses.Add(key, err, pause.Most)
	return err
}

// keepHead makes a head of a chart, unless other content was published under its version.
func (d *dependencies) keepHead(ctx context.Context, c depend.Chart, v helm.Version, commit git.Hash, signedBy string) error {
	if old, known := d.p.Heads[c.Ref()]; known && old.Commit != commit {
		return fmt.Errorf("it was replaced upstream by other content under the same number, and what was published first (%s) is not here any more. Publish a new version", old.Commit.Short())
	}
	o := d.p.Mirror.Objects()
	defer o.Close()
	is, err := o.Commit(commit)
	if err != nil {
		return err
	}
	d.found[c.Ref()] = mirror.Head{
		Ref: c.Ref(), Object: chartrepo.ChartID(v), Commit: commit, CommitTime: v.Created, Subject: is.Subject,
		FetchTime: time.Now().UTC().Truncate(time.Microsecond), Traceparent: telemetry.Inject(ctx), SignedBy: signedBy,
	}
	return nil
}

// remoteOf is how a repository is asked: as its source says, if it has one. Otherwise authors of charts may be allowed
// to read less than the credentials of the charts' own source are: these are not sent. Those of that source's proxy are
// for the proxy. A registry on this machine is asked by HTTP, as a chart repository there may be.
func (d *dependencies) remoteOf(ctx context.Context, of repository) (upstream.Remote, error) {
	if of.source != nil {
		return d.p.RemoteOf(ctx, *of.source)
	}
	r := upstream.Remote{Proxy: d.p.Remote.Proxy}
	if giturl.IsRegistry(of.url) {
		r.Registry.Is = true
		if u, err := url.Parse(of.url); err == nil && loopback.Host(u.Hostname()) {
			r.Registry.Insecure, r.Proxy = true, nil
		}
	}
	u, err := chartrepo.ParseURL(of.url, r.Registry)
	if err != nil {
		return r, err
	}
	r.URL = u
	r.Credentials.ProxyUsername, r.Credentials.ProxyPassword = d.p.Remote.Credentials.ProxyUsername, d.p.Remote.Credentials.ProxyPassword
	if upstream.SameOrigin(u, d.p.Remote.URL) {
		r.Credentials.CA = d.p.Remote.Credentials.CA // what a host is known by goes with the host
	}
	return r, nil
}
