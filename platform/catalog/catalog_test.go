package catalog_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"pgregory.net/rapid"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalog"
)

// patience is how long a test waits for what should take milliseconds.
const patience = 5 * time.Minute

// console plays the console's side of one Watch stream after another, as the test says.
type console struct {
	streams chan *watch
}

// watch is one stream: what the client asked, and what the test sends. Closing send ends it with err.
type watch struct {
	token string
	kinds []consolev1.Kind
	send  chan *consolev1.WatchResponse
	err   error
	gone  <-chan struct{} // the client left
}

func (c *console) Watch(ctx context.Context, req *consolev1.WatchRequest,
	out *connect.ServerStream[consolev1.WatchResponse],
) error {
	w := &watch{
		token: req.GetResumeToken(), kinds: req.GetKinds(), send: make(chan *consolev1.WatchResponse), gone: ctx.Done(),
	}
	select {
	case c.streams <- w:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m, ok := <-w.send:
			if !ok {
				return w.err
			}
			if err := out.Send(m); err != nil {
				return err
			}
		}
	}
}

func newConsole(t testing.TB) (*console, consolev1connect.CatalogServiceClient) {
	t.Helper()
	c := &console{streams: make(chan *watch)}
	mux := http.NewServeMux()
	mux.Handle(consolev1connect.NewCatalogServiceHandler(c))
	srv := httptest.NewUnstartedServer(mux)
	h2c := new(http.Protocols)
	h2c.SetUnencryptedHTTP2(true)
	srv.Config.Protocols = h2c
	srv.Start()
	t.Cleanup(srv.Close)
	transport := &http.Transport{Protocols: h2c}
	t.Cleanup(transport.CloseIdleConnections)
	return c, consolev1connect.NewCatalogServiceClient(&http.Client{Transport: transport}, srv.URL)
}

func (c *console) next(t testing.TB) *watch {
	t.Helper()
	select {
	case w := <-c.streams:
		return w
	case <-time.After(patience):
		t.Fatal("nobody dialed")
		return nil
	}
}

func (w *watch) say(t testing.TB, ms ...*consolev1.WatchResponse) {
	t.Helper()
	for _, m := range ms {
		select {
		case w.send <- m:
		case <-w.gone:
			t.Fatal("the client left")
		case <-time.After(patience):
			t.Fatal("nobody reads")
		}
	}
}

func (w *watch) end(err error) {
	w.err = err
	close(w.send)
}

func open(t testing.TB, dir string, client consolev1connect.CatalogServiceClient,
	kinds ...consolev1.Kind,
) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Open(dir, client, slog.New(slog.DiscardHandler), kinds...)
	if err != nil {
		t.Fatal(err)
	}
	c.Hurry(patience)
	return c
}

// run runs a catalog until stop, or the end of the test.
func run(t testing.TB, c *catalog.Catalog) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func begin() *consolev1.WatchResponse {
	return &consolev1.WatchResponse{
		Event: &consolev1.WatchResponse_SnapshotBegin{SnapshotBegin: &consolev1.SnapshotBegin{}},
	}
}

func end(token string) *consolev1.WatchResponse {
	return &consolev1.WatchResponse{
		Event: &consolev1.WatchResponse_SnapshotEnd{SnapshotEnd: &consolev1.SnapshotEnd{}}, ResumeToken: token,
	}
}

func heartbeat(token string) *consolev1.WatchResponse {
	return &consolev1.WatchResponse{
		Event: &consolev1.WatchResponse_Heartbeat{Heartbeat: &consolev1.Heartbeat{}}, ResumeToken: token,
	}
}

func changes(token string, cs ...*consolev1.Change) *consolev1.WatchResponse {
	return &consolev1.WatchResponse{
		Event: &consolev1.WatchResponse_Changes{Changes: &consolev1.Changes{Changes: cs}}, ResumeToken: token,
	}
}

func meta(name, uid string) *consolev1.Metadata { return &consolev1.Metadata{Name: name, Uid: uid} }

func source(name string, heads ...string) *consolev1.Change {
	s := &consolev1.Source{Metadata: meta(name, "uid-"+name), Status: &consolev1.SourceStatus{}}
	for _, ref := range heads {
		s.Status.Heads = append(s.Status.Heads, &consolev1.Head{Ref: ref})
	}
	return &consolev1.Change{Change: &consolev1.Change_Source{Source: s}}
}

