package acceptance

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/buckettest"
)

// bucketFixture is a fixture whose source "shop" is a bucket.
type bucketFixture struct {
	*fixture
	server *buckettest.Server
}

func newBucket(t *testing.T, args ...string) *bucketFixture {
	t.Helper()
	f := &bucketFixture{fixture: newFixture(t), server: buckettest.Start(t, args...)}
	f.keys(f.server.SecretKey)
	f.console.setService("web", "")
	return f
}

func (f *bucketFixture) keys(secretKey string) {
	f.console.setSecret("keys", map[string]string{
		"accesskey": f.server.AccessKey, "secretkey": secretKey,
		"ca.crt": f.server.CA,
	})
}

// source sets what differs from the bucket "manifests" with its keys.
func (f *bucketFixture) source(change func(*consolev1.BucketSource)) {
	b := &consolev1.BucketSource{
		Endpoint: f.server.Host, BucketName: "manifests", Region: f.server.Region,
		Secret: "keys", Interval: durationpb.New(seldom),
	}
	if change != nil {
		change(b)
	}
	f.console.mu.Lock()
	defer f.console.mu.Unlock()
	defer f.console.announce()
	f.console.sources[sourceName].Spec = &consolev1.SourceSpec{Bucket: b}
}

// moved waits until the bucket's content is another than before.
func (f *fixture) moved(before string) *artifactv1.Revision {
	f.t.Helper()
	var is *artifactv1.Revision
	await.NoError(f.t, "the bucket's content is published", func() error {
		status := f.console.status()
		if is = head(status, "HEAD"); is.GetCommit() == before {
			return errors.New("it is " + is.GetCommit() + "; problem: " + status.GetProblem().GetMessage())
		}
		return nil
	})
	return is
}

// costs are what the server is asked by a poll.
func (f *bucketFixture) costs(poll func()) []string {
	f.t.Helper()
	before := f.server.Log(f.t)
	poll()
	return f.server.Log(f.t)[len(before):]
}

func isList(line string) bool {
	return strings.HasPrefix(line, "GET /manifests?encoding-type=url&list-type=2&max-keys=1000&prefix=deploy%2F 200 AWS4")
}

// TestBucketsAreSources: a poll without news is one list, what changed alone is downloaded, and objects that are gone
// are gone.
func TestBucketsAreSources(t *testing.T) {
	t.Parallel()
	f := newBucket(t)
	f.server.Put(t, "manifests", map[string]string{
		"deploy/web.yaml": "one", "deploy/sub folder/a+b=c&d.yaml": "odd", "deploy/sub folder/ü*(1).yaml": "odder",
		"deployed/other.yaml": "not below the prefix", "README": "x",
	})
	f.source(func(b *consolev1.BucketSource) { b.Prefix = "deploy" })
	n := f.one()
	first := f.moved("")
	f.problem()
	if first.GetSubject() != "manifests/deploy: 3 files" || first.GetAuthor() != "" ||
		!first.GetCommitTime().IsValid() {
		t.Errorf("the revision is %v", first)
	}
	want := map[string]string{"web.yaml": "one", "sub folder/a+b=c&d.yaml": "odd", "sub folder/ü*(1).yaml": "odder"}
	if files := n.filesOf("HEAD", ""); !maps.Equal(files, want) {
		t.Errorf("the artifact has %v", files)
	}
	if got := f.costs(n.polled); len(got) != 1 || !isList(got[0]) {
		t.Errorf("a poll without news asked for\n%s", strings.Join(got, "\n"))
	}
	if got := n.live().GetUrl(); got != "https://"+f.server.Host+"/manifests/deploy" {
		t.Errorf("the source is shown at %s", got)
	}

	// One object changes: it is downloaded, and the bucket listed again afterwards.
	f.server.Put(t, "manifests", map[string]string{"deploy/web.yaml": "two"})
	var second *artifactv1.Revision
	got := f.costs(func() {
		n.refresh()
		second = f.moved(first.GetCommit())
	})
	if len(got) != 3 || !isList(got[0]) || got[1] != "GET /manifests/deploy/web.yaml 200 AWS4-HMAC-SHA256" ||
		!isList(got[2]) {
		t.Errorf("a poll of one new object asked for\n%s", strings.Join(got, "\n"))
	}
	want["web.yaml"] = "two"
	if files := n.filesOf("HEAD", ""); !maps.Equal(files, want) {
		t.Errorf("the artifact has %v", files)
	}
	// What ran before is there to go back to.
	if files := n.filesOf(first.GetCommit(), ""); files["web.yaml"] != "one" {
		t.Errorf("the older artifact has %v", files)
	}

	f.server.Remove(t, "manifests", "deploy/web.yaml")
	got = f.costs(func() {
		n.refresh()
		f.moved(second.GetCommit())
	})
	if len(got) != 2 || !isList(got[0]) || !isList(got[1]) {
		t.Errorf("a poll of one object that is gone asked for\n%s", strings.Join(got, "\n"))
	}
	delete(want, "web.yaml")
	if files := n.filesOf("HEAD", ""); !maps.Equal(files, want) {
		t.Errorf("the artifact has %v", files)
	}
	// The same files as before are the same commit.
	f.server.Put(t, "manifests", map[string]string{"deploy/web.yaml": "two"})
	n.refresh()
	f.published("HEAD", second.GetCommit())

	// Nothing at all is rather a mistake than a wish.
	f.source(func(b *consolev1.BucketSource) { b.Prefix = "deploys" })
	f.problem("the bucket has no object there", second.GetCommit()[:8], "stays", "bucketName and prefix")
	if got := head(f.console.status(), "HEAD").GetCommit(); got != second.GetCommit() {
		t.Errorf("the head is %s", got)
	}
	f.source(nil)
	f.moved(second.GetCommit())
	if files := n.filesOf("HEAD", "deployed"); files["other.yaml"] != "not below the prefix" {
		t.Errorf("the artifact has %v", files)
	}
	f.console.setService("web", "main")
	f.problem(`service "web" names`, "a bucket, which has no refs")
}

