// Package buckets fetches from hosts of buckets that speak S3: lists and objects.
package buckets

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"fairlead.dev/platform/giturl"
	"fairlead.dev/platform/plural"
	"fairlead.dev/services/gitcache/internal/archive"
	"fairlead.dev/services/gitcache/internal/bucket"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/upstream"
)

const (
	// objectsAtOnce are downloaded from one bucket; together they take no more memory than the largest object that is
	// allowed.
	objectsAtOnce = 8
	// mostReadings of a bucket in a row: one that changes while it is read is read again.
	mostReadings = 3
)

// keyPrefix is the beginning of the keys.
func keyPrefix(b upstream.Bucket) string {
	if b.Prefix == "" {
		return ""
	}
	return b.Prefix + "/"
}

// List is what a bucket holds, by the paths of the files.
type List struct {
	Objects []bucket.Object
	// Bytes that came for it.
	Bytes int64

	of    string                  // where it was listed
	blobs map[objectName]git.Hash // of objects that were downloaded
}

// objectName tells the content of an object from others that were there before or come later.
type objectName struct {
	path, etag, version string
	size                int64
	modified            time.Time // only if there is neither etag nor version
}

func nameOf(o bucket.Object) objectName {
	name := objectName{path: o.Path, etag: o.ETag, version: o.Version, size: o.Size}
	if name.etag == "" && name.version == "" {
		name.modified = o.Modified
	}
	return name
}

// ID stands for the content: a list that says the same is the same id.
func (l *List) ID() git.Hash {
	sum := sha256.New()
	fmt.Fprint(sum, l.of)
	for _, o := range l.Objects {
		name := nameOf(o)
		fmt.Fprintf(sum, "\x00%s\x00%s\x00%s\x00%d\x00%d", name.path, name.etag, name.version, name.size, name.modified.Unix())
	}
	return git.Hash(sum.Sum(nil)[:20])
}

// Modified is when the newest object was written; zero: it is not said.
func (l *List) Modified() (newest time.Time) {
	for _, o := range l.Objects {
		if o.Modified.After(newest) {
			newest = o.Modified
		}
	}
	return newest
}

// Fetcher talks to hosts of buckets. All errors but the context's are an *upstream.Error.
type Fetcher interface {
	// ListBucket asks what there is: one request for 1,000 objects. Nothing at all is not an error.
	ListBucket(ctx context.Context, r upstream.Remote) (*List, error)
	// FetchBucket brings the objects of a list, as the commit that it returns, with the list that is the commit's: the
	// bucket may have changed since. Objects that are as in last, which has is then asked for, are not downloaded; last
	// may be nil. After an error nothing is there.
	FetchBucket(ctx context.Context, r upstream.Remote, l, last *List, has func(git.Hash) bool, into upstream.Target) (now *List, commit git.Hash, bytes int64, err error)
}

// ParseURL reads the URL of a bucket: what the catalog takes, see giturl.ParseBucket.
func ParseURL(raw string) (*url.URL, error) {
	u, err := giturl.ParseBucket(raw)
	if err != nil {
		return nil, upstream.Refusal("the endpoint %s", err)
	}
	return u, nil
}

// Hosts is a Fetcher.
type Hosts struct {
	client *upstream.Client
	dir    string // for objects on their way
}

// New makes a fetcher that sends its requests by a client.
func New(c *upstream.Client, dir string) *Hosts { return &Hosts{client: c, dir: dir} }

// ListBucket asks what there is.
func (h *Hosts) ListBucket(ctx context.Context, r upstream.Remote) (*List, error) {
	if err := checkBucket(r); err != nil {
		return nil, err
	}
	return h.listBucket(ctx, r)
}

