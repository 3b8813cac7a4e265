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

	"pgregory.net/rapid"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/delivery"
	"fairlead.dev/services/distributor/internal/plan"
)

// content is the artifact that a folder has at a commit, in a world where commits alternate between two
// contents per folder.
func content(w plan.Want) plan.Artifact {
	sum := sha256.Sum256(fmt.Append(nil, w.Path, w.Commit[:1], w.Include, "|", w.Ignore, w.Submodules))
	return plan.Artifact{Digest: artifact.SumDigest(sum[:])}
}

// model drives a plan as a distributor does, beside agents that do as they are told.
type model struct {
	t        *rapid.T
	plan     *plan.Plan
	specs    map[string]plan.Spec
	heads    map[string]string // by source
	clusters map[string]bool
	agents   map[string]map[string]string // cluster -> service -> digest
	disk     map[string]*plan.Delivery
	now      time.Time
}

func (m *model) took(c plan.Change) {
	for _, name := range c.Gone {
		delete(m.disk, name)
	}
	for _, d := range c.Delivered {
		copied := *d
		copied.Digest = "" // is not written
		m.disk[d.Service] = &copied
	}
}

// update changes the plan and finds every agent that it leaves behind nudged.
func (m *model) update(fn func(*plan.Update)) {
	synced := map[string]bool{}
	for cluster, have := range m.agents {
		d, err := m.plan.Compare(cluster, delivery.SetDigest(have), have)
		synced[cluster] = err == nil && d.None
	}
	change := m.plan.Update(m.now, fn)
	m.took(change)
	m.mustNudge(synced, change)
}

func (m *model) mustNudge(synced map[string]bool, change plan.Change) {
	for cluster, was := range synced {
		have := m.agents[cluster]
		d, err := m.plan.Compare(cluster, delivery.SetDigest(have), have)
		if _, nudged := change.Clusters[cluster]; was && err == nil && !d.None && !nudged {
			m.t.Fatalf("%s has something to do and was not nudged: %+v", cluster, d)
		}
	}
}

func (m *model) put(u *plan.Update, name string) {
	s := m.specs[name]
	s.SourceUID = "uid-" + s.Source
	if m.heads[s.Source] == "" {
		u.Service(s, plan.Revision{})
		return
	}
	u.Service(s, plan.Revision{Commit: m.heads[s.Source]})
}

