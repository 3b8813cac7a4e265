package plan_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/delivery"
	"fairlead.dev/services/distributor/internal/plan"
)

// content is the artifact that a folder has at a commit, in a world where commits alternate between two
// contents per folder.
func content(w plan.Want) plan.Artifact {
	sum := sha256.Sum256(fmt.Append(nil, w.Path, w.Commit[:1], w.Include, "|", w.Ignore, w.Submodules))
	return plan.Artifact{Digest: artifact.SumDigest(sum[:])}
}

// spec is what the catalog says of a service.
type spec struct{ name, uid, cluster, namespace, source, path, include, ignore string }

func (s spec) service() *catalog.Service {
	out := &consolev1.ServiceSpec{Cluster: s.cluster, Namespace: s.namespace, Source: s.source, Path: s.path}
	if s.include != "" {
		out.Include = []string{s.include}
	}
	if s.ignore != "" {
		out.Ignore = []string{s.ignore}
	}
	return catalog.NewService(&consolev1.Service{Metadata: &consolev1.Metadata{Name: s.name, Uid: s.uid}, Spec: out})
}

// world is a catalog.
type world struct {
	specs      map[string]spec
	heads      map[string]string // by source
	submodules map[string]bool   // by source
	clusters   map[string]bool
	revision   int64
}

func (w *world) source(name string) *plan.Source {
	s := &plan.Source{UID: "uid-" + name, Submodules: w.submodules[name], Heads: map[string]plan.Revision{}}
	if w.heads[name] != "" {
		s.Heads["HEAD"] = plan.Revision{Commit: w.heads[name]}
	}
	return s
}

func (w *world) load(u *plan.Update) {
	u.Current()
	for c, exists := range w.clusters {
		if exists {
			u.Cluster(c, true)
		}
	}
	for _, name := range []string{"s", "t"} {
		u.Source(name, w.source(name))
	}
	for name := range w.specs {
		u.Service(w.specs[name].service())
	}
	u.Only(
		func(name string) bool { _, ok := w.specs[name]; return ok },
		func(name string) bool { return w.clusters[name] },
		func(string) bool { return true },
		func(string) bool { return true },
	)
	u.Loaded()
	u.At(w.revision, w.revision)
}

// wanted is the service digest that a cluster should end with.
func (w *world) wanted(s spec) string {
	return delivery.ServiceDigest(delivery.Service{
		Name: s.name, Namespace: s.namespace, Path: s.path,
		Artifact: string(content(plan.Want{
			Path: s.path, Commit: w.heads[s.source], Include: catalog.Rules(s.include), Ignore: catalog.Rules(s.ignore),
			Submodules: w.submodules[s.source],
		}).Digest),
	})
}

// memory is a disk.
type memory plan.Memory

func remembered() memory {
	return memory{Contents: map[plan.Key]*plan.Content{}, Apart: map[string]plan.Apart{}, Earlier: map[string]plan.Earlier{}}
}

// memory is what a plan begins with after a restart.
func (m memory) memory() plan.Memory {
	return plan.Memory{Contents: maps.Clone(m.Contents), Apart: maps.Clone(m.Apart), Earlier: maps.Clone(m.Earlier)}
}

func (m memory) take(c plan.Change) {
	for _, k := range c.Gone {
		delete(m.Contents, k)
	}
	for _, a := range c.Apart {
		if a.Over {
			delete(m.Apart, a.Service)
		} else {
			m.Apart[a.Service] = a
		}
	}
	for _, e := range c.Earlier {
		if len(e.Digests) == 0 {
			delete(m.Earlier, e.Service)
		} else {
			m.Earlier[e.Service] = e
		}
	}
	for _, content := range c.Superseded {
		m.Contents[content.Key()] = content
	}
	for _, d := range c.Delivered {
		m.Contents[d.Content.Key()] = d.Content
	}
}

// model drives a plan as a distributor does, beside agents that do as they are told and a console that is
// told what it is told.
type model struct {
	world
	t      *rapid.T
	plan   *plan.Plan
	agents map[string]map[string]string // cluster -> service -> digest
	disk   memory
	told   map[string]plan.Truth
	lines  map[string]string // commits, by source
	now    time.Time
}

func (m *model) took(c plan.Change) {
	m.disk.take(c)
	for name := range c.Services {
		if t, ok := m.plan.Truth(name); ok {
			m.told[name] = t
		} else {
			delete(m.told, name)
		}
	}
	for _, l := range c.Lines {
		m.lines[l.SourceUID] = l.Revision.Commit
	}
}

// update changes the plan and finds every agent that it leaves behind nudged.
func (m *model) update(fn func(*plan.Update)) {
	synced := map[string]bool{}
	for cluster, have := range m.agents {
		d, err := m.plan.Compare(cluster, delivery.SetDigest(have), have, 0, 0)
		synced[cluster] = err == nil && d.Same
	}
	m.revision++
	change := m.plan.Update(m.now, func(u *plan.Update) {
		fn(u)
		u.At(m.revision, m.revision)
	})
	m.took(change)
	m.mustNudge(synced, change)
}

func (m *model) mustNudge(synced map[string]bool, change plan.Change) {
	for cluster, was := range synced {
		have := m.agents[cluster]
		d, err := m.plan.Compare(cluster, delivery.SetDigest(have), have, 0, 0)
		if _, nudged := change.Clusters[cluster]; was && err == nil && !d.None && !nudged {
			m.t.Fatalf("%s has something to do and was not nudged: %+v", cluster, d)
		}
	}
}

func (m *model) answer(good bool) {
	var answers []plan.Answer
	for _, w := range m.plan.Open() {
		a := plan.Answer{Want: w, Artifact: content(w)}
		if !good {
			a = plan.Answer{Want: w, Failure: &plan.Failure{Kind: plan.Kind(rapid.IntRange(0, 2).Draw(m.t, "kind"))}}
		}
		answers = append(answers, a)
	}
	m.took(m.plan.Answer(m.now, answers...))
}

// sync lets an agent do what it is told, and judges what that is.
func (m *model) sync(cluster string) {
	have := m.agents[cluster]
	d, err := m.plan.Compare(cluster, delivery.SetDigest(have), have, 0, 0)
	if !m.clusters[cluster] {
		if !errors.Is(err, plan.ErrUnknownCluster) {
			m.t.Fatalf("unknown cluster %s: %v", cluster, err)
		}
		return
	}
	if err != nil {
		m.t.Fatal(err)
	}
	for _, name := range d.Removed {
		if s, ok := m.specs[name]; ok && s.cluster == cluster {
			m.t.Fatalf("%s is removed from %s, and the catalog has it there", name, cluster)
		}
		delete(have, name)
	}
	for _, is := range d.Changed {
		if s := m.specs[is.Service]; s.cluster != cluster || s.uid != is.UID {
			m.t.Fatalf("%s is delivered to %s", is.Service, cluster)
		}
		if !m.plan.Uses(cluster, is.Artifact.Digest) {
			m.t.Fatalf("%s may not download what it is delivered", cluster)
		}
		have[is.Service] = is.Digest
	}
	if d.HaveWanted {
		m.t.Fatal("asked for what was sent")
	}
}

