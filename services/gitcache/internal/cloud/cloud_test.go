package cloud_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/services/gitcache/internal/bucket"
	"fairlead.dev/services/gitcache/internal/cloud"
)

// standIn plays the services of three clouds, as their documentation describes them.
type standIn struct {
	*httptest.Server
	asked atomic.Int64
	life  atomic.Int64 // of what it gives, in seconds
	env   map[string]string
	files map[string]string

	mu    sync.Mutex // guards fault
	fault http.HandlerFunc
}

func newStandIn(t *testing.T) *standIn {
	t.Helper()
	s := &standIn{env: map[string]string{}, files: map[string]string{}}
	s.life.Store(3600)
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /latest/api/token", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds") == "" {
			http.Error(w, "no life", http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, "imds-token")
	})
	mux.HandleFunc("GET /latest/meta-data/iam/security-credentials/", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-aws-ec2-metadata-token") != "imds-token":
			http.Error(w, "version 1 is off", http.StatusUnauthorized)
		case strings.HasSuffix(r.URL.Path, "/node-role"):
			_, _ = fmt.Fprintf(w, `{"Code": "Success", "AccessKeyId": "ASIAMACHINE", "SecretAccessKey": "of the machine", "Token": "session", "Expiration": %q}`, s.end().Format(time.RFC3339))
		default:
			_, _ = io.WriteString(w, "node-role")
		}
	})
	mux.HandleFunc("POST /sts/eu-central-1/", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("Action") != "AssumeRoleWithWebIdentity" ||
			r.FormValue("RoleArn") != "arn:aws:iam::123456789012:role/x" ||
			r.FormValue("WebIdentityToken") != "of the pod" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		_, _ = fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>
			<AccessKeyId>ASIAPOD</AccessKeyId><SecretAccessKey>of the role</SecretAccessKey><SessionToken>session</SessionToken><Expiration>%s</Expiration>
			</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, s.end().Format(time.RFC3339))
	})
	mux.HandleFunc("POST /ecr/eu-west-3/", s.ecr)
	mux.HandleFunc("GET /computeMetadata/v1/instance/service-accounts/default/token", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Metadata-Flavor") != "Google" {
			http.Error(w, "no flavor", http.StatusForbidden)
			return
		}
		_, _ = fmt.Fprintf(w, `{"access_token": "ya29.x", "expires_in": %d, "token_type": "Bearer"}`, s.life.Load())
	})
	mux.HandleFunc("GET /metadata/identity/oauth2/token", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Metadata") != "true" || r.FormValue("resource") != "https://management.azure.com/" ||
			r.FormValue("api-version") == "" {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		_, _ = fmt.Fprintf(w, `{"access_token": "of-the-machine", "expires_in": "%d"}`, s.life.Load())
	})
	mux.HandleFunc("POST /entra/tenant-1/oauth2/v2.0/token", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("client_assertion") != "of the pod" || r.FormValue("client_id") != "client-1" ||
			r.FormValue("grant_type") != "client_credentials" {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		_, _ = fmt.Fprintf(w, `{"access_token": "of-the-pod", "expires_in": %d}`, s.life.Load())
	})
	mux.HandleFunc("POST /exchange/", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("grant_type") != "access_token" || "/exchange/"+r.FormValue("service") != r.URL.Path {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		_, _ = fmt.Fprintf(w, `{"refresh_token": "acr-%s"}`, strings.ReplaceAll(r.FormValue("access_token"), " ", "-"))
	})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		s.mu.Lock()
		fault := s.fault
		s.mu.Unlock()
		if fault != nil {
			fault(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *standIn) end() time.Time {
	return time.Now().Add(time.Duration(s.life.Load()) * time.Second).UTC()
}

// ecr takes requests that are signed with the machine's keys or the role's.
func (s *standIn) ecr(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil || r.Header.Get("X-Amz-Target") != "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken" {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	for access, secret := range map[string]string{"ASIAMACHINE": "of the machine", "ASIAPOD": "of the role"} {
		again := r.Clone(r.Context())
		again.URL.Host = r.Host
		bucket.Sign(again, body, bucket.Keys{Access: access, Secret: secret, Session: "session"}, "eu-west-3",
			"ecr", at)
		if again.Header.Get("Authorization") == r.Header.Get("Authorization") {
			token := base64.StdEncoding.EncodeToString([]byte("AWS:for " + access))
			_, _ = fmt.Fprintf(w, `{"authorizationData": [{"authorizationToken": %q, "expiresAt": %d.123, "proxyEndpoint": "https://x"}]}`, token, s.end().Unix())
			return
		}
	}
	http.Error(w, "the signature does not match", http.StatusForbidden)
}

func (s *standIn) logins(t *testing.T) *cloud.Logins {
	t.Helper()
	return s.loginsWith(t, cloud.Options{})
}

// loginsWith has the stand-in as all places, and its environment.
func (s *standIn) loginsWith(t *testing.T, o cloud.Options) *cloud.Logins {
	t.Helper()
	places := cloud.Public()
	places.Metadata, places.STS, places.ECR, places.Entra, places.Exchange = s.URL, s.URL+"/sts/%s", s.URL+
		"/ecr/%s", s.URL+"/entra", s.URL+"/exchange/%s"
	o.Places, o.Getenv = places, func(name string) string { return s.env[name] }
	o.ReadFile = func(path string) ([]byte, error) {
		if text, ok := s.files[path]; ok {
			return []byte(text + "\n"), nil
		}
		return nil, errors.New("hush: no such file")
	}
	l := cloud.New(o)
	t.Cleanup(l.Close)
	return l
}

const (
	ecrHost = "123456789012.dkr.ecr.eu-west-3.amazonaws.com"
	garHost = "europe-west1-docker.pkg.dev"
	acrHost = "team.azurecr.io"
)

// TestLoginsAreThoseOfTheMachineOrThePod at all three clouds, and are asked for again only when they end.
func TestLoginsAreThoseOfTheMachineOrThePod(t *testing.T) {
	t.Parallel()
	pod := map[string]string{
		"AWS_WEB_IDENTITY_TOKEN_FILE": "/token", "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/x",
		"AWS_REGION":                 "eu-central-1",
		"AZURE_FEDERATED_TOKEN_FILE": "/token", "AZURE_TENANT_ID": "tenant-1", "AZURE_CLIENT_ID": "client-1",
	}
	for name, tc := range map[string]struct {
		cloud              cloud.Name
		host               string
		env                map[string]string
		username, password string
	}{
		"ECR, machine": {cloud.AWS, ecrHost, nil, "AWS", "for ASIAMACHINE"},
		"ECR, pod":     {cloud.AWS, ecrHost, pod, "AWS", "for ASIAPOD"},
		"Google":       {cloud.GCP, garHost, nil, "oauth2accesstoken", "ya29.x"},
		"ACR, machine": {cloud.Azure, acrHost, nil, "00000000-0000-0000-0000-000000000000", "acr-of-the-machine"},
		"ACR, pod":     {cloud.Azure, acrHost, pod, "00000000-0000-0000-0000-000000000000", "acr-of-the-pod"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStandIn(t)
			maps.Copy(s.env, tc.env)
			s.files["/token"] = "of the pod"
			l := s.logins(t)
			var same sync.WaitGroup
			for range 10 {
				same.Go(func() {
					got, err := l.Registry(t.Context(), tc.cloud, tc.host)
					if err != nil || got.Username != tc.username || got.Password != tc.password {
						t.Errorf("got %s with %q, %v", got.Username, got.Password, err)
					}
					if strings.Contains(fmt.Sprintf("%v %+v %#v", got, got, got), tc.password) {
						t.Error("a login shows its password")
					}
				})
			}
			same.Wait()
			once := s.asked.Load()
			if _, err := l.Registry(t.Context(), tc.cloud, tc.host); err != nil || s.asked.Load() != once || once > 4 {
				t.Errorf("%d requests, and %d for the next login, %v", once, s.asked.Load()-once, err)
			}
			l.Forget(tc.cloud, tc.host)
			if _, err := l.Registry(t.Context(), tc.cloud, tc.host); err != nil || s.asked.Load() != 2*once {
				t.Errorf("%d requests after the login was not taken, %v", s.asked.Load()-once, err)
			}
		})
	}
}

func TestLoginsOfBuckets(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	l := s.logins(t)
	for _, host := range []string{
		"s3.eu-west-3.amazonaws.com", "s3.amazonaws.com", "s3-us-west-2.amazonaws.com",
		"s3.dualstack.ap-southeast-2.amazonaws.com", "s3-fips.us-gov-west-1.amazonaws.com",
	} {
		aws, err := l.Bucket(t.Context(), cloud.AWS, host)
		if err != nil || aws.AccessKey != "ASIAMACHINE" || aws.SecretKey != "of the machine" ||
			aws.SessionToken != "session" {
			t.Errorf("%s: got %s, %v", host, aws.AccessKey, err)
		}
	}
	gcp, err := l.Bucket(t.Context(), cloud.GCP, "storage.googleapis.com")
	if err != nil || gcp.Token != "ya29.x" {
		t.Errorf("got %v", err)
	}
}

// TestLoginsGoThroughTheOperatorsProxy at an address that no source may name. The metadata service is asked without the
// proxy.
func TestLoginsGoThroughTheOperatorsProxy(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	var through atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		through.Add(1)
		if r.URL.Host == "" || !strings.HasPrefix(r.URL.Path, "/ecr/") {
			http.Error(w, "the metadata service is not asked through a proxy", http.StatusBadRequest)
			return
		}
		s.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	refused := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("a private address") }
	at := &url.URL{Scheme: "http", Host: proxy.Listener.Addr().String()}
	l := s.loginsWith(t, cloud.Options{Dial: refused, Proxy: func(*http.Request) (*url.URL, error) { return at, nil }})
	if got, err := l.Registry(t.Context(), cloud.AWS, ecrHost); err != nil || got.Password != "for ASIAMACHINE" ||
		through.Load() != 1 {
		t.Errorf("got %q after %d requests through the proxy, %v", got.Password, through.Load(), err)
	}
	l = s.loginsWith(t, cloud.Options{Dial: refused, Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }})
	if _, err := l.Registry(t.Context(), cloud.AWS, ecrHost); err == nil ||
		!strings.Contains(err.Error(), "HTTPS_PROXY") || through.Load() != 1 {
		t.Errorf("without a proxy a private address is dialled: %v", err)
	}
}

