package owner

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"fairlead.dev/platform/catalog"
	"fairlead.dev/services/gitcache/internal/fetch"
	"fairlead.dev/services/gitcache/internal/fetch/chartrepo"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/helm"
	"fairlead.dev/services/gitcache/internal/metrics"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/mirror/mirrortest"
	"fairlead.dev/services/gitcache/internal/signed"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// provenances are hosts of provenance files: those of some charts hang, all others do not exist.
type provenances struct {
	fetch.SignatureFetcher
	hang  []string
	asked []string
}

func (f *provenances) Provenance(_ context.Context, _ upstream.Remote, v helm.Version) ([]byte, error) {
	f.asked = append(f.asked, v.Chart)
	if slices.Contains(f.hang, v.Chart) {
		return nil, &upstream.Error{Kind: upstream.KindTimeout, Message: v.Chart + " hangs"}
	}
	return nil, &upstream.Error{Kind: upstream.KindNotFound, Message: "404"}
}

// take gives what was asked for, and forgets it.
func (f *provenances) take() string {
	defer func() { f.asked = nil }()
	return strings.Join(f.asked, " ")
}

// provenTenure is a tenure of a source of charts that need a provenance file.
func provenTenure(t *testing.T, f *provenances) (*tenure, upstream.Remote, source.Source) {
	t.Helper()
	counted, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	s := source.Source{
		Name: "shop", Charts: true, Wants: map[string]int{},
		Verify: signed.Policy{Provider: signed.Provenance, Keys: []string{gittest.NewOpenPGP(t, "ed25519").Public}},
	}
	tn := newTenure(s)
	tn.loop.o.deps.Signatures, tn.loop.o.deps.Metrics = f, counted
	return tn, upstream.Remote{URL: &url.URL{Scheme: "https", Host: "charts.example.com"}}, s
}

// listed is a plan for refs of charts, each written chart@version; packages are of the source's host but for those of
// the chart named away.
func listed(refs ...string) *plan {
	p := &plan{found: map[string]*found{}, seen: map[string]bool{}}
	for _, text := range refs {
		name, version, _ := strings.Cut(text, "@")
		at := name + "-1.0.0.tgz"
		if name == "away" {
			at = "https://away.example.com/" + at
		}
		v := helm.Version{Chart: name, Version: "1.0.0", URL: at, Digest: strings.Repeat("a", 64)}
		p.found[catalog.ChartRef(name, version)] = &found{
			object: chartrepo.ChartID(v), listed: v,
			resolved: catalog.ChartRef(name, "1.0.0"),
		}
	}
	return p
}

// Of charts whose signatures hang each is asked once in a poll, and those that no poll has asked yet come first in the
// next one.
func TestSignaturesThatHangKeepNoOthersFromBeingAsked(t *testing.T) {
	t.Parallel()
	f := &provenances{hang: []string{"a", "b", "c", "d", "e"}}
	tn, r, s := provenTenure(t, f)
	var told []string
	for _, want := range []string{"a away b c", "away d e f a", "away f b c d", "away f e a b"} {
		p := listed("a@1.0.0", "a@^1", "a@*", "b@*", "c@*", "d@*", "e@*", "f@*", "away@*")
		if err := tn.verifyContent(t.Context(), r, s, p); err != nil {
			t.Fatal(err)
		}
		if got := f.take(); got != want {
			t.Errorf("asked were %s, want %s", got, want)
		}
		var texts []string
		for _, one := range p.troubles {
			texts = append(texts, one.Text)
		}
		told = append(told, strings.Join(texts, "; "))
		if len(p.found) != 0 || len(p.troubles) != 9 {
			t.Errorf("%d are found, told %q", len(p.found), texts)
		}
	}
	if told[2] != told[3] || strings.Contains(told[3], "was not asked") {
		t.Errorf("the same is told in other words:\n%s\n%s", told[2], told[3])
	}
}

// A host of packages that hangs keeps no signatures of another host from being asked for.
func TestSignaturesAreOfTheirHost(t *testing.T) {
	t.Parallel()
	f := &provenances{hang: []string{"a", "b", "c", "away"}}
	tn, r, s := provenTenure(t, f)
	p := listed("a@*", "b@*", "c@*", "d@*", "away@*", "web@*")
	for _, is := range p.found {
		switch v := &is.listed; v.Chart {
		case "a", "b", "c":
			v.URL = "https://slow.example.com/" + v.URL
		case "d":
			v.URL = "https://away.example.com/" + v.URL
		}
	}
	if err := tn.verifyContent(t.Context(), r, s, p); err != nil {
		t.Fatal(err)
	}
	if got := f.take(); got != "a away b c d web" {
		t.Errorf("asked were %s", got)
	}
}

// A damaged mirror is replaced, unless what is published can't be verified just now.
func TestADamagedMirrorWaitsForSignaturesOfWhatIsPublished(t *testing.T) {
	t.Parallel()
	for name, isPublished := range map[string]bool{"new": false, "published": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tn, r, s := provenTenure(t, &provenances{hang: []string{"a"}})
			m, commit := mirrortest.New(t, gittest.Files{"a": "1"})
			m.Doubt(errors.New("damaged"))
			tn.mirror, tn.heads = m, map[string]mirror.Head{}
			p := listed("a@*")
			p.fresh = true
			if ref := catalog.ChartRef("a", "*"); isPublished {
				tn.heads[ref] = mirror.Head{Ref: ref, Object: commit, Commit: commit}
			}
			_, err := tn.bringCharts(t.Context(), r, s, p)
			if !isUnanswered(err) {
				t.Errorf("got %v", err)
			}
			if m.Doubted() != isPublished {
				t.Errorf("the mirror is doubted: %t", m.Doubted())
			}
		})
	}
}

// goneCharts is a repository whose packages can't be had.
type goneCharts struct{ chartrepo.Fetcher }

func (goneCharts) FetchChart(context.Context, upstream.Remote, helm.Version, upstream.Target) (git.Hash, int64, error) {
	return git.Hash{}, 0, &upstream.Error{Kind: upstream.KindUnreachable, Message: "away"}
}

// What is published or pinned to stays when a damaged mirror is replaced, though it can't be had upstream.
func TestADamagedMirrorIsReplacedWithAllThatItStillHas(t *testing.T) {
	t.Parallel()
	tn, r, s := provenTenure(t, &provenances{})
	s.Verify = signed.Policy{}
	for name, pinned := range map[string]bool{"published": false, "pinned": true} {
		t.Run(name, func(t *testing.T) {
			m, commit := mirrortest.New(t, gittest.Files{"a": "1", "templates/b": "2"})
			m.Doubt(errors.New("damaged"))
			tn.mirror, tn.heads = m, map[string]mirror.Head{}
			tn.loop.o.deps.Charts, tn.loop.o.deps.Log = goneCharts{}, slog.New(slog.DiscardHandler)
			p := listed("a@*")
			p.fresh = true
			for ref, f := range p.found {
				p.wants = append(p.wants, f.object)
				if !pinned {
					tn.heads[ref] = mirror.Head{Ref: ref, Object: f.object, Commit: commit}
				}
			}
			if pinned {
				s.Wants = map[string]int{commit.String(): 1}
			}
			if _, err := tn.bringCharts(t.Context(), r, s, p); err != nil && !isUnanswered(err) {
				t.Fatal(err)
			}
			if m.Doubted() || !m.Has(commit) {
				t.Errorf("the mirror is doubted: %t; it has the commit: %t", m.Doubted(), m.Has(commit))
			}
			if err := m.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