func (m *model) load(u *plan.Update) {
	u.Current()
	known := map[string]struct{}{}
	for c, exists := range m.clusters {
		if exists {
			known[c] = struct{}{}
			u.Cluster(c, true)
		}
	}
	names := map[string]struct{}{}
	for name := range m.specs {
		names[name] = struct{}{}
		m.put(u, name)
	}
	u.Only(names, known)
	u.Loaded()
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
	d, err := m.plan.Compare(cluster, delivery.SetDigest(have), have)
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
		if s, ok := m.specs[name]; ok && s.Cluster == cluster {
			m.t.Fatalf("%s is removed from %s, and the catalog has it there", name, cluster)
		}
		delete(have, name)
	}
	for _, is := range d.Changed {
		if s := m.specs[is.Service]; s.Cluster != cluster || s.UID != is.UID {
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

func (m *model) check() {
	inUse := map[artifact.Digest]bool{}
	for name := range m.specs {
		truth, ok := m.plan.Truth(name)
		if !ok {
			m.t.Fatalf("no truth of %s", name)
		}
		if truth.Delivery != nil {
			inUse[truth.Delivery.Artifact.Digest] = true
			if d := m.disk[name]; d == nil || d.Want != truth.Delivery.Want {
				m.t.Fatalf("the disk has %v of %s, delivered is %v", d, name, truth.Delivery)
			}
		}
	}
	if got := m.plan.InUse(); len(got) != len(inUse) {
		m.t.Fatalf("in use: %v, want %v", got, inUse)
	}
	if len(m.disk) > len(m.specs) {
		m.t.Fatalf("the disk keeps %v", m.disk)
	}
}

// converge answers everything well and lets all agents sync: they end with exactly what the catalog says.
func (m *model) converge() {
	m.answer(true)
	for cluster := range m.clusters {
		m.sync(cluster)
		if !m.clusters[cluster] {
			continue
		}
		want := map[string]string{}
		for name, s := range m.specs {
			if s.Cluster != cluster || m.heads[s.Source] == "" {
				continue
			}
			truth, _ := m.plan.Truth(name)
			if truth.Problem.Text != "" {
				if strings.Contains(truth.Problem.Text, "tried again") {
					m.t.Fatalf("%s is resolved, and the problem stays: %s", name, truth.Problem.Text)
				}
				continue // refused for good by an earlier answer
			}
			want[name] = delivery.ServiceDigest(delivery.Service{
				Name: name, Namespace: s.Namespace, Path: s.Path,
				Artifact: string(content(plan.Want{Path: s.Path, Commit: m.heads[s.Source], Include: s.Include, Ignore: s.Ignore, Submodules: s.Submodules}).Digest),
			})
		}
		got := maps.Clone(m.agents[cluster])
		maps.DeleteFunc(got, func(name, _ string) bool { _, ok := want[name]; return !ok })
		if !maps.Equal(got, want) {
			m.t.Fatalf("%s has %v, want %v", cluster, got, want)
		}
	}
}

// The plan against a model: nobody gets another cluster's service, nothing is removed that the catalog
// has, whoever falls behind is nudged, a restart forgets nothing, and in the end everybody has what the
// catalog says.
func TestPlanAgainstModel(t *testing.T) {
	t.Parallel()
	service := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	cluster := rapid.SampledFrom([]string{"x", "y"})
	src := rapid.SampledFrom([]string{"s", "t"})
	commit := rapid.SampledFrom([]string{"1111111", "1222222", "3333333"})
	rapid.Check(t, func(t *rapid.T) {
		m := &model{
			t: t, plan: plan.New(nil), specs: map[string]plan.Spec{}, heads: map[string]string{},
			clusters: map[string]bool{"x": true, "y": true}, now: time.Unix(1, 0),
			agents: map[string]map[string]string{"x": {}, "y": {}}, disk: map[string]*plan.Delivery{},
		}
		m.update(m.load)
		uids := 0
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				name := service.Draw(t, "service")
				s := m.specs[name]
				if s.UID == "" || rapid.IntRange(0, 9).Draw(t, "again") == 0 {
					uids++
					s.UID = fmt.Sprint(uids)
				}
				s.Name, s.Cluster, s.Source = name, cluster.Draw(t, "cluster"), src.Draw(t, "source")
				s.Namespace, s.Path = rapid.SampledFrom([]string{"n", "m"}).Draw(t, "namespace"), rapid.SampledFrom([]string{"p", "q"}).Draw(t, "path")
				s.Include, s.Ignore = rapid.SampledFrom([]plan.Rules{"", "a"}).Draw(t, "include"), rapid.SampledFrom([]plan.Rules{"", "a"}).Draw(t, "ignore")
				s.Submodules = rapid.Bool().Draw(t, "submodules")
				m.specs[name] = s
				m.update(func(u *plan.Update) { m.put(u, name) })
			},
			"remove": func(t *rapid.T) {
				name := service.Draw(t, "service")
				delete(m.specs, name)
				m.update(func(u *plan.Update) { u.Remove(name) })
			},
			"head": func(t *rapid.T) {
				source := src.Draw(t, "source")
				m.heads[source] = commit.Draw(t, "commit")
				m.update(func(u *plan.Update) {
					for _, name := range slices.Sorted(maps.Keys(m.specs)) {
						if m.specs[name].Source == source {
							m.put(u, name)
						}
					}
				})
			},
			"cluster": func(t *rapid.T) {
				c := cluster.Draw(t, "cluster")
				m.clusters[c] = !m.clusters[c]
				m.update(func(u *plan.Update) { u.Cluster(c, m.clusters[c]) })
			},
			"resolve": func(*rapid.T) { m.answer(true) },
			"fail":    func(*rapid.T) { m.answer(false) },
			"sync":    func(t *rapid.T) { m.sync(cluster.Draw(t, "cluster")) },
			"reload":  func(*rapid.T) { m.update(m.load) },
			"restart": func(t *rapid.T) {
				before := map[string]string{}
				for c, have := range m.agents {
					if d, err := m.plan.Compare(c, delivery.SetDigest(have), have); err == nil && d.None {
						before[c] = delivery.SetDigest(have)
					}
				}
				m.plan = plan.New(slices.Collect(maps.Values(m.disk)))
				if _, err := m.plan.Compare("x", "", nil); !errors.Is(err, plan.ErrNotReady) {
					t.Fatalf("answers before the catalog is there: %v", err)
				}
				m.took(m.plan.Update(m.now, m.load))
				for c, digest := range before {
					if d, err := m.plan.Compare(c, digest, nil); err != nil || !d.None {
						t.Fatalf("%s had all before a restart, now %+v, %v", c, d, err)
					}
				}
			},
			"": func(*rapid.T) { m.check() },
		})
		m.converge()
	})
}

