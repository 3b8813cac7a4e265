package views

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	"fairlead.dev/platform/clusterview"
	"fairlead.dev/platform/deliveryclient"
	"fairlead.dev/platform/retry"
)

// taker is a hub at the network's edge: it adds pushes up as a console does.
type taker struct {
	has     map[string]map[string]*deliveryv1.ViewRow // by section and key
	order   map[string][]string                       // keys by section
	figures map[string]map[string]int64
	state   *deliveryv1.ViewState
	refuse  error
	refuses string // what the hub says of a view that it does not keep
	last    *deliveryv1.PushViewRequest
	pushes  int
	bytes   int
}

func (h *taker) PushView(_ context.Context, r *deliveryv1.PushViewRequest) (*deliveryv1.PushViewResponse, error) {
	if h.refuse != nil {
		return nil, h.refuse
	}
	h.pushes++
	h.bytes += proto.Size(r)
	h.last = r
	switch {
	case h.refuses != "":
		return &deliveryv1.PushViewResponse{Refused: h.refuses}, nil
	case r.GetTerm() < h.state.GetTerm():
		return &deliveryv1.PushViewResponse{SupersededBy: h.state.GetTerm()}, nil
	case r.GetBase() != 0 && (r.GetTerm() != h.state.GetTerm() || r.GetBase() != h.state.GetSequence()):
		return &deliveryv1.PushViewResponse{WholeWanted: true}, nil
	case r.GetBase() == 0:
		h.has, h.order, h.figures = map[string]map[string]*deliveryv1.ViewRow{}, map[string][]string{}, map[string]map[string]int64{}
	}
	for _, s := range r.GetSections() {
		if h.has[s.GetName()] == nil || s.GetAllRows() {
			h.has[s.GetName()], h.order[s.GetName()] = map[string]*deliveryv1.ViewRow{}, nil
		}
		for _, key := range s.GetRemoved() {
			delete(h.has[s.GetName()], key)
			h.order[s.GetName()] = slices.DeleteFunc(h.order[s.GetName()], func(k string) bool { return k == key })
		}
		for _, row := range s.GetRows() {
			if h.has[s.GetName()][row.GetKey()] == nil {
				h.order[s.GetName()] = append(h.order[s.GetName()], row.GetKey())
			}
			h.has[s.GetName()][row.GetKey()] = row
		}
		h.figures[s.GetName()] = s.GetFigures()
	}
	h.state = &deliveryv1.ViewState{Term: r.GetTerm(), Sequence: r.GetSequence()}
	return &deliveryv1.PushViewResponse{}, nil
}

// The worst rows come first at the hub too: it shows them in the order in which it has them.
func TestHubHasRowsInTheOrderOfTheView(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	p, h, v := pushing(t, &now)
	fails := func(name string, restarts int32) {
		t.Helper()
		v.pods.put(name, pod{
			namespace: "n", name: name, reason: "CrashLoopBackOff", notReady: true, phase: "Running",
			restarts: []restart{{count: restarts}},
		})
		if wait := p.push(t.Context(), &retry.Backoff{Floor: time.Millisecond, Max: time.Millisecond}); wait != 0 {
			t.Fatalf("not pushed: %v", wait)
		}
		now = now.Add(10 * time.Minute) // for more bytes
		if differs := h.agrees(v); differs != "" {
			t.Error(differs)
		}
	}
	fails("a", 5)
	fails("b", 7)
	fails("c", 6)
	fails("d", 1)
	fails("d", 9)
}

// pushing is a pusher to a taker, of a view that the test writes.
func pushing(t *testing.T, now *time.Time) (*Pusher, *taker, *View) {
	t.Helper()
	h := &taker{}
	mux := http.NewServeMux()
	mux.Handle(deliveryv1connect.NewViewServiceHandler(h))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	distributors := deliveryclient.New(&http.Client{Transport: &http.Transport{}}, nil)
	distributors.Set([]string{server.URL})
	v := New(Deps{
		KubernetesVersion: func() string { return "v1.36.3" }, Now: func() time.Time { return *now },
		Log: slog.New(slog.DiscardHandler),
	})
	for _, k := range v.kinds {
		k.state, k.known = deliveryv1.SectionState_SECTION_STATE_WHOLE, true
	}
	return NewPusher(v, distributors, prometheus.NewRegistry(), slog.New(slog.DiscardHandler)), h, v
}

// agrees says how what the hub has differs from the view; empty: it does not.
func (h *taker) agrees(v *View) string {
	sections, _ := v.Sections()
	for _, s := range sections {
		rows := map[string]*deliveryv1.ViewRow{}
		var order []string
		for _, r := range s.GetRows() {
			rows[r.GetKey()] = r
			order = append(order, r.GetKey())
		}
		if !slices.Equal(order, h.order[s.GetName()]) {
			return fmt.Sprintf("%s: the hub has the rows %v, the view %v", s.GetName(), h.order[s.GetName()], order)
		}
		same := func(a, b *deliveryv1.ViewRow) bool { return proto.Equal(a, b) }
		if !maps.EqualFunc(rows, h.has[s.GetName()], same) || !maps.Equal(s.GetFigures(), h.figures[s.GetName()]) {
			return fmt.Sprintf("%s: the hub has %v %v, the view %v", s.GetName(), h.figures[s.GetName()],
				h.has[s.GetName()], s)
		}
	}
	return ""
}