// seen is the commit that a reader of the console sees of a service.
func (m *model) seen(t plan.Truth) string {
	if t.Follows {
		return m.lines[t.SourceUID]
	}
	if t.Delivery == nil {
		return ""
	}
	return t.Delivery.Revision.Commit
}

func (m *model) check() {
	inUse := map[artifact.Digest]bool{}
	for name, s := range m.specs {
		truth, ok := m.plan.Truth(name)
		if !ok {
			m.t.Fatalf("no truth of %s", name)
		}
		told := m.told[name]
		if told.Problem.Text != truth.Problem.Text || (told.Delivery == nil) != (truth.Delivery == nil) {
			m.t.Fatalf("of %s the console was told %+v, and it is %+v", name, told, truth)
		}
		if truth.Delivery == nil {
			continue
		}
		inUse[truth.Delivery.Artifact.Digest] = true
		if told.Delivery.Digest != truth.Delivery.Digest {
			m.t.Fatalf("of %s the console was told %+v, and it is %+v", name, told, truth)
		}
		// Never green too early: with the newest commit comes what that has, unless it is the spec that changed.
		w := told.Delivery.Want
		same := w.Source == s.source && w.Path == s.path && string(w.Include) == s.include &&
			string(w.Ignore) == s.ignore && w.Submodules == m.submodules[s.source]
		if at := m.seen(told); same && at == m.heads[s.source] && at != "" && truth.Problem.Text == "" &&
			told.Delivery.Digest != m.wanted(s) {
			m.t.Fatalf("the console shows %s of %s, delivered is %+v", at, name, truth.Delivery)
		}
	}
	got := m.plan.InUse()
	for d := range inUse {
		if !slices.Contains(got, d) {
			m.t.Fatalf("in use: %v, and %s is delivered", got, d)
		}
	}
	// A folder keeps its content for services to come.
	if len(got) > 2*len(m.specs) {
		m.t.Fatalf("in use: %v, delivered: %v", got, inUse)
	}
	if len(m.disk.Apart) > len(m.specs) || len(m.disk.Contents) > len(m.specs) || len(m.disk.Earlier) > len(m.specs) {
		m.t.Fatalf("the disk keeps %v", m.disk)
	}
}

// converge answers everything well and lets all agents sync: they end with exactly what the catalog says.
func (m *model) converge() {
	m.answer(true)
	m.took(m.plan.Overdue(m.now.Add(time.Hour)))
	for cluster := range m.clusters {
		m.sync(cluster)
		if !m.clusters[cluster] {
			continue
		}
		want := map[string]string{}
		for name, s := range m.specs {
			if s.cluster != cluster || m.heads[s.source] == "" {
				continue
			}
			truth, _ := m.plan.Truth(name)
			if truth.Problem.Text != "" {
				if strings.Contains(truth.Problem.Text, "tried again") {
					m.t.Fatalf("%s is resolved, and the problem stays: %s", name, truth.Problem.Text)
				}
				continue // refused for good by an earlier answer
			}
			want[name] = m.wanted(s)
			if at := m.seen(m.told[name]); at != m.heads[s.source] {
				m.t.Fatalf("of %s the console shows %q, delivered is %s", name, at, m.heads[s.source])
			}
		}
		got := maps.Clone(m.agents[cluster])
		maps.DeleteFunc(got, func(name, _ string) bool { _, ok := want[name]; return !ok })
		if !maps.Equal(got, want) {
			m.t.Fatalf("%s has %v, want %v", cluster, got, want)
		}
	}
}

func (w *world) put(t *rapid.T, uids *int) string {
	name := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "service")
	s := w.specs[name]
	if s.uid == "" || rapid.IntRange(0, 9).Draw(t, "again") == 0 {
		*uids++
		s.uid = fmt.Sprint(*uids)
	}
	s.name, s.cluster, s.source = name, rapid.SampledFrom([]string{"x", "y"}).Draw(t,
		"cluster"), rapid.SampledFrom([]string{"s", "t"}).Draw(t, "source")
	s.namespace, s.path = rapid.SampledFrom([]string{"n", "m"}).Draw(t,
		"namespace"), rapid.SampledFrom([]string{"p", "q"}).Draw(t, "path")
	s.include, s.ignore = rapid.SampledFrom([]string{"", "a"}).Draw(t,
		"include"), rapid.SampledFrom([]string{"", "a"}).Draw(t, "ignore")
	w.specs[name] = s
	return name
}

func newWorld() world {
	return world{
		specs: map[string]spec{}, heads: map[string]string{}, submodules: map[string]bool{},
		clusters: map[string]bool{"x": true, "y": true},
	}
}