// TestLoginsGoToHostsOfTheirCloud and nobody is asked for others.
func TestLoginsGoToHostsOfTheirCloud(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	l := s.logins(t)
	for host, c := range map[string]cloud.Name{
		"registry.example.com": cloud.AWS, ecrHost + ".example.com": cloud.AWS, "x" + ecrHost + ":443": cloud.AWS,
		garHost:              cloud.AWS,
		"gcr.io.example.com": cloud.GCP, "docker.pkg.dev": cloud.GCP, "team.azurecr.io.example.com": cloud.Azure,
		"a/b.azurecr.io": cloud.Azure, "x": "oracle",
	} {
		if _, err := l.Registry(t.Context(), c, host); err == nil || !strings.Contains(err.Error(), "name a secret") {
			t.Errorf("%s of %s: %v", host, c, err)
		}
	}
	for host, c := range map[string]cloud.Name{
		"s3.example.com": cloud.AWS, "s3.amazonaws.com.example.com": cloud.AWS,
		"storage.googleapis.com.example.com": cloud.GCP, acrHost: cloud.Azure,
		"s3-x-123.us-east-1.elb.amazonaws.com": cloud.AWS, "s3.elb.us-east-1.amazonaws.com": cloud.AWS,
		"s3.abc.us-east-1.rds.amazonaws.com": cloud.AWS,
		"s3-us-east-1.elb.amazonaws.com":     cloud.AWS, "s3.us-east-1.amazonaws.com:444": cloud.AWS,
	} {
		if _, err := l.Bucket(t.Context(), c, host); err == nil {
			t.Errorf("%s of %s is taken", host, c)
		}
	}
	if got := s.asked.Load(); got != 0 {
		t.Errorf("%d requests", got)
	}
	public := cloud.Public()
	if !slices.Equal(slices.Sorted(maps.Keys(public.Buckets)), []cloud.Name{cloud.AWS, cloud.GCP}) ||
		public.Metadata != "http://169.254.169.254" {
		t.Errorf("the places are %v", public)
	}
}