// TestVersionsOfABucketAreAskedForByTheirIDs and a list of many pages is read to its end.
func TestVersionsOfABucketAreAskedForByTheirIDs(t *testing.T) {
	t.Parallel()
	f := newBucket(t, "-plain")
	objects := map[string]string{"old.yaml": "old"}
	for i := range 1001 {
		objects[fmt.Sprintf("many/%04d.yaml", i)] = "x"
	}
	f.server.PutVersions(t, "manifests", objects)
	f.server.Put(t, "manifests", map[string]string{"old.yaml": "new"})
	f.console.setSecret("keys", map[string]string{"accesskey": f.server.AccessKey, "secretkey": f.server.SecretKey})
	f.source(func(b *consolev1.BucketSource) { b.Versioned, b.Insecure = true, true })
	n := f.one()
	first := f.moved("")
	f.problem()
	if files := n.filesOf("HEAD", ""); len(files) != 1002 || files["old.yaml"] != "new" ||
		files["many/1000.yaml"] != "x" {
		t.Errorf("the artifact has %d files, and %q", len(files), files["old.yaml"])
	}
	for _, line := range f.server.Log(t) {
		if strings.HasPrefix(line, "GET /manifests/") && !strings.Contains(line, "?versionId=") {
			t.Errorf("an object is asked for without its version: %s", line)
		}
	}
	f.server.Remove(t, "manifests", "old.yaml") // which leaves a marker
	n.refresh()
	f.moved(first.GetCommit())
	if files := n.filesOf("HEAD", ""); len(files) != 1001 || files["old.yaml"] != "" {
		t.Errorf("the artifact has %d files, and %q", len(files), files["old.yaml"])
	}
}

// TestBucketIsAskedOnlyAsItsSourceSays: keys, region, TLS and its authority.
func TestBucketIsAskedOnlyAsItsSourceSays(t *testing.T) {
	t.Parallel()
	f := newBucket(t)
	f.server.Put(t, "manifests", map[string]string{"a": "1"})
	f.console.setSecret("keys", map[string]string{"accesskey": f.server.AccessKey, "secretkey": f.server.SecretKey})
	f.source(nil)
	f.one()
	f.problem("authority that the hub does not know", "ca.crt")
	f.source(func(b *consolev1.BucketSource) { b.Insecure = true })
	f.problem("400")
	f.source(func(b *consolev1.BucketSource) { b.InsecureSkipTlsVerify = true })
	first := f.moved("")
	f.problem()
	f.keys("wrong")
	f.source(nil)
	f.problem("403", `accesskey and secretkey in secret "keys"`)
	f.console.setSecret("keys", map[string]string{"username": "ada", "password": "hunter2"})
	f.problem(`secret "keys" does not fit`, "wants accesskey and secretkey")
	f.console.setSecret("keys", map[string]string{"accesskey": "ada"})
	f.problem("one is missing")
	f.source(func(b *consolev1.BucketSource) { b.Secret, b.InsecureSkipTlsVerify = "", true })
	f.problem("403", "Name a secret with accesskey and secretkey")
	f.keys(f.server.SecretKey)
	f.source(func(b *consolev1.BucketSource) { b.Region = "us-west-1" })
	f.problem("40", "eu-test-1")
	f.source(func(b *consolev1.BucketSource) { b.BucketName = "absent" })
	f.problem("404", `there is no bucket "absent"`)
	f.source(nil)
	f.problem()
	if got := head(f.console.status(), "HEAD").GetCommit(); got != first.GetCommit() {
		t.Errorf("the head is %s", got)
	}
}

// TestBucketThatIsDownChangesNothing: what was fetched is served, also by a gitcache that starts then.
func TestBucketThatIsDownChangesNothing(t *testing.T) {
	t.Parallel()
	f := newBucket(t)
	f.server.Put(t, "manifests", map[string]string{"deploy/a": "1"})
	f.source(nil)
	n := f.one()
	first := f.moved("")
	f.server.Stop()
	n.refresh()
	f.problem(f.server.Host)
	n.stop()
	n = f.start(n.dir, nil)
	if files := n.filesOf("HEAD", "deploy"); files["a"] != "1" {
		t.Errorf("the artifact has %v", files)
	}
	n.refresh()
	f.problem(f.server.Host)
	if got := head(f.console.status(), "HEAD").GetCommit(); got != first.GetCommit() {
		t.Errorf("the head is %s", got)
	}
}
