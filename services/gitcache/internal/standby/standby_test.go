package standby

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/services/gitcache/internal/build"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/mirror"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const uid, name = "uid-shop", "shop"

// replica is the disk of one, and what it gives to others.
type replica struct {
	id      string
	mirrors *mirror.Mirrors
	builder *build.Builder
	store   *artifact.Store
	sender  *Sender
}

func newReplica(t *testing.T, id string) *replica {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	r := &replica{id: id}
	var err error
	if r.mirrors, err = mirror.Open(t.TempDir(), log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.mirrors.Close)
	if r.store, err = artifact.OpenStore(t.TempDir(), artifact.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.store.Close() })
	r.builder, err = build.New(t.TempDir(), build.Deps{
		Mirrors: r.mirrors, Store: r.store, Tracer: noop.NewTracerProvider().Tracer(""), Log: log,
		Observe: func(time.Duration, error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.builder.Close() })
	r.sender = &Sender{Mirrors: r.mirrors, Builder: r.builder}
	return r
}

func (r *replica) mirror(t *testing.T) *mirror.Mirror {
	t.Helper()
	m, err := r.mirrors.Mirror(uid)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// push makes a commit, and puts it into the replica's mirror as a fetch does.
func (r *replica) push(t *testing.T, repo *gittest.Repo, content string) mirror.Head {
	t.Helper()
	before := repo.Bare("for-each-ref", "--format=^%(objectname)")
	commit := repo.Commit("commit", gittest.Files{"deploy/a": content})
	pack := exec.CommandContext(t.Context(), "git", "-C", repo.URLOnDisk(), "pack-objects", "--revs", "--stdout", "-q")
	pack.Stdin = strings.NewReader(commit + "\n" + before + "\n")
	b, err := pack.Output()
	if err != nil {
		t.Fatal(err)
	}
	m := r.mirror(t)
	if _, err := m.AddPack(t.Context(), bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	id := git.HashOf(commit)
	h := mirror.Head{Ref: "HEAD", Object: id, Commit: id, Subject: content}
	if err := m.SetHeads(map[string]mirror.Head{"HEAD": h}); err != nil {
		t.Fatal(err)
	}
	return h
}

// network is the replicas that one of them can ask: the network's edge, without a network.
type network struct {
	others []*replica // the owner first, if there is one
	owner  bool
	spoil  func(pack string, content []byte) []byte
}

func (n *network) Holders(context.Context, string) []coordination.Member {
	var all []coordination.Member
	for _, r := range n.others {
		all = append(all, coordination.Member{ID: r.id})
	}
	return all
}

func (n *network) OwnerMember(context.Context, string) (coordination.Member, bool) {
	if !n.owner {
		return coordination.Member{}, false
	}
	return coordination.Member{ID: n.others[0].id}, true
}

func (n *network) find(m coordination.Member) *replica {
	return n.others[slices.IndexFunc(n.others, func(r *replica) bool { return r.id == m.ID })]
}

func (n *network) Copy(_ context.Context, from coordination.Member, r Request) (Incoming, error) {
	manifest, packs, err := n.find(from).sender.Open(r)
	if err != nil {
		return nil, err
	}
	return &local{n, manifest, packs}, nil
}

func (n *network) OpenAt(_ context.Context, from coordination.Member, d artifact.Digest) (io.ReadCloser, error) {
	return n.find(from).store.Open(d)
}

type local struct {
	n        *network
	manifest Manifest
	packs    []Pack
}

func (l *local) Manifest() Manifest { return l.manifest }

func (l *local) Next() (string, io.Reader, error) {
	if len(l.packs) == 0 {
		return "", nil, io.EOF
	}
	p := l.packs[0]
	l.packs = l.packs[1:]
	defer p.File.Close()
	b, err := io.ReadAll(p.File)
	if l.n.spoil != nil {
		b = l.n.spoil(p.Name, b)
	}
	return p.Name, bytes.NewReader(b), err
}

func (l *local) Close() error {
	Close(l.packs)
	return nil
}

// published is a catalog with one source and a service that uses its folder deploy.
type published []mirror.Head

func (p published) Names() map[string]string   { return map[string]string{uid: name} }
func (p published) Heads(string) []mirror.Head { return p }
func (p published) Changed() <-chan struct{}   { return nil }
func (p published) Places(string) (all []build.Place) {
	for _, h := range p {
		all = append(all, build.Place{Source: uid, Commit: h.Commit, Path: "deploy"})
	}
	return all
}

func (r *replica) copier(t *testing.T, n *network, heads ...mirror.Head) *copier {
	t.Helper()
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return &copier{
		replica: r.id, catalog: published(heads), peers: n, mirrors: r.mirrors, builder: r.builder, store: r.store,
		tracer: noop.NewTracerProvider().Tracer(""), metrics: metrics,
	}
}

func same(t *testing.T, a, b *replica) {
	t.Helper()
	var states []string
	for _, r := range []*replica{a, b} {
		packs, err := packNames(r.mirror(t))
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, State(packs, headsOf(r.mirror(t))))
	}
	if states[0] != states[1] {
		t.Error("the copy is not what its original is")
	}
}

func TestACopyIsWhatItsOriginalIs(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "shop.git")
	owner, spare := newReplica(t, "owner"), newReplica(t, "spare")
	n := &network{others: []*replica{owner}, owner: true}
	first := owner.push(t, repo, "1")
	built, err := owner.builder.Resolve(t.Context(), build.Place{Source: uid, Commit: first.Commit, Path: "deploy"})
	if err != nil {
		t.Fatal(err)
	}
	c := spare.copier(t, n, first)
	if o, err := c.copySource(t.Context(), uid, name, follow); err != nil || !o.news {
		t.Fatalf("the first copy: %+v, %v", o, err)
	}
	same(t, owner, spare)
	if !spare.store.Has(built.Artifact.Digest) {
		t.Error("the artifact that services use is not here")
	}
	if o, err := c.copySource(t.Context(), uid, name, follow); err != nil || o.news {
		t.Errorf("the second copy: %+v, %v", o, err)
	}
	if got := owner.sender.Copies(uid); !slices.Equal(got, []string{"spare"}) {
		t.Errorf("the owner knows of copies at %q", got)
	}

	second := owner.push(t, repo, "2")
	if o, err := spare.copier(t, n, second).copySource(t.Context(), uid, name, follow); err != nil || !o.news {
		t.Fatalf("after a push: %+v, %v", o, err)
	}
	same(t, owner, spare)
}

