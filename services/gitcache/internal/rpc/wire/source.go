package wire

import (
	"strings"
	"unicode"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/services/gitcache/internal/browse"
	"fairlead.dev/services/gitcache/internal/console"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/status"
	"fairlead.dev/services/gitcache/internal/tree"
)

// LiveMessages writes live states.
func LiveMessages(sources []*status.Source) []*gitcachev1.LiveSource {
	return each(sources, LiveMessage)
}

// LiveMessage writes a live state.
func LiveMessage(s *status.Source) *gitcachev1.LiveSource {
	return &gitcachev1.LiveSource{
		Name: s.Name, Owner: s.Owner, OwnedHere: s.OwnedHere, Epoch: s.Epoch, Url: s.URL,
		LastPollTime: console.Timestamp(s.LastPoll), NextPollTime: console.Timestamp(s.NextPoll), StaleSince: console.Timestamp(s.StaleSince),
		Heads: console.HeadMessages(s.Heads), Problem: console.ProblemMessage(s.Problem),
		UpstreamRequestsLastHour: int32(s.UpstreamRequests), MirrorBytes: s.MirrorBytes, MirrorPacks: int32(s.MirrorPacks), Standbys: s.Standbys,
	}
}

// Live reads a live state. Its UID stays empty: names are what replicas speak of.
func Live(m *gitcachev1.LiveSource) *status.Source {
	return &status.Source{
		Name: m.GetName(), Owner: m.GetOwner(), OwnedHere: m.GetOwnedHere(), Epoch: m.GetEpoch(), URL: m.GetUrl(),
		LastPoll: console.Time(m.GetLastPollTime()), NextPoll: console.Time(m.GetNextPollTime()), StaleSince: console.Time(m.GetStaleSince()),
		Heads: console.Heads(m.GetHeads()), Problem: console.Problem(m.GetProblem()),
		UpstreamRequests: int(m.GetUpstreamRequestsLastHour()), MirrorBytes: m.GetMirrorBytes(),
		MirrorPacks: int(m.GetMirrorPacks()), Standbys: m.GetStandbys(),
	}
}

// CommitsMessage writes a page of a history.
func CommitsMessage(c browse.Commits) *gitcachev1.ListCommitsResponse {
	return &gitcachev1.ListCommitsResponse{Commits: each(c.Commits, revisionMessage), NextPageToken: c.Next, ReachedUntil: c.Reached}
}

// Commits reads one.
func Commits(m *gitcachev1.ListCommitsResponse) browse.Commits {
	return browse.Commits{Commits: each(m.GetCommits(), revision), Next: m.GetNextPageToken(), Reached: m.GetReachedUntil()}
}

// TreeMessage writes a page of a folder.
func TreeMessage(l browse.Listing) *gitcachev1.ListTreeResponse {
	return &gitcachev1.ListTreeResponse{Revision: revisionMessage(l.Commit), Entries: each(l.Entries, entryMessage), NextPageToken: l.Next}
}

// Tree reads one.
func Tree(m *gitcachev1.ListTreeResponse) browse.Listing {
	return browse.Listing{Commit: revision(m.GetRevision()), Entries: each(m.GetEntries(), entry), Next: m.GetNextPageToken()}
}

// FileMessage writes a file.
func FileMessage(f browse.File) *gitcachev1.ReadFileResponse {
	return &gitcachev1.ReadFileResponse{Revision: revisionMessage(f.Commit), Entry: entryMessage(f.Entry), Content: f.Content}
}

// File reads one.
func File(m *gitcachev1.ReadFileResponse) browse.File {
	return browse.File{Commit: revision(m.GetRevision()), Entry: entry(m.GetEntry()), Content: m.GetContent()}
}

func revisionMessage(c mirror.Commit) *artifactv1.Revision {
	return &artifactv1.Revision{Commit: c.ID.String(), CommitTime: console.Timestamp(c.Time), Subject: c.Subject, Author: c.Author}
}

func revision(m *artifactv1.Revision) mirror.Commit {
	return mirror.Commit{ID: git.HashOf(m.GetCommit()), Time: console.Time(m.GetCommitTime()), Subject: m.GetSubject(), Author: m.GetAuthor()}
}

// entryMessage shows a name that is no text as well as it can: protobuf takes no other.
func entryMessage(e browse.Entry) *gitcachev1.TreeEntry {
	name := strings.ToValidUTF8(e.Name, string(unicode.ReplacementChar))
	return &gitcachev1.TreeEntry{Kind: kinds()[e.Kind], Name: name, Size: e.Size, ObjectId: e.ID.String()}
}

func entry(m *gitcachev1.TreeEntry) browse.Entry {
	e := browse.Entry{Entry: tree.Entry{Name: m.GetName(), ID: git.HashOf(m.GetObjectId())}, Size: m.GetSize()}
	for kind, message := range kinds() {
		if message == m.GetKind() {
			e.Kind = kind
		}
	}
	return e
}

func kinds() map[tree.Kind]gitcachev1.TreeEntry_Kind {
	return map[tree.Kind]gitcachev1.TreeEntry_Kind{
		tree.Other:      gitcachev1.TreeEntry_KIND_UNSPECIFIED,
		tree.Folder:     gitcachev1.TreeEntry_KIND_FOLDER,
		tree.File:       gitcachev1.TreeEntry_KIND_FILE,
		tree.Executable: gitcachev1.TreeEntry_KIND_EXECUTABLE,
		tree.Link:       gitcachev1.TreeEntry_KIND_LINK,
		tree.Submodule:  gitcachev1.TreeEntry_KIND_SUBMODULE,
	}
}

func each[A, B any](in []A, f func(A) B) []B {
	out := make([]B, 0, len(in))
	for _, a := range in {
		out = append(out, f(a))
	}
	return out
}
