package wire

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/services/gitcache/internal/build"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/handoff"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/owner"
	"fairlead.dev/services/gitcache/internal/standby"
)

const aHash = "5d1b4b1e5d1b4b1e5d1b4b1e5d1b4b1e5d1b4b1e"

func someManifest() standby.Manifest {
	return standby.Manifest{
		Packs: []string{aHash},
		Heads: []mirror.Head{{
			Ref: "HEAD", Object: git.HashOf(aHash), Commit: git.HashOf(aHash),
			CommitTime: time.Unix(1, 0).UTC(), Subject: "one",
			Author: "Ada", FetchTime: time.Unix(2, 0).UTC(), Resolved: "refs/tags/v1", SignedBy: "key", Newer: "v2",
			Submodules: []git.Hash{git.HashOf(aHash)},
		}},
		Built: []build.Record{
			{SourceID: "id", Tree: aHash, Filter: "f", Digest: "sha256:0", Size: 3, Files: 2},
			{SourceID: "overlay", Tree: aHash, Digest: "sha256:0", Root: aHash, Folder: "caf\xe9", Submodules: true, Dependencies: true},
		},
		Copies: []string{"two"},
	}
}

func TestAManifestComesOutAsItWentIn(t *testing.T) {
	t.Parallel()
	m, err := ManifestMessage(someManifest())
	if err != nil {
		t.Fatal(err)
	}
	got, err := Manifest(m)
	if err != nil || !reflect.DeepEqual(got, someManifest()) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// frozenHeads are the heads of a manifest as all releases so far send them: hashes are lists of numbers.
const frozenHeads = `[{"ref":"HEAD",` +
	`"object":[93,27,75,30,93,27,75,30,93,27,75,30,93,27,75,30,93,27,75,30],` +
	`"commit":[93,27,75,30,93,27,75,30,93,27,75,30,93,27,75,30,93,27,75,30],` +
	`"commit_time":"1970-01-01T00:00:01Z","subject":"one","author":"Ada","fetch_time":"1970-01-01T00:00:02Z",` +
	`"resolved":"refs/tags/v1","signed_by":"key","newer":"v2",` +
	`"submodules":[[93,27,75,30,93,27,75,30,93,27,75,30,93,27,75,30,93,27,75,30]]}]`

// TestAManifestIsSentAsEver: replicas of different releases copy from each other while one is replaced by the other.
func TestAManifestIsSentAsEver(t *testing.T) {
	t.Parallel()
	m, err := ManifestMessage(someManifest())
	if err != nil || string(m.GetHeads()) != frozenHeads {
		t.Errorf("heads are sent as %s, %v", m.GetHeads(), err)
	}
	const want = "6a3ae6824c10ccb5b3bd24974f4846c3c5bb9aa4c8b297c5fecb757e2a175fe9"
	if got := standby.State(someManifest().Packs, someManifest().Heads); got != want {
		t.Errorf("the state of the same packs and heads is %s", got)
	}
	offer := TakeRequest(handoff.Offer{Heads: someManifest().Heads})
	if got := offer.GetCommits(); len(got) != 1 || got[0] != aHash {
		t.Errorf("commits are offered as %q", got)
	}
}

func TestAManifestThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*gitcachev1.MirrorManifest){
		"a path for a pack": func(m *gitcachev1.MirrorManifest) { m.Packs = []string{"../../etc/passwd"} },
		"heads cut short":   func(m *gitcachev1.MirrorManifest) { m.Heads = m.Heads[:len(m.Heads)/2] },
		"a head twice":      func(m *gitcachev1.MirrorManifest) { m.Heads = twice(m.Heads) },
		"a head with no ref": func(m *gitcachev1.MirrorManifest) {
			m.Heads = bytes.Replace(m.Heads, []byte(`"HEAD"`), []byte(`""`), 1)
		},
	} {
		m, err := ManifestMessage(someManifest())
		if err != nil {
			t.Fatal(err)
		}
		spoil(m)
		if got, err := Manifest(m); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func twice(list []byte) []byte {
	one := bytes.Trim(list, "[]")
	return append(append(append(append([]byte("["), one...), ','), one...), ']')
}

func TestAScheduleSurvivesClocksThatDiffer(t *testing.T) {
	t.Parallel()
	now := time.Now()
	sent := handoff.Offer{
		UID: "u", Heads: []mirror.Head{{Commit: git.HashOf(aHash)}}, Released: true, Keep: true,
		Schedule: owner.Schedule{Last: now.Add(-time.Minute), Next: now.Add(2 * time.Minute)},
	}
	got, err := Take(TakeRequest(sent))
	if err != nil || got.UID != "u" || !got.Released || !got.Keep || len(got.Heads) != 1 ||
		got.Heads[0].Commit != sent.Heads[0].Commit {
		t.Fatalf("got %+v, %v", got, err)
	}
	for what, d := range map[string]time.Duration{
		"last": got.Schedule.Last.Sub(sent.Schedule.Last),
		"next": got.Schedule.Next.Sub(sent.Schedule.Next),
	} {
		if d.Abs() > time.Second {
			t.Errorf("the %s poll moved by %s", what, d)
		}
	}
	never, err := Take(TakeRequest(handoff.Offer{UID: "u", Released: true}))
	if err != nil || !never.Schedule.Last.IsZero() || time.Until(never.Schedule.Next) > 0 {
		t.Errorf("what was never polled is polled at %s, %v", never.Schedule.Next, err)
	}
	if _, err := Take(&gitcachev1.TakeSourceRequest{Uid: "u", Commits: []string{"HEAD"}}); err == nil {
		t.Error("HEAD is no commit")
	}
}

// FuzzManifest: what comes from a replica is read without a panic, and means the same when it is sent on.
func FuzzManifest(f *testing.F) {
	m, err := ManifestMessage(someManifest())
	if err != nil {
		f.Fatal(err)
	}
	seed, err := proto.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &gitcachev1.MirrorManifest{}
		if proto.Unmarshal(b, m) != nil {
			return
		}
		all, err := Manifest(m)
		if err != nil {
			return
		}
		again, err := ManifestMessage(all)
		if err != nil {
			t.Fatalf("it can be read and not written: %v", err)
		}
		if got, err := Manifest(again); err != nil ||
			standby.State(got.Packs, got.Heads) != standby.State(all.Packs, all.Heads) {
			t.Errorf("%+v became %+v, %v", all, got, err)
		}
	})
}