func cluster(name string) *consolev1.Change {
	return &consolev1.Change{
		Change: &consolev1.Change_Cluster{Cluster: &consolev1.Cluster{Metadata: meta(name, "uid-"+name)}},
	}
}

func service(name, source, ref, cluster string) *consolev1.Change {
	return &consolev1.Change{Change: &consolev1.Change_Service{Service: &consolev1.Service{
		Metadata: meta(name, "uid-"+name), Spec: &consolev1.ServiceSpec{Source: source, Ref: ref, Cluster: cluster},
	}}}
}

func secret(name string) *consolev1.Change {
	return &consolev1.Change{Change: &consolev1.Change_Secret{Secret: &consolev1.Secret{
		Metadata: meta(name, "uid-"+name), Data: map[string]string{"token": "hunter2"},
	}}}
}

func deleted(kind consolev1.Kind, name, uid string) *consolev1.Change {
	return &consolev1.Change{
		Change: &consolev1.Change_Deleted{Deleted: &consolev1.Deleted{Kind: kind, Name: name, Uid: uid}},
	}
}

// shop is a small whole catalog.
func shop() []*consolev1.WatchResponse {
	return []*consolev1.WatchResponse{
		begin(),
		changes("", source("shop", "HEAD", "refs/heads/dev"), cluster("edge-1"), cluster("edge-2"), secret("shop-git")),
		changes("", service("hello", "shop", "", "edge-1"), service("world", "shop", "dev", "edge-2")),
		end("t1"),
	}
}

// names are what a catalog holds, to compare.
func names(c *catalog.Catalog) string {
	var out []string
	for _, r := range c.Sources() {
		out = append(out, "source/"+r.GetMetadata().GetName())
	}
	for _, r := range c.Clusters() {
		out = append(out, "cluster/"+r.GetMetadata().GetName())
	}
	for _, r := range c.Services() {
		out = append(out, "service/"+r.Name)
	}
	for _, r := range c.Secrets() {
		out = append(out, "secret/"+r.GetMetadata().GetName())
	}
	return strings.Join(out, " ")
}

const shopNames = "source/shop cluster/edge-1 cluster/edge-2 service/hello service/world secret/shop-git"

// await waits for a change that makes ok true.
func await(t *testing.T, s *catalog.Subscription, ok func() bool) {
	t.Helper()
	timeout := time.After(patience)
	for !ok() {
		select {
		case <-s.C():
		case <-timeout:
			t.Fatal("the change never came")
		}
	}
}

func TestCatalogIsReadyOnlyAfterAWholeSnapshot(t *testing.T) {
	t.Parallel()
	con, client := newConsole(t)
	c := open(t, t.TempDir(), client)
	sub := c.Subscribe()
	defer sub.Close()
	run(t, c)
	w := con.next(t)
	ms := shop()
	w.say(t, ms[:3]...)
	w.say(t, heartbeat("")) // taken in after what is before it
	if err := c.Ready(); !errors.Is(err, catalog.ErrNotReady) || names(c) != "" {
		t.Errorf("half a snapshot: %v, %s", err, names(c))
	}
	w.say(t, ms[3])
	await(t, sub, func() bool { return c.Ready() == nil })
	if names(c) != shopNames || !sub.Take().All {
		t.Errorf("got %s", names(c))
	}
	if s, ok := c.Service("hello"); !ok || s.Folder().Source != "shop" || s.Cluster() != "edge-1" ||
		s.UID != "uid-hello" {
		t.Error("no service hello")
	}
	if _, ok := c.Cluster("nope"); ok {
		t.Error("found what is not there")
	}
	src, _ := c.Source("shop")
	if h, ok := catalog.Head(src, "dev"); !ok || h.GetRef() != "refs/heads/dev" {
		t.Errorf("head %v", h)
	}
	if _, ok := catalog.Head(src, "main"); ok {
		t.Error("a head that was not fetched")
	}
}

