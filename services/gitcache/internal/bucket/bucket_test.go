package bucket_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"fairlead.dev/services/gitcache/internal/bucket"
)

// TestSignatureIsThatOfTheDocumentation: examples of "Signature Calculations for the Authorization Header" of S3.
func TestSignatureIsThatOfTheDocumentation(t *testing.T) {
	t.Parallel()
	keys := bucket.Keys{Access: "AKIAIOSFODNN7EXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
	at := time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)
	base := &url.URL{Scheme: "https", Host: "examplebucket.s3.amazonaws.com"}
	for want, u := range map[string]*url.URL{
		"34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7": bucket.Place(base, "", url.Values{"max-keys": {"2"}, "prefix": {"J"}}),
		"fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543": bucket.Place(base, "", url.Values{"lifecycle": {""}}),
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u.String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		bucket.Sign(req, nil, keys, "us-east-1", "s3", at)
		got := req.Header.Get("Authorization")
		if !strings.HasSuffix(got, "Signature="+want) {
			t.Errorf("%s is signed with %s, want %s", u, got, want)
		}
		if req.Header.Get("X-Amz-Date") != "20130524T000000Z" || req.URL.RequestURI() != u.RequestURI() {
			t.Errorf("the request is of %s at %s", req.URL.RequestURI(), req.Header.Get("X-Amz-Date"))
		}
	}
}

// TestPlacesAreSentAsTheyAreSigned whatever is in a key.
func TestPlacesAreSentAsTheyAreSigned(t *testing.T) {
	t.Parallel()
	base := &url.URL{Scheme: "https", Host: "s3.example.com:9000"}
	u := bucket.Place(base, "b/a b+c&d/ü*(1)'!~.yaml", url.Values{"versionId": {"a/b =+"}})
	const want = "/b/a%20b%2Bc%26d/%C3%BC%2A%281%29%27%21~.yaml?versionId=a%2Fb%20%3D%2B"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u.String(), nil)
	if err != nil || req.URL.RequestURI() != want || u.RequestURI() != want {
		t.Errorf("%s becomes %s, %v", u, req.URL.RequestURI(), err)
	}
}

func list(root, inside string) []byte {
	return []byte(`<?xml version="1.0" encoding="UTF-8"?><` + root +
		` xmlns="http://s3.amazonaws.com/doc/2006-03-01/">` + inside + `</` + root + `>`)
}

func TestListsAreRead(t *testing.T) {
	t.Parallel()
	page, err := bucket.Decode(list("ListBucketResult", `<Name>b</Name><Prefix>app%2F</Prefix><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated><NextContinuationToken>a+b%2F</NextContinuationToken>
		<Contents><Key>app%2F</Key><Size>0</Size></Contents><Contents><Key>app%2Fsub%2F</Key><Size>0</Size></Contents>
		<Contents><Key>app%2Fa+b%2Bc.yaml</Key><LastModified>2026-11-22T10:00:00.123Z</LastModified><ETag>&quot;abc&quot;</ETag><Size>3</Size><Owner><ID>x</ID></Owner></Contents>`), "app/", false)
	if err != nil {
		t.Fatal(err)
	}
	want := bucket.Object{
		Key: "app/a b+c.yaml", Path: "a b+c.yaml", ETag: "abc", Size: 3,
		Modified: time.Date(2026, 11, 22, 10, 0, 0, 123e6, time.UTC),
	}
	if len(page.Objects) != 1 || page.Objects[0] != want || page.Next.Encode() != "continuation-token=a%2Bb%252F" {
		t.Errorf("the page is %+v", page)
	}

	page, err = bucket.Decode(list("ListVersionsResult", `<IsTruncated>true</IsTruncated><NextKeyMarker>c</NextKeyMarker><NextVersionIdMarker>7</NextVersionIdMarker>
		<Version><Key>a</Key><VersionId>2</VersionId><IsLatest>true</IsLatest><Size>1</Size></Version><Version><Key>a</Key><VersionId>1</VersionId><IsLatest>false</IsLatest><Size>1</Size></Version>
		<DeleteMarker><Key>b</Key><VersionId>9</VersionId><IsLatest>true</IsLatest></DeleteMarker><Version><Key>b</Key><VersionId>8</VersionId><IsLatest>false</IsLatest></Version>`), "", true)
	if err != nil || len(page.Objects) != 1 || page.Objects[0].Version != "2" ||
		page.Next.Encode() != "key-marker=c&version-id-marker=7" {
		t.Errorf("the page is %+v, %v", page, err)
	}
}