func TestACopyLosesNothingThatWasPublished(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "shop.git")
	behind, ahead := newReplica(t, "behind"), newReplica(t, "ahead")
	first := behind.push(t, repo, "1")
	n := &network{others: []*replica{behind}, owner: true}
	if _, err := ahead.copier(t, n, first).copySource(t.Context(), uid, name, follow); err != nil {
		t.Fatal(err)
	}
	second := ahead.push(t, repo, "2")
	if _, err := ahead.copier(t, n, second).copySource(t.Context(), uid, name, follow); !errors.Is(err, ErrBehind) {
		t.Errorf("a copy of what is older: %v", err)
	}
	if h, _ := ahead.mirror(t).Head("HEAD"); h.Commit != second.Commit {
		t.Errorf("the head went back to %s", h.Commit)
	}
	// The replica that is behind gets it from the other one, also as the owner.
	if _, err := behind.copier(t, &network{others: []*replica{ahead}}, second).copySource(t.Context(), uid, name, follow); err != nil {
		t.Fatal(err)
	}
	same(t, ahead, behind)
}

// An owner names a head that it could not clone again, because upstream does not have the commit any more.
func TestTheLastCopyOfAPublishedCommitStays(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "shop.git")
	owner, spare := newReplica(t, "owner"), newReplica(t, "spare")
	n := &network{others: []*replica{owner}, owner: true}
	gone := owner.push(t, repo, "1")
	for range 2 { // the second look confirms
		if _, err := spare.copier(t, n, gone).copySource(t.Context(), uid, name, follow); err != nil {
			t.Fatal(err)
		}
	}
	third := newReplica(t, "third")
	for range 2 {
		if _, err := third.copier(t, n, gone).copySource(t.Context(), uid, name, follow); err != nil {
			t.Fatal(err)
		}
	}
	m := owner.mirror(t)
	m.Doubt(mirror.ErrMissing)
	fresh, err := m.Fresh()
	if err != nil {
		t.Fatal(err)
	}
	if err := fresh.Use(); err != nil {
		t.Fatal(err)
	}
	kept := owner.push(t, gittest.NewServer(t).NewRepo(t, "shop.git"), "another")
	gone.Ref = "refs/heads/gone"
	if err := m.SetHeads(map[string]mirror.Head{kept.Ref: kept, gone.Ref: gone}); err != nil {
		t.Fatal(err)
	}
	if _, err := spare.copier(t, n, kept, gone).copySource(t.Context(), uid, name, follow); !errors.Is(err, ErrBehind) {
		t.Errorf("a copy of what lacks a published commit: %v", err)
	}
	if !spare.mirror(t).Has(gone.Commit) {
		t.Error("nobody has the commit any more")
	}
	if enough, err := third.copier(t, n, kept, gone).isElsewhere(t.Context(), uid, name); err != nil || enough {
		t.Errorf("the owner lacks what was published: %t, %v", enough, err)
	}
}