// The plan against a model: nobody gets another cluster's service, nothing is removed that the catalog
// has, whoever falls behind is nudged, a restart forgets nothing, the console is told all and nothing too
// early, and in the end everybody has what the catalog says.
func TestPlanAgainstModel(t *testing.T) {
	t.Parallel()
	service := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	cluster := rapid.SampledFrom([]string{"x", "y"})
	src := rapid.SampledFrom([]string{"s", "t"})
	commit := rapid.SampledFrom([]string{"1111111", "1222222", "3333333"})
	rapid.Check(t, func(t *rapid.T) {
		m := &model{
			world: newWorld(), t: t, plan: plan.New(plan.Memory{}), now: time.Unix(1, 0),
			agents: map[string]map[string]string{"x": {}, "y": {}}, disk: remembered(), told: map[string]plan.Truth{},
			lines: map[string]string{},
		}
		m.update(m.load)
		uids := 0
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				name := m.put(t, &uids)
				m.update(func(u *plan.Update) { u.Service(m.specs[name].service()) })
			},
			"remove": func(t *rapid.T) {
				name := service.Draw(t, "service")
				delete(m.specs, name)
				m.update(func(u *plan.Update) { u.Remove(name) })
			},
			"head": func(t *rapid.T) {
				source := src.Draw(t, "source")
				m.heads[source], m.submodules[source] = commit.Draw(t, "commit"), rapid.IntRange(0, 4).Draw(t,
					"submodules") == 0
				m.update(func(u *plan.Update) { u.Source(source, m.source(source)) })
			},
			"cluster": func(t *rapid.T) {
				c := cluster.Draw(t, "cluster")
				m.clusters[c] = !m.clusters[c]
				m.update(func(u *plan.Update) { u.Cluster(c, m.clusters[c]) })
			},
			"resolve": func(*rapid.T) { m.answer(true) },
			"fail":    func(*rapid.T) { m.answer(false) },
			"later": func(*rapid.T) {
				m.now = m.now.Add(3 * time.Second)
				m.took(m.plan.Overdue(m.now))
			},
			"sync":   func(t *rapid.T) { m.sync(cluster.Draw(t, "cluster")) },
			"reload": func(*rapid.T) { m.update(m.load) },
			"restart": func(t *rapid.T) {
				before := map[string]string{}
				for c, have := range m.agents {
					if d, err := m.plan.Compare(c, delivery.SetDigest(have), have, 0, 0); err == nil && d.Same {
						before[c] = delivery.SetDigest(have)
					}
				}
				m.plan = plan.New(m.disk.memory())
				if _, err := m.plan.Compare("x", "", nil, 0, 0); !errors.Is(err, plan.ErrNotReady) {
					t.Fatalf("answers before the catalog is there: %v", err)
				}
				m.took(m.plan.Update(m.now, m.load))
				for c, digest := range before {
					if d, err := m.plan.Compare(c, digest, nil, 0, 0); err != nil || !d.None {
						t.Fatalf("%s had all before a restart, now %+v, %v", c, d, err)
					}
				}
			},
			"": func(*rapid.T) { m.check() },
		})
		m.converge()
	})
}

func one(t *testing.T, p *plan.Plan, s spec, commit string) plan.Change {
	t.Helper()
	return p.Update(time.Unix(1, 0), func(u *plan.Update) {
		u.Cluster(s.cluster, true)
		u.Source(s.source, &plan.Source{UID: "2", Heads: map[string]plan.Revision{"HEAD": {Commit: commit}}})
		u.Service(s.service())
		u.Loaded()
	})
}

func TestFailureThatMayPassIsToldLater(t *testing.T) {
	t.Parallel()
	p := plan.New(plan.Memory{})
	one(t, p, spec{name: "hello", uid: "1", cluster: "edge-1", source: "shop", path: "apps"}, "1a2b3c4d5e")
	now := time.Unix(100, 0)
	fail := plan.Answer{Want: p.Open()[0], Failure: &plan.Failure{Kind: plan.Unavailable, Text: "connection refused"}}
	p.Answer(now, fail)
	truth, _ := p.Truth("hello")
	if truth.Problem.From.Sub(now) != 15*time.Second {
		t.Errorf("told from %v", truth.Problem.From)
	}
	if want := `service "hello": commit 1a2b3c4d of source "shop" can't be had from a gitcache: connection refused. It is tried again.`; truth.Problem.Text != want {
		t.Errorf("got %s", truth.Problem.Text)
	}
	// The problem begins once, however often it is tried.
	p.Answer(now.Add(time.Minute), fail)
	if again, _ := p.Truth("hello"); again.Problem.From != truth.Problem.From || len(p.Open()) != 1 {
		t.Errorf("from %v", again.Problem.From)
	}
}

// A proxy on the way to a gitcache answers in whatever encoding it likes, and the console is told in UTF-8 only.
func TestTextOfAFailureIsUTF8(t *testing.T) {
	t.Parallel()
	p := plan.New(plan.Memory{})
	one(t, p, spec{name: "hello", uid: "1", cluster: "edge-1", source: "shop"}, "1111111")
	p.Answer(time.Unix(1, 0), plan.Answer{Want: p.Open()[0], Failure: &plan.Failure{Text: "502 Bad Gateway: nicht verf\xfcgbar"}})
	if truth, _ := p.Truth("hello"); !utf8.ValidString(truth.Problem.Text) || !strings.Contains(truth.Problem.Text, "nicht verf\uFFFDgbar.") {
		t.Errorf("got %q", truth.Problem.Text)
	}
}

func TestFinalFailureIsNotAskedAgainAndEndsWithTheNextCommit(t *testing.T) {
	t.Parallel()
	p := plan.New(plan.Memory{})
	s := spec{name: "hello", uid: "1", cluster: "edge-1", source: "shop"}
	one(t, p, s, "1111111")
	p.Answer(time.Unix(1, 0), plan.Answer{Want: p.Open()[0], Failure: &plan.Failure{Kind: plan.NoFolder}})
	if len(p.Open()) != 0 {
		t.Error("asked again")
	}
	if truth, _ := p.Truth("hello"); truth.Problem.Text != `service "hello": the whole repository is not in commit 1111111 of source "shop". Check spec.path.` {
		t.Error(truth.Problem.Text)
	}
	one(t, p, s, "2222222")
	if truth, _ := p.Truth("hello"); truth.Problem.Text != "" || len(p.Open()) != 1 {
		t.Errorf("%+v", truth)
	}
}

// While the plan takes long to note an answer the same is asked again, and then a gitcache may be away.
func TestAnswerAfterTheFinalOneChangesNothing(t *testing.T) {
	t.Parallel()
	p := plan.New(plan.Memory{})
	one(t, p, spec{name: "hello", uid: "1", cluster: "edge-1", source: "shop"}, "1111111")
	want := p.Open()[0]
	late := plan.Answer{Want: want, Failure: &plan.Failure{Kind: plan.Unavailable, Text: "gitcache away"}}
	p.Answer(time.Unix(1, 0), plan.Answer{Want: want, Artifact: content(want)}, late)
	if truth, _ := p.Truth("hello"); truth.Problem.Text != "" || !truth.Follows {
		t.Errorf("got %+v", truth)
	}
}

// A console that sends its whole catalog again may have lost what it was told.
func TestConsoleThatBeginsAnewIsToldEverythingAgain(t *testing.T) {
	t.Parallel()
	p, now := plan.New(plan.Memory{}), time.Now()
	w := newWorld()
	w.specs["a"] = spec{name: "a", uid: "1", cluster: "c", source: "s", path: "p"}
	w.heads["s"] = strings.Repeat("1", 40)
	p.Update(now, w.load)
	for _, want := range p.Open() {
		p.Answer(now, plan.Answer{Want: want, Artifact: content(want)})
	}
	change := p.Update(now, w.load)
	if _, told := change.Services["a"]; !told || len(change.Lines) != 1 ||
		change.Lines[0].Revision.Commit != w.heads["s"] {
		t.Errorf("told of %v and %v", change.Services, change.Lines)
	}
	if len(change.Clusters) > 0 {
		t.Errorf("agents of %v are nudged", change.Clusters)
	}
}

