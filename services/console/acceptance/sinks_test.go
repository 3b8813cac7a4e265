package acceptance

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/longform"
	"fairlead.dev/services/console"
	"fairlead.dev/services/console/internal/sink"
	"fairlead.dev/services/console/internal/store"
)

const plantedKey = "planted-key-of-a-webhook"

// withSinks starts a console whose sinks may be on this machine.
func (h *hub) withSinks(t *testing.T) *running {
	t.Helper()
	return h.startWith(t, func(c *console.Config) { c.AllowAddresses = []string{"127.0.0.0/8"} })
}

// tell records events as a console would.
func (h *hub) tell(t *testing.T, list ...*consolev1.Event) {
	t.Helper()
	s, err := store.New(h.db, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var rows []store.Event
	for _, e := range list {
		if e.Time == nil {
			e.Time = timestamppb.Now()
		}
		text, err := protojson.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, store.Event{
			ID: e.GetId(), Time: e.GetTime().AsTime(), Type: e.GetType(), Cluster: e.GetCluster(),
			Service: e.GetService(), Event: text,
		})
	}
	if err := s.AddEvents(t.Context(), rows...); err != nil {
		t.Fatal(err)
	}
}

func degraded(id, project, service string) *consolev1.Event {
	return &consolev1.Event{
		Id: id, Type: "service.degraded", Severity: consolev1.Severity_SEVERITY_ERROR, Project: project,
		Cluster: "edge-1", Service: service, Message: "1 of 3 <objects> & more.",
	}
}

// receiver is the other side of a webhook.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex // guards what follows
	say  int        // status
	ids  []string   // of events that were taken
	bad  []string
	seen int // requests
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{say: http.StatusNoContent}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen++
	stamp, _, _ := strings.Cut(strings.TrimPrefix(req.Header.Get(sink.SignatureHeader), "t="), ",")
	seconds, _ := strconv.ParseInt(stamp, 10, 64)
	if got := req.Header.Get(sink.SignatureHeader); got != sink.Sign(plantedKey, time.Unix(seconds, 0), body) {
		r.bad = append(r.bad, "signature "+got)
	}
	if r.say != http.StatusNoContent {
		w.WriteHeader(r.say)
		_, _ = fmt.Fprintf(w, "not now, says %s", plantedKey)
		return
	}
	var in struct {
		Sink   string
		Count  int
		Events []struct{ ID, Type, Service string }
	}
	if err := json.Unmarshal(body, &in); err != nil || in.Count != len(in.Events) || in.Count == 0 {
		r.bad = append(r.bad, fmt.Sprintf("body %s: %v", body, err))
	}
	for _, e := range in.Events {
		r.ids = append(r.ids, e.ID)
	}
	w.WriteHeader(r.say)
}

// anAuthority is one in PEM, whichever.
func anAuthority() string {
	other := httptest.NewTLSServer(http.NotFoundHandler())
	defer other.Close()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate().Raw}))
}

func (r *receiver) answers(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.say = status
}

func (r *receiver) got(t *testing.T) []string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.bad) > 0 {
		t.Fatal(r.bad)
	}
	return slices.Clone(r.ids)
}

func (r *receiver) requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

func secret(value string) *consolev1.SinkSecret {
	return &consolev1.SinkSecret{Value: &consolev1.SinkSecret_Secret{Secret: value}}
}

func webhook(name, url string) *consolev1.Sink {
	return &consolev1.Sink{
		Metadata: meta(name),
		Spec: &consolev1.SinkSpec{
			To: &consolev1.SinkSpec_Webhook{Webhook: &consolev1.WebhookSink{Url: url, Key: secret(plantedKey)}},
		},
	}
}