// FetchBucket brings the objects of a list.
func (h *Hosts) FetchBucket(ctx context.Context, r upstream.Remote, l, last *List, has func(git.Hash) bool,
	into upstream.Target,
) (*List, git.Hash, int64, error) {
	if err := checkBucket(r); err != nil {
		return nil, git.Hash{}, 0, err
	}
	read := &reading{h: h, r: r, blobs: map[objectName]git.Hash{}}
	if last != nil && last.of == l.of {
		for name, id := range last.blobs {
			if has(id) {
				read.blobs[name] = id
			}
		}
	}
	now, commit, err := read.readUntilStable(ctx, l, into, h.dir)
	return now, commit, read.bytes, err
}

// checkBucket says what of a source does not fit, before anybody is asked.
func checkBucket(r upstream.Remote) error {
	c := r.Credentials
	hasNone := c.AccessKey == "" && c.SecretKey == "" && c.Token == ""
	switch {
	case hasNone && r.Secret != "" && c.CA == "" && c.ProxyUsername == "":
		return r.MisfitError("a bucket wants accesskey and secretkey. Add them")
	case !hasNone && c.Token == "" && (c.AccessKey == "" || c.SecretKey == ""):
		return r.MisfitError("of accesskey and secretkey one is missing. Add it")
	case r.Bucket.Insecure && r.Proxy != nil:
		return upstream.Refusal("the source has a proxy and insecure, which do not go together. Remove one of them")
	case r.Proxy != nil && (c.ProxyUsername == "") != (c.ProxyPassword == ""):
		return r.MisfitError("of proxyUsername and proxyPassword one is missing. Add it")
	}
	return nil
}

// exchange is a request of a bucket.
type exchange struct {
	*upstream.Exchange

	r upstream.Remote
}

func (h *Hosts) newExchange(r upstream.Remote) *exchange {
	return &exchange{h.client.NewExchange(r, r.URL), r}
}

// getSigned makes a signed request. Redirects are not followed: a signature is good for one host.
func (x *exchange) getSigned(
	ctx context.Context, u *url.URL, prepare func(*http.Request), read func(*http.Response, io.Reader) error,
) error {
	return x.SendRequest(ctx, x.StayingClient(), u, func(req *http.Request) {
		req.Header.Del("Authorization")
		req.Header.Set("Accept-Encoding", "identity") // files are kept as they are
		prepare(req)
		switch c := x.r.Credentials; {
		case c.Token != "":
			req.Header.Set("Authorization", "Bearer "+c.Token)
		case c.AccessKey != "":
			bucket.Sign(req, nil, bucket.Keys{Access: c.AccessKey, Secret: c.SecretKey, Session: c.SessionToken}, x.r.Bucket.Region, "s3", time.Now())
		}
	}, read)
}

func (h *Hosts) listBucket(ctx context.Context, r upstream.Remote) (*List, error) {
	x := h.newExchange(r)
	leave, err := x.Enter(ctx, upstream.Lists)
	if err != nil {
		return nil, err
	}
	defer leave()
	l := &List{of: fmt.Sprintf("%s %q", r.URL, keyPrefix(r.Bucket))}
	first, end := bucket.Query(keyPrefix(r.Bucket), r.Bucket.Versioned), time.Now().Add(h.client.Limits().FetchTime)
	seen := map[string]bool{}
	for query := first; query != nil; {
		at := query.Encode()
		if seen[at] || len(seen) >= bucket.MaxPages {
			return nil, l.tooLong(r, fmt.Sprintf("has no end, or more than the limit of %d pages", bucket.MaxPages))
		}
		if time.Now().After(end) {
			return nil, h.tooSlow(r)
		}
		seen[at] = true
		page, n, err := x.bucketPage(ctx, query)
		l.Bytes += n
		if err != nil {
			return nil, err
		}
		if l.Objects = append(l.Objects, page.Objects...); len(l.Objects) > bucket.MaxObjects {
			return nil, l.tooLong(r, fmt.Sprintf("has more than the limit of %d objects", bucket.MaxObjects))
		}
		if query = nil; page.Next != nil {
			query = maps.Clone(first)
			maps.Copy(query, page.Next)
		}
	}
	if l.Objects, err = bucket.Sort(l.Objects); err != nil {
		return nil, unusableError(r, err)
	}
	return l, nil
}