func TestWithoutItsOwnerASourceIsCopiedFromWhoHasIt(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "shop.git")
	empty, full, mine := newReplica(t, "empty"), newReplica(t, "full"), newReplica(t, "mine")
	head := full.push(t, repo, "1")
	n := &network{others: []*replica{empty, full}}
	if _, err := mine.copier(t, n, head).copySource(t.Context(), uid, name, follow); err != nil {
		t.Fatal(err)
	}
	same(t, full, mine)
	// A copy that all have needs nobody to be asked, and is no failure.
	if o, err := mine.copier(t, n, head).copySource(t.Context(), uid, name, follow); !errors.Is(err, errNobody) || o.news {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestWhatIsDamagedOnTheWayIsNotTaken(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "shop.git")
	owner, spare := newReplica(t, "owner"), newReplica(t, "spare")
	head := owner.push(t, repo, strings.Repeat("content\n", 100))
	for what, spoil := range map[string]func(string, []byte) []byte{
		"a byte changed": func(_ string, b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"cut short":      func(_ string, b []byte) []byte { return b[:len(b)-30] },
		"nothing":        func(string, []byte) []byte { return nil },
	} {
		n := &network{others: []*replica{owner}, owner: true, spoil: spoil}
		if _, err := spare.copier(t, n, head).copySource(t.Context(), uid, name, follow); err == nil {
			t.Errorf("%s: taken", what)
		}
		if heads := spare.mirror(t).Heads(); len(heads) != 0 {
			t.Errorf("%s: heads without their objects: %v", what, heads)
		}
	}
	if _, err := spare.copier(t, &network{others: []*replica{owner}, owner: true}, head).copySource(t.Context(), uid, name, follow); err != nil {
		t.Errorf("it does not heal: %v", err)
	}
	same(t, owner, spare)
}

// TestACopyThatWasCutShortIsNotSeenAndGoesOn where it was.
func TestACopyThatWasCutShortIsNotSeenAndGoesOn(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "shop.git")
	owner, spare := newReplica(t, "owner"), newReplica(t, "spare")
	owner.push(t, repo, "1")
	head := owner.push(t, repo, "2")
	var sent []string
	n := &network{others: []*replica{owner}, owner: true, spoil: func(pack string, b []byte) []byte {
		if sent = append(sent, pack); len(sent) == 2 {
			return b[:len(b)/2]
		}
		return b
	}}
	c := spare.copier(t, n, head)
	if _, err := c.copySource(t.Context(), uid, name, follow); err == nil {
		t.Fatal("half a pack was taken")
	}
	if _, packs := spare.mirror(t).Size(); packs != 0 {
		t.Error("half a copy is seen")
	}
	if _, err := c.copySource(t.Context(), uid, name, follow); err != nil {
		t.Fatal(err)
	}
	same(t, owner, spare)
	if len(sent) != 3 || sent[1] != sent[2] {
		t.Errorf("sent %q", sent)
	}
}