func TestChangesAreNamedAndMerged(t *testing.T) {
	t.Parallel()
	con, client := newConsole(t)
	c := open(t, t.TempDir(), client)
	sub := c.Subscribe()
	defer sub.Close()
	run(t, c)
	w := con.next(t)
	w.say(t, shop()...)
	await(t, sub, func() bool { return c.Ready() == nil })
	sub.Take()
	w.say(t,
		changes("t2", service("hello", "shop", "v2", "edge-2"), cluster("edge-3")),
		changes("t3", deleted(consolev1.Kind_KIND_SERVICE, "world", "uid-world"),
			deleted(consolev1.Kind_KIND_CLUSTER, "edge-1", "another uid")),
	)
	await(t, sub, func() bool { _, ok := c.Service("world"); return !ok })
	d := sub.Take()
	if _, ok := d.Services["hello"]; !ok || d.All || len(d.Services) != 2 || len(d.Clusters) != 1 ||
		len(d.Sources) != 0 {
		t.Errorf("delta %+v", d)
	}
	if _, ok := c.Cluster("edge-1"); !ok {
		t.Error("a deletion of an older namesake took the cluster away")
	}
	if got := c.ServicesOf("shop"); len(got) != 1 || got[0].Cluster() != "edge-2" || got[0].Folder().Ref != "v2" {
		t.Errorf("services of shop: %v", got)
	}
	if !sub.Take().Empty() {
		t.Error("the same changes twice")
	}
}

func TestStreamResumesAfterAnError(t *testing.T) {
	t.Parallel()
	con, client := newConsole(t)
	c := open(t, t.TempDir(), client)
	sub := c.Subscribe()
	defer sub.Close()
	run(t, c)
	w := con.next(t)
	w.say(t, shop()...)
	w.say(t, changes("t2", cluster("edge-3")))
	w.end(connect.NewError(connect.CodeUnavailable, errors.New("the console stops")))
	w = con.next(t)
	if w.token != "t2" {
		t.Errorf("resumed at %q", w.token)
	}
	w.say(t, heartbeat("t3"))
	w.end(nil)
	w = con.next(t)
	if w.token != "t3" {
		t.Errorf("resumed at %q", w.token)
	}
	if names(c) == "" || c.Ready() != nil {
		t.Error("forgot what it knew")
	}
}

// A stream that breaks inside a snapshot must leave the old catalog standing.
func TestBrokenSnapshotChangesNothing(t *testing.T) {
	t.Parallel()
	con, client := newConsole(t)
	c := open(t, t.TempDir(), client)
	run(t, c)
	w := con.next(t)
	w.say(t, shop()...)
	w.end(nil)
	w = con.next(t)
	w.say(t, begin(), changes("", cluster("other")))
	w.end(nil)
	w = con.next(t)
	if w.token != "" {
		t.Errorf("resumed in the middle of a snapshot at %q", w.token)
	}
	if names(c) != shopNames {
		t.Errorf("got %s", names(c))
	}
	// The next snapshot begins from nothing.
	sub := c.Subscribe()
	defer sub.Close()
	w.say(t, begin(), changes("", cluster("only")), end("t2"))
	await(t, sub, func() bool { return names(c) == "cluster/only" })
}

func TestTokenThatTheConsoleRejectsIsForgotten(t *testing.T) {
	t.Parallel()
	con, client := newConsole(t)
	c := open(t, t.TempDir(), client)
	run(t, c)
	w := con.next(t)
	w.say(t, shop()...)
	w.end(nil)
	con.next(t).end(connect.NewError(connect.CodeInvalidArgument, errors.New("bad token")))
	if w := con.next(t); w.token != "" {
		t.Errorf("asked again with %q", w.token)
	}
}

func TestConsoleThatBreaksTheProtocolIsDialedAgain(t *testing.T) {
	t.Parallel()
	con, client := newConsole(t)
	c := open(t, t.TempDir(), client)
	run(t, c)
	con.next(t).say(t, changes("t1", cluster("edge-1")))
	con.next(t).say(t, end("t1"))
	con.next(t)
	if c.Ready() == nil {
		t.Error("ready without a snapshot")
	}
}

func TestSilentStreamIsDialedAgainAndStale(t *testing.T) {
	t.Parallel()
	con, client := newConsole(t)
	c := open(t, t.TempDir(), client)
	c.Hurry(200 * time.Millisecond)
	run(t, c)
	before := time.Now()
	for names(c) != shopNames { // again, if a busy machine was silent for that long while it told
		if time.Since(before) > patience {
			t.Fatalf("got %s", names(c))
		}
		w := con.next(t)
		for _, m := range shop() {
			select {
			case w.send <- m:
			case <-w.gone:
			}
		}
		select {
		case <-w.gone:
		case <-time.After(patience):
			t.Fatal("a silent stream was kept")
		}
	}
	con.next(t)
	if since, stale := c.Stale(); !stale || since.Before(before) {
		t.Errorf("stale %v since %v", stale, since)
	}
	if names(c) != shopNames {
		t.Error("forgot what it knew")
	}
}