func (a api) sink(t testing.TB, name string) *consolev1.Sink {
	t.Helper()
	resp, err := a.sinks.GetSink(t.Context(), &consolev1.GetSinkRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetSink()
}

func (a api) putSink(t testing.TB, s *consolev1.Sink) error {
	t.Helper()
	_, err := a.sinks.UpdateSink(t.Context(), &consolev1.UpdateSinkRequest{Sink: s, AllowMissing: true})
	return err
}

// An event that a receiver does not take is sent when it does, over restarts of the console, and nothing twice; an
// event from before the sink, or one that is not for it, never. The key is in nothing that people see.
func TestSinksSendWhatTheyCouldNotBefore(t *testing.T) {
	t.Parallel()
	for name, db := range eitherDatabase(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, to := newHub(t, db), newReceiver(t)
			r := h.withSinks(t)
			admin := r.admin(t)
			h.tell(t, degraded("before", "", "web"))
			if err := admin.putSink(t, webhook("hook", to.URL)); err != nil {
				t.Fatal(err)
			}
			h.tell(t, degraded("a", "",
				"web"), &consolev1.Event{
				Id: "info", Type: "service.applied", Severity: consolev1.Severity_SEVERITY_INFO, Service: "web",
			})
			await.True(t, "the first event comes", func() bool { return slices.Equal(to.got(t), []string{"a"}) })
			await.True(t, "it is noted", func() bool { return admin.sink(t, "hook").GetStatus().GetSent() == 1 })

			to.answers(http.StatusServiceUnavailable)
			h.tell(t, degraded("b", "", "web"), degraded("c", "", "web"))
			var status *consolev1.SinkStatus
			await.True(t, "the sink says why", func() bool {
				status = admin.sink(t, "hook").GetStatus()
				return strings.Contains(status.GetProblem().GetMessage(),
					"answers 503 Service Unavailable not now, says ***") && status.GetWaiting() == 2
			})
			events := r.events(t, r.adminToken(t))
			await.True(t, "it is told", func() bool { return types(listEvents(t, events, "sink = hook")) == "sink.failing" })
			tested, err := admin.sinks.TestSink(t.Context(), &consolev1.TestSinkRequest{Name: "hook"})
			if err != nil || tested.GetAccepted() || !strings.Contains(tested.GetAnswer(), "503") {
				t.Errorf("tested: %v, %v", tested, err)
			}

			r.stop()
			h.tell(t, degraded("d", "", "web"))
			to.answers(http.StatusNoContent)
			r = h.withSinks(t)
			admin = r.admin(t)
			await.True(t, "all have come", func() bool { return len(to.got(t)) >= 4 })
			await.True(t, "it is noted", func() bool {
				status = admin.sink(t, "hook").GetStatus()
				return status.GetSent() == 4
			})
			if got := to.got(t); !slices.Equal(got, []string{"a", "b", "c", "d"}) || status.GetProblem() != nil ||
				status.GetWaiting() != 0 || status.GetDropped() != 0 {
				t.Errorf("got %v, and the sink is %v", got, status)
			}
			tested, err = admin.sinks.TestSink(t.Context(), &consolev1.TestSinkRequest{Name: "hook"})
			if err != nil || !tested.GetAccepted() || tested.GetAnswer() != "204 No Content" {
				t.Errorf("tested: %v, %v", tested, err)
			}

			events = r.events(t, r.adminToken(t))
			if got := types(listEvents(t, events, "sink = hook")); got != "sink.failing sink.recovered" {
				t.Errorf("told %s", got)
			}
			stale := degraded("stale", "", "web")
			stale.Time = timestamppb.New(time.Now().Add(-25 * time.Hour))
			h.tell(t, stale, degraded("e", "", "web"))
			await.True(t, "what is too old is given up", func() bool {
				return admin.sink(t, "hook").GetStatus().GetDropped() == 1 && slices.Contains(to.got(t), "e")
			})
			if got := to.got(t); slices.Contains(got, "stale") ||
				types(listEvents(t, events, "type = sink.dropped")) != "sink.dropped" {
				t.Errorf("got %v", got)
			}
			r.stop()
			if strings.Contains(h.logs.String(), plantedKey) {
				t.Error("the key is in the log")
			}
			for _, name := range []string{"console.db", "console.db-wal"} {
				if text, _ := os.ReadFile(filepath.Join(h.dir, name)); strings.Contains(string(text), plantedKey) {
					t.Errorf("the key is in %s", name)
				}
			}
		})
	}
}

