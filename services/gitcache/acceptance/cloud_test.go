package acceptance

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/registrytest"
	"fairlead.dev/services/gitcache/internal/cloud"
)

// amazon plays the metadata service of a machine, and ECR.
func amazon(t *testing.T, username, password string) cloud.Places {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /latest/api/token", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "token") })
	var sessions atomic.Int64
	mux.HandleFunc("GET /latest/meta-data/iam/security-credentials/{role...}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("role") == "" {
			_, _ = io.WriteString(w, "node")
			return
		}
		_, _ = fmt.Fprintf(w, `{"AccessKeyId": "ASIA", "SecretAccessKey": "hush-hush", "Token": "session-%d", "Expiration": "2999-01-01T00:00:00Z"}`, sessions.Add(1))
	})
	mux.HandleFunc("POST /ecr/{$}", func(w http.ResponseWriter, _ *http.Request) {
		login := base64.StdEncoding.EncodeToString([]byte(username + ":" + password))
		_, _ = fmt.Fprintf(w, `{"authorizationData": [{"authorizationToken": %q, "expiresAt": 32472144000}]}`, login)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	here := map[cloud.Name]*regexp.Regexp{cloud.AWS: regexp.MustCompile(`^127\.0\.0\.1:([0-9]+)$`)}
	return cloud.Places{Metadata: s.URL, ECR: s.URL + "/ecr", Registries: here, Buckets: here}
}

// TestGitcacheLogsInAsItselfWhereASourceSaysSo: at a registry that wants a password, and at a bucket whose requests are
// signed.
func TestGitcacheLogsInAsItselfWhereASourceSaysSo(t *testing.T) {
	t.Parallel()
	f := newRegistry(t, "-auth", "basic")
	f.registry.OrasPush(t, "team/shop:1", "application/x.test",
		registrytest.File{Name: "a", MediaType: "text/plain", Content: []byte("a")})
	f.console.setService("web", "tag:1")
	f.console.setSecret("authority", map[string]string{"ca.crt": f.registry.CA})
	f.artifacts(&consolev1.OCISource{Secret: "authority", Auth: consolev1.CloudAuth_CLOUD_AUTH_AWS})
	cfg := f.config(t.TempDir())
	cfg.Clouds = amazon(t, f.registry.Username, f.registry.Password)
	f.startWith(cfg, nil)
	f.resolved("tag:1", "tag:1@")
	f.problem()
	f.artifacts(&consolev1.OCISource{Secret: "login", Auth: consolev1.CloudAuth_CLOUD_AUTH_AWS})
	f.problem("auth: aws", `secret "login" has credentials, too`)
	f.artifacts(&consolev1.OCISource{Secret: "authority", Auth: consolev1.CloudAuth_CLOUD_AUTH_GCP})
	f.problem("auth: gcp is not for registries")

	l := newBucketLiar(t)
	l.put(map[string]string{"a": "in a bucket"})
	spec := l.spec()
	spec.Bucket.Auth = consolev1.CloudAuth_CLOUD_AUTH_AWS
	f.console.setService("web", "")
	f.bucket(spec)
	f.moved("")
	signed := l.count(func(r *http.Request) bool {
		authorization := r.Header.Get("Authorization")
		return strings.Contains(authorization, "Credential=ASIA/") && strings.Contains(authorization,
			"x-amz-security-token") && strings.HasPrefix(r.Header.Get("X-Amz-Security-Token"), "session-")
	})
	if all := l.count(func(*http.Request) bool { return true }); signed != all {
		t.Errorf("%d of %d requests are signed", signed, all)
	}
}

// TestKeysThatAHostTakesNoMoreAreAskedForAgain: S3 says by 400 that a session has ended.
func TestKeysThatAHostTakesNoMoreAreAskedForAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	l := newBucketLiar(t)
	l.put(map[string]string{"a": "first"})
	spec := l.spec()
	spec.Bucket.Auth = consolev1.CloudAuth_CLOUD_AUTH_AWS
	f.console.setService("web", "")
	f.bucket(spec)
	cfg := f.config(t.TempDir())
	cfg.Clouds = amazon(t, "", "")
	n := f.startWith(cfg, nil)
	first := f.moved("").GetCommit()
	l.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("X-Amz-Security-Token") != "session-1" {
			return false
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>")
		return true
	})
	l.put(map[string]string{"a": "second"})
	n.refresh()
	f.moved(first)
	f.problem()
}