func TestAnOwnerKeepsWhatItHasBesides(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	owner, other := newReplica(t, "owner"), newReplica(t, "other")
	mine := owner.push(t, server.NewRepo(t, "mine.git"), "1")
	mine.Ref = "refs/heads/mine" // fetched, and not published yet
	if err := owner.mirror(t).SetHeads(map[string]mirror.Head{mine.Ref: mine}); err != nil {
		t.Fatal(err)
	}
	head := other.push(t, server.NewRepo(t, "shop.git"), "2")
	n := &network{others: []*replica{other}}
	if o, err := owner.copier(t, n, head).copySource(t.Context(), uid, name, merge); err != nil || !o.news {
		t.Fatalf("%+v, %v", o, err)
	}
	if !hasAll(owner.mirror(t), []mirror.Head{mine, head}) {
		t.Error("something is missing")
	}
	for ref, want := range map[string]git.Hash{"HEAD": head.Commit, mine.Ref: mine.Commit} {
		if h, _ := owner.mirror(t).Head(ref); h.Commit != want {
			t.Errorf("%s is at %s", ref, h.Commit)
		}
	}
}

func TestADamagedCopyIsMadeAgain(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "shop.git")
	owner, spare := newReplica(t, "owner"), newReplica(t, "spare")
	head := owner.push(t, repo, "1")
	n := &network{others: []*replica{owner}, owner: true}
	if _, err := spare.copier(t, n, head).copySource(t.Context(), uid, name, follow); err != nil {
		t.Fatal(err)
	}
	spare.mirror(t).Doubt(errors.New("a bad sector"))
	if _, _, err := spare.sender.Open(Request{UID: uid}); !errors.Is(err, ErrNothing) {
		t.Errorf("it hands out what is damaged: %v", err)
	}
	if o, err := spare.copier(t, n, head).copySource(t.Context(), uid, name, follow); err != nil || !o.news {
		t.Fatalf("%+v, %v", o, err)
	}
	if spare.mirror(t).Doubted() {
		t.Error("it is still in doubt")
	}
	same(t, owner, spare)
}

func TestACopyMayGoOnlyIfTwoOthersHaveIt(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "shop.git")
	owner, spare, third := newReplica(t, "owner"), newReplica(t, "spare"), newReplica(t, "third")
	head := owner.push(t, repo, "1")
	n := &network{others: []*replica{owner}, owner: true}
	for _, r := range []*replica{third, third} { // the second look confirms
		if _, err := r.copier(t, n, head).copySource(t.Context(), uid, name, follow); err != nil {
			t.Fatal(err)
		}
	}
	if enough, err := third.copier(t, n, head).isElsewhere(t.Context(), uid, name); err != nil || enough {
		t.Errorf("only the owner has it besides: %t, %v", enough, err)
	}
	for range 2 {
		if _, err := spare.copier(t, n, head).copySource(t.Context(), uid, name, follow); err != nil {
			t.Fatal(err)
		}
	}
	if enough, err := third.copier(t, n, head).isElsewhere(t.Context(), uid, name); err != nil || !enough {
		t.Errorf("the owner and another one have it: %t, %v", enough, err)
	}
	newer := head
	newer.Commit = git.HashOf(strings.Repeat("1", 40))
	if enough, err := third.copier(t, n, newer).isElsewhere(t.Context(), uid, name); err != nil || enough {
		t.Errorf("the owner lacks what was published: %t, %v", enough, err)
	}
}

// second is the place of a replica that keeps a copy, and owns nothing.
type second struct{}

func (second) Place(string) int { return 1 }
func (second) Single() bool     { return false }
func (second) Owns(string) bool { return false }
func (second) Borrow(ctx context.Context, _ string) (context.Context, func(), bool) {
	return ctx, func() {}, true
}

// To find out what places are pinned can take half a minute for each.
func TestCopiesAreMadeWhilePlacesAreLookedUp(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "shop.git")
	owner, spare := newReplica(t, "owner"), newReplica(t, "spare")
	first := owner.push(t, repo, "1")
	c := spare.copier(t, &network{others: []*replica{owner}, owner: true}, first)
	s := New("spare", Deps{
		Placement: second{}, Peers: c.peers, Owner: func() Owner { return second{} }, Catalog: c.catalog,
		Mirrors: spare.mirrors,
		Builder: spare.builder, Store: spare.store, Metrics: c.metrics, Tracer: c.tracer,
		Log: slog.New(slog.DiscardHandler),
	})
	pinning := make(chan struct{})
	s.pin = func(ctx context.Context, _ []build.Place) {
		close(pinning) // the pin is begun once
		<-ctx.Done()
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-pinning
	for s.Count() == 0 {
		if t.Context().Err() != nil {
			t.Fatal("no copy is made")
		}
		runtime.Gosched()
	}
	same(t, owner, spare)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