func TestHubHasWhatTheViewSaysAfterRandomChanges(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) // a history can be run again
	now := time.Unix(1_700_000_000, 0)
	p, h, v := pushing(t, &now)
	backoff := &retry.Backoff{Floor: time.Millisecond, Max: time.Millisecond}
	for i := range 300 {
		for range random.IntN(10) {
			uid := fmt.Sprint("uid-", random.IntN(150))
			if random.IntN(3) == 0 {
				v.pods.remove(uid)
				continue
			}
			v.pods.put(uid, pod{
				namespace: "n", name: uid, reason: []string{"Running", "CrashLoopBackOff", "Pending"}[random.IntN(3)],
				notReady: random.IntN(2) == 0, phase: "Running",
				since:    int64(random.IntN(100)),
				restarts: []restart{{count: int32(random.IntN(5))}},
			})
		}
		now = now.Add(time.Duration(random.IntN(60)) * time.Second)
		switch random.IntN(10) {
		case 0:
			h.refuse = connect.NewError(connect.CodeUnavailable, errors.New("the hub is away"))
		case 1:
			h.state = nil // the hub lost it
			p.Lost()
		case 2:
			h.state = &deliveryv1.ViewState{Term: h.state.GetTerm() + 5, Sequence: 1}
		case 3:
			// another base
			h.state = &deliveryv1.ViewState{Term: h.state.GetTerm(), Sequence: h.state.GetSequence() + 7}
		default:
			h.refuse = nil
		}
		p.push(t.Context(), backoff)
		h.refuse = nil
		for range 10 {
			if p.push(t.Context(), backoff) == 0 {
				break
			}
			now = now.Add(time.Minute)
		}
		if wrong := h.agrees(v); wrong != "" {
			t.Fatalf("change %d: %s", i, wrong)
		}
	}
}

func TestNothingTravelsWhileNothingChanges(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	p, h, v := pushing(t, &now)
	backoff := &retry.Backoff{Floor: time.Millisecond, Max: time.Millisecond}
	v.pods.put("a", pod{namespace: "n", name: "a", reason: "Pending", notReady: true})
	for range 20 {
		p.push(t.Context(), backoff)
		now = now.Add(time.Hour)
	}
	if h.pushes != 1 {
		t.Errorf("%d pushes", h.pushes)
	}
	if s := p.State(); s.GetSequence() != 1 || s.GetTerm() == 0 {
		t.Errorf("the hub has acknowledged %v", s)
	}
}

// Two rows of one key would each be news beside the other, in every push.
func TestRowsHaveKeysOfTheirOwn(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	p, h, v := pushing(t, &now)
	long := strings.Repeat("x", 400)
	take := func(of func(b []byte, gone bool) (bool, error), o message) {
		t.Helper()
		if _, err := of(wire(t, o), false); err != nil {
			t.Fatal(err)
		}
	}
	for i, image := range []string{
		long + "1", long + "2", "https://ada:1@registry.example/app", "https://ada:2@registry.example/app",
	} {
		take(v.takePod, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprint("pod-", i), Namespace: "n", UID: types.UID(fmt.Sprint("pod-", i)),
			},
			Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "c0", Image: image}}},
			Status: corev1.PodStatus{Phase: "Pending", ContainerStatuses: states(waiting("InvalidImageName"))},
		})
	}
	for i, of := range []struct{ reason, kind, namespace, name string }{
		{"a b", "c", "n", "o"},
		{"a", "b c", "n", "o"},
		{"a", "b", "n/o", "p"},
		{"a", "b", "n", "o p"},
		{"a\u00a0b", "c\nd", "n", "o"},
		{strings.Repeat("r", 200), strings.Repeat("k", 200), strings.Repeat("n", 200), long + "1"},
		{strings.Repeat("r", 200), strings.Repeat("k", 200), strings.Repeat("n", 200), strings.Repeat("x", 254)},
		{strings.Repeat("r", 200), strings.Repeat("k", 200), strings.Repeat("n", 200), strings.Repeat("x", 255) + "2"},
	} {
		take(v.takeWarning, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint("event-", i))}, Type: "Warning", Reason: of.reason,
			Count:          int32(i + 1),
			InvolvedObject: corev1.ObjectReference{Kind: of.kind, Namespace: of.namespace, Name: of.name},
			LastTimestamp:  metav1.NewTime(now), FirstTimestamp: metav1.NewTime(now),
		})
	}
	sections, _ := v.Sections()
	for _, s := range sections {
		rows := map[string]bool{}
		for _, r := range s.GetRows() {
			if rows[r.GetKey()] || len(r.GetKey()) > 512 {
				t.Errorf("%s: a second row %q", s.GetName(), r.GetKey())
			}
			rows[r.GetKey()] = true
		}
		if wanted := map[string]int64{clusterview.Pulls: 2, clusterview.Warnings: 6}[s.GetName()]; wanted != 0 &&
			int64(len(rows)) != wanted {
			t.Errorf("%s: %d rows, want %d: %v", s.GetName(), len(rows), wanted, rows)
		}
		if n := s.GetFigures()["images"]; s.GetName() == clusterview.Pulls && n != 2 {
			t.Errorf("%d images", n)
		}
	}
	backoff := &retry.Backoff{Floor: time.Millisecond, Max: time.Millisecond}
	for range 5 {
		p.push(t.Context(), backoff)
	}
	if h.pushes != 1 {
		t.Errorf("%d pushes of what does not change", h.pushes)
	}
}

func TestAStormIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	p, h, v := pushing(t, &now)
	backoff := &retry.Backoff{Floor: time.Millisecond, Max: time.Millisecond}
	const minutes = 10
	for second := range minutes * 60 {
		for i := range 300 {
			v.pods.put(fmt.Sprint("uid-",
				i), pod{
				namespace: "n", name: fmt.Sprint("pod-", i, "-", second), reason: "CrashLoopBackOff", notReady: true,
			})
		}
		p.push(t.Context(), backoff)
		now = now.Add(time.Second)
	}
	if most := bucket + minutes*perMinute + maxView; h.bytes > most || h.bytes < most/4 {
		t.Errorf("%d bytes in %d minutes, want up to %d", h.bytes, minutes, most)
	}
	now = now.Add(time.Minute)
	if p.push(t.Context(), backoff); h.agrees(v) != "" {
		t.Error(h.agrees(v))
	}
}

func TestAHubWithoutViewsIsLeftAlone(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	p, h, v := pushing(t, &now)
	v.pods.put("a", pod{namespace: "n", name: "a"})
	h.refuse = connect.NewError(connect.CodeUnimplemented, errors.New("unknown service"))
	if wait := p.push(t.Context(), &retry.Backoff{
		Floor: time.Millisecond, Max: time.Millisecond,
	}); wait < refusedFor/2 || p.State() != nil {
		t.Errorf("again in %s, acknowledged %v", wait, p.State())
	}
}

// A view of everything at its worst has no more than its bound, and says what it leaves out.
func TestALargeClusterHasASmallView(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	_, _, v := pushing(t, &now)
	for i := range 20_000 {
		v.pods.put(fmt.Sprint("uid-",
			i), pod{
			namespace: "a-namespace", name: fmt.Sprint("a-pod-with-a-name-", i), node: "a-node",
			reason: fmt.Sprint("Reason", i%100), notReady: true, phase: "Pending",
		})
	}
	sections, ok := v.Sections()
	size := 0
	for _, s := range sections {
		size += proto.Size(s)
	}
	pods := sections[slices.IndexFunc(sections,
		func(s *deliveryv1.ViewSection) bool { return s.GetName() == clusterview.Pods })]
	if !ok || size > maxView || len(pods.GetRows()) == 0 || pods.GetWithheld()+int64(len(pods.GetRows())) != 20_000 ||
		pods.GetFigures()["not_ready"] != 20_000 {
		t.Errorf("%d bytes, %d rows, %d withheld", size, len(pods.GetRows()), pods.GetWithheld())
	}
	if n := len(pods.GetFigures()); n > 32 || pods.GetFigures()["state.others"] == 0 {
		t.Errorf("%d figures: %v", n, pods.GetFigures())
	}
}

func TestRestartsAreCountedOnce(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	_, _, v := pushing(t, &now)
	see := func(uid string, count int32, finished int64, killed, gone bool) {
		record := pod{restarts: []restart{{count: count, finished: finished, killed: killed}}}
		before, known, _ := v.pods.put(uid, record)
		v.countRestarts(before, record, known)
		if gone {
			v.pods.remove(uid)
		}
	}
	want := func(hour, killed, atLeast int64) {
		t.Helper()
		s := &deliveryv1.ViewSection{Figures: map[string]int64{}}
		v.restartSection(s)
		if s.GetFigures()["hour"] != hour || s.GetFigures()["oom_killed_hour"] != killed ||
			s.GetFigures()["at_least"] != atLeast {
			t.Errorf("got %v, want %d, %d, %d", s.GetFigures(), hour, killed, atLeast)
		}
	}
	at := now.Unix()
	see("old", 9, at-7200, false, false)
	want(0, 0, 0)
	see("new", 1, at-60, true, false)
	want(1, 1, 0)
	see("new", 3, at-10, true, false)
	want(3, 3, 0)
	see("new", 3, at-10, true, false) // nothing new
	see("new", 0, 0, false, false)    // made anew
	see("new", 1, at-5, false, false)
	want(4, 3, 0)
	see("seen late", 5, at-60, false, true) // one of five is known to be of this hour
	want(5, 3, 1)
	now = now.Add(2 * time.Hour)
	want(0, 0, 0)
}
