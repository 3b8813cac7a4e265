package owner

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/remotebase"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
)

const farBase = "https://a.example.com/org/repo//plain?ref=v1"

func baseOf(t *testing.T, text string) remotebase.Base {
	t.Helper()
	b, _, err := remotebase.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// basedOn is a tenure of a source whose default branch has an overlay with a base. The commit stands in for that of the
// base's repository, too.
func basedOn(t *testing.T) (*tenure, source.Source, mirror.Head) {
	t.Helper()
	s := source.Source{
		Name: "shop", HasDependencies: true, Allow: []string{"a.example.com"},
		Folders: map[string][]source.Folder{source.RefHead: {{Path: "deploy"}}},
	}
	tn := newTenure(s)
	m, commit := fetchedFiles(t, gittest.Files{
		"deploy/kustomization.yaml": "resources:\n- " + farBase + "\n",
		"plain/kustomization.yaml":  "{}\n",
	})
	tn.mirror, tn.heads = m, map[string]mirror.Head{source.RefHead: {Ref: source.RefHead, Object: commit, Commit: commit}}
	return tn, s, mirror.Head{Ref: baseOf(t, farBase).Ref(), Commit: commit}
}

func gitRemote() upstream.Remote {
	return upstream.Remote{URL: &url.URL{Scheme: "https", Host: "git.example.com", Path: "/team/shop"}}
}

// As with git fetch.
func TestARevisionIsATagBeforeABranch(t *testing.T) {
	t.Parallel()
	for revision, want := range map[string][]string{
		"HEAD": {"HEAD"}, "v1": {"refs/tags/v1", "refs/heads/v1"}, "refs/heads/v1": {"refs/heads/v1"},
		"tags/v1": {"refs/tags/v1", "refs/tags/tags/v1", "refs/heads/tags/v1"},
	} {
		if got := refNames(revision); !slices.Equal(got, want) {
			t.Errorf("%s is %v, want %v", revision, got, want)
		}
	}
}

func TestBasesOfASourceHaveALimit(t *testing.T) {
	t.Parallel()
	b := newBases(newTenure(source.Source{}), gitRemote(), source.Source{Allow: []string{"a.example.com"}})
	at := func(i int) remotebase.Base { return baseOf(t, fmt.Sprintf("https://a.example.com/org/r%d", i)) }
	for i := range maxNeededBases {
		if err := b.admitBase(at(i)); err != nil {
			t.Fatalf("the %dth: %v", i+1, err)
		}
		b.needed[at(i).Ref()] = true
	}
	if err := b.admitBase(at(0)); err != nil {
		t.Errorf("a base that another folder needs too: %v", err)
	}
	if err := b.admitBase(at(maxNeededBases)); err == nil || !strings.Contains(err.Error(), fmt.Sprint(maxNeededBases)) {
		t.Errorf("one more: %v", err)
	}
}

// A base that the console told of becomes durable in the mirror, and is not asked for again.
func TestABaseThatAnotherReplicaPublishedIsKept(t *testing.T) {
	t.Parallel()
	tn, s, h := basedOn(t)
	tn.heads[h.Ref] = h
	p := &plan{}
	for range 2 {
		if err := tn.bringDependencies(t.Context(), gitRemote(), s, p); err != nil {
			t.Fatal(err)
		}
		if _, err := tn.settleDependencies(p); err != nil {
			t.Fatal(err)
		}
	}
	if _, kept := tn.mirror.Heads()[h.Ref]; !kept || len(p.troubles) != 0 || !p.needed[h.Ref] {
		t.Errorf("the mirror keeps it: %t, told %v, needed are %v", kept, p.troubles, p.needed)
	}
	if len(tn.based) != 1 {
		t.Error("the folder is looked at with every poll")
	}
}

// What was fetched is delivered as before when its host is not allowed any more, which is told.
func TestABaseOfAHostThatIsNotAllowedAnyMoreIsNeeded(t *testing.T) {
	t.Parallel()
	tn, s, h := basedOn(t)
	h.Object = h.Commit
	tn.heads[h.Ref] = h
	s.Allow = []string{"b.example.com"}
	p := &plan{}
	if err := tn.bringDependencies(t.Context(), gitRemote(), s, p); err != nil {
		t.Fatal(err)
	}
	if !p.needed[h.Ref] || len(p.troubles) != 1 || !p.troubles[0].IsHere ||
		!strings.Contains(p.troubles[0].Text, "deploy/kustomization.yaml line 2") {
		t.Errorf("needed are %v, told %+v", p.needed, p.troubles)
	}
}

// The services of a ref mostly do not reach the file: the text names none, and is recorded once for all its folders.
func TestAProblemOfABaseNamesTheFileOnceAndNoService(t *testing.T) {
	t.Parallel()
	tn, s, _ := basedOn(t)
	s.Allow = nil
	s.Users = func() func(string) []string { return func(string) []string { return []string{"other", "shop"} } }
	s.Folders[source.RefHead] = append(s.Folders[source.RefHead], source.Folder{Path: "deploy", Rules: "-*.md\n"})
	p := &plan{}
	if err := tn.bringDependencies(t.Context(), gitRemote(), s, p); err != nil {
		t.Fatal(err)
	}
	told := s.Describe(p.troubles, source.Problem{}, time.Now())
	if len(told.Single) != 1 || len(p.troubles) != 2 {
		t.Fatalf("told %d times of %d troubles, want once of 2: %+v", len(told.Single), len(p.troubles), told.Single)
	}
	got, want := told.Single[0].Message, "deploy/kustomization.yaml line 2 at commit "
	if !strings.Contains(got, want) || strings.Contains(got, "for service") {
		t.Errorf("told %q, want %q and no service", got, want)
	}
}

// A folder that can't be read may need any base: none is dropped.
func TestNoBaseIsDroppedWhileAFolderCannotBeRead(t *testing.T) {
	t.Parallel()
	tn, s, h := basedOn(t)
	s.Folders[source.RefHead] = append(s.Folders[source.RefHead], source.Folder{Path: "x", Rules: "not canonical"})
	tn.heads[h.Ref] = h
	p := &plan{}
	if err := tn.bringDependencies(t.Context(), gitRemote(), s, p); err != nil {
		t.Fatal(err)
	}
	heads := map[string]mirror.Head{}
	if tn.keepDependencies(heads, p); p.needed != nil || heads[h.Ref].Ref == "" {
		t.Errorf("needed are %v, kept %v", p.needed, heads)
	}
}
