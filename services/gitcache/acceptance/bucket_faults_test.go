package acceptance

import (
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/longform"
)

// bucketLiar is a host of one bucket, shop, that does what a test says.
type bucketLiar struct {
	*httptest.Server

	mu      sync.Mutex // guards what follows
	objects map[string]string
	etags   map[string]string // of objects whose etag is not made from the content
	fault   func(http.ResponseWriter, *http.Request) bool
	asked   []*http.Request
}

func newBucketLiar(t *testing.T) *bucketLiar {
	t.Helper()
	l := &bucketLiar{objects: map[string]string{}, etags: map[string]string{}}
	l.Server = httptest.NewServer(http.HandlerFunc(l.serve))
	t.Cleanup(func() {
		l.CloseClientConnections()
		l.Close()
	})
	return l
}

func (l *bucketLiar) spec() *consolev1.SourceSpec {
	return &consolev1.SourceSpec{Bucket: &consolev1.BucketSource{
		Endpoint: strings.TrimPrefix(l.URL, "http://"), BucketName: "shop", Insecure: true,
		Interval: durationpb.New(seldom),
	}}
}

// put makes these all objects that there are.
func (l *bucketLiar) put(objects map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.objects = objects
}

func (l *bucketLiar) setFault(fault func(http.ResponseWriter, *http.Request) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = fault
}

// downloads counts the requests for objects.
func (l *bucketLiar) downloads() int {
	return l.count(func(r *http.Request) bool { return r.URL.Path != "/shop" })
}

func (l *bucketLiar) count(of func(*http.Request) bool) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.asked {
		if of(r) {
			n++
		}
	}
	return n
}

func (l *bucketLiar) etag(key string) string {
	if etag, ok := l.etags[key]; ok {
		return etag
	}
	return strconv.Quote(digestOf([]byte(l.objects[key]))[7:39])
}

func (l *bucketLiar) serve(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	fault := l.fault
	l.asked = append(l.asked, r)
	l.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := strings.TrimPrefix(r.URL.Path, "/shop/")
	content, ok := l.objects[key]
	switch match := r.Header.Get("If-Match"); {
	case r.URL.Path == "/shop":
		_, _ = w.Write(l.list())
	case !ok:
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte("<Error><Code>NoSuchKey</Code></Error>"))
	case match != "" && match != l.etag(key):
		w.WriteHeader(http.StatusPreconditionFailed)
	default:
		w.Header().Set("Etag", l.etag(key))
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write([]byte(content))
	}
}

func (l *bucketLiar) list() []byte {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(l.objects)) {
		fmt.Fprintf(&b, "<Contents><Key>%s</Key><ETag>", url.QueryEscape(key))
		_ = xml.EscapeText(&b, []byte(l.etag(key)))
		fmt.Fprintf(&b, "</ETag><Size>%d</Size></Contents>", len(l.objects[key]))
	}
	return listOfBucket(b.String())
}

func listOfBucket(inside string) []byte {
	return []byte("<ListBucketResult><EncodingType>url</EncodingType>" + inside + "</ListBucketResult>")
}

func newBucketLiarFixture(t *testing.T) (*fixture, *bucketLiar) {
	t.Helper()
	f, l := newFixture(t), newBucketLiar(t)
	l.put(map[string]string{"a": "good"})
	f.console.setService("web", "")
	f.bucket(l.spec())
	return f, l
}

func (f *fixture) bucket(spec *consolev1.SourceSpec) {
	f.console.mu.Lock()
	defer f.console.mu.Unlock()
	defer f.console.announce()
	f.console.sources[sourceName].Spec = spec
}

// answers gives one answer to all requests for the list, or for objects.
func answers(list bool, status int, body string, headers ...string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if list != (r.URL.Path == "/shop") {
			return false
		}
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
		return true
	}
}

