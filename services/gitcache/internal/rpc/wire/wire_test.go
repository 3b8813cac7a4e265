package wire_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/gitcache/internal/browse"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/origin"
	"fairlead.dev/services/gitcache/internal/rpc/wire"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/status"
	"fairlead.dev/services/gitcache/internal/tree"
)

func id(digit string) git.Hash { return git.HashOf(strings.Repeat(digit, 40)) }

// full fails the test if a field of v is zero: what is added has to be carried, too.
func full(t *testing.T, v any, but ...string) {
	t.Helper()
	value := reflect.ValueOf(v)
	for i := range value.NumField() {
		if name := value.Type().Field(i).Name; value.Field(i).IsZero() &&
			!strings.Contains(strings.Join(but, " "), name) {
			t.Errorf("%T.%s is not set by this test", v, name)
		}
	}
}

// The message that one replica sends is the message that the other one reads.
func TestWhatReplicasSayArrives(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0).UTC()
	query := origin.Query{
		Source: "shop", Revision: "HEAD", Path: "deploy", Include: []string{"*.yaml"},
		Ignore: []string{"test/"},
	}
	full(t, query)
	if got := wire.Queries(wire.Request([]origin.Query{query})); !reflect.DeepEqual(got, []origin.Query{query}) {
		t.Errorf("got %+v", got)
	}

	head := mirror.Head{Commit: id("1"), CommitTime: now, Subject: "s", Author: "a", Traceparent: "t"}
	answer := origin.Answer{
		Head: head, SourceID: "x",
		Artifact: artifact.Summary{Digest: artifact.SumDigest(make([]byte, 32)), Size: 5, Files: 2}, Submodules: true,
		Dependencies: true, SourceUID: "u", Epoch: 7,
	}
	full(t, answer, "Err")
	refused := origin.Answer{
		Err: &origin.Error{Reason: origin.Refused, Message: "no"}, Submodules: true,
		Dependencies: true, SourceUID: "u", Epoch: 7,
	}
	if got := wire.Answers(wire.Response([]origin.Answer{answer, refused})); !reflect.DeepEqual(got, []origin.Answer{answer, refused}) {
		t.Errorf("got %+v", got)
	}

	head.Ref, head.FetchTime, head.Resolved, head.SignedBy = "semver:1.x", now, "refs/tags/v1", "SHA256:x"
	source := &status.Source{
		Name: "shop", URL: "https://git.example.com/shop", Owner: "a", OwnedHere: true, Epoch: 7, LastPoll: now,
		NextPoll: now, StaleSince: now,
		Heads: []mirror.Head{head}, Problem: source.Problem{Message: "m", Since: now, Refs: []string{"HEAD"}},
		UpstreamRequests: 3, MirrorBytes: 4, MirrorPacks: 5, Standbys: []string{"b"},
	}
	full(t, *source, "UID") // names are what replicas speak of
	if got := wire.Live(wire.LiveMessage(source)); !reflect.DeepEqual(got, source) {
		t.Errorf("got %+v", got)
	}

	commit := mirror.Commit{ID: id("2"), Time: now, Author: "a", Subject: "s"}
	commits := browse.Commits{Commits: []mirror.Commit{commit}, Next: "n", Reached: true}
	full(t, commits)
	if got := wire.Commits(wire.CommitsMessage(commits)); !reflect.DeepEqual(got, commits) {
		t.Errorf("got %+v", got)
	}
	var entries []browse.Entry
	for kind := tree.Other; kind <= tree.Submodule; kind++ {
		entries = append(entries, browse.Entry{Entry: tree.Entry{Kind: kind, Name: "n", ID: id("3")}, Size: 6})
	}
	listing := browse.Listing{Commit: commit, Entries: entries, Next: "n"}
	full(t, listing)
	if got := wire.Tree(wire.TreeMessage(listing)); !reflect.DeepEqual(got, listing) {
		t.Errorf("got %+v", got)
	}
	file := browse.File{Commit: commit, Entry: entries[tree.File], Content: []byte{0, 255}}
	full(t, file)
	if got := wire.File(wire.FileMessage(file)); !reflect.DeepEqual(got, file) {
		t.Errorf("got %+v", got)
	}
}
