package spans_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"fairlead.dev/platform/identity"
	"fairlead.dev/services/distributor/internal/spans"
)

func text(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
}

// liar is a request that says it is of another cluster and service.
func liar(t *testing.T, count int) []byte {
	t.Helper()
	var list []*tracepb.Span
	for range count {
		list = append(list, &tracepb.Span{
			Name:       "agent.apply",
			Attributes: []*commonpb.KeyValue{text("fairlead.cluster", "other"), text("service", "web")},
		})
	}
	body, err := proto.Marshal(&coltracepb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
			text("fairlead.cluster", "other"), text("service.name", "fairlead-console"), text("service.version", "v1"),
			text("host.name", "console-0"),
		}},
		ScopeSpans: []*tracepb.ScopeSpans{{
			Scope: &commonpb.InstrumentationScope{Name: "fairlead.dev/services/console"},
			Spans: list,
		}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func post(h http.Handler, who identity.Identity, body []byte) int {
	r := httptest.NewRequestWithContext(identity.NewContext(context.Background(), who), http.MethodPost, "/v1/traces",
		bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/x-protobuf")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func edge() identity.Identity { return identity.Identity{Kind: identity.KindAgent, Name: "edge-1"} }

func TestClusterIsThatOfTheToken(t *testing.T) {
	t.Parallel()
	var got []*tracepb.ResourceSpans
	h := spans.New(func(_ context.Context, s []*tracepb.ResourceSpans) error { got = append(got, s...); return nil },
		time.Now)
	if code := post(h, edge(), liar(t, 2)); code != http.StatusOK || len(got) != 1 {
		t.Fatalf("got %d and %v", code, got)
	}
	has := map[string]string{}
	for _, kv := range got[0].GetResource().GetAttributes() {
		has[kv.GetKey()] = kv.GetValue().GetStringValue()
	}
	if len(has) != 4 || has["fairlead.cluster"] != "edge-1" || has["service.name"] != "fairlead-agent" ||
		has["service.version"] != "v1" {
		t.Errorf("the resource is %v", has)
	}
	if scope := got[0].GetScopeSpans()[0]; scope.GetScope().GetName() != "fairlead.dev/services/agent" ||
		len(scope.GetSpans()) != 2 ||
		len(scope.GetSpans()[0].GetAttributes()) != 1 || scope.GetSpans()[0].GetAttributes()[0].GetKey() != "service" {
		t.Errorf("the spans are %v", scope)
	}
}

func TestSpansAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	h := spans.New(func(context.Context, []*tracepb.ResourceSpans) error { return nil },
		func() time.Time { return now })
	if code := post(h, edge(), make([]byte, 1<<20+1)); code != http.StatusBadRequest {
		t.Errorf("a long body: %d", code)
	}
	if code := post(h, edge(), []byte("no message")); code != http.StatusBadRequest {
		t.Errorf("what is no message: %d", code)
	}
	if code := post(h, edge(), liar(t, 1001)); code != http.StatusRequestEntityTooLarge {
		t.Errorf("many spans: %d", code)
	}
	for range 6 {
		if code := post(h, edge(), liar(t, 1000)); code != http.StatusOK {
			t.Fatalf("got %d", code)
		}
	}
	if code := post(h, edge(), liar(t, 1)); code != http.StatusTooManyRequests {
		t.Errorf("more than a minute's: %d", code)
	}
	if code := post(h, identity.Identity{Kind: identity.KindAgent, Name: "edge-2"}, liar(t, 1)); code != http.StatusOK {
		t.Errorf("another cluster pays for it: %d", code)
	}
	now = now.Add(time.Minute)
	if code := post(h, edge(), liar(t, 1)); code != http.StatusOK {
		t.Errorf("the next minute: %d", code)
	}
}

func TestRequestsAtATimeAreBounded(t *testing.T) {
	t.Parallel()
	begun, end, done := make(chan struct{}), make(chan struct{}), make(chan int)
	h := spans.New(func(context.Context, []*tracepb.ResourceSpans) error {
		begun <- struct{}{}
		<-end
		return nil
	}, time.Now)
	for range 16 {
		go func() { done <- post(h, edge(), liar(t, 1)) }()
		<-begun
	}
	if code := post(h, edge(), liar(t, 1)); code != http.StatusTooManyRequests {
		t.Errorf("got %d", code)
	}
	close(end)
	for range 16 {
		if code := <-done; code != http.StatusOK {
			t.Errorf("got %d", code)
		}
	}
}

func TestNothingIsTakenOfOthersOrForNobody(t *testing.T) {
	t.Parallel()
	h := spans.New(func(context.Context, []*tracepb.ResourceSpans) error { return errors.New("away") }, time.Now)
	if code := post(h, identity.Identity{Kind: identity.KindUser, Name: "kim"}, liar(t, 1)); code != http.StatusForbidden {
		t.Errorf("a person: %d", code)
	}
	if code := post(h, edge(), liar(t, 1)); code != http.StatusServiceUnavailable {
		t.Errorf("no collector answers: %d", code)
	}
	if code := post(spans.New(nil, time.Now), edge(), liar(t, 1)); code != http.StatusNotFound {
		t.Errorf("no collector: %d", code)
	}
}