func TestCatalogStartsFromDiskWithTheConsoleAway(t *testing.T) {
	t.Parallel()
	con, client := newConsole(t)
	dir := t.TempDir()
	c := open(t, dir, client)
	stop := run(t, c)
	sub := c.Subscribe()
	defer sub.Close()
	w := con.next(t)
	w.say(t, shop()...)
	w.say(t, changes("t2", cluster("edge-3")))
	await(t, sub, func() bool { _, ok := c.Cluster("edge-3"); return ok })
	stop()

	again := open(t, dir, client)
	if err := again.Ready(); err != nil {
		t.Fatal(err)
	}
	if names(again) != names(c) || len(again.ServicesOf("shop")) != 2 {
		t.Errorf("got %s, want %s", names(again), names(c))
	}
	if sub := again.Subscribe(); !sub.Take().All {
		t.Error("a subscriber of a ready catalog is not told to read it")
	}
	if since, _ := again.Stale(); time.Since(since) > time.Minute {
		t.Errorf("stale since %v", since)
	}
	if again.Current() {
		t.Error("the disk is taken for the console's word")
	}
	news := again.Subscribe()
	defer news.Close()
	news.Take()
	run(t, again)
	w = con.next(t)
	if w.token != "t2" {
		t.Errorf("resumed at %q", w.token)
	}
	w.say(t, changes("t3", cluster("edge-4")))
	await(t, news, func() bool { _, ok := again.Cluster("edge-4"); return ok })
	if again.Current() {
		t.Error("current before it has caught up")
	}
	news.Take()
	w.say(t, heartbeat("t3"))
	await(t, news, again.Current)
	b, err := os.ReadFile(again.Saved())
	if err != nil || bytes.Contains(b, []byte("hunter2")) {
		t.Errorf("the snapshot holds a secret's value: %v", err)
	}
}

func TestBadSnapshotIsPutAside(t *testing.T) {
	t.Parallel()
	con, client := newConsole(t)
	dir := t.TempDir()
	c := open(t, dir, client)
	stop := run(t, c)
	sub := c.Subscribe()
	defer sub.Close()
	con.next(t).say(t, shop()...)
	await(t, sub, func() bool { return c.Ready() == nil })
	stop()
	good, err := os.ReadFile(c.Saved())
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	for name, bad := range map[string][]byte{
		"flipped": flipped, "truncated": good[:len(good)-3], "empty": nil, "other": []byte("hello"),
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(c.Saved())), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		c := open(t, dir, client)
		if c.Ready() == nil || names(c) != "" {
			t.Errorf("%s: loaded %s", name, names(c))
		}
	}
}

// On a disk that takes nothing the bad file stays, and the catalog comes from the console.
func TestBadSnapshotThatCantBePutAsideStopsNoStart(t *testing.T) {
	t.Parallel()
	con, client := newConsole(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "catalog.snapshot"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "catalog.snapshot.bad", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := open(t, dir, client)
	run(t, c)
	sub := c.Subscribe()
	defer sub.Close()
	con.next(t).say(t, shop()...)
	await(t, sub, func() bool { return c.Ready() == nil })
}

func TestOnlyTheKindsThatAreWantedAreKept(t *testing.T) {
	t.Parallel()
	con, client := newConsole(t)
	dir := t.TempDir()
	c := open(t, dir, client, consolev1.Kind_KIND_SECRET, consolev1.Kind_KIND_CLUSTER)
	stop := run(t, c)
	sub := c.Subscribe()
	defer sub.Close()
	w := con.next(t)
	if !slices.Equal(w.kinds, []consolev1.Kind{consolev1.Kind_KIND_CLUSTER, consolev1.Kind_KIND_SECRET}) {
		t.Errorf("asked for %v", w.kinds)
	}
	w.say(t, shop()...) // an older console tells everything
	w.say(t, changes("t2", service("web", "shop", "", "edge-1"), deleted(consolev1.Kind_KIND_SOURCE, "shop", ""),
		cluster("edge-3")))
	const want = "cluster/edge-1 cluster/edge-2 cluster/edge-3 secret/shop-git"
	await(t, sub, func() bool { return names(c) == want })
	if d := sub.Take(); len(d.Services)+len(d.Sources) != 0 {
		t.Errorf("told of %+v", d)
	}
	stop()
	if again := open(t, dir, client, consolev1.Kind_KIND_CLUSTER, consolev1.Kind_KIND_SECRET); names(again) != want {
		t.Errorf("from the disk %s", names(again))
	}
	// A catalog of more kinds must not take what the file has for all there is.
	more := open(t, dir, client)
	if more.Ready() == nil || names(more) != "" {
		t.Errorf("ready with %s", names(more))
	}
	run(t, more)
	if w := con.next(t); w.token != "" || len(w.kinds) > 0 {
		t.Errorf("resumed at %q with kinds %v", w.token, w.kinds)
	}
}

func TestSlowSubscriberHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	con, client := newConsole(t)
	c := open(t, t.TempDir(), client)
	slow, quick := c.Subscribe(), c.Subscribe()
	defer quick.Close()
	run(t, c)
	w := con.next(t)
	w.say(t, shop()...)
	await(t, quick, func() bool { return c.Ready() == nil })
	quick.Take()
	slow.Take()
	for range 1000 {
		w.say(t, changes("t2", cluster("edge-1"), service("hello", "shop", "", "edge-1")))
	}
	w.say(t, changes("t3", cluster("last")))
	await(t, quick, func() bool { _, ok := c.Cluster("last"); return ok })
	if d := slow.Take(); len(d.Clusters) != 2 || len(d.Services) != 1 {
		t.Errorf("%+v", d)
	}
	slow.Close()
}