// A sink that is corrected says that it takes events again.
func TestASinkThatIsCorrectedRecovers(t *testing.T) {
	t.Parallel()
	longform.Only(t, "the console sends again after seconds")
	to := newReceiver(t)
	h := newHub(t, "")
	r := h.withSinks(t)
	admin := r.admin(t)
	hook := webhook("hook", "http://127.0.0.1:1/")
	if err := admin.putSink(t, hook); err != nil {
		t.Fatal(err)
	}
	h.tell(t, degraded("a", "", "web"))
	events := r.events(t, r.adminToken(t))
	await.True(t, "it is told", func() bool { return types(listEvents(t, events, "sink = hook")) == "sink.failing" })
	hook.Spec.GetWebhook().Url = to.URL
	if err := admin.putSink(t, hook); err != nil {
		t.Fatal(err)
	}
	await.True(t, "it comes", func() bool { return slices.Equal(to.got(t), []string{"a"}) })
	await.True(t, "it is told", func() bool {
		return types(listEvents(t, events, "sink = hook")) == "sink.failing sink.recovered"
	})
}

// A changed filter begins with what happens from then on; what waits still has to fit the one before, and comes if it
// fits both.
func TestAChangedFilterBeginsNow(t *testing.T) {
	t.Parallel()
	longform.Only(t, "the console sends again after seconds")
	to := newReceiver(t)
	h := newHub(t, "")
	r := h.withSinks(t)
	admin := r.admin(t)
	hook := webhook("hook", to.URL)
	hook.Spec.Types = []string{"service.degraded"}
	change := func(types ...string) {
		t.Helper()
		hook.Spec.Types = types
		if err := admin.putSink(t, hook); err != nil {
			t.Fatal(err)
		}
	}
	healthy := func(id string) *consolev1.Event {
		return &consolev1.Event{
			Id: id, Type: "service.healthy", Severity: consolev1.Severity_SEVERITY_INFO, Service: "web",
		}
	}
	change("service.degraded")
	h.tell(t, healthy("old"), degraded("a", "", "web"))
	await.True(t, "the first comes", func() bool { return slices.Equal(to.got(t), []string{"a"}) })
	h.tell(t, healthy("before"))
	change("service.*")
	h.tell(t, healthy("b"))
	await.True(t, "what happens then comes", func() bool { return len(to.got(t)) >= 2 })

	to.answers(http.StatusServiceUnavailable)
	h.tell(t, healthy("not any more"), degraded("c", "", "web"))
	await.True(t, "they wait", func() bool { return admin.sink(t, "hook").GetStatus().GetWaiting() == 2 })
	change("service.degraded")
	h.tell(t, healthy("not now"), degraded("d", "", "web"))
	change("service.*")
	h.tell(t, healthy("e"))
	to.answers(http.StatusNoContent)
	await.True(t, "all have come", func() bool { return len(to.got(t)) >= 5 })
	await.True(t, "it is noted", func() bool { return admin.sink(t, "hook").GetStatus().GetSent() == 5 })
	if got := to.got(t); !slices.Equal(got, []string{"a", "b", "c", "d", "e"}) {
		t.Errorf("got %v", got)
	}
}

