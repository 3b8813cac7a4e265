package bucket

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Keys authenticate requests. The zero value is nobody.
type Keys struct {
	Access, Secret string
	Session        string // of keys that live for a while
}

const (
	algorithm = "AWS4-HMAC-SHA256"
	// timeForm is how the time stands in a request, and its beginning the day.
	timeForm = "20060102T150405Z"
	dayForm  = "20060102"
)

// Sign authenticates a request with AWS Signature Version 4: the host, the path, the query, the body and the headers
// that begin with x-amz-. The URL of the request must be of Place. Other headers may be added afterwards.
func Sign(req *http.Request, body []byte, keys Keys, region, service string, now time.Time) {
	now = now.UTC()
	sum := digest(body)
	req.Header.Set("X-Amz-Date", now.Format(timeForm))
	if service == "s3" {
		req.Header.Set("X-Amz-Content-Sha256", sum)
	}
	if keys.Session != "" {
		req.Header.Set("X-Amz-Security-Token", keys.Session)
	}
	headers := map[string]string{"host": req.URL.Host}
	for name := range req.Header {
		if name := strings.ToLower(name); strings.HasPrefix(name, "x-amz-") {
			headers[name] = strings.TrimSpace(req.Header.Get(name))
		}
	}
	names := slices.Sorted(maps.Keys(headers))
	var request strings.Builder
	fmt.Fprintf(&request, "%s\n%s\n%s\n", req.Method, req.URL.EscapedPath(), req.URL.RawQuery)
	for _, name := range names {
		fmt.Fprintf(&request, "%s:%s\n", name, headers[name])
	}
	signed := strings.Join(names, ";")
	fmt.Fprintf(&request, "\n%s\n%s", signed, sum)

	scope := strings.Join([]string{now.Format(dayForm), region, service, "aws4_request"}, "/")
	text := strings.Join([]string{algorithm, now.Format(timeForm), scope, digest([]byte(request.String()))}, "\n")
	key := []byte("AWS4" + keys.Secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	req.Header.Set("Authorization", fmt.Sprintf("%s Credential=%s/%s,SignedHeaders=%s,Signature=%s", algorithm,
		keys.Access, scope, signed, hex.EncodeToString(mac(key, text))))
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum(nil)
}

// Place is a URL below base as it is signed: everything is escaped in the one way that the signature has.
func Place(base *url.URL, path string, query url.Values) *url.URL {
	u := &url.URL{Scheme: base.Scheme, Host: base.Host, Path: "/" + path}
	parts := strings.Split(path, "/")
	for i, part := range parts {
		parts[i] = escape(part)
	}
	u.RawPath = "/" + strings.Join(parts, "/")
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(query)) {
		for _, value := range slices.Sorted(slices.Values(query[name])) {
			pairs = append(pairs, escape(name)+"="+escape(value))
		}
	}
	u.RawQuery = strings.Join(pairs, "&")
	return u
}

// escape leaves letters, digits and -._~ as they are.
func escape(text string) string {
	return strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
}
