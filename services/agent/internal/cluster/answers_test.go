package cluster

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"fairlead.dev/services/agent/internal/object"
)

const raftKinds = `{"kind":"APIResourceList","resources":[{"name":"rafts","namespaced":true,"kind":"Raft"}]}`

// served connects to an API server that answers as a test says.
func served(t *testing.T, answer http.HandlerFunc) *Cluster {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	c, err := New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// tooMuch sends a value of 256 MiB, or as much of it as is read.
func tooMuch(w io.Writer, before string) {
	_, err := io.WriteString(w, before+`"`)
	for piece, n := strings.Repeat("x", 1<<20), 0; err == nil && n < 256; n++ {
		_, err = io.WriteString(w, piece)
	}
	if err == nil {
		_, _ = io.WriteString(w, `"`) // the part that is read is judged
	}
}

// Not parallel: it measures.
func TestAnswersOfTheAPIServerTakeLittleMemoryHoweverLongTheyAre(t *testing.T) { //nolint:paralleltest // it measures
	raft := schema.GroupVersionKind{Group: "sea.example", Version: "v1", Kind: "Raft"}
	ref := object.Ref{Key: object.Key{Group: raft.Group, Kind: raft.Kind, Namespace: "shop", Name: "a"}, Version: "v1"}
	known := func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/apis/sea.example/v1" {
			_, _ = io.WriteString(w, raftKinds)
			return true
		}
		return false
	}
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		ask    func(c *Cluster) error
	}{
		"all kinds": {func(w http.ResponseWriter, _ *http.Request) { tooMuch(w, `{"x":`) }, func(c *Cluster) error {
			_, err := c.APIVersions(t.Context())
			return err
		}},
		"the kinds of a group": {
			func(w http.ResponseWriter, _ *http.Request) { tooMuch(w, `{"x":`) }, func(c *Cluster) error {
				_, err := c.Kind(t.Context(), raft)
				return err
			},
		},
		"an object": {func(w http.ResponseWriter, r *http.Request) {
			if !known(w, r) {
				tooMuch(w, `{"apiVersion":"sea.example/v1","kind":"Raft","metadata":{"name":"a"},"x":`)
			}
		}, func(c *Cluster) error {
			_, err := c.Live(t.Context(), ref)
			return err
		}},
		"an error": {func(w http.ResponseWriter, r *http.Request) {
			if !known(w, r) {
				w.WriteHeader(http.StatusServiceUnavailable)
				tooMuch(w, `{"kind":"Status","apiVersion":"v1","message":`)
			}
		}, func(c *Cluster) error {
			_, err := c.Live(t.Context(), ref)
			return err
		}},
		"a list of one object": {func(w http.ResponseWriter, r *http.Request) {
			if !known(w, r) {
				tooMuch(w, `{"apiVersion":"sea.example/v1","kind":"RaftList","metadata":{},"items":[{"metadata":{"name":"a"},"x":`)
			}
		}, func(c *Cluster) error {
			_, err := c.List(t.Context(), raft, false, metav1.ListOptions{}, func(metav1.Object) {})
			return err
		}},
		"an error of a watch": {func(w http.ResponseWriter, r *http.Request) {
			if !known(w, r) {
				w.WriteHeader(http.StatusGone)
				tooMuch(w, `{"kind":"Status","apiVersion":"v1","message":`)
			}
		}, func(c *Cluster) error {
			_, err := c.Watch(t.Context(), raft, false, metav1.ListOptions{})
			return err
		}},
	} {
		c := served(t, test.answer)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := test.ask(c)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrAnswerSize) {
			t.Errorf("%s: %v", name, err)
		}
		const most = 200
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > most {
			t.Errorf("%s: it took %d MiB", name, took)
		}
	}
}