// No filter is forgotten while events of its time wait. When there are too many, a change is refused until they are
// sent or given up.
func TestManyChangesOfAFilter(t *testing.T) {
	t.Parallel()
	to := newReceiver(t)
	h := newHub(t, "")
	r := h.withSinks(t)
	admin := r.admin(t)
	hook := webhook("hook", to.URL)
	change := func(i int) error {
		hook.Spec.Services = []string{"web", fmt.Sprint("other-", i)}
		return admin.putSink(t, hook)
	}
	changes := func() {
		t.Helper()
		for i := range 10 {
			if err := change(i); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := admin.putSink(t, hook); err != nil {
		t.Fatal(err)
	}
	h.tell(t, degraded("first", "", "web"))
	await.True(t, "the first is noted", func() bool { return admin.sink(t, "hook").GetStatus().GetSent() == 1 })
	h.tell(t, &consolev1.Event{
		Id: "not for it", Type: "service.applied", Severity: consolev1.Severity_SEVERITY_INFO, Service: "web",
	})
	changes()
	await.True(t, "filters are forgotten when nothing waits", func() bool { return change(10) == nil })

	to.answers(http.StatusServiceUnavailable)
	h.tell(t, degraded("a", "", "web"))
	await.True(t, "it waits", func() bool { return admin.sink(t, "hook").GetStatus().GetWaiting() == 1 })
	changes()
	wantCode(t, change(10), connect.CodeFailedPrecondition, `sink "hook"`, "changed 10 times while events wait",
		"disabled: true")
	hook.Spec.Services, hook.Spec.Disabled = []string{"web", "other-9"}, true
	if err := admin.putSink(t, hook); err != nil {
		t.Fatal(err)
	}
	await.True(t, "it is given up", func() bool { return change(10) == nil })
}

// A sink that can't be read, as one of another release, is told of and holds up no other.
func TestASinkThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	longform.Only(t, "the console sends again after seconds")
	to := newReceiver(t)
	h := newHub(t, "")
	s, err := store.New(h.db, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := h.withSinks(t)
	admin := r.admin(t)
	for name, spec := range map[string]string{
		"bad-filter": `{"webhook":{"url":"https://x.invalid/"},"filter":"(("}`, "bad-spec": `{"webhook":7}`,
	} {
		err = errors.Join(err, s.Write(t.Context(), "user:ada", func(ctx context.Context, tx *store.Tx) error {
			list, err := tx.Create(ctx, store.Draft{Kind: store.KindSink, Name: name, Spec: []byte(spec)})
			if err != nil {
				return err
			}
			return tx.BeginSending(ctx, list[0].UID)
		}))
	}
	if err = errors.Join(err, s.Close(), admin.putSink(t, webhook("good", to.URL))); err != nil {
		t.Fatal(err)
	}
	h.tell(t, degraded("a", "", "web"))
	await.True(t, "the good one gets it", func() bool { return slices.Contains(to.got(t), "a") })
	events := r.events(t, r.adminToken(t))
	await.True(t, "the others are told of", func() bool {
		list := listEvents(t, events, "type = sink.failing")
		return len(list) == 2 && strings.Contains(list[0].GetMessage()+list[1].GetMessage(), "spec.filter: ")
	})
}

// Two consoles send each event once between them.
func TestTwoConsolesSendOnce(t *testing.T) {
	t.Parallel()
	h, to := newHub(t, postgres.Database(t)), newReceiver(t)
	one := h.withSinks(t)
	h.withSinks(t)
	if err := one.admin(t).putSink(t, webhook("hook", to.URL)); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 5 {
		var list []*consolev1.Event
		for j := range 50 {
			want = append(want, fmt.Sprintf("%d-%d", i, j))
			list = append(list, degraded(want[len(want)-1], "", "web"))
		}
		h.tell(t, list...)
		await.True(t, "they come", func() bool { return len(to.got(t)) > i*50 })
	}
	await.True(t, "all have come", func() bool { return len(to.got(t)) >= len(want) })
	if got := to.got(t); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// A storm comes as few messages, and a receiver that hangs holds up no other.
func TestSinksWaitForNoOther(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a receiver hangs for seconds")
	over := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	t.Cleanup(hangs.Close)
	t.Cleanup(func() { close(over) })
	var mu sync.Mutex
	var texts []string
	chat := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var in struct{ Text string }
		_ = json.NewDecoder(req.Body).Decode(&in)
		mu.Lock()
		defer mu.Unlock()
		texts = append(texts, in.Text)
		_, _ = io.WriteString(w, "ok")
	}))
	t.Cleanup(chat.Close)
	h := newHub(t, "")
	r := h.withSinks(t)
	admin := r.admin(t)
	slack := &consolev1.Sink{
		Metadata: meta("chat"), Spec: &consolev1.SinkSpec{To: &consolev1.SinkSpec_Slack{Slack: &consolev1.SlackSink{
			Url: secret(chat.URL + "/services/T0/B0/planted-slack-token"),
			Ca:  string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: chat.Certificate().Raw})),
		}}},
	}
	admin.must(t, webhook("hangs", hangs.URL))
	if err := admin.putSink(t, slack); err != nil {
		t.Fatal(err)
	}
	said := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(texts)
	}
	var storm []*consolev1.Event
	for i := range 300 {
		storm = append(storm, degraded(fmt.Sprint("s", i), "", "web"))
	}
	h.tell(t, storm...)
	await.True(t, "the storm is told", func() bool { return len(said()) == 1 })
	text := said()[0]
	if !strings.HasPrefix(text,
		"300 events:\nERROR service.degraded web at edge-1: 1 of 3 &lt;objects&gt; &amp; more.\n") ||
		!strings.HasSuffix(text, "and 280 more: see fairlead events\n") || strings.Count(text, "\n") != 22 {
		t.Errorf("said %q", text)
	}
	// Without its authority it is not believed, and the URL is in nothing that is told.
	slack.Spec.GetSlack().Ca = ""
	if err := admin.putSink(t, slack); err != nil {
		t.Fatal(err)
	}
	tested, err := admin.sinks.TestSink(t.Context(), &consolev1.TestSinkRequest{Name: "chat"})
	if err != nil || tested.GetAccepted() || !strings.Contains(tested.GetAnswer(), "certificate") ||
		strings.Contains(tested.GetAnswer(), "planted") {
		t.Errorf("tested: %v, %v", tested, err)
	}
	got := admin.sink(t, "chat")
	if text := got.String() + h.logs.String(); strings.Contains(text, "planted-slack-token") {
		t.Error("the URL is shown")
	}
}

