package folders_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/distributor/internal/folders"
	"fairlead.dev/services/distributor/internal/plan"
)

// console answers as it is told, and says what it was asked.
type console struct {
	answers chan *consolev1.ApplyFolderResponse // nil: it fails
	asked   chan *consolev1.ApplyFolderRequest
	waiting atomic.Int32
}

func (c *console) ApplyFolder(ctx context.Context,
	req *consolev1.ApplyFolderRequest,
) (*consolev1.ApplyFolderResponse, error) {
	c.waiting.Add(1)
	defer c.waiting.Add(-1)
	select {
	case a := <-c.answers:
		c.asked <- req
		if a == nil {
			return nil, errors.New("away")
		}
		return a, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// truths is a plan of services for the catalog.
type truths struct {
	mu  sync.Mutex
	all map[string]plan.Truth // guarded by mu
	// looked is done once somebody has looked at the plan, which was empty then.
	looked func()
}

func (p *truths) set(name string, t plan.Truth) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[name] = t
}

func (p *truths) Catalog() (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.all {
		names = append(names, name)
	}
	slices.Sort(names)
	p.looked()
	return names
}

func (p *truths) Truth(name string) (plan.Truth, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.all[name]
	return t, ok
}

// hanging is the path of a want whose artifact never comes.
const hanging = "hanging"

// local has all artifacts but those.
type local struct{}

func (local) Warm(ctx context.Context, w plan.Want, _ artifact.Digest) error {
	if w.Path != hanging {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// pack puts an artifact into the store.
func pack(t *testing.T, s *artifact.Store, write func(*artifact.Writer)) artifact.Digest {
	t.Helper()
	var tar bytes.Buffer
	w := artifact.NewWriter(&tar, artifact.Limits{})
	write(w)
	sum, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), sum.Digest, &tar); err != nil {
		t.Fatal(err)
	}
	return sum.Digest
}

func file(t *testing.T, w *artifact.Writer, path, content string) {
	t.Helper()
	if err := w.File(path, false, int64(len(content)), strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
}

func truthOf(d artifact.Digest, digest string) plan.Truth {
	return plan.Truth{UID: "u", Revision: 1, Delivery: &plan.Delivery{
		Service: "fleet", Want: plan.Want{Path: "teams/fleet"}, Revision: plan.Revision{Commit: "c1"},
		Artifact: plan.Artifact{Digest: d}, Digest: digest,
	}}
}

// bench is Folders that run.
type bench struct {
	*console
	*truths
	store   *artifact.Store
	folders *folders.Folders
}

func start(t *testing.T) *bench {
	t.Helper()
	store, err := artifact.OpenStore(t.TempDir(), artifact.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	running := make(chan struct{})
	b := &bench{
		console: &console{
			answers: make(chan *consolev1.ApplyFolderResponse),
			asked:   make(chan *consolev1.ApplyFolderRequest, 10),
		},
		truths: &truths{all: map[string]plan.Truth{}, looked: sync.OnceFunc(func() { close(running) })}, store: store,
	}
	b.folders = folders.New(folders.Deps{
		Console: b.console, Plan: b.truths, Origin: local{}, Store: store,
		Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.folders.Run(ctx) }()
	<-running // or the first look would see a folder before it hears that it changed, and ask for it twice
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, store.Close()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// changed says that the service is delivered otherwise.
func (b *bench) changed(t plan.Truth) {
	b.set("fleet", t)
	b.folders.Changed(map[string]struct{}{"fleet": {}})
}

func (b *bench) answer(a *consolev1.ApplyFolderResponse) *consolev1.ApplyFolderRequest {
	b.answers <- a
	return <-b.asked
}

func TestFolderIsSentWhenItIsWanted(t *testing.T) {
	t.Parallel()
	b := start(t)
	d := pack(t, b.store, func(w *artifact.Writer) {
		file(t, w, "README.md", "no")
		file(t, w, "a.yaml", "a: 1")
		file(t, w, "sub/b.json", "{}")
	})
	b.changed(truthOf(d, "d1"))
	if req := b.answer(&consolev1.ApplyFolderResponse{Wanted: true}); req.GetContent() != nil ||
		req.GetDigest() != "d1" || req.GetRevision().GetCommit() != "c1" {
		t.Errorf("asked with %v", req)
	}
	var got []string
	for _, f := range b.answer(&consolev1.ApplyFolderResponse{Settled: true}).GetContent().GetFiles() {
		got = append(got, f.GetPath()+" "+string(f.GetData()))
	}
	if text := fmt.Sprint(got); text != "[teams/fleet/a.yaml a: 1 teams/fleet/sub/b.json {}]" {
		t.Error(text)
	}
	// Settled, it is told again when something changed, and not for others.
	b.folders.Changed(map[string]struct{}{"other": {}})
	b.changed(truthOf(d, "d2"))
	if req := b.answer(&consolev1.ApplyFolderResponse{Settled: true}); req.GetDigest() != "d2" {
		t.Errorf("asked with %v", req)
	}
}

func TestFolderIsAskedForAgain(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.changed(truthOf(pack(t, b.store, func(w *artifact.Writer) { file(t, w, "a.yaml", "a: 1") }), "d1"))
	for range 3 {
		if req := b.answer(&consolev1.ApplyFolderResponse{RetryAfter: durationpb.New(time.Millisecond)}); req.GetContent() != nil {
			t.Errorf("sent unasked: %v", req)
		}
	}
	b.answer(&consolev1.ApplyFolderResponse{Settled: true})
}

func TestFoldersAreAskedForMoreAndMoreRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t)
		truth := truthOf(pack(t, b.store, func(w *artifact.Writer) { file(t, w, "a.yaml", "a: 1") }), "d1")
		var asked []time.Time
		b.changed(truth)
		for range 12 {
			b.answer(&consolev1.ApplyFolderResponse{RetryAfter: durationpb.New(2 * time.Second)}) // of a service that is not there
			asked = append(asked, time.Now())
		}
		for i := 1; i < len(asked); i++ {
			least := min(2*time.Second<<(i-1), time.Minute)
			if after := asked[i].Sub(asked[i-1]); after < least || after > 2*least {
				t.Errorf("asked again after %s, want %s to twice that", after, least)
			}
		}
		// Something new is asked at once.
		b.changed(truthOf(truth.Delivery.Artifact.Digest, "d2"))
		b.answer(&consolev1.ApplyFolderResponse{Settled: true})
		if after := time.Since(asked[len(asked)-1]); after > 0 {
			t.Errorf("another digest was asked for after %s", after)
		}
	})
}

func TestSlowFolderHoldsUpNoOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t)
		d := pack(t, b.store, func(w *artifact.Writer) { file(t, w, "a.yaml", "a: 1") })
		changed := map[string]struct{}{}
		for i := range 10 {
			name := fmt.Sprint("f", i)
			b.set(name, truthOf(d, "d"))
			changed[name] = struct{}{}
		}
		b.folders.Changed(changed)
		synctest.Wait()
		if n := b.waiting.Load(); n != 4 {
			t.Errorf("%d calls at once, want 4", n)
		}
		// Three are never answered here, and the fourth place is enough for the others.
		for range 7 {
			b.answer(&consolev1.ApplyFolderResponse{Settled: true})
		}
		synctest.Wait()
		if n := b.waiting.Load(); n != 3 {
			t.Errorf("%d calls are left, want 3", n)
		}
		// A folder that changes while it is on its way is brought again when that has ended.
		b.folders.Changed(changed)
		for range 3 + 10 {
			b.answer(&consolev1.ApplyFolderResponse{Settled: true})
		}
		synctest.Wait()
		if n := b.waiting.Load(); n != 0 {
			t.Errorf("%d calls are left when all is settled", n)
		}
	})
}

func TestFoldersThatHangStarveNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const hang = 20
		b := start(t)
		d := pack(t, b.store, func(w *artifact.Writer) { file(t, w, "a.yaml", "a: 1") })
		changed := map[string]struct{}{"last": {}}
		b.set("last", truthOf(d, "d"))
		for i := range hang {
			name := fmt.Sprintf("hang%02d", i)
			truth := truthOf(d, "d")
			truth.Delivery.Want.Path = hanging
			b.set(name, truth)
			changed[name] = struct{}{}
		}
		b.folders.Changed(changed)
		// The last one is told of when all others were, and again and again.
		for round := range 5 {
			for others := 0; ; {
				req := b.answer(&consolev1.ApplyFolderResponse{Wanted: true})
				if req.GetService() != "last" {
					others++
				} else if req.GetContent() == nil {
					break
				}
				if others > 2*hang { // each once while the last one is due, and some before it is
					t.Fatalf("round %d: others were told of %d times", round, others)
				}
			}
		}
	})
}

// Files beyond the folder that a folder's kustomization refers to declare nothing.
func TestOnlyTheFolderItselfDeclares(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.changed(truthOf(pack(t, b.store, func(w *artifact.Writer) {
		if err := w.Base("teams/fleet"); err != nil {
			t.Error(err)
		}
		file(t, w, "teams/base/a.yaml", "a: 1")
		file(t, w, "teams/fleet/b.yaml", "b: 1")
		if err := w.Symlink("teams/other.yaml", "base/a.yaml"); err != nil {
			t.Error(err)
		}
	}), "d1"))
	b.answer(&consolev1.ApplyFolderResponse{Wanted: true})
	c := b.answer(&consolev1.ApplyFolderResponse{Settled: true}).GetContent()
	if len(c.GetFiles()) != 1 || c.GetFiles()[0].GetPath() != "teams/fleet/b.yaml" || c.GetRefusal() != "" {
		t.Errorf("got %v", c)
	}
}

func TestFolderThatCantBeReadIsRefused(t *testing.T) {
	t.Parallel()
	for want, write := range map[string]func(*artifact.Writer){
		"more than 3 MiB": func(w *artifact.Writer) { file(t, w, "a.yaml", strings.Repeat("#", 3<<20+1)) },
		"teams/fleet/b.yaml: is a link": func(w *artifact.Writer) {
			file(t, w, "a.yaml", "a: 1")
			if err := w.Symlink("b.yaml", "a.yaml"); err != nil {
				t.Error(err)
			}
		},
	} {
		b := start(t)
		b.changed(truthOf(pack(t, b.store, write), "d1"))
		b.answer(&consolev1.ApplyFolderResponse{Wanted: true})
		if c := b.answer(&consolev1.ApplyFolderResponse{Settled: true}).GetContent(); !strings.Contains(c.GetRefusal(), want) || len(c.GetFiles()) > 0 {
			t.Errorf("want %q, got %v", want, c)
		}
	}
}
