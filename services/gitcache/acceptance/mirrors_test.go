package acceptance

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/await"
)

// mirrored has the source "shop" in a registry that has a mirror: what both have is the same, until a test changes it.
type mirrored struct {
	*registryFixture
	registry, mirror *liar
	host             string // of the mirror
	ca               string
}

func newMirrored(t *testing.T) *mirrored {
	t.Helper()
	f, l := newLiarFixture(t)
	m := &mirrored{registryFixture: f, registry: l, mirror: newLiar(t)}
	m.push("good", "good")
	s := httptest.NewTLSServer(http.HandlerFunc(m.mirror.serve))
	t.Cleanup(s.Close)
	m.host = strings.TrimPrefix(s.URL, "https://")
	m.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	return m
}

func (m *mirrored) push(tag, text string) {
	for _, l := range []*liar{m.registry, m.mirror} {
		l.push(tag, tgz(map[string]string{"a": text}), nil)
	}
}

// use names the mirror in the source, with a secret that has logins for some hosts.
func (m *mirrored) use(logins ...string) {
	secret := map[string]string{}
	if m.ca != "" {
		secret["ca.crt"] = m.ca
	}
	if len(logins) > 0 {
		secret[".dockerconfigjson"] = fmt.Sprintf(`{"auths": {%s}}`, strings.Join(logins, ", "))
	}
	m.console.setSecret("logins", secret)
	u, err := url.Parse(m.registry.URL)
	if err != nil {
		m.t.Fatal(err)
	}
	m.setSpec(&consolev1.SourceSpec{Oci: &consolev1.OCISource{
		Url: "oci://" + u.Host + "/team/shop", Insecure: true, Secret: "logins", Mirrors: []string{m.host + "/cache"},
	}})
}

func loginOf(host, password string) string {
	return fmt.Sprintf(`%q: {"username": "ada", "password": %q}`, host, password)
}

// wantsLogin is a registry that asks for a password.
func wantsLogin(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get("Authorization") != "" {
		return false
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
	w.WriteHeader(http.StatusUnauthorized)
	return true
}

// mistypes sends the right manifests with a wrong type.
func (l *liar) mistypes(w http.ResponseWriter, r *http.Request) bool {
	l.mu.Lock()
	is, ok := l.tags[path.Base(r.URL.Path)]
	l.mu.Unlock()
	if ok {
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(is.manifest)
	}
	return ok
}

// passwords are those that came with requests.
func passwords(l *liar) string {
	all := map[string]bool{}
	for _, r := range l.requests("/") {
		if _, password, ok := r.BasicAuth(); ok {
			all[password] = true
		}
	}
	return fmt.Sprint(all)
}

// TestMirrorsHaveWhatHasADigest while the registry itself says what a tag stands for; each gets its own login.
func TestMirrorsHaveWhatHasADigest(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	m.registry.setFault(wantsLogin)
	m.mirror.setFault(wantsLogin)
	m.use(loginOf(strings.TrimPrefix(m.registry.URL, "http://"), "of-the-registry"),
		loginOf(m.host+"/cache", "of-the-mirror"))
	n := m.one()
	m.resolved("tag:good", "tag:good@")
	m.problem()
	if files := n.filesOf("tag:good", ""); files["a"] != "good" {
		t.Errorf("the artifact has %v", files)
	}
	for _, r := range m.registry.requests("/") {
		if r.Method != http.MethodHead {
			t.Errorf("the registry was asked %s %s", r.Method, r.URL.Path)
		}
	}
	if got := m.mirror.requests("/v2/cache/team/shop/blobs/"); len(got) == 0 {
		t.Error("the mirror was not asked for the layer")
	}
	if got := passwords(m.registry) + passwords(m.mirror); got != "map[of-the-registry:true]map[of-the-mirror:true]" {
		t.Errorf("the registry and the mirror got %s", got)
	}
}

// TestALoginMayBeForTheMirrorAlone: the registry is asked without one.
func TestALoginMayBeForTheMirrorAlone(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	m.mirror.setFault(wantsLogin)
	m.use(loginOf(m.host, "of-the-mirror"))
	m.one()
	m.resolved("tag:good", "tag:good@")
	m.problem()
	if got := passwords(m.registry) + passwords(m.mirror); got != "map[]map[of-the-mirror:true]" {
		t.Errorf("the registry and the mirror got %s", got)
	}
	if got := m.registry.requests("/blobs/"); len(got) > 0 {
		t.Errorf("the registry was asked for %d layers", len(got))
	}
}

// TestMirrorsThatLieOrFail: the registry has it, too. The mirror gets nothing of a login that is for the registry.
func TestMirrorsThatLieOrFail(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"another layer": func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/blobs/") {
				return false
			}
			_, _ = w.Write(tgz(map[string]string{"a": "evil"}))
			return true
		},
		"another manifest": func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/manifests/") {
				_, _ = io.WriteString(w, `{"schemaVersion": 2}`)
				return true
			}
			return false
		},
		"another type": nil, // mistypes
		"a login":      wantsLogin,
		"not found": func(w http.ResponseWriter, r *http.Request) bool {
			http.NotFound(w, r)
			return true
		},
		"throttles": func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMirrored(t)
			if fault == nil {
				fault = m.mirror.mistypes
			}
			m.registry.setFault(wantsLogin)
			m.mirror.setFault(fault)
			m.use(loginOf(strings.TrimPrefix(m.registry.URL, "http://"), "of-the-registry"))
			n := m.one()
			m.resolved("tag:good", "tag:good@")
			m.problem()
			if files := n.filesOf("tag:good", ""); files["a"] != "good" {
				t.Errorf("the artifact has %v", files)
			}
			if got := passwords(m.mirror); got != "map[]" {
				t.Errorf("the mirror got %s", got)
			}
			asked := len(m.mirror.requests("/"))
			if asked == 0 {
				t.Error("the mirror was not asked")
			}
			m.push("good", "better")
			n.refresh()
			await.NoError(t, "the next artifact is there", func() error {
				if files := n.filesOf("tag:good", ""); files["a"] != "better" {
					return fmt.Errorf("it has %v", files)
				}
				return nil
			})
			if again := len(m.mirror.requests("/")) - asked; (again == 0) == (name == "not found") {
				t.Errorf("the mirror was asked %d times more", again)
			}
		})
	}
}