// Sinks send nothing to where they must not, nor to where another host leads.
func TestSinksKeepToWhereTheyMaySend(t *testing.T) {
	t.Parallel()
	to := newReceiver(t)
	leads := httptest.NewServer(http.RedirectHandler(to.URL, http.StatusTemporaryRedirect))
	t.Cleanup(leads.Close)
	try := func(r *running, url string) string {
		t.Helper()
		admin := r.admin(t)
		if err := admin.putSink(t, webhook("hook", url)); err != nil {
			t.Fatal(err)
		}
		tested, err := admin.sinks.TestSink(t.Context(), &consolev1.TestSinkRequest{Name: "hook"})
		if err != nil || tested.GetAccepted() {
			t.Fatalf("tested: %v, %v", tested, err)
		}
		return tested.GetAnswer()
	}
	closed, open := newHub(t, "").start(t), newHub(t, "").withSinks(t)
	for url, want := range map[string]string{
		strings.Replace(to.URL, "http://", "https://", 1): "loopback", to.URL: "--allow-addresses",
		"https://169.254.169.254/latest": "cloud metadata", "https://[::ffff:10.0.0.1]/": "private",
	} {
		if got := try(closed, url); !strings.Contains(got, want) {
			t.Errorf("%s: %s", url, got)
		}
	}
	for url, want := range map[string]string{
		leads.URL: "redirects are not followed", "https://169.254.169.254/latest": "cloud metadata",
	} {
		if got := try(open, url); !strings.Contains(got, want) {
			t.Errorf("%s: %s", url, got)
		}
	}
	if n := to.requests(); n > 0 {
		t.Errorf("%d requests came through", n)
	}
}