// tooSlow is for a host whose answers took longer together than a fetch may.
func (h *Hosts) tooSlow(r upstream.Remote) error {
	return &upstream.Error{Kind: upstream.KindTimeout, Message: fmt.Sprintf("%s had not sent everything of bucket %q after %s. Fairlead tries again", r.URL.Host, r.Bucket.Name, h.client.Limits().FetchTime)}
}

func (l *List) tooLong(r upstream.Remote, why string) error {
	return unusableError(r, fmt.Errorf("its list %s. Choose a smaller part with prefix", why))
}

// unusableError is what a bucket holds that can't be files.
func unusableError(r upstream.Remote, err error) *upstream.Error {
	return &upstream.Error{Kind: upstream.KindContent, Cause: err, Message: fmt.Sprintf("bucket %q at %s can't be used: %s", r.Bucket.Name, r.URL.Host, err)}
}

func (x *exchange) bucketPage(ctx context.Context, query url.Values) (page bucket.Page, n int64, err error) {
	r := x.r
	err = x.getSigned(ctx, bucket.Place(r.URL, r.Bucket.Name, query), func(*http.Request) {}, func(resp *http.Response, body io.Reader) error {
		if resp.StatusCode != http.StatusOK {
			return bucketError(r, resp, bucket.ReadProblem(body))
		}
		text, err := io.ReadAll(upstream.CapReader(body, bucket.MaxPageBytes, "page of the list"))
		if n = int64(len(text)); err != nil {
			return err
		}
		if page, err = bucket.Decode(text, keyPrefix(r.Bucket), r.Bucket.Versioned); err != nil {
			return unusableError(r, err)
		}
		return nil
	})
	return page, n, err
}

// reading is one fetch of a bucket.
type reading struct {
	h     *Hosts
	r     upstream.Remote
	blobs map[objectName]git.Hash // of objects that are in the mirror, or were downloaded
	bytes int64
}

// errChanged: an object is not there any more as it was listed.
var errChanged = &upstream.Error{Kind: upstream.KindServer, Message: "the bucket changes while it is read, or lists what it does not have. Fairlead tries again"}

// readUntilStable reads what is listed until a list that is made after it says the same: what is published was in the
// bucket at one time.
func (f *reading) readUntilStable(
	ctx context.Context, l *List, into upstream.Target, dir string,
) (*List, git.Hash, error) {
	b, err := bucket.Build(dir)
	if err != nil {
		return nil, git.Hash{}, upstream.StorageError(err)
	}
	for range mostReadings {
		err := f.readMissing(ctx, l, b.AddBlob)
		var again *List
		if err == nil || errors.Is(err, errChanged) {
			isRead := err == nil
			if again, err = f.h.listBucket(ctx, f.r); err == nil && isRead && again.ID() == l.ID() {
				commit, err := f.commitFiles(ctx, l, b, into)
				return l, commit, err
			}
		}
		if err != nil {
			b.Close()
			return nil, git.Hash{}, err
		}
		f.bytes += again.Bytes
		if l = again; len(l.Objects) == 0 { // which is for the next poll to tell
			break
		}
	}
	b.Close()
	return nil, git.Hash{}, errChanged
}

