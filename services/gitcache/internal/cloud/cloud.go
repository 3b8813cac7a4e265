// Package cloud logs the gitcache in at registries and buckets of a cloud as the machine or pod that it is, by what the
// cloud's metadata service gives it: for AWS, Google Cloud and Azure.
//
// Invariants: a metadata service is asked only for a source that says so, at its own fixed address, without a proxy and
// without following redirects; what it gives goes to hosts of the same cloud only; nothing of it is in an error or a
// log.
package cloud

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Name of a cloud, as sources write it.
type Name string

// The clouds.
const (
	AWS   Name = "aws"
	GCP   Name = "gcp"
	Azure Name = "azure"
)

// Login is what authenticates for a while: a user with a password for a registry, and keys or a token for a bucket.
type Login struct {
	Username, Password                 string
	AccessKey, SecretKey, SessionToken string
	Token                              string // of OAuth 2
	Until                              time.Time
}

// String keeps what is in it out of messages.
func (Login) String() string { return "redacted" }

// GoString keeps what is in it out of %#v.
func (Login) GoString() string { return "redacted" }

const (
	// requestTime of one request: metadata services answer within milliseconds.
	requestTime = 10 * time.Second
	dialTime    = 2 * time.Second
	// maxAnswerBytes of an answer; tokens have some KiB.
	maxAnswerBytes = 256 << 10
	// early is how long before its end a login is replaced: it may have to last for a download.
	early = 5 * time.Minute
	// shortest is how long a login is used that ends sooner than early.
	shortest = time.Minute
	// failureTime is how long a failure is the answer for all: those that waited for it don't ask one after the other.
	failureTime = 10 * time.Second
	// maxLogins that are remembered: one for each cloud and host.
	maxLogins = 1000
)

// Places are where clouds are asked. %s stands for a region.
type Places struct {
	Metadata string // of virtual machines, of all three
	STS, ECR string
	Entra    string // Microsoft's tokens
	// Exchange of a registry of Azure; %s stands for its host.
	Exchange string
	// Registries and Buckets are the hosts that get a cloud's logins.
	Registries, Buckets map[Name]*regexp.Regexp
}

// awsRegion is the form of the names of regions, such as us-east-1 and us-gov-west-1.
const awsRegion = `[a-z]{2}(-[a-z]+)+-[0-9]{1,2}`

// Public are the places of the clouds themselves.
func Public() Places {
	return Places{
		Metadata: "http://169.254.169.254", STS: "https://sts.%s.amazonaws.com", ECR: "https://api.ecr.%s.amazonaws.com",
		Entra: "https://login.microsoftonline.com", Exchange: "https://%s/oauth2/exchange",
		Registries: map[Name]*regexp.Regexp{
			AWS:   regexp.MustCompile(`^[0-9]{12}\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com$`),
			GCP:   regexp.MustCompile(`^(gcr\.io|[a-z]+\.gcr\.io|[a-z0-9-]+-docker\.pkg\.dev)$`),
			Azure: regexp.MustCompile(`^[a-z0-9-]+\.azurecr\.io$`),
		},
		Buckets: map[Name]*regexp.Regexp{
			// Load balancers and databases of other accounts have names under amazonaws.com, too.
			AWS: regexp.MustCompile(`^s3((-fips)?(\.dualstack)?\.` + awsRegion + `|-` + awsRegion + `)?\.amazonaws\.com$`),
			GCP: regexp.MustCompile(`^storage\.googleapis\.com$`),
		},
	}
}

// Options of Logins.
type Options struct {
	Places Places
	// Dial reaches the public hosts of clouds; nil: any.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Proxy is the one for a request to a public host, which may have any address; nil: as the environment says.
	Proxy func(*http.Request) (*url.URL, error)
	// Getenv and ReadFile give what the pod or machine was given; nil: the process' own.
	Getenv   func(string) string
	ReadFile func(string) ([]byte, error)
}

// Logins gets logins, and remembers those that are good still. Safe for many goroutines.
type Logins struct {
	o        Options
	metadata *http.Client // asks metadata services
	public   *http.Client

	mu    sync.Mutex // guards known
	known map[key]*remembered
}