// A sink of a project is its operators', and has the events of the project; what it sends with goes nowhere else.
func TestSinksOfAProject(t *testing.T) {
	t.Parallel()
	to := newReceiver(t)
	h := newHub(t, "")
	r := h.withSinks(t)
	admin := r.admin(t)
	all := &consolev1.GrantClusters{All: true}
	team := grant("team", "operator", all)
	team.Spec.Subjects, team.Spec.Projects = []*consolev1.GrantSubject{
		{Subject: &consolev1.GrantSubject_User{User: "eve"}},
	}, []string{"shop"}
	look := grant("look", "deployer", all)
	look.Spec.Subjects, look.Spec.Projects = []*consolev1.GrantSubject{
		{Subject: &consolev1.GrantSubject_User{User: "vic"}},
	}, []string{"shop"}
	admin.must(t, &consolev1.Project{Metadata: meta("shop"), Spec: &consolev1.ProjectSpec{}},
		&consolev1.Project{Metadata: meta("bank"), Spec: &consolev1.ProjectSpec{}},
		team, look, &consolev1.Secret{
			Metadata: meta("keys"), Data: map[string]string{"k": plantedKey, "other": plantedKey},
		})
	eve, vic := r.user(t, "eve"), r.user(t, "vic")

	hub := webhook("all", to.URL)
	wantCode(t, eve.putSink(t, hub), connect.CodePermissionDenied, `edit sink "all"`, "role operator")
	own := webhook("own", to.URL)
	own.Spec.Project, own.Spec.Types, own.Spec.Template = "shop", []string{"service.*"}, "{{json .}}"
	wantCode(t, vic.putSink(t, own), connect.CodePermissionDenied, `edit sink "own" (project "shop")`)
	if err := eve.putSink(t, own); err != nil {
		t.Fatal(err)
	}
	foreign := webhook("foreign", to.URL)
	foreign.Spec.Project = "bank"
	wantCode(t, eve.putSink(t, foreign), connect.CodePermissionDenied)
	borrowed := webhook("borrowed", to.URL)
	borrowed.Spec.Project = "shop"
	borrowed.Spec.GetWebhook().Key = &consolev1.SinkSecret{
		Value: &consolev1.SinkSecret_Ref{Ref: &consolev1.SinkSecretRef{Path: "keys", Key: "k"}},
	}
	wantCode(t, eve.putSink(t, borrowed), connect.CodePermissionDenied, `view secret "keys"`)
	if err := admin.putSink(t, borrowed); err != nil {
		t.Fatal(err)
	}
	// A person who may change a sink has what another gave it signed or sent for that receiver only.
	for field, change := range map[string]func(*consolev1.WebhookSink){
		"url": func(w *consolev1.WebhookSink) { w.Url += "/elsewhere" },
		"ca":  func(w *consolev1.WebhookSink) { w.Ca = anAuthority() },
		"key": func(w *consolev1.WebhookSink) { w.Key.GetRef().Key = "other" },
	} {
		other := proto.CloneOf(borrowed)
		change(other.GetSpec().GetWebhook())
		if err := eve.putSink(t, other); connect.CodeOf(err) != connect.CodePermissionDenied ||
			!strings.Contains(err.Error(), `view secret "keys"`) {
			t.Errorf("eve changes the %s: %v", field, err)
		}
		if field == "key" {
			continue
		}
		other = proto.CloneOf(own)
		change(other.GetSpec().GetWebhook())
		other.Spec.GetWebhook().Key = secret("")
		if err := eve.putSink(t, other); connect.CodeOf(err) != connect.CodeInvalidArgument ||
			!strings.Contains(err.Error(), "spec.webhook.key.secret: write it again") {
			t.Errorf("eve changes the %s: %v", field, err)
		}
	}
	borrowed.Spec.Types = []string{"service.*"}
	if err := eve.putSink(t, borrowed); err != nil {
		t.Errorf("eve changes the rest: %v", err)
	}
	if got := vic.sink(t, "own"); got.GetSpec().GetWebhook().GetKey().GetSecret() != "" {
		t.Errorf("vic sees %v", got)
	}
	_, err := vic.sinks.TestSink(t.Context(), &consolev1.TestSinkRequest{Name: "own"})
	wantCode(t, err, connect.CodePermissionDenied, "edit sink")
	if err := admin.putSink(t, hub); err != nil {
		t.Fatal(err)
	}

	h.tell(t, degraded("bank-1", "bank",
		"vault"), degraded("shop-1", "shop",
		"web"), &consolev1.Event{
		Id: "lost", Type: "cluster.lost", Severity: consolev1.Severity_SEVERITY_ERROR, Cluster: "edge-1",
	})
	await.True(t, "events come", func() bool { return len(to.got(t)) >= 5 })
	got := to.got(t)
	slices.Sort(got)
	// own, borrowed and all of the hub
	if !slices.Equal(got, []string{"bank-1", "lost", "shop-1", "shop-1", "shop-1"}) {
		t.Errorf("got %v", got)
	}
	_, err = admin.secrets.DeleteSecret(t.Context(), &consolev1.DeleteSecretRequest{Name: "keys"})
	wantCode(t, err, connect.CodeFailedPrecondition, `sink "borrowed"`)
}

// mailServer speaks SMTP with STARTTLS and AUTH PLAIN, and takes mail by TLS from who logs in.
type mailServer struct {
	listener net.Listener
	config   *tls.Config
	mu       sync.Mutex
	mails    []string // guarded by mu
	to       []string // guarded by mu
}

func (m *mailServer) serve() {
	for {
		conn, err := m.listener.Accept()
		if err != nil {
			return
		}
		go m.talk(conn)
	}
}

