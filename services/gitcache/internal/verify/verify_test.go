package verify

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"

	"fairlead.dev/services/gitcache/internal/fetch"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/helm"
	"fairlead.dev/services/gitcache/internal/metrics"
	"fairlead.dev/services/gitcache/internal/signature"
	"fairlead.dev/services/gitcache/internal/signed"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// provenance is a host with one answer for all provenance files.
type provenance struct {
	fetch.SignatureFetcher
	text []byte
	err  error
}

func (p provenance) Provenance(context.Context, upstream.Remote, helm.Version) ([]byte, error) {
	return p.text, p.err
}

// A chart without a provenance file is refused; a host that does not answer leaves it open whether there is one.
func TestAChartWithoutAProvenanceFileIsNotSigned(t *testing.T) {
	t.Parallel()
	counted, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	by, err := signed.New(signed.Policy{
		Provider: signed.Provenance, Keys: []string{gittest.NewOpenPGP(t, "ed25519").Public},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		host   provenance
		isOpen bool
		want   signature.Kind
	}{
		"none":       {want: signature.Unsigned},
		"not found":  {host: provenance{err: &upstream.Error{Kind: upstream.KindNotFound}}, want: signature.Unsigned},
		"unreadable": {host: provenance{text: []byte("no message")}, want: signature.Invalid},
		"no answer":  {host: provenance{err: &upstream.Error{Kind: upstream.KindTimeout}}, isOpen: true},
	} {
		ask := Asker{Signatures: tc.host, Metrics: counted, Tracer: noop.NewTracerProvider().Tracer("")}
		chart := Content{Listed: helm.Version{Chart: "db", Version: "1.0.0", Digest: strings.Repeat("a", 64)}}
		v, err := ask.JudgeContent(t.Context(), by, upstream.Remote{}, chart, time.Now())
		if (err != nil) != tc.isOpen {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (v.No == nil || v.No.Kind != tc.want) {
			t.Errorf("%s: the verdict is %+v, want %s", name, v, tc.want)
		}
	}
}