// readMissing downloads the objects that are not here yet.
func (f *reading) readMissing(ctx context.Context, l *List, add func([]byte) (git.Hash, error)) error {
	missing := slices.DeleteFunc(slices.Clone(l.Objects), func(o bucket.Object) bool { _, ok := f.blobs[nameOf(o)]; return ok })
	if len(missing) == 0 {
		return nil
	}
	x := f.h.newExchange(f.r)
	leave, err := x.Enter(ctx, upstream.Packs)
	if err != nil {
		return err
	}
	defer leave()
	end, room := time.Now().Add(f.h.client.Limits().FetchTime), semaphore.NewWeighted(bucket.MaxFileBytes)
	var mu sync.Mutex // guards f.blobs and f.bytes, and is held while add is called
	downloads, within := errgroup.WithContext(ctx)
	downloads.SetLimit(objectsAtOnce)
	for _, o := range missing {
		if room.Acquire(within, o.Size) != nil {
			break // another one failed
		}
		downloads.Go(func() error {
			defer room.Release(o.Size)
			if time.Now().After(end) {
				return f.h.tooSlow(f.r)
			}
			content, err := x.downloadObject(within, o)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			f.bytes += o.Size
			id, err := add(content)
			if err != nil {
				return upstream.StorageError(err)
			}
			f.blobs[nameOf(o)] = id
			return nil
		})
	}
	err = downloads.Wait()
	return cmp.Or(ctx.Err(), err)
}

// downloadObject downloads one that must be as it was listed.
func (x *exchange) downloadObject(ctx context.Context, o bucket.Object) (content []byte, err error) {
	r, query := x.r, url.Values{}
	if o.Version != "" {
		query.Set("versionId", o.Version)
	}
	err = x.getSigned(ctx, bucket.Place(r.URL, r.Bucket.Name+"/"+o.Key, query), func(req *http.Request) {
		if o.ETag != "" {
			req.Header.Set("If-Match", `"`+o.ETag+`"`)
		}
	}, func(resp *http.Response, body io.Reader) error {
		if resp.StatusCode != http.StatusOK {
			problem := bucket.ReadProblem(body)
			gone := resp.StatusCode == http.StatusNotFound && problem.Code != "NoSuchBucket"
			switch {
			case gone, resp.StatusCode == http.StatusPreconditionFailed:
				return errChanged
			case problem.Code == "InvalidObjectState":
				return unusableError(r, fmt.Errorf("the object %q is archived, and can't be read. Restore it, or move it out of the prefix", archive.Shorten(o.Key)))
			}
			return bucketError(r, resp, problem)
		}
		if etag := bucket.ETag(resp.Header.Get("Etag")); o.ETag != "" && etag != "" && etag != o.ETag {
			return errChanged // of a host that does not know If-Match
		}
		if resp.ContentLength >= 0 && resp.ContentLength != o.Size {
			return wrongSize(r, o)
		}
		content = make([]byte, o.Size)
		if _, err := io.ReadFull(body, content); err != nil {
			return cmp.Or(unlessEnd(err), io.ErrUnexpectedEOF)
		}
		if n, _ := io.ReadFull(body, make([]byte, 1)); n > 0 {
			return wrongSize(r, o)
		}
		return nil
	})
	return content, err
}

func wrongSize(r upstream.Remote, o bucket.Object) error {
	return unusableError(r, fmt.Errorf("the object %q is not as long as the list says (%s). Upload it again", archive.Shorten(o.Key), plural.Of(o.Size, "byte")))
}

// unlessEnd is nil for the end of a body of which nothing came.
func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// commitFiles makes a commit of what was read.
func (f *reading) commitFiles(
	ctx context.Context, l *List, b *archive.Builder, into upstream.Target,
) (commit git.Hash, err error) {
	l.blobs = make(map[objectName]git.Hash, len(l.Objects))
	for _, o := range l.Objects {
		id := f.blobs[nameOf(o)]
		if err := b.Put(o.Path, id); err != nil {
			b.Close()
			return commit, unusableError(f.r, err)
		}
		l.blobs[nameOf(o)] = id
	}
	objects, err := bucket.Commit(b, describeBucket(f.r.Bucket, len(l.Objects)))
	if err != nil {
		b.Close()
		return commit, upstream.StorageError(err)
	}
	defer objects.Close()
	return objects.Commit, f.h.client.StoreObjects(ctx, f.r, objects, into)
}