// The console is told nothing while the catalog is only the one of the disk, and all when the console has confirmed it.
func TestConsoleThatConfirmsTheCatalogIsToldEverything(t *testing.T) {
	t.Parallel()
	p := plan.New(plan.Memory{})
	one(t, p, spec{name: "hello", uid: "1", cluster: "edge-1", source: "shop", path: "apps"}, "1111111")
	p.Answer(time.Unix(1, 0), plan.Answer{Want: p.Open()[0], Artifact: content(p.Open()[0])})
	change := p.Update(time.Unix(2, 0), func(u *plan.Update) { u.Current() })
	if _, told := change.Services["hello"]; !told || len(change.Lines) != 1 || len(change.Clusters) > 0 {
		t.Errorf("%+v", change)
	}
}

// The console knows a ref at a commit that a service did not get, begins anew while the ref is back at the one before,
// and then the ref goes on: the service has to be told apart, or it would seem to have the new content.
func TestRefThatGoesOnAfterTheConsoleBeganAnewHidesNoServiceThatIsBehind(t *testing.T) {
	t.Parallel()
	p, now := plan.New(plan.Memory{}), time.Unix(1, 0)
	a := spec{name: "a", uid: "1", cluster: "edge-1", source: "shop"}
	b := spec{name: "b", uid: "2", cluster: "edge-1", source: "shop", ignore: "docs"}
	point := func(commit string, submodules bool) plan.Change {
		return p.Update(now, func(u *plan.Update) {
			u.Source("shop", &plan.Source{UID: "2", Submodules: submodules, Heads: map[string]plan.Revision{"HEAD": {Commit: commit}}})
		})
	}
	one(t, p, a, "3333333")
	p.Answer(now, plan.Answer{Want: p.Open()[0], Artifact: content(p.Open()[0])})
	point("1222222", true)
	p.Update(now, func(u *plan.Update) { u.Service(b.service()) })
	for _, want := range p.Open() {
		p.Answer(now, plan.Answer{Want: want, Failure: &plan.Failure{Kind: plan.Unavailable}})
	}
	point("3333333", false)
	p.Update(now, func(u *plan.Update) { u.Current() })
	change := point("1222222", false)
	if truth, _ := p.Truth("a"); truth.Follows || truth.Delivery.Revision.Commit != "3333333" {
		t.Errorf("got %+v", truth)
	}
	if _, told := change.Services["a"]; !told {
		t.Errorf("told of %v only", change.Services)
	}
}

func rules(project string) string {
	return catalog.BoundsOf(&consolev1.Project{
		Metadata: &consolev1.Metadata{Name: project},
		Spec:     &consolev1.ProjectSpec{Kinds: []string{"ConfigMap"}},
	})
}

// The options for the content count as much as the content; labels of the cluster where they are seen.
func TestOptionsAreDelivered(t *testing.T) {
	t.Parallel()
	p, now := plan.New(plan.Memory{}), time.Unix(1, 0)
	is := func(name string, render *deliveryv1.RenderSpec, sync *deliveryv1.SyncSpec) *catalog.Service {
		return catalog.NewService(&consolev1.Service{
			Metadata: &consolev1.Metadata{Name: name, Uid: name},
			Spec: &consolev1.ServiceSpec{
				Cluster: "x", Source: "shop", Path: "apps", Render: render, Sync: sync,
				Project: "of-" + name,
			},
		})
	}
	template := &deliveryv1.RenderSpec{Renderer: deliveryv1.Renderer_RENDERER_TEMPLATE}
	p.Update(now, func(u *plan.Update) {
		u.Cluster("x", true)
		u.Labels("x", map[string]string{"zone": "a"})
		u.Source("shop", &plan.Source{UID: "2", Heads: map[string]plan.Revision{
			"HEAD": {Commit: strings.Repeat("1", 40)}, strings.Repeat("2", 40): {Commit: strings.Repeat("2", 40)},
		}})
		u.Service(is("plain", nil, nil))
		u.Service(is("templated", template, nil))
		u.Loaded()
	})
	answer := func() {
		for _, want := range p.Open() {
			p.Answer(now, plan.Answer{Want: want, Artifact: content(want)})
		}
	}
	answer()
	have := map[string]string{"plain": "", "templated": ""}
	delivered := func() map[string]*plan.Delivery {
		t.Helper()
		diff, err := p.Compare("x", delivery.SetDigest(have), have, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]*plan.Delivery{}
		for _, d := range diff.Changed {
			out[d.Service], have[d.Service] = d, d.Digest
		}
		return out
	}
	first := delivered()
	if first["plain"].Options != "" || !strings.Contains(first["templated"].Options, "zone") {
		t.Errorf("%+v", first)
	}
	steps := []struct {
		name   string
		change func(*plan.Update)
		wants  string
	}{
		{"labels", func(u *plan.Update) { u.Labels("x", map[string]string{"zone": "b"}) }, "templated"},
		{"the same labels", func(u *plan.Update) { u.Labels("x", map[string]string{"zone": "b"}) }, ""},
		{"bounds of another project", func(u *plan.Update) { u.Project("of-nobody", rules("of-nobody"), "") }, ""},
		{"bounds", func(u *plan.Update) { u.Project("of-plain", rules("of-plain"), "") }, "plain"},
		{"the same bounds", func(u *plan.Update) { u.Project("of-plain", rules("of-plain"), "") }, ""},
		{"hold", func(u *plan.Update) {
			u.Service(is("plain", nil, &deliveryv1.SyncSpec{Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD}))
		}, "plain"},
		{"a pin", func(u *plan.Update) {
			u.Service(is("plain", nil, &deliveryv1.SyncSpec{
				Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD,
				Pin:  strings.Repeat("2", 40),
			}))
		}, "plain"},
	}
	for _, step := range steps {
		change := p.Update(now, step.change)
		answer()
		got := delivered()
		if d := got["plain"]; d != nil {
			var sent deliveryv1.ServiceDelivery
			if err := proto.Unmarshal([]byte(d.Options), &sent); err != nil ||
				sent.GetRules().GetProject() != "of-plain" || sent.GetRules().GetKinds()[0] != "ConfigMap" {
				t.Errorf("%s: bounds are delivered as %v, %v", step.name, &sent, err)
			}
		}
		if step.wants == "" {
			if len(got) > 0 || len(change.Clusters) > 0 {
				t.Errorf("%s: %v", step.name, got)
			}
			continue
		}
		if len(got) != 1 || got[step.wants] == nil {
			t.Errorf("%s: %v", step.name, got)
		}
	}
	if truth, _ := p.Truth("plain"); truth.Delivery.Revision.Commit != strings.Repeat("2", 40) {
		t.Errorf("the pin was not followed: %+v", truth.Delivery)
	}
}

