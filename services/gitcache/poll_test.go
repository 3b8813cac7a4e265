package gitcache_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

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
		Spec:     &consolev1.SourceSpec{Git: &consolev1.GitSource{Url: url}},
		Status:   &consolev1.SourceStatus{},
	}
}

func (c *console) statusOf(name string) *consolev1.SourceStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return proto.CloneOf(c.sources[name].GetStatus())
}

// hang leaves all requests without an answer; started gets a value for each.
func hang(started chan<- string) gittest.Fault {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case started <- r.URL.Path:
		default:
		}
		<-r.Context().Done()
		return true
	}
}

func TestAHungHostBlocksNoOther(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := gittest.NewServer(t)
	started := make(chan string, 100)
	other.SetFault(hang(started))
	for i := range 100 {
		f.console.addSource(fmt.Sprintf("hung-%d", i), other.URL+fmt.Sprintf("/%d.git", i))
	}
	first := f.repo.Commit("one", gittest.Files{"a": "1"})
	n := f.one()
	<-started
	f.published("HEAD", first)
	second := f.repo.Commit("two", gittest.Files{"a": "2"})
	n.refresh()
	f.published("HEAD", second)
	if got := len(other.Log()); got > 20 {
		t.Errorf("a host that does not answer was asked %d times at once", got)
	}
}

func TestABranchThatMovesDuringAFetchIsFollowed(t *testing.T) {
	t.Parallel()
	for what, rewrite := range map[string]bool{"forward": false, "force-push": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
			second := ""
			var once sync.Once
			f.git.SetFault(func(_ http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, "/git-upload-pack") {
					once.Do(func() {
						if rewrite {
							f.repo.Work("checkout", "--quiet", "--orphan", "again")
						}
						second = f.repo.Commit("two", gittest.Files{"deploy/a": "2"})
					})
				}
				return false
			})
			n := f.one()
			eventually(t, "the new commit is published", func() error {
				n.refresh()
				if got := head(f.console.status(), "HEAD").GetCommit(); got != second || got == "" {
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