func (m *mailServer) talk(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	secure, known := false, false
	in := bufio.NewReader(conn)
	say := func(text string) { _, _ = io.WriteString(conn, text+"\r\n") }
	say("220 mail.example.com")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case verb == "EHLO" && !secure:
			say("250-mail.example.com\r\n250 STARTTLS")
		case verb == "EHLO":
			say("250-mail.example.com\r\n250 AUTH PLAIN")
		case verb == "STARTTLS":
			say("220 go on")
			encrypted := tls.Server(conn, m.config)
			conn, in, secure = encrypted, bufio.NewReader(encrypted), true
		case verb == "AUTH":
			if known = secure && rest == "PLAIN AGh1YgBwbGFudGVkLXBhc3N3b3Jk"; known { // \0hub\0planted-password
				say("235 welcome")
			} else {
				say("535 no, not with " + rest)
			}
		case !known:
			say("530 log in first")
		case verb == "RCPT":
			m.mu.Lock()
			m.to = append(m.to, rest)
			m.mu.Unlock()
			say("250 ok")
		case verb == "DATA":
			say("354 go on")
			var text strings.Builder
			for line, err := in.ReadString('\n'); err == nil && line != ".\r\n"; line, err = in.ReadString('\n') {
				text.WriteString(strings.TrimPrefix(line, "."))
			}
			m.mu.Lock()
			m.mails = append(m.mails, text.String())
			m.mu.Unlock()
			say("250 taken")
		default:
			say("250 ok")
		}
	}
}

func (m *mailServer) got() (mails, to []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.mails), slices.Clone(m.to)
}

func TestSinksSendMail(t *testing.T) {
	t.Parallel()
	authority := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate of 127.0.0.1
	t.Cleanup(authority.Close)
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mailServer{listener: l, config: authority.TLS.Clone()}
	m.config.NextProtos = nil
	go m.serve()
	t.Cleanup(func() { _ = l.Close() })
	h := newHub(t, "")
	r := h.withSinks(t)
	admin := r.admin(t)
	email := &consolev1.EmailSink{
		Server: l.Addr().String(), From: "Hub <hub@example.com>",
		To: []string{"Ops Zürich <ops@example.com>", "dev@example.com"}, Username: "hub",
		Password: secret("wrong-password"),
		Ca:       string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate().Raw})),
		Subject:  "{{range .Events}}{{.Service}}: {{.Message}}{{end}}",
	}
	of := &consolev1.Sink{
		Metadata: meta("mail"), Spec: &consolev1.SinkSpec{To: &consolev1.SinkSpec_Email{Email: email}},
	}
	for _, bad := range []string{"ops@example.com\r\nBcc: eve@example.com", "nobody", "<a b@example.com>"} {
		email.To[1] = bad
		wantCode(t, admin.putSink(t, of), connect.CodeInvalidArgument, "email.to[1]")
	}
	email.To[1] = "dev@example.com"
	if err := admin.putSink(t, of); err != nil {
		t.Fatal(err)
	}
	injected := degraded("one", "", "web")
	injected.Message = "Grüße\r\nBcc: eve@example.com\r\n\r\n.\r\nMAIL FROM:<eve@example.com>"
	h.tell(t, injected)
	await.True(t, "the server refuses", func() bool {
		return strings.Contains(admin.sink(t, "mail").GetStatus().GetProblem().GetMessage(),
			"does not let us log in: 535")
	})
	email.Password = secret("planted-password")
	if err := admin.putSink(t, of); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the mail comes", func() bool { mails, _ := m.got(); return len(mails) == 1 })
	mails, to := m.got()
	got, err := mail.ReadMessage(strings.NewReader(mails[0]))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(got.Body))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
	if err != nil || subject != "web: Grüße Bcc: eve@example.com . MAIL FROM:<eve@example.com>" {
		t.Errorf("subject %q: %v", subject, err)
	}
	list, err := got.Header.AddressList("To")
	if err != nil || len(list) != 2 || list[0].Name != "Ops Zürich" || got.Header.Get("Bcc") != "" ||
		!slices.Equal(to, []string{"TO:<ops@example.com>", "TO:<dev@example.com>"}) {
		t.Errorf("to %v, %v: %v: %v", list, to, err, got.Header)
	}
	if !strings.Contains(string(body), "service: web\r\n") || !strings.Contains(string(body), "Grüße") ||
		!strings.HasSuffix(got.Header.Get("Message-Id"), "@example.com>") {
		t.Errorf("%v\n%s", got.Header, body)
	}

	// The password goes to no other server.
	email.Server, email.Password = "mail.example.com:587", secret("")
	wantCode(t, admin.putSink(t, of), connect.CodeInvalidArgument, "spec.email.password.secret: write it again")
	if strings.Contains(h.logs.String(), "-password") {
		t.Error("the password is in the log")
	}
}