// TestBucketsThatLieAreToldAndWhatWasPublishedStays: each has its words at the source.
func TestBucketsThatLieAreToldAndWhatWasPublishedStays(t *testing.T) {
	t.Parallel()
	f, l := newBucketLiarFixture(t)
	n := f.one()
	good := f.moved("").GetCommit()
	endless := func(inside func() string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			_, _ = w.Write(listOfBucket("<IsTruncated>true</IsTruncated>" + inside()))
			return true
		}
	}
	var page atomic.Int64
	forward := func() string { return fmt.Sprintf("<NextContinuationToken>%d</NextContinuationToken>", page.Add(1)) }
	full := func() string {
		var b strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&b, "<Contents><Key>%d-%d</Key><Size>1</Size></Contents>", page.Load(), i)
		}
		return b.String() + forward()
	}
	for name, tc := range map[string]struct {
		objects map[string]string
		fault   func(http.ResponseWriter, *http.Request) bool
		words   []string
	}{
		"a way out":                 {map[string]string{"../../etc/passwd": "x"}, nil, []string{`"../../etc/passwd" leads out`}},
		"control characters":        {map[string]string{"a\n\x1b[31m": "x"}, nil, []string{`"a\n\x1b[31m" has characters`}},
		"a file and a folder":       {map[string]string{"a/b": "x", "a": "y"}, nil, []string{`"a" can't be a file and a folder`}},
		"two ways to one path":      {map[string]string{"a//b": "x", "a/b": "y"}, nil, []string{`"a//b" is no path`}},
		"twice":                     {nil, answers(true, 200, string(listOfBucket("<Contents><Key>a</Key></Contents><Contents><Key>a</Key><Size>1</Size></Contents>"))), []string{"twice"}},
		"a file that is too large":  {nil, answers(true, 200, string(listOfBucket("<Contents><Key>a</Key><Size>33554433</Size></Contents>"))), []string{"32 MiB for a file"}},
		"another document":          {nil, answers(true, 200, "<ListVersionsResult/>"), []string{"should be ListBucketResult"}},
		"no list":                   {nil, answers(true, 200, "<html>"), []string{"can't be read"}},
		"a page without end":        {nil, answers(true, 200, strings.Repeat(" ", 9<<20)), []string{"limit of 8 MiB"}},
		"the same page":             {nil, endless(func() string { return "<NextContinuationToken>a</NextContinuationToken>" }), []string{"has no end"}},
		"pages without end":         {nil, endless(forward), []string{"1000 pages"}},
		"objects without end":       {nil, endless(full), []string{"20000 objects", "prefix"}},
		"a shorter object":          {map[string]string{"a": "12345"}, answers(false, 200, "1234"), []string{"not as long as the list says (5 bytes)"}},
		"a longer object":           {map[string]string{"a": "54321"}, answers(false, 200, strings.Repeat("1", 9<<10)), []string{"not as long as the list says"}},
		"an object that is refused": {map[string]string{"a": "x"}, answers(false, 403, ""), []string{"403", "Name a secret"}},
		"an archived object":        {map[string]string{"a": "archived"}, answers(false, 403, "<Error><Code>InvalidObjectState</Code></Error>"), []string{`"a" is archived`}},
		"what is listed only":       {map[string]string{"a": "listed"}, answers(false, 404, "<Error><Code>NoSuchKey</Code></Error>"), []string{"lists what it does not have"}},
		"another region":            {nil, answers(true, 301, "<Error><Code>PermanentRedirect</Code></Error>", "X-Amz-Bucket-Region", "eu-west-3"), []string{"Write region: eu-west-3"}},
		"a clock that is wrong":     {nil, answers(true, 403, "<Error><Code>RequestTimeTooSkewed</Code></Error>"), []string{"15 minutes"}},
		"keys that have ended":      {nil, answers(true, 400, "<Error><Code>ExpiredToken</Code></Error>"), []string{"have ended", "auth"}},
		"a host that is slowed":     {nil, answers(true, 503, "<Error><Code>SlowDown</Code></Error>"), []string{"too many requests"}},
		"a fault":                   {nil, answers(true, 500, "<Error><Code>Oh</Code><Message>dear</Message></Error>"), []string{"500", "Oh: dear"}},
	} {
		objects := tc.objects
		if objects == nil {
			objects = map[string]string{"a": "good"}
		}
		l.put(objects)
		l.setFault(tc.fault)
		n.refresh()
		f.problem(tc.words...)
		if got := head(f.console.status(), "HEAD").GetCommit(); got != good {
			t.Fatalf("%s: the head is %s", name, got)
		}
	}
	l.put(map[string]string{"a": "better"})
	l.setFault(nil)
	n.refresh()
	f.moved(good)
	f.problem()
}