// TestKeysThatAreNoPathsAreRefusedInWords, each with its key.
func TestKeysThatAreNoPathsAreRefusedInWords(t *testing.T) {
	t.Parallel()
	for key, words := range map[string]string{
		"../../etc/passwd":                      "leads out of",
		"a/../b":                                "leads out of",
		"/etc/passwd":                           "absolute path",
		"a//b":                                  "empty parts",
		"./a":                                   "empty parts",
		`a\b`:                                   "backslash",
		"a%00b":                                 "characters that no path may have",
		"a%0Ab":                                 "characters that no path may have",
		"a%FFb":                                 "characters that no path may have",
		".git/config":                           "leads into .git",
		strings.Repeat("a", 1025):               "too long a path",
		strings.Repeat("a/", 100) + "b":         "too long a path",
		"c:/x":                                  "absolute path",
		"folder/":                               "empty parts", // with content
		"%zz":                                   "can't be decoded",
		"a</Key><Size>-1</Size><Key>a":          "a size below 0",
		"a</Key><Size>99999999999</Size><Key>a": "limit is 32 MiB",
	} {
		size := "<Size>1</Size>"
		if strings.Contains(key, "<Size>") {
			size = ""
		}
		_, err := bucket.Decode(list("ListBucketResult",
			"<EncodingType>url</EncodingType><Contents><Key>"+key+"</Key>"+size+"</Contents>"), "", false)
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v", key, err)
		}
	}
	for want, text := range map[string]string{
		"is not below":           `<Contents><Key>other/x</Key></Contents>`,
		"does not say how":       `<IsTruncated>true</IsTruncated>`,
		"say how":                `<IsTruncated>true</IsTruncated><NextContinuationToken>` + strings.Repeat("a", 5000) + `</NextContinuationToken>`,
		"an ETag of 257 bytes":   `<Contents><Key>app/x</Key><ETag>` + strings.Repeat("a", 257) + `</ETag></Contents>`,
		"can't be read":          `<Contents><Key>a`,
		"illegal character code": `<Contents><Key>&#1;</Key></Contents>`,
		"more than the 1000":     strings.Repeat(`<Contents><Key>app/</Key></Contents>`, 1001),
	} {
		if _, err := bucket.Decode(list("ListBucketResult", text), "app/", false); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	versioned := `<Version><Key>app/x</Key><IsLatest>true</IsLatest><ETag>` + strings.Repeat("a", 256) +
		`</ETag><VersionId>` + strings.Repeat("v", 1024)
	if _, err := bucket.Decode(list("ListVersionsResult", "<EncodingType>url</EncodingType>"+versioned+`</VersionId></Version>`), "app/", true); err != nil {
		t.Errorf("what is at the limits: %v", err)
	}
	_, err := bucket.Decode(list("ListVersionsResult", versioned+`v</VersionId></Version>`), "app/", true)
	if err == nil || !strings.Contains(err.Error(), "a version of 1025 bytes") {
		t.Errorf("a long version: %v", err)
	}
	if _, err := bucket.Decode(list("html", ""), "", false); err == nil ||
		!strings.Contains(err.Error(), `a document "html"`) {
		t.Errorf("a page is taken for a list: %v", err)
	}
}

func TestObjectsThatCollideAreRefused(t *testing.T) {
	t.Parallel()
	objects := func(paths ...string) (all []bucket.Object) {
		for _, p := range paths {
			all = append(all, bucket.Object{Key: "app/" + p, Path: p, Size: 1})
		}
		return all
	}
	if _, err := bucket.Sort(objects("b/c", "a", "b/a.yaml", "b.yaml")); err != nil {
		t.Error(err)
	}
	if _, err := bucket.Sort(objects("a/b/c", "a/b")); err == nil ||
		!strings.Contains(err.Error(), `"a/b" can't be a file and a folder`) ||
		!strings.Contains(err.Error(), `"app/a/b/c"`) {
		t.Errorf("a file and a folder: %v", err)
	}
	if got, err := bucket.Sort(objects("a", "a")); err != nil || len(got) != 1 {
		t.Errorf("an object that is repeated: %v, %v", got, err)
	}
	if _, err := bucket.Sort(append(objects("a"), bucket.Object{Key: "app/a", Path: "a", Size: 2})); err == nil ||
		!strings.Contains(err.Error(), "twice") {
		t.Errorf("twice: %v", err)
	}
	var large []bucket.Object
	for i := range 9 {
		large = append(large, bucket.Object{Path: fmt.Sprint(i), Size: bucket.MaxFileBytes})
	}
	if _, err := bucket.Sort(large); err == nil || !strings.Contains(err.Error(), "256 MiB") {
		t.Errorf("too much: %v", err)
	}
}

func TestProblemsAreRead(t *testing.T) {
	t.Parallel()
	got := bucket.DecodeProblem([]byte(`<?xml version="1.0"?><Error><Code>AuthorizationHeaderMalformed</Code><Message>the region</Message><Region>eu-central-1</Region><RequestId>x</RequestId></Error>`))
	if got != (bucket.Problem{Code: "AuthorizationHeaderMalformed", Message: "the region", Region: "eu-central-1"}) {
		t.Errorf("got %+v", got)
	}
	if got := bucket.DecodeProblem([]byte("<html>")); got != (bucket.Problem{}) {
		t.Errorf("a page is taken for a problem: %+v", got)
	}
}

// FuzzDecode: what is taken of a list are paths within the bucket, and asking for more makes progress.
func FuzzDecode(f *testing.F) {
	f.Add(list("ListBucketResult", `<EncodingType>url</EncodingType><Contents><Key>a%2Fb</Key><Size>1</Size></Contents>`), false)
	f.Add(list("ListVersionsResult", `<IsTruncated>true</IsTruncated><NextKeyMarker>c</NextKeyMarker><Version><Key>a</Key><VersionId>2</VersionId><IsLatest>true</IsLatest></Version>`), true)
	f.Add([]byte(`<Error><Code>SlowDown</Code></Error>`), false)
	f.Fuzz(func(t *testing.T, text []byte, versioned bool) {
		bucket.DecodeProblem(text)
		page, err := bucket.Decode(text, "", versioned)
		if err != nil {
			return
		}
		if page.Next != nil && len(page.Next) == 0 {
			t.Error("the next page is the first")
		}
		objects, err := bucket.Sort(page.Objects)
		if err != nil {
			return
		}
		b, err := bucket.Build(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		for _, o := range objects {
			if strings.HasPrefix(o.Path, "/") || strings.Contains("/"+o.Path+"/", "/../") ||
				versioned != (o.Version != "") {
				t.Errorf("object %+v", o)
			}
			if err := b.AddFile(o.Path, 0, strings.NewReader("")); err != nil {
				t.Errorf("%q has no place: %v", o.Path, err)
			}
		}
	})
}
