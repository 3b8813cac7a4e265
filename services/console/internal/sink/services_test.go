package sink

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/removals"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/storetest"
)

// pager is a stand-in for PagerDuty. The pager keeps which alerts are open, and does not take what refuse names.
type pager struct {
	*httptest.Server
	refuse func(action, key string) int // a status, or 0

	mu       sync.Mutex
	open     map[string]bool // by deduplication key; guarded by mu
	requests []string        // guarded by mu
}

func newPager(t *testing.T, refuse func(action, key string) int) *pager {
	t.Helper()
	p := &pager{refuse: refuse, open: map[string]bool{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var in struct {
			Action string `json:"event_action"`
			Key    string `json:"dedup_key"`
		}
		if err := json.NewDecoder(req.Body).Decode(&in); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.refuse != nil {
			if status := p.refuse(in.Action, in.Key); status != 0 {
				w.WriteHeader(status)
				return
			}
		}
		p.requests = append(p.requests, in.Action+" "+in.Key)
		if in.Action == "trigger" {
			p.open[in.Key] = true
		} else {
			delete(p.open, in.Key)
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *pager) counts() (open, requests int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open), len(p.requests)
}

func (p *pager) target() target {
	return target{
		uid: "uid", name: "pager", spec: resource.SinkSpec{PagerDuty: &resource.PagerDutySink{URL: p.URL}},
		credentials: map[string]string{resource.SinkKey: plantedSecret},
	}
}

// ofService is an event about a service that the store can keep.
func ofService(t *testing.T, id, typ string, severity consolev1.Severity, service string) store.Event {
	t.Helper()
	e := &consolev1.Event{
		Id: id, Time: timestamppb.Now(), Type: typ, Severity: severity, Cluster: "edge-1",
		Service: service,
	}
	text, err := protojson.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return store.Event{ID: id, Time: e.GetTime().AsTime(), Type: typ, Event: text}
}

// ofMany is an event about so many services, of which it names 20.
func ofMany(t *testing.T, id, typ string, services int) store.Event {
	t.Helper()
	e := &consolev1.Event{
		Id: id, Time: timestamppb.Now(), Type: typ, Severity: consolev1.Severity_SEVERITY_INFO,
		Count: int32(services),
	}
	var packed bytes.Buffer
	packer, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	for i := range services {
		one := &consolev1.Event{Service: fmt.Sprintf("web-%d", i), Cluster: "edge-1"}
		if _, err := protodelim.MarshalTo(packer, one); err != nil {
			t.Fatal(err)
		}
		if i < 20 {
			e.Members = append(e.Members, &consolev1.EventMember{Service: one.GetService(), Cluster: one.GetCluster()})
		}
	}
	if err := packer.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := protojson.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return store.Event{ID: id, Time: e.GetTime().AsTime(), Type: typ, Event: text, Members: packed.Bytes()}
}

// deliverTo returns a deliverer for a sink to a pager, and the sink's uid.
func deliverTo(t *testing.T, p *pager) (*Deliverer, string) {
	t.Helper()
	s := storetest.SQLite(t)
	d := newDeliverer()
	d.Store, d.ID, d.Catalog = s, "a", &catalog.Catalog{}
	var uid string
	if err := s.Write(t.Context(), "user:ada", func(ctx context.Context, tx *store.Tx) error {
		list, err := tx.Create(ctx, store.Draft{
			Kind: store.KindSink, Name: "pager",
			Spec: fmt.Appendf(nil, `{"pagerDuty":{"url":%q}}`, p.URL),
		})
		if err != nil {
			return err
		}
		uid = list[0].UID
		return tx.BeginSending(ctx, uid)
	}); err != nil {
		t.Fatal(err)
	}
	return d, uid
}

// sendAll takes the passes that events need, one by one and without the pauses between them, and returns how many there
// were.
func sendAll(t *testing.T, d *Deliverer, uid string) (passes int) {
	t.Helper()
	const most = 100
	for ; passes < most; passes++ {
		of, b, err := d.claim(t.Context(), uid)
		if err != nil || b == nil {
			t.Fatalf("claim: %v, %v", b, err)
		}
		none := len(b.waiting) == 0
		tell, _ := d.send(t.Context(), &of, *b)
		if _, err := d.Store.PutSending(t.Context(), of, 0, tell...); err != nil {
			t.Fatal(err)
		}
		if none {
			return passes
		}
	}
	return passes
}

func TestAnEventOfManyServicesEndsTheAlertOfEach(t *testing.T) {
	t.Parallel()
	const services = 30
	// A receiver that fails in the middle of the ends is told of the rest only.
	failures := 2
	p := newPager(t, func(action, key string) int {
		if action == "resolve" && failures > 0 && strings.Contains(key, "/web-25/") {
			failures--
			return http.StatusTooManyRequests
		}
		return 0
	})
	d, uid := deliverTo(t, p)
	var list []store.Event
	for i := range services {
		list = append(list, ofService(t, fmt.Sprint("degraded-", i), event.ServiceDegraded,
			consolev1.Severity_SEVERITY_ERROR, fmt.Sprintf("web-%d", i)))
	}
	if err := d.Store.AddEvents(t.Context(), list...); err != nil {
		t.Fatal(err)
	}
	sendAll(t, d, uid)
	if open, _ := p.counts(); open != services {
		t.Fatalf("%d alerts are open", open)
	}
	if err := d.Store.AddEvents(t.Context(), ofMany(t, "healthy", event.ServiceHealthy, services)); err != nil {
		t.Fatal(err)
	}
	if err := d.Store.AddEvents(t.Context(), ofService(t, "last", event.ServiceDegraded, consolev1.Severity_SEVERITY_ERROR, "web-0")); err != nil {
		t.Fatal(err)
	}
	sendAll(t, d, uid)
	if open, requests := p.counts(); open != 1 || requests > 2*services+1+2*pageLanes {
		t.Errorf("%d alerts are open after %d requests", open, requests)
	}
}

// A cluster that keeps services is an alert of its own, which ends when they may go, and when they were made again.
func TestTheAlertOfHeldRemovalsEnds(t *testing.T) {
	t.Parallel()
	p := newPager(t, nil)
	d, uid := deliverTo(t, p)
	if err := d.Store.Write(t.Context(), "user:ada", func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Create(ctx, store.Draft{Kind: store.KindCluster, Name: "edge-1", Spec: []byte("{}")},
			store.Draft{Kind: store.KindCluster, Name: "edge-2", Spec: []byte("{}")})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	desk := &removals.Desk{Store: d.Store, Log: d.Log}
	if err := desk.Hold(t.Context(), "a test"); err != nil {
		t.Fatal(err)
	}
	sendAll(t, d, uid)
	other, _ := p.counts() // of the restore itself
	held := func(open int, in map[string][]string) {
		t.Helper()
		if err := desk.Record(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		sendAll(t, d, uid)
		if got, _ := p.counts(); got != other+open {
			t.Fatalf("%d alerts are open of %v, want %d", got-other, in, open)
		}
	}
	both := map[string][]string{"edge-1": {"web"}, "edge-2": {"web", "api"}}
	held(2, both)
	held(1, map[string][]string{"edge-1": {}, "edge-2": {"web"}})
	held(2, both)
	now, err := desk.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := desk.Confirm(t.Context(), catalog.Self("test"), now.ID); err != nil {
		t.Fatal(err)
	}
	held(0, map[string][]string{"edge-1": {}, "edge-2": {}})
}

func TestPagesAreNotHeldUpByEnds(t *testing.T) {
	t.Parallel()
	const ends = 200
	p := newPager(t, nil)
	d, uid := deliverTo(t, p)
	var list []store.Event
	for i := range ends {
		typ := []string{event.ServiceHealthy, event.ServicePruned, event.ServiceDeleted}[i%3]
		list = append(list, ofService(t, fmt.Sprint("end-", i), typ, consolev1.Severity_SEVERITY_INFO,
			fmt.Sprintf("web-%d", i)))
	}
	list = append(list, ofService(t, "page", event.ServiceFailed, consolev1.Severity_SEVERITY_ERROR, "shop"))
	if err := d.Store.AddEvents(t.Context(), list...); err != nil {
		t.Fatal(err)
	}
	if passes := sendAll(t, d, uid); passes > ends/maxPages+1 {
		t.Errorf("a page came after %d passes", passes)
	}
	if open, _ := p.counts(); open != 1 {
		t.Errorf("%d alerts are open", open)
	}
	b := batch{target: p.target(), waiting: waitingFor(maxPages + 1)}
	if _, wait := d.send(t.Context(), &store.Sending{}, b); wait != 0 {
		t.Errorf("what waits is sent after %s", wait)
	}
	b.spec.Interval = time.Minute
	if _, wait := d.send(t.Context(), &store.Sending{}, b); wait != time.Minute {
		t.Errorf("with an interval what waits is sent after %s", wait)
	}
}

func TestAnAlertBeginsBeforeItEnds(t *testing.T) {
	t.Parallel()
	p := newPager(t, nil)
	var list []*consolev1.Event
	for i := range maxPages / 2 {
		for _, typ := range []string{event.ServiceDegraded, event.ServiceHealthy} {
			list = append(list, &consolev1.Event{
				Type: typ, Severity: consolev1.Severity_SEVERITY_ERROR,
				Time: timestamppb.Now(), Service: fmt.Sprintf("web-%d", i%4),
			})
		}
	}
	if _, problem := newDeliverer().sender().send(t.Context(), p.target(), list); problem != nil {
		t.Fatal(problem)
	}
	p.mu.Lock()
	requests := slices.Clone(p.requests)
	p.mu.Unlock()
	last := map[string]string{}
	for _, request := range requests {
		action, key, _ := strings.Cut(request, " ")
		if last[key] == action || last[key] == "" && action == "resolve" {
			t.Errorf("%s after %q", request, last[key])
		}
		last[key] = action
	}
	if open, sent := p.counts(); open != 0 || sent != len(list) {
		t.Errorf("%d alerts are open after %d requests", open, sent)
	}
}

// An event that PagerDuty has taken is not sent again because of an event behind it.
func TestOnlyWhatWasNotTakenIsSentAgain(t *testing.T) {
	t.Parallel()
	p := newPager(t, func(_, key string) int {
		if strings.Contains(key, "/web-12/") {
			return http.StatusBadRequest
		}
		return 0
	})
	d := newDeliverer()
	b := batch{target: p.target(), next: maxPages}
	for i := range maxPages {
		e := &consolev1.Event{
			Type: event.ServiceFailed, Severity: consolev1.Severity_SEVERITY_ERROR,
			Time: timestamppb.Now(), Service: fmt.Sprintf("web-%d", i),
		}
		b.waiting = append(b.waiting, waiting{seq: int64(i + 1), Event: e})
	}
	var of store.Sending
	d.send(t.Context(), &of, b)
	if of.Seq != 12 || of.Sent != 12 || of.Waiting != maxPages-12 || of.Problem == "" {
		t.Errorf("%+v", of)
	}
	b.waiting = b.waiting[12:]
	for range rejections + aloneAfter {
		if of.Dropped == 0 {
			d.send(t.Context(), &of, b)
		}
	}
	if of.Seq != 13 || of.Dropped != 1 {
		t.Errorf("%+v", of)
	}
}

// An alert that a message opens and ends is not opened once more because another alert of the message was not taken.
func TestAnAlertThatEndedIsNotTriggeredAgain(t *testing.T) {
	t.Parallel()
	failures := 1
	p := newPager(t, func(_, key string) int {
		if strings.Contains(key, "/other/") && failures > 0 {
			failures--
			return http.StatusTooManyRequests
		}
		return 0
	})
	d, uid := deliverTo(t, p)
	list := []store.Event{ofService(t, "other", event.ServiceDegraded, consolev1.Severity_SEVERITY_ERROR, "other")}
	for i := range pageLanes {
		name := fmt.Sprint("web-", i)
		list = append(list, ofService(t, name, event.ServiceDegraded, consolev1.Severity_SEVERITY_ERROR, name),
			ofService(t, name+"-ends", event.ServiceHealthy, consolev1.Severity_SEVERITY_INFO, name))
	}
	if err := d.Store.AddEvents(t.Context(), list...); err != nil {
		t.Fatal(err)
	}
	sendAll(t, d, uid)
	p.mu.Lock()
	defer p.mu.Unlock()
	ended := map[string]bool{}
	for _, request := range p.requests {
		action, key, _ := strings.Cut(request, " ")
		if action == "trigger" && ended[key] {
			t.Errorf("triggered again after its end: %s", key)
		}
		ended[key] = action == "resolve"
	}
	if len(p.open) != 1 {
		t.Errorf("%d alerts are open", len(p.open))
	}
}

// The services of a global service share a status: a pass that is about all of them is about one name.
func TestAPassCountsNamesOfStatuses(t *testing.T) {
	t.Parallel()
	d, _ := deliverTo(t, newPager(t, nil))
	const services = maxGroups + 50
	b := batch{target: hostAt("github", ""), plan: &statusPlan{upTo: services}}
	var drafts []store.Draft
	for i := range services {
		name := fmt.Sprintf("logs-%03d", i)
		drafts = append(drafts, store.Draft{
			Kind: store.KindService, Name: name,
			Labels: map[string]string{catalog.GlobalLabel: "logs"}, Spec: []byte(`{}`),
		})
		b.waiting = append(b.waiting, waiting{
			seq:   int64(i + 1),
			Event: &consolev1.Event{Type: event.ServiceApplied, Service: name},
		})
	}
	if err := d.Store.Write(t.Context(), "user:ada", func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Create(ctx, drafts...)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := d.Store.Read(t.Context(), func(ctx context.Context, v store.View) error {
		groups, err := b.groups(ctx, v)
		if len(groups) != 1 || b.plan.upTo != services {
			t.Errorf("%d groups of the first %d events", len(groups), b.plan.upTo)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for i := range b.waiting {
		b.waiting[i].Service = fmt.Sprintf("web-%03d", i)
	}
	if err := d.Store.Read(t.Context(), func(ctx context.Context, v store.View) error {
		groups, err := b.groups(ctx, v)
		if len(groups) != maxGroups || b.plan.upTo != maxGroups {
			t.Errorf("%d groups of the first %d events", len(groups), b.plan.upTo)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// A value that is being read for the first time fails no commit.
func TestAFirstReadFailsNoCommit(t *testing.T) {
	t.Parallel()
	for problem, want := range map[string]string{
		"backend vault has no path db": "backend vault has no path db",
		event.FirstRead + "db":         "",
	} {
		s := &state.Service{Status: state.ServiceStatus{ConfigProblem: &state.Problem{Message: problem}}}
		if got, _, _ := problemOf(s); got != want {
			t.Errorf("%s: got %q, want %q", problem, got, want)
		}
	}
}
