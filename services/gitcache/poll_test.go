package gitcache_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/gitcache/internal/gittest"
)

// addSource adds a source beside shop.
func (c *console) addSource(name, url string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.announce()
	c.sources[name] = &consolev1.Source{
		Metadata: &consolev1.Metadata{Name: name, Uid: "uid-" + name},
		Spec:     &consolev1.SourceSpec{Git: &consolev1.GitSource{Url: url, Interval: durationpb.New(seldom)}},
		Status:   &consolev1.SourceStatus{},
	}
}

func (c *console) statusOf(name string) *consolev1.SourceStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return proto.CloneOf(c.sources[name].GetStatus())
}

// hang leaves requests without an answer: all, or only fetches.
func hang(started chan<- struct{}, all bool) gittest.Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !all && strings.HasSuffix(r.URL.Path, "/info/refs") {
			return false
		}
		select {
		case started <- struct{}{}:
		default:
		}
		if all {
			<-r.Context().Done()
			return true
		}
		return gittest.HangOnFetch()(w, r)
	}
}

func TestAHungHostBlocksNoOther(t *testing.T) {
	t.Parallel()
	for what, all := range map[string]bool{"lists": true, "fetches": false} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			other := gittest.NewServer(t)
			repo := other.NewRepo(t, "hung.git")
			repo.Commit("one", gittest.Files{"a": "1"})
			started := make(chan struct{}, 1)
			other.SetFault(hang(started, all))
			for i := range 100 {
				f.console.addSource(fmt.Sprintf("hung-%d", i), repo.URL())
			}
			first := f.repo.Commit("one", gittest.Files{"a": "1"})
			n := f.one()
			<-started
			f.published("HEAD", first)
			second := f.repo.Commit("two", gittest.Files{"a": "2"})
			n.refresh()
			f.published("HEAD", second)
			if lists, fetches := other.Count("list"), other.Count("fetch"); all && lists > 8 || fetches > 2 {
				t.Errorf("a host that does not answer was asked %d and %d times at once", lists, fetches)
			}
		})
	}
}

func TestTheLiveStateSaysHowUpstreamIs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"a": "1"})
	n := f.one()
	f.published("HEAD", first)
	n.poll()
	live := n.live()
	if got, want := live.GetUpstreamRequestsLastHour(), int32(len(f.git.Log())); got != want {
		t.Errorf("%d requests in the last hour, upstream saw %d", got, want)
	}
	if live.GetStaleSince() != nil || live.GetMirrorBytes() < 100 || live.GetMirrorPacks() != 1 {
		t.Errorf("the state is %v", live)
	}
	f.git.SetFault(gittest.Status(500))
	n.poll()
	since := n.live().GetStaleSince().AsTime()
	n.poll()
	if again := n.live().GetStaleSince().AsTime(); !again.Equal(since) || time.Since(since) > patience {
		t.Errorf("stale since %s, then since %s", since, again)
	}
	if got := n.metric("fairlead_gitcache_sources_stale"); got != 1 {
		t.Errorf("%v sources are stale", got)
	}
	f.git.SetFault(nil)
	n.poll()
	if got := n.live().GetStaleSince(); got != nil {
		t.Errorf("still stale since %s", got.AsTime())
	}
}

func TestABranchThatMovesDuringAFetchIsFollowed(t *testing.T) {
	t.Parallel()
	for what, rewrite := range map[string]bool{"forward": false, "force-push": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
			var second atomic.Value
			var once sync.Once
			f.git.SetFault(func(_ http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, "/git-upload-pack") {
					once.Do(func() {
						if rewrite {
							f.repo.Work("checkout", "--quiet", "--orphan", "again")
						}
						second.Store(f.repo.Commit("two", gittest.Files{"deploy/a": "2"}))
					})
				}
				return false
			})
			n := f.one()
			eventually(t, "the new commit is published", func() error {
				n.refresh()
				if got := head(f.console.status(), "HEAD").GetCommit(); got != second.Load() {
					return errors.New("at " + got)
				}
				return nil
			})
			f.problem()
			if got := n.download(n.resolve("HEAD", "deploy").GetArtifact().GetDigest())["a"]; got != "2" {
				t.Errorf("served %q", got)
			}
		})
	}
}

func TestASHA256RepositoryIsSaid(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"a": "1"})
	f.one()
	f.published("HEAD", first)
	f.console.setSource(f.git.NewSHA256Repo(t, "new.git").URL(), "")
	f.problem("uses SHA-256 object names, which Fairlead can't read yet")
	if got := head(f.console.status(), "HEAD").GetCommit(); got != first {
		t.Errorf("the head is at %q", got)
	}
}