// TestBucketThatChangesWhileItIsReadIsReadAgain: what is published was all there at one time.
func TestBucketThatChangesWhileItIsReadIsReadAgain(t *testing.T) {
	t.Parallel()
	f, l := newBucketLiarFixture(t)
	n := f.one()
	first := f.moved("").GetCommit()
	l.put(map[string]string{"a": "1", "b": "1"})
	var once sync.Once
	l.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/shop/a" {
			once.Do(func() { l.put(map[string]string{"a": "2", "b": "2", "c": "2"}) })
		}
		return false
	})
	n.refresh()
	second := f.moved(first).GetCommit()
	if files := n.filesOf("HEAD", ""); !maps.Equal(files, map[string]string{"a": "2", "b": "2", "c": "2"}) {
		t.Errorf("the artifact has %v", files)
	}
	// A host that does not know If-Match sends what is there now.
	l.put(map[string]string{"a": "3"})
	var twice atomic.Int64
	l.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/shop/a" && twice.Add(1) == 1 {
			w.Header().Set("Etag", `"another"`)
			_, _ = w.Write([]byte("9"))
			return true
		}
		return false
	})
	n.refresh()
	third := f.moved(second).GetCommit()
	if files := n.filesOf("HEAD", ""); files["a"] != "3" {
		t.Errorf("the artifact has %v", files)
	}
	// One that changes always is told, and what was published stays.
	var change atomic.Int64
	l.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/shop" {
			l.put(map[string]string{"a": fmt.Sprint("change ", change.Add(1))})
		}
		return false
	})
	l.put(map[string]string{"a": "4"})
	n.refresh()
	f.problem("changes while it is read", third[:8]+") stays")
}

// TestRequestsToABucketAreSignedWithTheKeysAlone: for the region of hosts that have none, and not at all where the
// source has no secret.
func TestRequestsToABucketAreSignedWithTheKeysAlone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ secret, region, scope string }{
		"no secret": {},
		"no region": {"keys", "", "/us-east-1/s3/aws4_request"},
		"a region":  {"keys", "eu-central-1", "/eu-central-1/s3/aws4_request"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, l := newBucketLiarFixture(t)
			f.console.setSecret("keys", map[string]string{"accesskey": "ada", "secretkey": "hush-hush"})
			spec := l.spec()
			spec.Bucket.Secret, spec.Bucket.Region = tc.secret, tc.region
			f.bucket(spec)
			f.one()
			f.moved("")
			f.problem()
			wrong := l.count(func(r *http.Request) bool {
				by := r.Header.Get("Authorization")
				isSigned := strings.Contains(by, "Credential=ada/") && strings.Contains(by, tc.scope)
				return by != "" && tc.secret == "" || tc.secret != "" && !isSigned ||
					strings.Contains(r.URL.RawQuery, "X-Amz-")
			})
			if all := l.count(func(*http.Request) bool { return true }); all == 0 || wrong > 0 {
				t.Errorf("%d of %d requests are signed otherwise", wrong, all)
			}
		})
	}
}

// TestKeysOfABucketStayWithItsHost: a redirect is not followed.
func TestKeysOfABucketStayWithItsHost(t *testing.T) {
	t.Parallel()
	f, l := newBucketLiarFixture(t)
	elsewhere := newBucketLiar(t)
	f.console.setSecret("keys", map[string]string{"accesskey": "ada", "secretkey": "hush-hush"})
	spec := l.spec()
	spec.Bucket.Secret = "keys"
	f.bucket(spec)
	l.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, elsewhere.URL+"/shop?"+r.URL.RawQuery, http.StatusTemporaryRedirect)
		return true
	})
	f.one()
	f.problem("307", "it redirects", "endpoint")
	if got := elsewhere.count(func(*http.Request) bool { return true }); got != 0 {
		t.Errorf("%d requests went elsewhere", got)
	}
	signed := l.count(func(r *http.Request) bool {
		return strings.Contains(r.Header.Get("Authorization"), "Credential=ada/") &&
			!strings.Contains(fmt.Sprint(r.Header), "hush-hush")
	})
	if signed == 0 {
		t.Error("no request is signed")
	}
}