type key struct {
	cloud    Name
	host     string
	isBucket bool
}

// remembered is a login, or why there is none.
type remembered struct {
	// turn has a value while a caller asks, so that each login is asked for once. Its holder has what follows.
	turn        chan struct{} // of capacity 1
	login       Login
	failure     error
	failedUntil time.Time
}

// New makes them. Close releases idle connections.
func New(o Options) *Logins {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.ReadFile == nil {
		o.ReadFile = os.ReadFile
	}
	if o.Proxy == nil {
		o.Proxy = http.ProxyFromEnvironment
	}
	metadata := &http.Transport{DialContext: (&net.Dialer{Timeout: dialTime}).DialContext, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute}
	return &Logins{o: o, metadata: client(metadata), public: client(newPublic(o)), known: map[key]*remembered{}}
}

// public is the way to the hosts of clouds: through the operator's proxy, whose address is the operator's to choose, or
// direct.
type public struct {
	proxy           func(*http.Request) (*url.URL, error)
	direct, proxied *http.Transport
}

func newPublic(o Options) *public {
	way := func(dial func(context.Context, string, string) (net.Conn, error)) *http.Transport {
		return &http.Transport{DialContext: dial, TLSHandshakeTimeout: requestTime, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute}
	}
	p := &public{proxy: o.Proxy, direct: way(o.Dial), proxied: way(nil)}
	p.proxied.Proxy = o.Proxy
	return p
}

// RoundTrip sends a request on its way.
func (p *public) RoundTrip(req *http.Request) (*http.Response, error) {
	if proxy, err := p.proxy(req); err == nil && proxy == nil {
		return p.direct.RoundTrip(req)
	}
	return p.proxied.RoundTrip(req) // which says what is wrong with the proxy
}

// CloseIdleConnections of both.
func (p *public) CloseIdleConnections() {
	p.direct.CloseIdleConnections()
	p.proxied.CloseIdleConnections()
}