// TestCloudsThatDoNotAnswerAreToldWithoutSecrets: what to do, and nothing of what came.
func TestCloudsThatDoNotAnswerAreToldWithoutSecrets(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	l := s.logins(t)
	answer := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://192.0.2.1/")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	for _, c := range []struct {
		fault http.HandlerFunc
		words string
	}{
		{answer(404, "hush"), "404 from its metadata service. Give"},
		{answer(302, "hush"), "302 from its metadata service"},
		{answer(200, `{"access_token": hush`), "can't be read"},
		{answer(200, `{"access_token": "hush\nX: y", "expires_in": 10}`), "has no token"},
		{answer(200, `{}`), "has no token"},
		{answer(200, strings.Repeat("hush", 1<<17)), "can't be read"},
	} {
		l.Forget(cloud.GCP, garHost) // the failure before
		s.mu.Lock()
		s.fault = c.fault
		s.mu.Unlock()
		if _, err := l.Registry(t.Context(), cloud.GCP, garHost); err == nil ||
			!strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", c.words, err)
		}
	}
	s.Close()
	if _, err := l.Registry(t.Context(), cloud.Azure, acrHost); err == nil ||
		!strings.Contains(err.Error(), "does not answer. Run the gitcache there") {
		t.Errorf("it is down: %v", err)
	}
	s.env["AWS_WEB_IDENTITY_TOKEN_FILE"] = "/absent"
	if _, err := l.Registry(t.Context(), cloud.AWS, ecrHost); err == nil ||
		!strings.Contains(err.Error(), "AWS_WEB_IDENTITY_TOKEN_FILE") || strings.Contains(err.Error(), "hush") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestShortLogin: one that ends at once is not asked for with each request.