// TestTheRegistryAndItsMirrorFail: if the registry fails, too, the problem has both.
func TestTheRegistryAndItsMirrorFail(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	fails := func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodHead {
			return false
		}
		w.WriteHeader(http.StatusBadGateway)
		return true
	}
	m.registry.setFault(fails)
	m.mirror.setFault(fails)
	m.use()
	m.one()
	m.problem("502 from "+strings.TrimPrefix(m.registry.URL, "http://"), "The mirror "+m.host+": 502")
}

// TestAMirrorIsVerifiedWhateverTheRegistryIs: neither a mirror without TLS nor one whose authority nobody knows gets a
// request.
func TestAMirrorIsVerifiedWhateverTheRegistryIs(t *testing.T) {
	t.Parallel()
	for _, insecure := range []bool{true, false} {
		t.Run(fmt.Sprintf("insecure %t", insecure), func(t *testing.T) {
			t.Parallel()
			m := newMirrored(t)
			m.ca = ""
			at := m.registry.URL
			if insecure {
				m.host = strings.TrimPrefix(m.mirror.URL, "http://")
			} else {
				s := httptest.NewTLSServer(http.HandlerFunc(m.registry.serve))
				t.Cleanup(s.Close)
				at = s.URL
			}
			m.use(loginOf(m.host, "of-the-mirror"))
			_, host, _ := strings.Cut(at, "://")
			m.setSpec(&consolev1.SourceSpec{Oci: &consolev1.OCISource{
				Url: "oci://" + host + "/team/shop", Insecure: insecure, InsecureSkipTlsVerify: !insecure,
				Secret: "logins", Mirrors: []string{m.host + "/cache"},
			}})
			n := m.one()
			m.resolved("tag:good", "tag:good@")
			m.problem()
			if files := n.filesOf("tag:good", ""); files["a"] != "good" {
				t.Errorf("the artifact has %v", files)
			}
			if got := m.mirror.requests("/"); len(got) > 0 {
				t.Errorf("the mirror was asked %d times", len(got))
			}
		})
	}
}