// Not parallel: it measures.
func TestAnEventOfAWatchTakesLittleMemoryHoweverLongItIs(t *testing.T) { //nolint:paralleltest // it measures
	event := func(name, more string) string {
		return `{"type":"ADDED","object":{"apiVersion":"sea.example/v1","kind":"Raft","metadata":{"name":"` + name +
			`"},"x":"}{\"]` + more + `"}}` + "\n"
	}
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis/sea.example/v1" {
			_, _ = io.WriteString(w, raftKinds)
			return
		}
		for i := range 40 { // together they have more than one may have
			_, _ = io.WriteString(w, event(fmt.Sprint(i), strings.Repeat("x", 1<<20)))
		}
		tooMuch(w, `{"type":"ADDED","object":{"apiVersion":"sea.example/v1","kind":"Raft","metadata":{"name":"long"},"x":`)
	})
	stream, err := c.Watch(t.Context(), schema.GroupVersionKind{Group: "sea.example", Version: "v1", Kind: "Raft"},
		false, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Stop()
	var before, after runtime.MemStats
	good := 0
	for event := range stream.ResultChan() {
		if obj, ok := event.Object.(*unstructured.Unstructured); ok && obj.GetName() == fmt.Sprint(good) {
			if good++; good == 40 {
				runtime.ReadMemStats(&before)
			}
		}
	}
	runtime.ReadMemStats(&after)
	if good != 40 {
		t.Errorf("%d events came, want 40", good)
	}
	const most = 200
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > most {
		t.Errorf("the long event took %d MiB", took)
	}
}

func TestAPageThatIsTooLargeIsAskedForInSmallerOnes(t *testing.T) {
	t.Parallel()
	const objects = 20 // of 1 MiB
	large := strings.Repeat("x", 1<<20)
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis/sea.example/v1" {
			_, _ = io.WriteString(w, raftKinds)
			return
		}
		var from, limit int
		_, _ = fmt.Sscan(r.URL.Query().Get("continue"), &from)
		_, _ = fmt.Sscan(r.URL.Query().Get("limit"), &limit)
		to, next := min(from+limit, objects), ""
		if to < objects {
			next = fmt.Sprint(to)
		}
		fmt.Fprintf(w, `{"apiVersion":"sea.example/v1","kind":"RaftList","metadata":{"resourceVersion":"7","continue":%q},"items":[`, next)
		for i := from; i < to; i++ {
			if i > from {
				_, _ = io.WriteString(w, ",")
			}
			fmt.Fprintf(w, `{"apiVersion":"sea.example/v1","kind":"Raft","metadata":{"name":"%d","annotations":{"x":"%s"}}}`, i, large)
		}
		_, _ = io.WriteString(w, "]}")
	})
	raft := schema.GroupVersionKind{Group: "sea.example", Version: "v1", Kind: "Raft"}
	var seen []string
	version, err := c.List(t.Context(), raft, false, metav1.ListOptions{},
		func(obj metav1.Object) { seen = append(seen, obj.GetName()) })
	if err != nil || version != "7" || len(seen) != objects || seen[0] != "0" ||
		seen[objects-1] != fmt.Sprint(objects-1) {
		t.Errorf("%v came at version %s: %v", seen, version, err)
	}
	scanned := 0
	all, err := c.Scan(t.Context(), raft, "", 100, func(*metav1.PartialObjectMetadata) { scanned++ })
	if err != nil || !all || scanned != objects {
		t.Errorf("%d of %d were scanned, all %v: %v", scanned, objects, all, err)
	}
	limit := int64(100)
	page, err := c.RawList(t.Context(), JSON, "/apis/sea.example/v1/rafts", nil, &limit)
	if few := strings.Count(string(page), `"kind":"Raft"`); err != nil || few == 0 || int64(few) != limit {
		t.Errorf("a raw page has %d objects of %d: %v", few, limit, err)
	}
}

// The API server packs answers of more than 128 KiB for clients that take them packed.
func TestAnswersAreAskedForAsTheyAre(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if packed := r.Header.Get("Accept-Encoding"); packed != "" {
			t.Errorf("%s: asked for in %s", r.URL.Path, packed)
		}
		_, _ = io.WriteString(w, `{}`)
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c, err := New(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for _, client := range []rest.Interface{c.raw, c.streams.raw} {
		if _, err := client.Get().AbsPath("/version").Do(t.Context()).Raw(); err != nil {
			t.Fatal(err)
		}
	}
}
