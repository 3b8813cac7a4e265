package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/gitcache/internal/build"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/handoff"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/standby"
)

// maxHeads of a source in a manifest; what was built from it is bounded by its sender.
const maxHeads = 100_000

// CopyRequest writes what is asked of a peer.
func CopyRequest(r standby.Request) *gitcachev1.CopyMirrorRequest {
	return &gitcachev1.CopyMirrorRequest{Uid: r.UID, Have: r.Have, Replica: r.Replica, State: r.State, ManifestOnly: r.ManifestOnly}
}

// Copy reads what a peer asks.
func Copy(m *gitcachev1.CopyMirrorRequest) standby.Request {
	return standby.Request{UID: m.GetUid(), Have: m.GetHave(), Replica: m.GetReplica(), State: m.GetState(), ManifestOnly: m.GetManifestOnly()}
}

// ManifestMessage writes what is here of a source.
func ManifestMessage(m standby.Manifest) (*gitcachev1.MirrorManifest, error) {
	heads, err := json.Marshal(m.Heads)
	if err != nil {
		return nil, fmt.Errorf("encode heads: %w", err)
	}
	message := &gitcachev1.MirrorManifest{Packs: m.Packs, Heads: heads, Copies: m.Copies}
	for _, r := range m.Built {
		message.Built = append(message.Built, &gitcachev1.BuiltArtifact{
			SourceId: r.SourceID, Tree: r.Tree, Filter: r.Filter, Digest: r.Digest.String(), Size: r.Size, Files: int32(r.Files),
			Root: r.Root, Folder: []byte(r.Folder), Submodules: r.Submodules, Dependencies: r.Dependencies,
		})
	}
	return message, nil
}

// Manifest reads what a peer has. The records of artifacts are checked where it is used.
func Manifest(m *gitcachev1.MirrorManifest) (standby.Manifest, error) {
	all := standby.Manifest{Packs: m.GetPacks(), Copies: m.GetCopies()}
	for _, name := range all.Packs {
		if !git.IsHash(name) {
			return standby.Manifest{}, fmt.Errorf("%.60q is no name of a pack", name)
		}
	}
	if err := json.Unmarshal(m.GetHeads(), &all.Heads); err != nil {
		return standby.Manifest{}, fmt.Errorf("read heads: %w", err)
	}
	if len(all.Heads) > maxHeads {
		return standby.Manifest{}, fmt.Errorf("%d heads, more than the limit of %d", len(all.Heads), maxHeads)
	}
	seen := map[string]bool{}
	for _, h := range all.Heads {
		if h.Ref == "" || h.Commit.IsZero() || seen[h.Ref] {
			return standby.Manifest{}, errors.New("a head without a ref or commit, or one twice")
		}
		seen[h.Ref] = true
	}
	for _, b := range m.GetBuilt() {
		all.Built = append(all.Built, build.Record{
			SourceID: b.GetSourceId(), Tree: b.GetTree(), Filter: b.GetFilter(),
			Digest: artifact.Digest(b.GetDigest()), Size: b.GetSize(), Files: int(b.GetFiles()),
			Root: b.GetRoot(), Folder: string(b.GetFolder()), Submodules: b.GetSubmodules(), Dependencies: b.GetDependencies(),
		})
	}
	return all, nil
}

// TakeRequest writes an offer of a source.
func TakeRequest(o handoff.Offer) *gitcachev1.TakeSourceRequest {
	m := &gitcachev1.TakeSourceRequest{Uid: o.UID, Released: o.Released, Keep: o.Keep}
	for _, h := range o.Heads {
		m.Commits = append(m.Commits, h.Commit.String())
	}
	if o.Released && !o.Schedule.Last.IsZero() {
		m.SinceLastPoll = durationpb.New(max(time.Since(o.Schedule.Last), 0))
		m.UntilNextPoll = durationpb.New(max(time.Until(o.Schedule.Next), 0))
	}
	return m
}

// Take reads an offer of a source.
func Take(m *gitcachev1.TakeSourceRequest) (handoff.Offer, error) {
	o := handoff.Offer{UID: m.GetUid(), Released: m.GetReleased(), Keep: m.GetKeep()}
	for _, text := range m.GetCommits() {
		id, ok := git.ParseHash(text)
		if !ok {
			return handoff.Offer{}, fmt.Errorf("%.60q is no commit", text)
		}
		o.Heads = append(o.Heads, mirror.Head{Commit: id})
	}
	now := time.Now()
	o.Schedule.Next = now.Add(m.GetUntilNextPoll().AsDuration())
	if m.GetSinceLastPoll() != nil {
		o.Schedule.Last = now.Add(-m.GetSinceLastPoll().AsDuration())
	}
	return o, nil
}
