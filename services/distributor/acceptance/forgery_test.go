package acceptance

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/platform/await"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/coordination/redistest"
	"fairlead.dev/platform/identity"
)

// trap is what somebody runs who wants a token of the hub: with a certificate that the hub trusts, and without TLS on
// loopback.
type trap struct {
	asked atomic.Int64
	urls  []string
}

func (w *world) trap() *trap {
	x := &trap{}
	taken := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		x.asked.Add(1)
		rw.WriteHeader(http.StatusServiceUnavailable)
	})
	server := w.serve(taken)
	x.urls = []string{server.url, strings.Replace(server.url, "https://", "http://", 1)}
	return x
}

// withRedis makes a real Redis the world's coordination.
func (w *world) withRedis() {
	w.t.Helper()
	var err error
	if w.coord, err = coordination.Open(redistest.Start(w.t).URL()); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = w.coord.Close() })
}

// A person who can write to Redis makes gitcaches of their own, copies and changes the real one's record, and takes the
// lease of the source, so that their gitcache comes first: it is sent no request, and with that no token.
func TestForgedGitcachesInRedisAreSentNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withRedis()
	w.join("gitcache-1", w.gitServer.url)
	log := &record{}
	w.logged = log
	real, err := w.coord.Members(t.Context(), identity.ServiceGitcache)
	if err != nil || len(real) != 1 {
		t.Fatal(real, err)
	}
	x := w.trap()
	for i, url := range x.urls {
		name := string(rune('a' + i))
		replayed, moved := real[0], real[0]
		replayed.ID = "0-replayed-" + name // before the real one's
		moved.ID, moved.URL = "0-moved-"+name, url
		for _, m := range []coordination.Member{{ID: "0-forged-" + name, URL: url}, replayed, moved} {
			if err := w.coord.Join(t.Context(), identity.ServiceGitcache, m, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := w.coord.Acquire(t.Context(), "source/uid-shop", "0-forged-a", time.Hour); err != nil {
		t.Fatal(err)
	}
	w.ship()
	a := w.start().agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	a.mustHave()
	if n := x.asked.Load(); n > 0 {
		t.Errorf("%d requests went to an address that Redis alone knows", n)
	}
	if n := strings.Count(log.text(), "records of members are ignored"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, log.text())
	}
}

// For one upgrade gitcaches that sign nothing yet are asked. The switch closes.
func TestUnsignedGitcachesAreAskedOnlyDuringAnUpgrade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withRedis()
	if err := w.coord.Join(t.Context(), identity.ServiceGitcache, coordination.Member{ID: "old", URL: w.gitServer.url}, time.Hour); err != nil {
		t.Fatal(err)
	}
	w.ship()
	w.unsigned = identity.UnsignedAccept
	e := w.start()
	e.agent("edge-1").awaitCommit("hello", commit("1"))
	e.stop()

	w.unsigned = identity.UnsignedRefuse
	before, _ := w.git.counts()
	w.git.commit(t, commit("2"), "apps/hello", "second")
	w.console.Put(shop("HEAD", commit("2")))
	a := w.start().agent("edge-1")
	await.True(w.t, "the distributor says that it knows no gitcache", func() bool {
		a.sync()
		return strings.Contains(w.console.hubOf("hello").GetProblem().GetMessage(), "no gitcache is known")
	})
	if after, _ := w.git.counts(); after != before || a.got["hello"].GetRevision().GetCommit() != commit("1") {
		t.Errorf("%d questions after the switch was closed, %s is delivered", after-before,
			a.got["hello"].GetRevision().GetCommit())
	}
}