func TestCanonicalRef(t *testing.T) {
	t.Parallel()
	sha := strings.Repeat("0a", 20)
	for in, want := range map[string]string{
		"": "HEAD", "HEAD": "HEAD", "main": "refs/heads/main", "feature/x": "refs/heads/feature/x",
		"refs/tags/v1":    "refs/tags/v1",
		"refs/heads/main": "refs/heads/main", sha: sha, strings.ToUpper(sha): sha, sha[1:]: "refs/heads/" + sha[1:],
	} {
		if got := catalog.CanonicalRef(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
		if got := catalog.CanonicalRef(catalog.CanonicalRef(in)); got != want {
			t.Errorf("%q: canonical is not stable: %q", in, got)
		}
	}
}

// The index agrees with the services in whatever order changes come.
func TestIndexAgreesWithTheServices(t *testing.T) {
	t.Parallel()
	con, client := newConsole(t)
	c := open(t, t.TempDir(), client)
	sub := c.Subscribe()
	defer sub.Close()
	run(t, c)
	w := con.next(t)
	w.say(t, begin(), end("t"))
	name := rapid.SampledFrom([]string{"a", "b", "c"})
	rapid.Check(t, func(rt *rapid.T) {
		for range rapid.IntRange(1, 8).Draw(rt, "n") {
			n := name.Draw(rt, "service")
			if rapid.Bool().Draw(rt, "delete") {
				w.say(t, changes("t", deleted(consolev1.Kind_KIND_SERVICE, n, "")))
			} else {
				said := service(n, name.Draw(rt, "source"), "", name.Draw(rt, "cluster"))
				if rapid.Bool().Draw(rt, "pin") {
					said.GetService().Spec.Sync, said.GetService().Spec.UnpinAfter = &deliveryv1.SyncSpec{
						Pin: strings.Repeat("a", 40),
					}, strings.Repeat("b", 40)
				}
				w.say(t, changes("t", said))
			}
		}
		marker := rapid.StringMatching(`[a-z]{20}`).Draw(rt, "marker")
		w.say(t, changes("t", cluster(marker)))
		await(t, sub, func() bool { _, ok := c.Cluster(marker); return ok })
		for _, key := range []string{"a", "b", "c"} {
			var bySource []*catalog.Service
			folders, refs := map[catalog.FolderID]int{}, map[string]int{}
			for _, s := range c.Services() {
				if s.Folder().Source == key {
					bySource = append(bySource, s)
					folders[s.FolderID()]++
					for _, ref := range []string{"HEAD", strings.Repeat("a", 40)} {
						if s.Follows(s.Folder().Source, ref) {
							refs[ref]++
						}
					}
				}
			}
			if !maps.Equal(c.FoldersOf(key), folders) {
				rt.Fatalf("folders of %s: %v", key, c.FoldersOf(key))
			}
			if !maps.Equal(c.RefsOf(key), refs) {
				rt.Fatalf("refs of %s: %v, not %v", key, c.RefsOf(key), refs)
			}
			if !slices.Equal(c.ServicesOf(key), bySource) {
				rt.Fatalf("services of %s: %v", key, c.ServicesOf(key))
			}
		}
	})
}
