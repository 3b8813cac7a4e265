package gather

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/remotebase"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/source"
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

// basedOn is a poll of a source whose default branch has an overlay with a base. The commit stands in for that of the
// base's repository, too.
func basedOn(t *testing.T) (*Poll, mirror.Head) {
	t.Helper()
	p, commit := pollOf(t, source.Source{
		Name: "shop", HasDependencies: true, Allow: []string{"a.example.com"},
		Folders: map[string][]source.Folder{source.RefHead: {{Path: "deploy"}}},
	}, gittest.Files{
		"deploy/kustomization.yaml": "resources:\n- " + farBase + "\n",
		"plain/kustomization.yaml":  "{}\n",
	})
	return p, mirror.Head{Ref: baseOf(t, farBase).Ref(), Commit: commit}
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
	b := newBases(newPoll(source.Source{Allow: []string{"a.example.com"}}))
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
	p, h := basedOn(t)
	p.Heads[h.Ref] = h
	first := mustGather(t, p.GatherAll)
	if kept := first.Heads[h.Ref]; kept.Object != h.Commit || len(first.Troubles) != 0 || !first.Needed[h.Ref] {
		t.Errorf("kept is %+v, told %v, needed are %v", kept, first.Troubles, first.Needed)
	}
	maps.Copy(p.Heads, first.Heads)
	if second := mustGather(t, p.GatherAll); len(second.Heads) != 0 || !second.Needed[h.Ref] {
		t.Errorf("the next poll has %+v", second)
	}
	if len(p.Memory.based) != 1 {
		t.Error("the folder is looked at with every poll")
	}
}

// What was fetched is delivered as before when its host is not allowed any more, which is told.
func TestABaseOfAHostThatIsNotAllowedAnyMoreIsNeeded(t *testing.T) {
	t.Parallel()
	p, h := basedOn(t)
	h.Object = h.Commit
	p.Heads[h.Ref] = h
	p.Source.Allow = []string{"b.example.com"}
	is := mustGather(t, p.GatherAll)
	if !is.Needed[h.Ref] || len(is.Troubles) != 1 || !is.Troubles[0].IsHere ||
		!strings.Contains(is.Troubles[0].Text, "deploy/kustomization.yaml line 2") {
		t.Errorf("needed are %v, told %+v", is.Needed, is.Troubles)
	}
}

// The services of a ref mostly do not reach the file: the text names none, and is recorded once for all its folders.
func TestAProblemOfABaseNamesTheFileOnceAndNoService(t *testing.T) {
	t.Parallel()
	p, _ := basedOn(t)
	s := &p.Source
	s.Allow = nil
	s.Users = func() func(string) []string { return func(string) []string { return []string{"other", "shop"} } }
	s.Folders[source.RefHead] = append(s.Folders[source.RefHead], source.Folder{Path: "deploy", Rules: "-*.md\n"})
	is := mustGather(t, p.GatherAll)
	told := s.DescribeTroubles(is.Troubles, source.Problem{}, time.Now())
	if len(told.Single) != 1 || len(is.Troubles) != 2 {
		t.Fatalf("told %d times of %d troubles, want once of 2: %+v", len(told.Single), len(is.Troubles), told.Single)
	}
	got, want := told.Single[0].Message, "deploy/kustomization.yaml line 2 at commit "
	if !strings.Contains(got, want) || strings.Contains(got, "for service") {
		t.Errorf("told %q, want %q and no service", got, want)
	}
}

// A folder that can't be read may need any base: none is dropped.
func TestNoBaseIsDroppedWhileAFolderCannotBeRead(t *testing.T) {
	t.Parallel()
	p, h := basedOn(t)
	unread := source.Folder{Path: "x", Rules: "not canonical"}
	p.Source.Folders[source.RefHead] = append(p.Source.Folders[source.RefHead], unread)
	p.Heads[h.Ref] = h
	is := mustGather(t, p.GatherAll)
	heads := map[string]mirror.Head{}
	if p.Memory.KeepHeads(heads, p.Heads, is); is.Needed != nil || heads[h.Ref].Ref == "" {
		t.Errorf("needed are %v, kept %v", is.Needed, heads)
	}
}
