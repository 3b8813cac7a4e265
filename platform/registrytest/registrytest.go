// Package registrytest is a real registry for tests (distribution v3), and the real clients that push to it: see
// tools/registrylocal.
package registrytest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/platform/longform"
	"fairlead.dev/platform/subprocess"
)

// buildTime covers a first build with nothing cached.
const buildTime = 30 * time.Minute

// Registry is a running one.
type Registry struct {
	Host               string // host:port
	CA                 string // PEM
	Username, Password string
	Tokens             string // host:port of the token service
	Control            string

	folder  string
	process *subprocess.Process
}

// binary is the path of registrylocal, which is built if need be.
var binary = sync.OnceValues(func() (string, error) { //nolint:gochecknoglobals // built once for all tests of a package
	if path := os.Getenv("REGISTRYLOCAL"); path != "" {
		return path, nil
	}
	dir, err := os.Getwd()
	for err == nil {
		script := filepath.Join(dir, "tools", "registrylocal", "build.sh")
		if _, missing := os.Stat(script); missing == nil {
			ctx, cancel := context.WithTimeout(context.Background(), buildTime)
			defer cancel()
			cmd := exec.CommandContext(ctx, script)
			cmd.Stderr = os.Stderr // a first build takes minutes, and says why it fails
			out, err := cmd.Output()
			if err != nil {
				return "", fmt.Errorf("build registrylocal: %w", err)
			}
			return strings.TrimSpace(string(out)), nil
		}
		if dir == filepath.Dir(dir) {
			err = errors.New("no tools/registrylocal above this folder")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
})

// Start runs a registry until the end of the test. args are those of registrylocal serve. The short form skips the
// test.
func Start(t testing.TB, args ...string) *Registry {
	t.Helper()
	longform.Only(t, "a registry")
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	r := &Registry{folder: t.TempDir()}
	cmd := exec.CommandContext(context.Background(), path, append([]string{"serve", r.folder}, args...)...)
	out, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	if r.process, err = subprocess.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	go func() {
		<-r.process.Ended()
		_ = w.Close() // else a process that ends before its line is waited for
	}()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, r)
	}
	if err != nil {
		t.Fatalf("start registrylocal: %v", err)
	}
	return r
}

// At is another registry than one of Start, for the clients: at a host:port, with a certificate of an authority. The
// short form skips the test.
func At(t testing.TB, host, ca, username, password string) *Registry {
	t.Helper()
	longform.Only(t, "the clients of registries")
	r := &Registry{Host: host, CA: ca, Username: username, Password: password, folder: t.TempDir()}
	ready, err := json.Marshal(map[string]string{"host": host, "ca": ca, "username": username, "password": password})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.folder, "ready.json"), ready, 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

// Stop ends it.
func (r *Registry) Stop() { _ = r.process.Stop(time.Second) }

// HelmPush pushes the package of a chart as helm push does. reference is repository:tag.
func (r *Registry) HelmPush(t testing.TB, reference string, tgz []byte) (digest string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "chart.tgz")
	if err := os.WriteFile(file, tgz, 0o600); err != nil {
		t.Fatal(err)
	}
	return r.run(t, "helm-push", r.folder, reference, file)
}

// File is pushed as a layer.
type File struct {
	Name, MediaType string
	Content         []byte
}

// OrasPush pushes files as oras push does, each as a layer.
func (r *Registry) OrasPush(t testing.TB, reference, artifactType string, files ...File) (digest string) {
	t.Helper()
	dir, args := t.TempDir(), []string{"oras-push", r.folder, reference, artifactType}
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		if err := os.WriteFile(path, f.Content, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path+":"+f.MediaType)
	}
	return r.run(t, args...)
}

// OrasPushFolder pushes a folder as oras push does: a layer that oras packs.
func (r *Registry) OrasPushFolder(t testing.TB, reference, artifactType, folder string) (digest string) {
	t.Helper()
	return r.run(t, "oras-push", r.folder, reference, artifactType, folder+":")
}

// OrasPull pulls what oras pull pulls, by repository:tag or repository@digest, into a folder.
func (r *Registry) OrasPull(t testing.TB, reference, folder string) (digest string, err error) {
	t.Helper()
	return r.try(t, "oras-pull", r.folder, reference, folder)
}

// PushManifest pushes blobs and a manifest as they are: what no client of a test makes. The registry must not want
// tokens.
func (r *Registry) PushManifest(t testing.TB, repository, reference, mediaType string, manifest []byte, blobs ...[]byte) {
	t.Helper()
	for _, b := range blobs {
		at := r.push(t, http.MethodPost, "https://"+r.Host+"/v2/"+repository+"/blobs/uploads/", "", nil)
		to, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		query := to.Query()
		query.Set("digest", fmt.Sprintf("sha256:%x", sha256.Sum256(b)))
		to.RawQuery = query.Encode()
		r.push(t, http.MethodPut, to.String(), "application/octet-stream", b)
	}
	r.push(t, http.MethodPut, "https://"+r.Host+"/v2/"+repository+"/manifests/"+reference, mediaType, manifest)
}

// push makes one request and returns the place that the answer names.
func (r *Registry) push(t testing.TB, method, at, mediaType string, body []byte) (place string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, at, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(r.Username, r.Password)
	req.Header.Set("Content-Type", mediaType)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(r.CA))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s %s: %s: %s", method, at, resp.Status, text)
	}
	return resp.Header.Get("Location")
}

func (r *Registry) run(t testing.TB, args ...string) string {
	t.Helper()
	said, err := r.try(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// try runs a client, and returns what it says.
func (r *Registry) try(t testing.TB, args ...string) (string, error) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("registrylocal %v: %w\n%s", args, err, said.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// Log is what the registry and its token service were asked: method, path, status, and the scheme of the authorization.
func (r *Registry) Log(t testing.TB) []string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.Control, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) == 0 {
		return nil
	}
	return strings.Split(string(text), "\n")
}

// Count is how many lines of the log begin so.
func (r *Registry) Count(t testing.TB, prefix string) (n int) {
	t.Helper()
	for _, line := range r.Log(t) {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}