func TestShortLoginIsUsedForAWhile(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	s.life.Store(0)
	l := s.logins(t)
	for range 3 {
		if _, err := l.Registry(t.Context(), cloud.GCP, garHost); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.asked.Load(); got != 1 {
		t.Errorf("%d requests", got)
	}
}

// TestWaitingForALoginEndsWithTheContext while another caller still asks.
func TestWaitingForALoginEndsWithTheContext(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	l := s.logins(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	s.fault = func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		_, _ = io.WriteString(w, `{"access_token": "a", "expires_in": 3600}`)
	}
	first := make(chan error, 1)
	go func() {
		_, err := l.Registry(t.Context(), cloud.GCP, garHost)
		first <- err
	}()
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.Registry(ctx, cloud.GCP, garHost)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	select {
	case err := <-first:
		t.Errorf("the caller that had ended waited for the other one, which got %v", err)
		close(answer)
	default:
		close(answer)
		if err := <-first; err != nil {
			t.Error(err)
		}
	}
}

// TestFailuresAreKeptForAWhile so that a metadata service that hangs is not asked for each source in turn.
func TestFailuresAreKeptForAWhile(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	l := s.logins(t)
	s.fault = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Registry(ended, cloud.GCP, garHost); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for range 3 {
		if _, err := l.Registry(t.Context(), cloud.GCP, garHost); err == nil ||
			!strings.Contains(err.Error(), "404 from its metadata service") {
			t.Errorf("got %v", err)
		}
	}
	if got := s.asked.Load(); got != 1 {
		t.Errorf("%d requests for one failure", got)
	}
	l.Forget(cloud.GCP, garHost)
	if _, err := l.Registry(t.Context(), cloud.GCP, garHost); err == nil || s.asked.Load() != 2 {
		t.Errorf("%d requests, %v", s.asked.Load(), err)
	}
}

// TestPodsDoNotGetTheRoleOfTheMachine if they were given an identity that can't be read.
func TestPodsDoNotGetTheRoleOfTheMachine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ variable, value, words string }{
		{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://192.0.2.1/hush", "is not the agent of EKS Pod Identity"},
		{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/hush", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"},
		// The agent is known, and what is missing is the token for it.
		{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.23/v1/credentials", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"},
		{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://[fd00:ec2::23]/v1/credentials", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"},
	} {
		s := newStandIn(t)
		s.env[c.variable] = c.value
		if _, err := s.logins(t).Registry(t.Context(), cloud.AWS, ecrHost); err == nil ||
			!strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s=%s: %v", c.variable, c.value, err)
		}
		if got := s.asked.Load(); got != 0 {
			t.Errorf("%s=%s: %d requests", c.variable, c.value, got)
		}
	}
}

// FuzzAnswers: whatever a cloud sends, there is an error or a login that can stand in a header.
func FuzzAnswers(f *testing.F) {
	f.Add(`{"access_token": "a", "expires_in": "3599"}`)
	f.Add(`{"AccessKeyId": "a", "SecretAccessKey": "b", "Token": "c", "Expiration": "2026-11-22T00:00:00Z"}`)
	f.Add(`{"authorizationData": [{"authorizationToken": "QVdTOng=", "expiresAt": 1e300}]}`)
	f.Add(`<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>a</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, decode := range cloud.Decoders() {
			login, err := decode([]byte(text))
			if err == nil && login.Password+login.AccessKey+login.Token == "" {
				t.Error("a login of nothing")
			}
			if strings.ContainsAny(login.AccessKey+login.SessionToken+login.Token, "\r\n") ||
				login.Until.Year() > 40_000 {
				t.Errorf("login %q", login.AccessKey)
			}
		}
	})
}
