package acceptance

import (
	"errors"
	"slices"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"fairlead.dev/platform/await"
	"fairlead.dev/services/gitcache/internal/gittest"
)

// spans are those of polls that ended, each as its name and its parent's.
func spans(recorder *tracetest.SpanRecorder) (out []string) {
	names := map[string]string{}
	for _, s := range recorder.Ended() {
		names[s.SpanContext().SpanID().String()] = s.Name()
	}
	for _, s := range recorder.Ended() {
		if strings.HasPrefix(s.Name(), "gitcache.") {
			out = append(out, names[s.Parent().SpanID().String()]+">"+s.Name())
		}
	}
	slices.Sort(out)
	return out
}

func TestPollThatFindsACommitBeginsItsTraceAndOthersNone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	recorder := tracetest.NewSpanRecorder()
	f.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	commit := f.repo.Commit("add the shop", gittest.Files{"web.yaml": "kind: Web\n"})
	n := f.one()
	status := f.published("HEAD", commit)
	want := []string{">gitcache.poll", "gitcache.poll>gitcache.fetch", "gitcache.poll>gitcache.publish"}
	await.NoError(t, "the trace is whole", func() error {
		if got := spans(recorder); !slices.Equal(got, want) {
			return errors.New(strings.Join(got, " "))
		}
		return nil
	})
	trace := head(status, "HEAD").GetTraceparent()
	for _, s := range recorder.Ended() {
		if s.Name() == "gitcache.poll" && (!strings.Contains(trace, s.SpanContext().SpanID().String()) || !strings.HasSuffix(trace, "-01")) {
			t.Errorf("the head carries %s, the poll is %s", trace, s.SpanContext().SpanID())
		}
	}
	n.poll()
	if got := spans(recorder); !slices.Equal(got, want) {
		t.Errorf("after an idle poll: %v", got)
	}
	f.git.RequireLogin("nobody", "x")
	n.refresh()
	await.NoError(t, "the poll that failed is a trace", func() error {
		if got := spans(recorder); len(got) != len(want)+1 || got[1] != ">gitcache.poll" {
			return errors.New(strings.Join(got, " "))
		}
		return nil
	})
}