// Two services with one folder ask one question, also when only one of them was delivered before a
// restart.
func TestServicesShareWhatTheyWant(t *testing.T) {
	t.Parallel()
	w := plan.Want{Source: "shop", SourceUID: "2", Commit: "1111111", Path: "apps"}
	last := &plan.Content{Ref: "HEAD", Want: w, Revision: plan.Revision{Commit: "1111111"}, Artifact: content(w)}
	p := plan.New(plan.Memory{Contents: map[plan.Key]*plan.Content{last.Key(): last}})
	change := p.Update(time.Unix(1, 0), func(u *plan.Update) {
		u.Cluster("x", true)
		u.Source("shop", &plan.Source{UID: "2", Heads: map[string]plan.Revision{"HEAD": {Commit: "1111111"}}})
		for i, name := range []string{"a", "b"} {
			u.Service(spec{
				name: name, uid: name, cluster: "x", namespace: "n", source: "shop",
				path: "apps/"[:4+i],
			}.service())
		}
		u.Loaded()
	})
	if len(p.Open()) != 0 || len(change.Gone) != 0 {
		t.Errorf("open %v, gone %v", p.Open(), change.Gone)
	}
	for _, name := range []string{"a", "b"} {
		if truth, _ := p.Truth(name); truth.Delivery == nil {
			t.Errorf("%s is not delivered", name)
		}
	}
}

// An agent that has seen a later catalog than this content is known to be the newest of may have newer.
func TestUnresolvedHeadTurnsNobodyBack(t *testing.T) {
	t.Parallel()
	p := plan.New(plan.Memory{})
	s := spec{name: "hello", uid: "1", cluster: "edge-1", source: "shop", path: "apps"}
	head := func(commit string, revision int64) {
		one(t, p, s, commit)
		p.Update(time.Unix(1, 0), func(u *plan.Update) { u.At(revision, revision) })
	}
	told := func(seen int64) int {
		have := map[string]string{"hello": "what another replica had"}
		d, err := p.Compare("edge-1", delivery.SetDigest(have), have, seen, 0)
		if err != nil {
			t.Fatal(err)
		}
		return len(d.Changed)
	}
	head("1111111", 5)
	p.Answer(time.Unix(1, 0), plan.Answer{Want: p.Open()[0], Artifact: content(p.Open()[0])})
	if told(0) != 1 || told(5) != 1 || told(6) != 0 {
		t.Error("a resolved head does not decide by its revision")
	}
	head("2222222", 7)
	head("3333333", 8)
	if told(5) != 1 || told(6) != 0 || told(8) != 0 {
		t.Error("an agent may be turned back while a head is not resolved")
	}
	change := p.Answer(time.Unix(1, 0), plan.Answer{Want: p.Open()[0], Artifact: content(p.Open()[0])})
	if _, nudged := change.Clusters["edge-1"]; told(8) != 1 || !nudged {
		t.Error("it is not told afterwards")
	}
}

// A service that an agent lacks may be one that it was told to remove by a later catalog: delivered again, it would take
// back the objects that stayed, and lose them with the removal that follows.
func TestAPlanThatIsBehindAddsNothingThatTheAgentLacks(t *testing.T) {
	t.Parallel()
	w := withhold(t)
	for _, test := range []struct {
		have map[string]string
		seen int64
		gets bool
	}{
		{map[string]string{}, w.rev + 1, false},
		{map[string]string{"other": "digest"}, w.rev + 1, false},
		{map[string]string{"hello": ""}, w.rev + 1, true}, // in the cluster, and the agent's disk knows nothing of it
		{map[string]string{}, w.rev, true},
		{map[string]string{}, 0, true}, // the agent lost its disk
	} {
		d, err := w.plan.Compare(w.is.cluster, delivery.SetDigest(test.have), test.have, test.seen, 0)
		if err != nil || (len(d.Changed) == 1) != test.gets || d.None == test.gets || test.seen > w.rev && len(d.Removed) > 0 {
			t.Errorf("with %v, and %d seen at %d: %+v, %v", test.have, test.seen, w.rev, d, err)
		}
	}
}

// withholding is a plan with a service that an agent has, whose newest commit came with change 6 and can't be had.
type withholding struct {
	t    *testing.T
	plan *plan.Plan
	is   spec
	head string // empty: the source has none
	rev  int64
	disk memory
}

func withhold(t *testing.T) *withholding {
	t.Helper()
	w := &withholding{
		t: t, plan: plan.New(plan.Memory{}), head: "1111111", rev: 4, disk: remembered(),
		is: spec{name: "hello", uid: "1", cluster: "edge-1", source: "shop", path: "apps"},
	}
	w.change(func(*spec) {})
	w.resolve()
	return w
}

// change is the next change of the catalog.
func (w *withholding) change(fn func(*spec)) {
	fn(&w.is)
	w.rev++
	w.load()
}

// load brings the catalog in, and says whether the agent is nudged.
func (w *withholding) load() (nudged bool) {
	change := one(w.t, w.plan, w.is, w.head)
	w.disk.take(change)
	w.disk.take(w.plan.Update(time.Unix(1, 0), func(u *plan.Update) { u.At(w.rev, w.rev) }))
	_, nudged = change.Clusters[w.is.cluster]
	return nudged
}

// restart goes on with what the disk has of the plan and of the catalog. An agent asks before the console has confirmed
// that, and is nudged after.
func (w *withholding) restart() {
	w.t.Helper()
	w.plan = plan.New(w.disk.memory())
	w.load()
	early := w.getsAt("of an earlier commit", 1)
	w.disk.take(w.plan.Update(time.Unix(1, 0), (*plan.Update).Current))
	if nudged := w.load(); early || !nudged {
		w.t.Errorf("before the catalog is confirmed the agent gets what there is: %v; after that it is nudged: %v", early, nudged)
	}
}

func (w *withholding) resolve() {
	for _, want := range w.plan.Open() {
		w.disk.take(w.plan.Answer(time.Unix(1, 0), plan.Answer{Want: want, Artifact: content(want)}))
	}
}

func (w *withholding) move(head string, fails plan.Kind) {
	w.head = head
	w.change(func(*spec) {})
	w.fail(fails)
}

func (w *withholding) fail(kind plan.Kind) {
	for _, want := range w.plan.Open() {
		w.disk.take(w.plan.Answer(time.Unix(1, 0), plan.Answer{Want: want, Failure: &plan.Failure{Kind: kind}}))
	}
}

func (w *withholding) digest() string {
	truth, _ := w.plan.Truth(w.is.name)
	return truth.Delivery.Digest
}

