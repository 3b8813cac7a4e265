package owner

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"

	"fairlead.dev/services/gitcache/internal/fetch/chartrepo"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/helm"
	"fairlead.dev/services/gitcache/internal/metrics"
	"fairlead.dev/services/gitcache/internal/mirror/mirrortest"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// packages are hosts of packages: a dead one, and one that has none of them.
type packages struct {
	chartrepo.Fetcher
	asked []string
}

func (f *packages) FetchChart(_ context.Context, _ upstream.Remote, v helm.Version,
	_ upstream.Target,
) (git.Hash, int64, error) {
	f.asked = append(f.asked, v.Chart)
	if strings.HasPrefix(v.URL, "https://dead.example.com/") {
		return git.Hash{}, 0, &upstream.Error{Kind: upstream.KindUnreachable, Message: v.Chart + " is not reachable"}
	}
	return git.Hash{}, 0, &upstream.Error{Kind: upstream.KindNotFound, Message: "404"}
}

// A damaged mirror needs all packages once more. A dead host of packages takes the time of three requests, and not of
// one for each package.
func TestADeadHostOfPackagesDoesNotHoldADamagedMirror(t *testing.T) {
	t.Parallel()
	counted, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	hosts := &packages{}
	tn := newTenure(source.Source{Name: "shop", Charts: true, Wants: map[string]int{}})
	tn.loop.o.deps.Charts, tn.loop.o.deps.Metrics, tn.loop.o.deps.Tracer = hosts, counted, noop.NewTracerProvider().Tracer("")
	tn.mirror, _ = mirrortest.New(t, gittest.Files{"a": "1"})
	tn.mirror.Doubt(errors.New("damaged"))
	var told []string
	for _, want := range []string{"a b c y z", "d e f y z", "a b c y z", "d e f y z"} {
		p := listed("a@*", "b@*", "c@*", "d@*", "e@*", "f@*", "y@*", "z@*")
		p.fresh = true
		for _, f := range p.found {
			if v := &f.listed; v.Chart < "y" {
				v.URL = "https://dead.example.com/" + v.URL
			}
			p.wants = append(p.wants, f.object)
		}
		hosts.asked = nil
		r := upstream.Remote{URL: &url.URL{Scheme: "https", Host: "charts.example.com"}}
		if err := tn.fetchCharts(t.Context(), r, tn.loop.currentSource(), p, tn.mirror); err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, one := range p.troubles {
			texts = append(texts, one.Text)
		}
		told = append(told, strings.Join(texts, "; "))
		slices.Sort(hosts.asked)
		if got := strings.Join(hosts.asked, " "); got != want || len(p.troubles) != 8 {
			t.Errorf("asked were %s, want %s; told %q", got, want, texts)
		}
	}
	if told[2] != told[3] || strings.Contains(told[3], "was not asked") {
		t.Errorf("the same is told in other words:\n%s\n%s", told[2], told[3])
	}
}