func client(t http.RoundTripper) *http.Client {
	return &http.Client{Transport: t, Timeout: requestTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Close releases idle connections.
func (l *Logins) Close() {
	l.metadata.CloseIdleConnections()
	l.public.CloseIdleConnections()
}

// Registry logs in at the registry at a host.
func (l *Logins) Registry(ctx context.Context, cloud Name, host string) (Login, error) {
	return l.get(ctx, key{cloud, host, false})
}

// Bucket logs in at the buckets at a host.
func (l *Logins) Bucket(ctx context.Context, cloud Name, host string) (Login, error) {
	return l.get(ctx, key{cloud, host, true})
}

// Forget drops a login that a host does not take, or a failure.
func (l *Logins) Forget(cloud Name, host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, key{cloud, host, false})
	delete(l.known, key{cloud, host, true})
}

func (l *Logins) get(ctx context.Context, k key) (Login, error) {
	region, err := l.check(k)
	if err != nil {
		return Login{}, err
	}
	l.mu.Lock()
	if len(l.known) >= maxLogins {
		clear(l.known)
	}
	is := l.known[k]
	if is == nil {
		is = &remembered{turn: make(chan struct{}, 1)}
		l.known[k] = is
	}
	l.mu.Unlock()
	select {
	case is.turn <- struct{}{}:
		defer func() { <-is.turn }()
	case <-ctx.Done():
		return Login{}, ctx.Err()
	}
	switch now := time.Now(); {
	case now.Before(is.login.Until):
		return is.login, nil
	case now.Before(is.failedUntil):
		return Login{}, is.failure
	}
	login, err := l.ask(ctx, k, region)
	if err != nil {
		err = fmt.Errorf("log in at %s: %w", k.cloud, err)
		if ctx.Err() == nil { // else it says nothing of the cloud
			is.failure, is.failedUntil = err, time.Now().Add(failureTime)
		}
		return Login{}, err
	}
	if end := login.Until.Add(-early); end.After(time.Now().Add(shortest)) {
		login.Until = end
	} else {
		login.Until = time.Now().Add(shortest)
	}
	is.login = login
	return login, nil
}

// check says whether a cloud has a host, and in which region if the host says so.
func (l *Logins) check(k key) (region string, err error) {
	hosts, what := l.o.Places.Registries, "registries"
	if k.isBucket {
		hosts, what = l.o.Places.Buckets, "buckets"
	}
	of, ok := hosts[k.cloud]
	if !ok {
		return "", fmt.Errorf("auth: %s is not for %s. Remove it, and name a secret", k.cloud, what)
	}
	found := of.FindStringSubmatch(k.host)
	if found == nil {
		return "", fmt.Errorf("auth: %s is for %s of that cloud, and %s is none. Remove it, and name a secret", k.cloud, what, k.host)
	}
	if len(found) > 1 && k.cloud == AWS && !k.isBucket {
		region = found[1]
	}
	return region, nil
}

func (l *Logins) ask(ctx context.Context, k key, region string) (Login, error) {
	switch k.cloud {
	case AWS:
		login, err := l.awsKeys(ctx)
		if err != nil || k.isBucket {
			return login, err
		}
		return l.ecr(ctx, login, region)
	case GCP:
		return l.google(ctx)
	case Azure:
		return l.acr(ctx, k.host)
	}
	return Login{}, errors.New("there is no such cloud")
}

// errElsewhere says what to do where there is no metadata service.
var errElsewhere = errors.New("its metadata service does not answer. Run the gitcache there, with an identity of the machine or the pod, or name a secret instead of auth")

// request is what a cloud is asked.
type request struct {
	method, url string
	headers     map[string]string
	form        url.Values // of a POST
	body        []byte
	sign        func(*http.Request, []byte)
	isMetadata  bool
}

// send makes a request and returns the answer, which is small. The errors repeat nothing that a cloud said: it may be a
// token.
func (l *Logins) send(ctx context.Context, r request) ([]byte, error) {
	body := r.body
	if r.form != nil {
		body = []byte(r.form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, r.method, r.url, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("its address can't be read")
	}
	for name, value := range r.headers {
		req.Header.Set(name, value)
	}
	if r.form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if r.sign != nil {
		r.sign(req, body)
	}
	hc := l.public
	if r.isMetadata {
		hc = l.metadata
	}
	resp, err := hc.Do(req)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && r.isMetadata:
		return nil, errElsewhere
	case err != nil:
		return nil, fmt.Errorf("%s is not reachable. Check the gitcache's network: --allow-addresses if the host has a private address, and HTTPS_PROXY if there is a proxy", req.URL.Host)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	switch {
	case resp.StatusCode != http.StatusOK && r.isMetadata:
		return nil, fmt.Errorf("%d from its metadata service. Give the gitcache's machine or pod an identity, or name a secret instead of auth", resp.StatusCode)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%d from %s. Check what the gitcache's identity may do", resp.StatusCode, req.URL.Host)
	case err != nil || len(text) > maxAnswerBytes:
		return nil, fmt.Errorf("the answer of %s can't be read", req.URL.Host)
	}
	return text, nil
}

// decode reads JSON that a cloud sent.
func decode(text []byte, into any) error {
	if err := json.Unmarshal(text, into); err != nil {
		return errors.New("the answer can't be read") // the parser's error may quote a token
	}
	return nil
}

// life is until when what lasts some seconds is good. Some send them as text.
func life(seconds json.Number) time.Time {
	n, err := seconds.Int64()
	if err != nil || n < 0 || n > int64((24*time.Hour).Seconds()) {
		n = 0
	}
	return time.Now().Add(time.Duration(n) * time.Second)
}

// file reads what the pod was given, such as its token.
func (l *Logins) file(variable string) (string, error) {
	text, err := l.o.ReadFile(l.o.Getenv(variable))
	if err != nil {
		return "", fmt.Errorf("the file that %s names can't be read", variable)
	}
	return strings.TrimSpace(string(text)), nil
}