// gets says whether an agent that has this digest, and has seen the change before the last, is given what there is.
func (w *withholding) gets(digest string) bool {
	w.t.Helper()
	return w.getsAt(digest, w.rev-1)
}

// getsAt is gets for an agent that has seen another change.
func (w *withholding) getsAt(digest string, seen int64) bool {
	w.t.Helper()
	have := map[string]string{w.is.name: digest}
	d, err := w.plan.Compare(w.is.cluster, delivery.SetDigest(have), have, seen, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return len(d.Changed) == 1
}

func TestAChangeReachesAServiceWhoseNewestCommitCantBeHad(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*withholding){
		"no folder":   func(w *withholding) { w.move("2222222", plan.NoFolder) },
		"refused":     func(w *withholding) { w.move("2222222", plan.Refused) },
		"no gitcache": func(w *withholding) { w.move("2222222", plan.Unavailable) },
		"no branch":   func(w *withholding) { w.move("", plan.NoFolder) },
	} {
		w := withhold(t)
		first := w.digest()
		fail(w)
		w.change(func(s *spec) { s.namespace = "web" })
		second := w.digest()
		if second == first || !w.gets(first) {
			t.Errorf("%s: the change is withheld", name)
		}
		if w.gets("what another replica had") {
			t.Errorf("%s: an agent with other content may be turned back", name)
		}
		w.change(func(s *spec) { s.namespace = "shop" })
		if !w.gets(first) || !w.gets(second) {
			t.Errorf("%s: another change is withheld", name)
		}
	}
}

// A hold that is set and released often makes no more digests than two.
func TestAgentThatMissedChangesGetsTheLast(t *testing.T) {
	t.Parallel()
	w := withhold(t)
	first := w.digest()
	w.move("2222222", plan.NoFolder)
	for i := range 20 {
		w.change(func(s *spec) { s.namespace = []string{"web", "shop"}[i%2] })
	}
	for i := range 5 {
		w.change(func(s *spec) { s.namespace = fmt.Sprint("web-", i) })
	}
	if !w.gets(first) {
		t.Error("the change is withheld")
	}
}

// What an agent had before other content came says nothing of that.
func TestDigestOfEarlierContentIsNoProof(t *testing.T) {
	t.Parallel()
	w := withhold(t)
	first := w.digest()
	w.move("2222222", plan.NoFolder)
	w.change(func(s *spec) { s.namespace = "web" })
	second := w.digest()
	w.head = "3333333"
	w.change(func(*spec) {})
	w.resolve()
	w.move("4444444", plan.NoFolder)
	third := w.digest()
	w.change(func(s *spec) { s.namespace = "shop" })
	if w.gets(first) || w.gets(second) || !w.gets(third) {
		t.Errorf("of the first content %v and %v, of the last %v", w.gets(first), w.gets(second), w.gets(third))
	}
}

// Nor does what an agent had before the service moved to a folder with content of its own.
func TestDigestOfAnotherFolderIsNoProof(t *testing.T) {
	t.Parallel()
	w := withhold(t)
	one(t, w.plan, spec{name: "beside", uid: "2", cluster: "edge-2", source: "other", path: "elsewhere"}, w.head)
	w.resolve()
	first := w.digest()
	w.move("2222222", plan.NoFolder)
	w.change(func(s *spec) { s.namespace = "web" })
	w.head = "1111111"
	w.change(func(s *spec) { s.source, s.path = "other", "elsewhere" })
	moved := w.digest()
	w.move("3333333", plan.NoFolder)
	w.change(func(s *spec) { s.namespace = "shop" })
	if w.gets(first) || !w.gets(moved) {
		t.Errorf("with content of the folder before %v, of this one %v", w.gets(first), w.gets(moved))
	}
}

func TestAChangeAfterARestartReachesAServiceWhoseNewestCommitCantBeHad(t *testing.T) {
	t.Parallel()
	w := withhold(t)
	truth, _ := w.plan.Truth("hello")
	is := truth.Delivery
	last := &plan.Content{Ref: "HEAD", Want: is.Want, Revision: is.Revision, Artifact: is.Artifact}
	w.plan = plan.New(plan.Memory{Contents: map[plan.Key]*plan.Content{last.Key(): last}})
	w.move("2222222", plan.NoFolder)
	w.plan.Update(time.Unix(1, 0), func(u *plan.Update) { u.Current() })
	if w.digest() != is.Digest {
		t.Fatalf("the restart changed the digest to %s", w.digest())
	}
	w.change(func(s *spec) { s.namespace = "web" })
	if !w.gets(is.Digest) || w.gets("what another replica had") {
		t.Errorf("with the content of before %v, with other content %v", w.gets(is.Digest), w.gets("what another replica had"))
	}
}

// What a service had before a change is known after a restart, too, and up to when its content was the newest.
func TestAChangeBeforeARestartReachesAServiceWhoseNewestCommitCantBeHad(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]plan.Kind{"no folder": plan.NoFolder, "refused": plan.Refused, "no gitcache": plan.Unavailable} {
		w := withhold(t)
		first, good := w.digest(), w.rev
		w.move("2222222", kind)
		w.change(func(s *spec) { s.namespace = "web" })
		for range 2 {
			w.restart()
			w.fail(kind)
			if !w.gets(first) || !w.getsAt(first, good) {
				t.Errorf("%s: the change is withheld", name)
			}
			if !w.getsAt("of an earlier commit", good) {
				t.Errorf("%s: an agent that has seen no later commit can't have newer content, and gets nothing", name)
			}
			if w.getsAt("what another replica had", good+1) || w.getsAt("what another replica had", 0) {
				t.Errorf("%s: an agent with other content may be turned back", name)
			}
		}
	}
}

// A catalog that was put back counts anew: what the disk knows of the time before is no proof about changes with the same
// numbers.
func TestWhatWasTheNewestBeforeTheCatalogWasPutBackIsForgottenOnTheDiskToo(t *testing.T) {
	t.Parallel()
	w := withhold(t)
	w.rev = 20
	w.load()
	w.move("2222222", plan.NoFolder)
	w.rev = 10
	w.load()
	good := w.rev
	w.change(func(s *spec) { s.namespace = "web" })
	for _, when := range []string{"before", "after"} {
		if !w.getsAt("of an earlier commit", good) || w.getsAt("what another replica had", good+1) {
			t.Errorf("%s a restart: with an earlier commit %v, with other content %v", when,
				w.getsAt("of an earlier commit", good), w.getsAt("what another replica had", good+1))
		}
		w.restart()
		w.fail(plan.NoFolder)
	}
}