func one(t *testing.T, p *plan.Plan, spec plan.Spec, commit string) {
	t.Helper()
	p.Update(time.Unix(1, 0), func(u *plan.Update) {
		u.Cluster(spec.Cluster, true)
		u.Service(spec, plan.Revision{Commit: commit})
		u.Loaded()
	})
}

func TestFailureThatMayPassIsToldLater(t *testing.T) {
	t.Parallel()
	p := plan.New(nil)
	one(t, p, plan.Spec{Name: "hello", UID: "1", Cluster: "edge-1", Source: "shop", SourceUID: "2", Path: "apps"}, "1a2b3c4d5e")
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
	// It begins once, however often it is tried.
	p.Answer(now.Add(time.Minute), fail)
	if again, _ := p.Truth("hello"); again.Problem.From != truth.Problem.From || len(p.Open()) != 1 {
		t.Errorf("from %v", again.Problem.From)
	}
}

func TestFinalFailureIsNotAskedAgainAndEndsWithTheNextCommit(t *testing.T) {
	t.Parallel()
	p := plan.New(nil)
	spec := plan.Spec{Name: "hello", UID: "1", Cluster: "edge-1", Source: "shop", SourceUID: "2"}
	one(t, p, spec, "1111111")
	p.Answer(time.Unix(1, 0), plan.Answer{Want: p.Open()[0], Failure: &plan.Failure{Kind: plan.NoFolder}})
	if len(p.Open()) != 0 {
		t.Error("asked again")
	}
	if truth, _ := p.Truth("hello"); truth.Problem.Text != `service "hello": the whole repository is not in commit 1111111 of source "shop". Check spec.path.` {
		t.Error(truth.Problem.Text)
	}
	one(t, p, spec, "2222222")
	if truth, _ := p.Truth("hello"); truth.Problem.Text != "" || len(p.Open()) != 1 {
		t.Errorf("%+v", truth)
	}
}

// Two services with one folder ask one question, also when only one of them was delivered before a
// restart.
func TestServicesShareWhatTheyWant(t *testing.T) {
	t.Parallel()
	w := plan.Want{Source: "shop", SourceUID: "2", Commit: "1111111", Path: "apps"}
	last := &plan.Delivery{Service: "b", UID: "b", Want: w, Namespace: "n", Revision: plan.Revision{Commit: "1111111"}, Artifact: content(w)}
	p := plan.New([]*plan.Delivery{last})
	change := p.Update(time.Unix(1, 0), func(u *plan.Update) {
		u.Cluster("x", true)
		for _, name := range []string{"a", "b"} {
			u.Service(plan.Spec{Name: name, UID: name, Cluster: "x", Namespace: "n", Source: "shop", SourceUID: "2", Path: "apps"}, plan.Revision{Commit: "1111111"})
		}
		u.Loaded()
	})
	if len(p.Open()) != 0 || len(change.Delivered) != 1 || change.Delivered[0].Service != "a" {
		t.Errorf("open %v, delivered %v", p.Open(), change.Delivered)
	}
}

func TestArtifactBeforeTheLastMayStillBeDownloaded(t *testing.T) {
	t.Parallel()
	p := plan.New(nil)
	spec := plan.Spec{Name: "hello", UID: "1", Cluster: "edge-1", Source: "shop", SourceUID: "2", Path: "apps"}
	var digests []artifact.Digest
	for _, c := range []string{"1111111", "2222222", "3333333"} {
		one(t, p, spec, c)
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

func TestRulesComeApartAsTheyWerePutTogether(t *testing.T) {
	t.Parallel()
	for _, lines := range [][]string{nil, {"a"}, {"/deploy/**", "!*.md", " x "}} {
		if got := plan.NewRules(lines).Lines(); !slices.Equal(got, lines) {
			t.Errorf("%q became %q", lines, got)
		}
	}
}
