package acceptance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/gitcache/internal/gittest"
)

// packed asks for a service at another revision: the commit, and the files by path.
func packed(ctx context.Context, as gitcachev1connect.SourceServiceClient, service,
	revision string,
) (commit string, files map[string]string, err error) {
	stream, err := as.PackService(ctx, &gitcachev1.PackServiceRequest{Service: service, Revision: revision})
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = stream.Close() }()
	var content bytes.Buffer
	digest := ""
	for stream.Receive() {
		if first := stream.Msg().GetService(); first != nil {
			commit, digest = first.GetRevision().GetCommit(), first.GetArtifact().GetDigest()
		}
		content.Write(stream.Msg().GetData())
	}
	if err := stream.Err(); err != nil {
		return "", nil, err
	}
	if sum := sha256.Sum256(content.Bytes()); digest != "sha256:"+hex.EncodeToString(sum[:]) {
		return "", nil, fmt.Errorf("%d bytes are not those of %s", content.Len(), digest)
	}
	files = map[string]string{}
	err = artifact.Walk(&content, artifact.Limits{}, func(e artifact.Entry, content io.Reader) error {
		b, err := io.ReadAll(content)
		files[e.Path] = string(b)
		return err
	})
	return commit, files, err
}

// branch makes a commit on a branch of its own, and leaves main where it was.
func (f *fixture) branch(name string, files gittest.Files) string {
	f.t.Helper()
	main := f.repo.Work("rev-parse", "HEAD")
	commit := f.repo.Commit(name, files)
	f.repo.Bare("update-ref", "refs/heads/"+name, commit)
	f.repo.Work("reset", "--quiet", "--hard", main)
	f.repo.Push()
	return commit
}

func TestAnyReplicaPacksAServiceAtARevisionThatNoServiceFollows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"deploy/web.yaml": "a: 1\n", "deploy/web.txt": "no", "other": "1"})
	f.console.setService("web", "main")
	f.console.services["web"].Spec.Path, f.console.services["web"].Spec.Include = "deploy", []string{"*.yaml"}
	c := together(t)
	nodes := []*node{f.replica("a", c), f.replica("b", c)}
	f.published("refs/heads/main", first)
	next := f.branch("next", gittest.Files{"deploy/web.yaml": "a: 2\n"})
	f.repo.Bare("update-ref", "refs/tags/v2", next)
	before := f.console.status()
	published, _ := f.console.publishes()
	lists, begin := f.git.Count("list"), time.Now()

	for i, n := range nodes {
		for revision, want := range map[string]string{
			"next": next, "refs/tags/v2": next, next: next, "main": first,
			first[:8]: first,
		} {
			commit, files, err := packed(t.Context(), n.sources, "web", revision)
			text := map[string]string{next: "a: 2\n", first: "a: 1\n"}[want]
			if err != nil || commit != want || len(files) != 1 || files["web.yaml"] != text {
				t.Errorf("replica %d, %s: commit %s, files %q, %v", i, revision, commit, files, err)
			}
		}
		_, _, err := packed(t.Context(), n.sources, "web", "nope")
		wantCode(t, err, connect.CodeNotFound, `no branch "nope"`)
		_, _, err = packed(t.Context(), n.sources, "web", "v2")
		wantCode(t, err, connect.CodeNotFound, "refs/tags/v2", "name that")
		_, _, err = packed(t.Context(), n.sources, "web", strings.Repeat("1", 40))
		wantCode(t, err, connect.CodeFailedPrecondition, "11111111")
		// No other call sees the revision by its name.
		_, err = n.sources.ListTree(t.Context(), &gitcachev1.ListTreeRequest{Source: "shop", Revision: "next"})
		wantCode(t, err, connect.CodeNotFound, `"next"`)
	}
	// One replica needs six lists for its questions. The other's questions need none while what was found is valid, and
	// three lists may be of polls.
	const needed, polls, validity = 6, 3, 10 * time.Second
	took := time.Since(begin)
	if asked := f.git.Count("list") - lists; asked > needed*(1+int(took/validity))+polls {
		t.Errorf("upstream was asked for refs %d times in %s", asked, took)
	}
	after := f.console.status()
	if now, _ := f.console.publishes(); len(now) != len(published) || len(after.GetHeads()) != len(before.GetHeads()) ||
		after.GetProblem().GetMessage() != "" {
		t.Errorf("a question was published: %v", after)
	}

	// A commit that was fetched is there without the Git host; one that was not is asked for again later.
	f.git.SetFault(gittest.Status(http.StatusServiceUnavailable))
	if commit, _, err := packed(t.Context(), nodes[1].sources, "web", next); err != nil || commit != next {
		t.Errorf("with upstream off: %s, %v", commit, err)
	}
	_, _, err := packed(t.Context(), nodes[1].sources, "web", "later")
	wantCode(t, err, connect.CodeUnavailable, "503")
}

func TestAServiceIsPackedForThoseWhoMayEditIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"a.yaml": "a: 1\n"})
	f.console.setService("web", "main")
	f.console.services["web"].Spec.Project = "shop"
	n := f.one()
	f.published("refs/heads/main", first)
	f.branch("secret", gittest.Files{"a.yaml": "a: 2\n"})
	ada := n.sourcesAs(identity.Identity{Kind: identity.KindUser, Name: "ada"})
	lists := f.git.Count("list")
	for _, tc := range []struct {
		role     string
		projects []string
		allowed  bool
	}{
		{"", nil, false},
		{"viewer", []string{"shop"}, false},
		{"deployer", []string{"blog"}, false},
		{"deployer", []string{"shop"}, true},
	} {
		f.console.grant(tc.role, tc.projects...)
		await.NoError(t, tc.role, func() error {
			_, _, err := packed(t.Context(), ada, "web", "secret")
			if tc.allowed != (err == nil) || !tc.allowed && connect.CodeOf(err) != connect.CodePermissionDenied {
				return fmt.Errorf("%s of %v: %w", tc.role, tc.projects, err)
			}
			return nil
		})
		_, _, err := packed(t.Context(), ada, "none", "secret")
		wantCode(t, err, connect.CodePermissionDenied, "edit")
		if got := f.git.Count("list"); !tc.allowed && got != lists {
			t.Errorf("%s: a refused question goes to the Git host", tc.role)
		}
	}
	await.NoError(t, "the trail has both", func() error {
		lines := strings.Join(f.console.trail.lines("source.read"), "\n")
		if !strings.Contains(lines, "ada PackService service@secret web 403") ||
			!strings.Contains(lines, "ada PackService service@secret web 200") {
			return fmt.Errorf("it has %s", lines)
		}
		return nil
	})
}

func TestARevisionThatIsNotSignedAsTheSourceWantsIsNotPacked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	signer := gittest.NewSSH(t, "ed25519")
	f.signAs(signer)
	first := f.repo.Commit("one", gittest.Files{"a.yaml": "a: 1\n"})
	f.console.setService("web", "main")
	f.console.setVerification(verifyCommit, signer.Public)
	n := f.one()
	f.published("refs/heads/main", first)
	good := f.branch("good", gittest.Files{"a.yaml": "a: 2\n"})
	f.unsigned()
	bad := f.branch("bad", gittest.Files{"a.yaml": "a: 3\n"})
	if commit, _, err := packed(t.Context(), n.sources, "web", "good"); err != nil || commit != good {
		t.Errorf("signed: %s, %v", commit, err)
	}
	for _, revision := range []string{"bad", bad} {
		_, _, err := packed(t.Context(), n.sources, "web", revision)
		wantCode(t, err, connect.CodeFailedPrecondition, "not signed")
	}
}