// The head that can't be had may have come while the distributor was down: its disk knows up to when there was none.
func TestAHeadThatCameDuringARestartIsNoDoubtAboutTheTimeBefore(t *testing.T) {
	t.Parallel()
	w := withhold(t)
	good := w.rev
	w.restart()
	w.move("2222222", plan.NoFolder)
	w.change(func(s *spec) { s.namespace = "web" })
	if !w.getsAt("of an earlier commit", good) || w.getsAt("what another replica had", good+1) {
		t.Errorf("with an earlier commit %v, with other content %v", w.getsAt("of an earlier commit", good), w.getsAt("what another replica had", good+1))
	}
}

// A later release may have put more content behind what this one noted.
func TestEarlierDigestsOfOtherContentAreNotRemembered(t *testing.T) {
	t.Parallel()
	w := withhold(t)
	first := w.digest()
	w.move("2222222", plan.NoFolder)
	w.change(func(s *spec) { s.namespace = "web" })
	for name, e := range w.disk.Earlier {
		e.Artifact = "sha256:of other content"
		w.disk.Earlier[name] = e
	}
	w.restart()
	if w.gets(first) || len(w.disk.Earlier) > 0 {
		t.Errorf("taken for the same content: %v", w.disk.Earlier)
	}
}

// A service that moves brings the doubt about its content along to a folder that knows of less, for the disk, too.
func TestTheDoubtOfAServiceThatMovedOutlivesARestart(t *testing.T) {
	t.Parallel()
	w := withhold(t)
	good := w.rev
	w.move("2222222", plan.NoFolder)
	beside := spec{name: "beside", uid: "2", cluster: "edge-2", source: "other", path: "elsewhere"}
	w.disk.take(one(t, w.plan, beside, "1111111"))
	w.resolve()
	w.change(func(*spec) {})
	w.disk.take(one(t, w.plan, beside, "3333333"))
	w.fail(plan.NoFolder)
	w.head = "3333333"
	w.change(func(s *spec) { s.source, s.path = beside.source, beside.path })
	w.restart()
	if !w.getsAt("of an earlier commit", good) || w.getsAt("what another replica had", good+1) {
		t.Errorf("with an earlier commit %v, with other content %v", w.getsAt("of an earlier commit", good), w.getsAt("what another replica had", good+1))
	}
}

// Numbers of changes begin again below after a catalog was put back: what was known up to a later one says nothing.
func TestACatalogThatWasPutBackIsNotBelievedBeyondItsEnd(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(*withholding){"running": func(*withholding) {}, "restarted": (*withholding).restart} {
		w := withhold(t)
		w.rev = 100
		w.change(func(*spec) {})
		w.move("2222222", plan.NoFolder)
		w.rev = 50
		w.change(func(s *spec) { s.namespace = "web" })
		again(w)
		w.rev = 60
		w.change(func(s *spec) { s.namespace = "shop" })
		if !w.getsAt("of an earlier commit", 50) || w.getsAt("what another replica had", 52) {
			t.Errorf("%s: with an earlier commit %v, with other content %v", name, w.getsAt("of an earlier commit", 50), w.getsAt("what another replica had", 52))
		}
	}
}

func TestAChangeReachesAServiceThatMovedToAFolderThatCantBeHad(t *testing.T) {
	t.Parallel()
	w := withhold(t)
	beside := spec{name: "beside", uid: "2", cluster: "edge-1", source: "shop", path: "elsewhere"}
	one(t, w.plan, beside, w.head)
	w.resolve()
	first := w.digest()
	w.move("2222222", plan.NoFolder)
	w.change(func(s *spec) { s.namespace = "web" })
	second := w.digest()
	w.change(func(s *spec) { s.path, s.namespace = beside.path, "shop" })
	gets := func(digest string) bool {
		truth, _ := w.plan.Truth("beside")
		have := map[string]string{"hello": digest, "beside": truth.Delivery.Digest}
		d, err := w.plan.Compare("edge-1", delivery.SetDigest(have), have, w.rev-1, 0)
		return err == nil && len(d.Changed) == 1 && d.Changed[0].Want.Path == "apps"
	}
	if !gets(first) || !gets(second) || gets("what another replica had") {
		t.Errorf("with the first digest %v, the second %v, other content %v", gets(first), gets(second), gets("what another replica had"))
	}
}

// An agent may have newer content of the folder that a service leaves, so the content that goes along turns it back.
func TestAServiceThatLeavesAFolderThatCantBeHadTakesTheDoubtAlong(t *testing.T) {
	t.Parallel()
	w := withhold(t)
	first := w.digest()
	w.move("2222222", plan.NoFolder)
	w.change(func(s *spec) { s.namespace = "web" })
	w.change(func(s *spec) { s.path = "another" })
	if !w.gets(first) || w.gets("what another replica had") {
		t.Errorf("with the first digest %v, other content %v", w.gets(first), w.gets("what another replica had"))
	}
}

// A service that is removed may be one that comes under another name in the same change: its objects go over only when
// the agent hears of both.
func TestARemovalWaitsForAServiceThatIsAskedForTheFirstTime(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]plan.Answer{
		"content": {}, "no gitcache": {Failure: &plan.Failure{Kind: plan.Unavailable}},
		"no folder": {Failure: &plan.Failure{Kind: plan.NoFolder}},
	} {
		w := withhold(t)
		have := map[string]string{"hello": w.digest()}
		compare := func() plan.Difference {
			d, err := w.plan.Compare(w.is.cluster, delivery.SetDigest(have), have, w.rev, 0)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		w.plan.Update(time.Unix(1, 0), func(u *plan.Update) {
			u.Remove("hello")
			u.Service(spec{name: "hallo", uid: "2", cluster: "edge-1", source: "shop", path: "hallo"}.service())
		})
		if d := compare(); !d.None || !d.Pending || len(d.Removed)+len(d.Changed) > 0 {
			t.Errorf("%s: before the answer: %+v", name, d)
		}
		if answer.Want = w.plan.Open()[0]; answer.Failure == nil {
			answer.Artifact = content(answer.Want)
		}
		w.plan.Answer(time.Unix(1, 0), answer)
		if d := compare(); d.None || len(d.Removed) != 1 || (len(d.Changed) == 1) != (answer.Failure == nil) {
			t.Errorf("%s: after the answer: %+v", name, d)
		}
	}
}

