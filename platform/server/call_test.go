package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/telemetry"
)

// counting counts how often it is asked.
type counting struct {
	verifier
	asked atomic.Int64
}

func (c *counting) Verify(token string) (identity.Identity, error) {
	c.asked.Add(1)
	return c.verifier.Verify(token)
}

func startWith(t *testing.T, deps Deps, mounts ...Mount) *running {
	t.Helper()
	deps.Name, deps.Log, deps.Policy = "testing", slog.New(slog.DiscardHandler), policy()
	s, err := New(Config{Listen: "127.0.0.1:0"}, deps, mounts...)
	if err != nil {
		t.Fatal(err)
	}
	return run(t, s, &syncBuffer{})
}

func TestTokenIsVerifiedOnceAndEachProcedureAsksForItsRole(t *testing.T) {
	t.Parallel()
	v := &counting{verifier: tokens}
	s := startWith(t, Deps{Telemetry: telemetry.Discard(), Verifier: v}, rpcMounts(fine)...)
	if err := getCluster(t, s, "edge-1", as("user")); err != nil {
		t.Fatal(err)
	}
	if n := v.asked.Load(); n != 1 {
		t.Errorf("verified %d times", n)
	}
	c := consolev1connect.NewClusterServiceClient(httpClient(t, client.Config{}), s.URL(), as("user"))
	if _, err := c.DeleteCluster(t.Context(), &consolev1.DeleteClusterRequest{Name: "edge-1"}); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("got %v", err)
	}
}

func TestCallsAreSpansOfTheirCallersTrace(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	tel := telemetry.Discard()
	tel.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	s := startWith(t, Deps{Telemetry: tel, Verifier: tokens}, rpcMounts(func(_ context.Context, name string) error {
		if name == "broken" {
			return errors.New("broken")
		}
		return nil
	})...)
	c := consolev1connect.NewClusterServiceClient(httpClient(t, client.Config{}), s.URL(), as("user"))
	for _, name := range []string{"edge-1", "broken"} {
		ctx, info := connect.NewClientContext(t.Context())
		info.RequestHeader().Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		_, err := c.GetCluster(ctx, &consolev1.GetClusterRequest{Name: name})
		if (err != nil) != (name == "broken") {
			t.Fatal(err)
		}
	}
	got := spans.GetSpans()
	if len(got) != 2 {
		t.Fatalf("%d spans", len(got))
	}
	for i, span := range got {
		if span.Name != "fairlead.console.v1.ClusterService/GetCluster" ||
			span.Parent.SpanID().String() != "b7ad6b7169203331" ||
			!span.Parent.IsRemote() || span.SpanContext.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("span %q of %v", span.Name, span.Parent)
		}
		if failed := span.Status.Code == codes.Error; failed != (i == 1) {
			t.Errorf("span %d failed: %v", i, failed)
		}
	}
	if want := attribute.String("rpc.connect_rpc.error_code", "internal"); !slices.Contains(got[1].Attributes, want) {
		t.Errorf("attributes %v", got[1].Attributes)
	}
}

// A call between machines finds nothing new, nearly always: it has no trace, and costs none.
func TestOnlyPeopleBeginTraces(t *testing.T) { // alone: allocations are counted
	spans := tracetest.NewInMemoryExporter()
	tel := telemetry.Discard()
	tel.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	s := startWith(t, Deps{Telemetry: tel, Verifier: tokens}, append(rpcMounts(fine),
		HTTP("GET /machines", http.NotFoundHandler(), identity.RoleAgent),
		HTTP("GET /people", http.NotFoundHandler(), identity.RoleUser),
		HTTP("GET /open", http.NotFoundHandler(), identity.RoleOpen),
		HTTP("GET /login", http.NotFoundHandler(), identity.RoleOpen).Traced())...)
	hc := httpClient(t, client.Config{})
	agent := deliveryv1connect.NewDeliveryServiceClient(hc, s.URL(), as("agent"))
	_, _ = agent.Report(t.Context(), &deliveryv1.ReportRequest{})
	request(t, hc, "GET", s.URL()+"/machines", "agent", "")
	request(t, hc, "GET", s.URL()+"/open", "", "")
	if got := spans.GetSpans(); len(got) != 0 {
		t.Errorf("machines began %v", got)
	}
	request(t, hc, "GET", s.URL()+"/people", "user", "")
	if err := getCluster(t, s, "edge-1", as("user")); err != nil {
		t.Fatal(err)
	}
	request(t, hc, "GET", s.URL()+"/login", "", "")
	if got := spans.GetSpans(); len(got) != 3 {
		t.Errorf("people began %v", got)
	}
	procedure := "/fairlead.console.v1.LoginService/"
	open := tracing{policy: identity.Policy{
		procedure + "ExchangeLoginLink": identity.RoleOpen,
		procedure + "GetLoginOptions":   identity.RoleOpen,
	}}
	if !open.begins(connect.Spec{Procedure: procedure + "ExchangeLoginLink"}) ||
		open.begins(connect.Spec{
			Procedure:        procedure + "GetLoginOptions",
			IdempotencyLevel: connect.IdempotencyNoSideEffects,
		}) {
		t.Error("a login begins a trace, and who only looks begins none")
	}
	quiet := tracing{tracer: tel.Tracer.Tracer("test")}
	ctx, none := t.Context(), http.Header{}
	if n := testing.AllocsPerRun(10, func() { quiet.start(ctx, "x", none, false) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// slowBody sends a part of a message, and then nothing.
type slowBody struct {
	part []byte
	done <-chan struct{}
}

func (b *slowBody) Read(p []byte) (int, error) {
	if len(b.part) > 0 {
		n := copy(p, b.part)
		b.part = b.part[n:]
		return n, nil
	}
	<-b.done
	return 0, errors.New("the test is over")
}

func (b *slowBody) Close() error { return nil }

// The whole time is too long for a test: with the timer's own hands.
func TestBodyThatTakesTooLongIsGivenUp(t *testing.T) {
	t.Parallel()
	read := make(chan error, 1)
	slow := HTTP("POST /slow", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := boundBodyTime(w, r, 1)
		defer body.stop()
		_, err := r.Body.Read(make([]byte, 1))
		for err == nil {
			_, err = r.Body.Read(make([]byte, 1))
		}
		read <- err
	}), identity.RoleUser)
	s := start(t, Config{}, slow)
	for name, hc := range map[string]*http.Client{
		"HTTP/1.1": http1Client(t, nil),
		"HTTP/2":   httpClient(t, client.Config{}),
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/slow",
			&slowBody{part: []byte("abc"), done: t.Context().Done()})
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer user")
		resp, err := hc.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		select {
		case err := <-read:
			if err == nil {
				t.Errorf("%s: read all", name)
			}
		case <-t.Context().Done():
		}
	}
}