// describeBucket is what people read of a bucket's content.
func describeBucket(b upstream.Bucket, files int) string {
	return fmt.Sprintf("%s: %s", cmp.Or(b.Name+"/"+b.Prefix, b.Name), plural.Of(files, "file"))
}

// bucketError is for an answer that is not as it should be.
func bucketError(r upstream.Remote, resp *http.Response, problem bucket.Problem) *upstream.Error {
	e := upstream.StatusError(r, resp.Request.URL, resp)
	region := upstream.CleanLine(cmp.Or(resp.Header.Get("X-Amz-Bucket-Region"), problem.Region))
	say := func(kind upstream.Kind, format string, args ...any) {
		e.Kind, e.Message = kind, fmt.Sprintf("%d from %s: ", resp.StatusCode, r.URL.Host)+fmt.Sprintf(format, args...)
	}
	switch code := resp.StatusCode; {
	case e.Kind == upstream.KindThrottled:
	case hasEnded(problem.Code) && r.Cloud != "":
		say(upstream.KindCredentials, "the login that the cloud gave has ended. Fairlead asks the cloud for another one")
	case hasEnded(problem.Code):
		say(upstream.KindCredentials, "the keys in secret %q have ended. Put keys that last there, or name auth instead of a secret", r.Secret)
	case problem.Code == "SlowDown":
		say(upstream.KindThrottled, "too many requests. Fairlead asks again later; a longer interval helps")
	case code == http.StatusNotFound:
		say(upstream.KindNotFound, "there is no bucket %q. Check endpoint and bucketName", r.Bucket.Name)
	case region != "" && region != r.Bucket.Region && (code >= 300 && code < 400 || code == http.StatusBadRequest):
		say(upstream.KindRefused, "bucket %q is in the region %q, and the source says %q. Write region: %s", r.Bucket.Name, region, r.Bucket.Region, region)
	case code >= 300 && code < 400:
		say(upstream.KindRefused, "it redirects, which a signed request can't follow. Name the host of the bucket as endpoint, and its region")
	case problem.Code == "RequestTimeTooSkewed":
		say(upstream.KindCredentials, "its clock and the gitcache's differ by more than 15 minutes. Set the one that is wrong")
	case e.Kind == upstream.KindCredentials && r.Cloud != "":
		say(upstream.KindCredentials, "%s", r.CloudHint(fmt.Sprintf("bucket %q", r.Bucket.Name)))
	case problem.Code == "InvalidAccessKeyId", problem.Code == "SignatureDoesNotMatch":
		say(upstream.KindCredentials, "it does not take the keys. Check accesskey and secretkey in secret %q", r.Secret)
	case e.Kind == upstream.KindCredentials && r.Credentials.AccessKey == "":
		say(upstream.KindCredentials, "bucket %q needs credentials, or does not exist. Name a secret with accesskey and secretkey in the source", r.Bucket.Name)
	case e.Kind == upstream.KindCredentials:
		say(upstream.KindCredentials, "the keys in secret %q may not read bucket %q. They need s3:%s and s3:%s", r.Secret,
			r.Bucket.Name, listingRight(r.Bucket), gettingRight(r.Bucket))
	case problem.Code != "":
		say(e.Kind, "%s", upstream.TrimStop(upstream.CleanLine(r.RedactText(problem.Code+": "+problem.Message))))
	}
	return e
}

// hasEnded tells whether a host means by 400 or 403 that keys for a while are good no more.
func hasEnded(code string) bool {
	return code == "ExpiredToken" || code == "InvalidToken" || code == "TokenRefreshRequired"
}

// listingRight and getting are the rights that a bucket's keys need.
func listingRight(b upstream.Bucket) string {
	if b.Versioned {
		return "ListBucketVersions"
	}
	return "ListBucket"
}

func gettingRight(b upstream.Bucket) string {
	if b.Versioned {
		return "GetObjectVersion"
	}
	return "GetObject"
}