// TestBucketThatThrottlesIsLeftAlone as long as it says.
func TestBucketThatThrottlesIsLeftAlone(t *testing.T) {
	t.Parallel()
	f, l := newBucketLiarFixture(t)
	n := f.one()
	f.moved("")
	l.setFault(answers(true, http.StatusTooManyRequests, "", "Retry-After", "600"))
	n.refresh()
	f.problem("too many requests")
	l.setFault(nil)
	all := func(*http.Request) bool { return true }
	asked := l.count(all)
	n.refresh()
	f.problem("too many requests")
	if got := l.count(all); got != asked {
		t.Errorf("%d requests although it asked to be left alone", got-asked)
	}
	n.resolve("HEAD", "")
}

// TestKillNineDuringAnObjectLeavesNothingHalf: the next process serves what there was, and downloads again.
func TestKillNineDuringAnObjectLeavesNothingHalf(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a process that is killed")
	f, l := newBucketLiarFixture(t)
	dir := t.TempDir()
	n, kill := f.spawn(dir)
	first := f.moved("").GetCommit()
	l.put(map[string]string{"a": "two", "b": "12345"})
	started, resume := make(chan struct{}, 1), make(chan struct{})
	release := sync.OnceFunc(func() { close(resume) })
	t.Cleanup(release)
	l.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/shop/b" {
			return false
		}
		w.Header().Set("Content-Length", "5")
		_, _ = w.Write([]byte("123"))
		_ = http.NewResponseController(w).Flush()
		select {
		case started <- struct{}{}:
		default:
		}
		<-resume
		return true
	})
	n.refresh()
	<-started
	kill()
	again, _ := f.spawn(dir)
	if files := again.filesOf("HEAD", ""); files["a"] != "good" {
		t.Errorf("the artifact has %v", files)
	}
	l.setFault(nil)
	release()
	again.refresh()
	f.moved(first)
	if files := again.filesOf("HEAD", ""); files["a"] != "two" || files["b"] != "12345" {
		t.Errorf("the artifact has %v", files)
	}
}

// TestHandOverOfABucketDownloadsNothingAnew: the other replica has a copy, and lists only.
func TestHandOverOfABucketDownloadsNothingAnew(t *testing.T) {
	t.Parallel()
	f, l := newFleet(t, 1), newBucketLiar(t)
	l.put(map[string]string{"a": "1", "b": "1"})
	f.console.mu.Lock()
	f.console.sources["s00"].Spec = l.spec()
	f.console.services["web-s00"].Spec.Ref, f.console.services["web-s00"].Spec.Path = "", ""
	f.console.mu.Unlock()
	a := f.begin("a")
	published := func() *artifactv1.Revision { return head(f.console.statusOf("s00"), "HEAD") }
	await.NoError(t, "the bucket is published", func() error {
		if published() == nil {
			return errors.New("it is not")
		}
		return nil
	})
	b := f.begin("b")
	b.settled(2)
	owner, other := "a", b
	if a.listShards("")[0].GetOwner() == "b" {
		owner, other = "b", a
	}
	f.end(owner)
	await.NoError(t, "the other replica owns the source", func() error {
		if got := other.listShards("")[0].GetOwner(); got == owner || got == "" {
			return errors.New("its owner is " + got)
		}
		return nil
	})
	lists := func() int { return l.count(func(r *http.Request) bool { return r.URL.Path == "/shop" }) }
	again := func(what string, is func() bool) {
		t.Helper()
		await.NoError(t, what, func() error {
			if is() {
				return nil
			}
			_, err := other.sources.RefreshSource(t.Context(), &gitcachev1.RefreshSourceRequest{Name: "s00"})
			return errors.Join(errors.New("not yet"), err)
		})
	}
	listed := lists()
	again("it polls", func() bool { return lists() > listed })
	if got := l.downloads(); got != 2 {
		t.Errorf("%d downloads of two objects", got)
	}
	first := published().GetCommit()
	l.put(map[string]string{"a": "2", "b": "1"})
	again("what is written then is published", func() bool { return published().GetCommit() != first })
}