// While content is asked for, another replica may have nudged for it already; once nobody could say, it may take long,
// except for who was nudged since.
func TestContentThatIsAskedForIsPendingUntilTheFirstAnswer(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]plan.Answer{
		"content": {}, "no gitcache": {Failure: &plan.Failure{Kind: plan.Unavailable}},
		"no folder": {Failure: &plan.Failure{Kind: plan.NoFolder}},
	} {
		p := plan.New(plan.Memory{})
		const before, after = 7, 8 // the head
		p.Update(time.Unix(1, 0), func(u *plan.Update) { u.At(before, before) })
		pending := func(cluster string, nudged int64) bool {
			d, err := p.Compare(cluster, "", nil, 0, nudged)
			if err != nil {
				t.Fatal(err)
			}
			return d.Pending && d.Lacking(nil).Pending
		}
		one(t, p, spec{name: "hello", uid: "1", cluster: "edge-1", source: "shop", path: "apps"}, "1111111")
		p.Update(time.Unix(1, 0), func(u *plan.Update) {
			u.Cluster("edge-2", true)
			u.At(after, after)
		})
		if !pending("edge-1", 0) || pending("edge-2", after) {
			t.Errorf("%s: pending %v, the other cluster %v", name, pending("edge-1", 0), pending("edge-2", after))
		}
		if answer.Want = p.Open()[0]; answer.Failure == nil {
			answer.Artifact = content(answer.Want)
		}
		p.Answer(time.Unix(1, 0), answer)
		if pending("edge-1", before) {
			t.Errorf("%s: still pending", name)
		}
		if nudged, may := pending("edge-1", after), len(p.Open()) > 0; nudged != may {
			t.Errorf("%s: pending %v for who was nudged since, want %v", name, nudged, may)
		}
	}
}

// A nudge of another replica may be for a change that is not in yet here, however equal the digests are.
func TestChangeThatAnAgentWasNudgedForIsPendingUntilItIsIn(t *testing.T) {
	t.Parallel()
	p := plan.New(plan.Memory{})
	p.Update(time.Unix(1, 0), func(u *plan.Update) {
		u.Cluster("edge-1", true)
		u.Loaded()
		u.At(7, 8)
	})
	for _, test := range []struct {
		nudged  int64
		pending bool
	}{{0, false}, {7, false}, {8, true}, {9, true}} {
		d, err := p.Compare("edge-1", "", nil, 0, test.nudged)
		if err != nil || !d.None || d.Pending != test.pending || d.Revision != 8 {
			t.Errorf("nudged for %d: %+v, %v", test.nudged, d, err)
		}
	}
}

// A catalog that was put back to an earlier state nudges for nothing that it does not have any more.
func TestChangeOfAClusterIsNoNewerThanTheCatalog(t *testing.T) {
	t.Parallel()
	p := plan.New(plan.Memory{})
	one(t, p, spec{name: "hello", uid: "1", cluster: "edge-1", source: "shop", path: "apps"}, "1111111")
	for _, at := range []struct{ catalog, want int64 }{{9, 9}, {12, 9}, {5, 5}} {
		p.Update(time.Unix(1, 0), func(u *plan.Update) { u.At(at.catalog, at.catalog) })
		if at.catalog == 9 {
			p.Answer(time.Unix(2, 0), plan.Answer{Want: p.Open()[0], Artifact: content(p.Open()[0])})
		}
		if _, revision, err := p.Changed("edge-1"); err != nil || revision != at.want {
			t.Errorf("catalog at %d: changed at %d, %v", at.catalog, revision, err)
		}
	}
}

func TestArtifactBeforeTheLastMayStillBeDownloaded(t *testing.T) {
	t.Parallel()
	p := plan.New(plan.Memory{})
	s := spec{name: "hello", uid: "1", cluster: "edge-1", source: "shop", path: "apps"}
	var digests []artifact.Digest
	for _, c := range []string{"1111111", "2222222", "3333333"} {
		one(t, p, s, c)
		a := content(p.Open()[0])
		p.Answer(time.Unix(1, 0), plan.Answer{Want: p.Open()[0], Artifact: a})
		digests = append(digests, a.Digest)
	}
	for i, want := range []bool{false, true, true} {
		if got := p.Uses("edge-1", digests[i]); got != want {
			t.Errorf("artifact %d: %v", i, got)
		}
	}
	if p.Uses("edge-1", "") || p.Uses("edge-2", digests[2]) {
		t.Error("a stranger may download")
	}
}

// The content's digest is the one that the service had before anybody spoke of tests, also where a project bounds it.
func TestTestsChangeTheDigestAndNotTheContents(t *testing.T) {
	t.Parallel()
	p, now := plan.New(plan.Memory{}), time.Unix(1, 0)
	is := func(tests *deliveryv1.TestSpec, asked *deliveryv1.TestRequest) *catalog.Service {
		return catalog.NewService(&consolev1.Service{Metadata: &consolev1.Metadata{Name: "shop", Uid: "1"}, Spec: &consolev1.ServiceSpec{
			Cluster: "x", Source: "shop", Path: "apps", Project: "of-shop", Tests: tests, TestRequest: asked,
			Render: &deliveryv1.RenderSpec{Renderer: deliveryv1.Renderer_RENDERER_TEMPLATE},
		}})
	}
	p.Update(now, func(u *plan.Update) {
		u.Cluster("x", true)
		u.Labels("x", map[string]string{"zone": "a"})
		u.Project("of-shop", rules("of-shop"), "")
		u.Source("shop", &plan.Source{UID: "2", Heads: map[string]plan.Revision{"HEAD": {Commit: strings.Repeat("1", 40)}}})
		u.Service(is(nil, nil))
		u.Loaded()
	})
	for _, want := range p.Open() {
		p.Answer(now, plan.Answer{Want: want, Artifact: content(want)})
	}
	plain, _ := p.Truth("shop")
	if plain.Delivery.Content != "" {
		t.Errorf("a service without tests has a digest of its content: %+v", plain.Delivery)
	}
	last := plain.Delivery.Digest
	for _, tested := range []*catalog.Service{
		is(&deliveryv1.TestSpec{Path: "tests"}, nil),
		is(&deliveryv1.TestSpec{Path: "tests"}, &deliveryv1.TestRequest{Id: "a"}),
	} {
		change := p.Update(now, func(u *plan.Update) { u.Service(tested) })
		truth, _ := p.Truth("shop")
		if d := truth.Delivery; d.Digest == last || d.Content != plain.Delivery.Digest || len(change.Clusters) != 1 {
			t.Errorf("digest %s, of its content %s, of before %s; %v", d.Digest, d.Content, plain.Delivery.Digest,
				change.Clusters)
		}
		last = truth.Delivery.Digest
	}
	p.Update(now, func(u *plan.Update) { u.Service(is(nil, nil)) })
	if truth, _ := p.Truth("shop"); truth.Delivery.Digest != plain.Delivery.Digest || truth.Delivery.Content != "" {
		t.Errorf("without tests again: %+v", truth.Delivery)
	}
}
