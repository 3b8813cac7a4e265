package acceptance

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/inventory"
)

var rounds = flag.Int("rounds", 6, "how often the agent is killed, each time at another of its writes")

// hangman stands before the API server. At one write it hangs, before or after that was done, until the agent is gone.
type hangman struct {
	mu      sync.Mutex // guards what follows
	writes  int
	at      int // of the writes, 0: at none
	done    bool
	reached chan struct{}
	deleted map[string]int // answers to deletions that took something away, by path
}

// hang makes the next write with this number hang. done: it gets through, and only its answer does not.
func (h *hangman) hang(at int, done bool) (reached <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writes, h.at, h.done, h.reached, h.deleted = 0, at, done, make(chan struct{}), map[string]int{}
	return h.reached
}

// stop has nothing hang any more, and tells how many writes there were.
func (h *hangman) stop() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = 0
	return h.writes
}

// before puts a hangman before the API server of a world.
func (h *hangman) before(w *world) {
	w.t.Helper()
	config, err := cluster.Load(w.api.kubeconfig, "")
	if err != nil {
		w.t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		w.t.Fatal(err)
	}
	reverse := &httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.URL.Query().Has("dryRun") {
			reverse.ServeHTTP(out, r)
			return
		}
		body, err := io.ReadAll(r.Body) // only then does the server notice that the client is gone
		if err != nil {
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		h.mu.Lock()
		h.writes++
		hangs, done, reached := h.writes == h.at, h.done, h.reached
		h.mu.Unlock()
		if hangs && !done {
			close(reached)
			<-r.Context().Done()
			return
		}
		answer := httptest.NewRecorder()
		reverse.ServeHTTP(answer, r)
		if r.Method == http.MethodDelete && answer.Code < http.StatusBadRequest {
			h.mu.Lock()
			h.deleted[r.URL.Path]++
			h.mu.Unlock()
		}
		if hangs {
			close(reached)
			<-r.Context().Done()
			return
		}
		maps.Copy(out.Header(), answer.Header())
		out.WriteHeader(answer.Code)
		_, _ = out.Write(answer.Body.Bytes())
	}))
	w.t.Cleanup(server.Close)
	w.api.kubeconfig = filepath.Join(w.t.TempDir(), "kubeconfig")
	content := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\n", server.URL)
	if err := os.WriteFile(w.api.kubeconfig, []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// uids of the ConfigMaps of the world's namespace, by name.
func (w *world) uids() map[string]types.UID {
	w.t.Helper()
	found, err := w.cluster.ConfigMaps(w.namespace).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	uids := map[string]types.UID{}
	for _, obj := range found.Items {
		if obj.GetName() != "kube-root-ca.crt" {
			uids[obj.GetName()] = obj.GetUID()
		}
	}
	return uids
}

// Killed with kill -9 again and again, at any write of applying, pruning and removing, before it is done or after:
// there is no orphan, nothing is pruned twice, and no object is lost. -rounds 100 is the long form.
func TestKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := &hangman{}
	h.hang(0, false)
	h.before(w)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	name := w.service("all")
	kill := w.process()
	steps, kills := 0, 0
	var before map[string]types.UID
	for round := range *rounds + 1 {
		value := fmt.Sprint("v", round)
		files := map[string]string{
			"a.yaml": annotated("early", value, `fairlead.dev/wave: "-1"`),
			"b.yaml": annotated("usual", value, "") + annotated("second", value, "") + annotated("same", "1", ""),
			"c.yaml": annotated("hook", value, "fairlead.dev/hook: post-sync, fairlead.dev/hook-delete: succeeded"),
			"d.yaml": "apiVersion: v1\nkind: ConfigMap\nimmutable: true\nmetadata: {name: anew, annotations: {fairlead.dev/recreate: allowed}}\ndata: {x: \"" + value + "\"}\n",
			"e.yaml": annotated("gone-"+value, value, "") + annotated("late-"+value, value, `fairlead.dev/wave: "1"`),
		}
		leaves := round%10 == 9
		at := 0 // the first round tells how many writes there are
		if round > 0 {
			at = 1 + random.IntN(steps)
		}
		done := random.IntN(2) == 0
		reached := h.hang(at, done)
		through := func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed }
		if digest := ""; leaves {
			w.hub.remove(name)
		} else {
			digest = w.hub.push(t, name, w.namespace, files)
			through = func(r *deliveryv1.ServiceReport) bool {
				return r.GetDigest() == digest && r.GetPhase() == healthy
			}
		}
		if round == 0 {
			w.hub.await(t, name, through)
			steps = h.stop()
			before = w.uids()
			continue
		}
		await.True(w.t, "the agent is at the write, or through", func() bool {
			select {
			case <-reached:
				kills++
				return true
			default:
				return w.hub.said(name, through)
			}
		})
		kill()
		h.stop()
		kill = w.process()
		w.hub.await(t, name, through)
		where := fmt.Sprintf("round %d, killed at write %d of %d, done: %t", round, at, steps, done)
		after := w.uids()
		want := []string{"anew", "early", "gone-" + value, "late-" + value, "same", "second", "usual"}
		if leaves {
			want = nil
			w.mustBeGone("v1", "ConfigMap", inventory.Namespace, "inventory."+name)
		} else if record := w.record(name); !record.Complete || len(record.Entries) != len(want) {
			t.Fatalf("%s: inventory %+v", where, record)
		}
		var got []string
		for object, uid := range after {
			got = append(got, object)
			if was, ok := before[object]; ok && was != uid && object != "anew" {
				t.Errorf("%s: %s was lost and made again", where, object)
			}
			if object != "same" {
				w.mustData(object, value)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Fatalf("%s: there are %v, want %v", where, got, want)
		}
		h.mu.Lock()
		for path, times := range h.deleted {
			if times > 1 && !strings.HasSuffix(path, "/hook") {
				t.Errorf("%s: %s was deleted %d times", where, path, times)
			}
		}
		h.mu.Unlock()
		before = after
	}
	if t.Logf("killed %d times at a write of %d", kills, steps); kills < *rounds/3 {
		t.Errorf("only %d of %d rounds were cut short", kills, *rounds)
	}
}
