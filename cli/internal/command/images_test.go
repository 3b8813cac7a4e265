package command

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	orascontent "oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/platform/registrytest"
)

// startRegistry starts a real registry with TLS of an authority of its own and an account; ca is the authority's file.
func startRegistry(t *testing.T) (r *registrytest.Registry, ca string) {
	t.Helper()
	r = registrytest.Start(t, "-auth", "basic")
	ca = filepath.Join(t.TempDir(), "ca.pem")
	write(t, ca, r.CA)
	return r, ca
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// bundleOf makes a bundle as `make release` does: an index with an image and the list of its modules, and a chart. text
// is what the image has.
func bundleOf(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	store, err := oci.New(filepath.Join(dir, "layout"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	blob := func(mediaType, text string) ocispec.Descriptor {
		d := orascontent.NewDescriptorFromBytes(mediaType, []byte(text))
		if found, _ := store.Exists(ctx, d); !found {
			if err := store.Push(ctx, d, strings.NewReader(text)); err != nil {
				t.Fatal(err)
			}
		}
		return d
	}
	document := func(mediaType string, of any) ocispec.Descriptor {
		encoded, err := json.Marshal(of)
		if err != nil {
			t.Fatal(err)
		}
		return blob(mediaType, string(encoded))
	}
	tag := func(d ocispec.Descriptor, name string) {
		if err := store.Tag(ctx, d, name); err != nil {
			t.Fatal(err)
		}
	}
	version := specs.Versioned{SchemaVersion: 2}
	image := document(ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: version, MediaType: ocispec.MediaTypeImageManifest,
		Config: blob(ocispec.MediaTypeImageConfig, "{}"),
		Layers: []ocispec.Descriptor{blob(ocispec.MediaTypeImageLayerGzip, text)},
	})
	bill := document(ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: version, MediaType: ocispec.MediaTypeImageManifest, Config: blob("application/spdx+json", "{}"),
		Layers: []ocispec.Descriptor{blob("application/spdx+json", `{"of":"`+text+`"}`)}, Subject: &image,
	})
	tag(document(ocispec.MediaTypeImageIndex, ocispec.Index{
		Versioned: version, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{image, bill},
	}), "console:v1.2.3")
	tag(document(ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: version, MediaType: ocispec.MediaTypeImageManifest,
		Config: blob("application/vnd.cncf.helm.config.v1+json", `{"name":"fairlead-hub"}`),
		Layers: []ocispec.Descriptor{blob("application/vnd.cncf.helm.chart.content.v1.tar+gzip", "chart")},
	}), "charts/fairlead-hub:v1.2.3")
	path := filepath.Join(dir, "bundle.tar")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	archive := tar.NewWriter(out)
	if err := addFiles(archive, os.DirFS(filepath.Join(dir, "layout"))); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// addFiles of a layout, without the folder that its maker leaves.
func addFiles(archive *tar.Writer, files fs.FS) error {
	return fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		if err := archive.WriteHeader(&tar.Header{
			Name: path, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg,
		}); err != nil {
			return err
		}
		_, err = archive.Write(text)
		return err
	})
}

// mirrored runs `fairlead images mirror` and returns what it printed, and the error's text.
func mirrored(ctx context.Context, password string, args ...string) (stdout, failed string) {
	var out bytes.Buffer
	err := Run(ctx, append([]string{"images", "mirror"}, args...), app.IO{
		Getenv: func(string) string { return "" }, Stdin: strings.NewReader(password + "\n"), Stdout: &out,
		Stderr: io.Discard, Now: time.Now,
	})
	if err != nil {
		failed = err.Error()
	}
	return out.String(), failed
}

func TestMirrorPushesABundleOnceAndSaysWhatItDid(t *testing.T) {
	t.Parallel()
	r, ca := startRegistry(t)
	bundle, to := bundleOf(t, "layer"), r.Host+"/fairlead"
	account := []string{"--ca-file", ca, "--username", r.Username, "--password-stdin"}
	push := func(bundle string, more ...string) (stdout, failed string) {
		return mirrored(t.Context(), r.Password, append(append([]string{bundle, to}, account...), more...)...)
	}
	out, failed := push(bundle)
	if failed != "" || !regexp.MustCompile(`(?m)^`+to+
		`/console:v1\.2\.3@sha256:[0-9a-f]{64}: pushed \d+ parts, \d+\.\d MB$`).MatchString(out) ||
		!strings.Contains(out, to+"/charts/fairlead-hub:v1.2.3@sha256:") {
		t.Fatalf("first: %q, %q", out, failed)
	}
	for _, name := range []string{"console", "charts/fairlead-hub"} {
		if got := manifestStatus(t, r, "fairlead/"+name, "v1.2.3"); got != http.StatusOK {
			t.Errorf("%s: the registry answers %d", name, got)
		}
	}
	again, failed := push(bundle)
	if failed != "" || strings.Count(again, ": is there\n") != 2 || strings.Contains(again, "pushed") {
		t.Errorf("again: %q, %q", again, failed)
	}
	other := bundleOf(t, "other layer")
	if _, failed = push(other); !strings.Contains(failed, "a version does not change") ||
		!strings.Contains(failed, "--replace") {
		t.Errorf("other content: %q", failed)
	}
	if out, failed = push(other, "--replace"); failed != "" || !strings.Contains(out, "pushed") {
		t.Errorf("replace: %q, %q", out, failed)
	}
}

// manifestStatus asks the registry for a manifest.
func manifestStatus(t *testing.T, r *registrytest.Registry, repository, tag string) int {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(r.CA))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"https://"+r.Host+"/v2/"+repository+"/manifests/"+tag, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(r.Username, r.Password)
	req.Header.Set("Accept", ocispec.MediaTypeImageManifest+", "+ocispec.MediaTypeImageIndex)
	client := http.Client{
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
		},
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

func TestMirrorRefusesInWords(t *testing.T) {
	t.Parallel()
	r, ca := startRegistry(t)
	bundle, to := bundleOf(t, "layer"), r.Host+"/fairlead"
	damaged := filepath.Join(t.TempDir(), "damaged.tar")
	text, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	write(t, damaged, strings.Replace(string(text), `{"of":"layer"}`, `{"of":"LAYER"}`, 1))
	notes := filepath.Join(t.TempDir(), "notes.md")
	write(t, notes, "# Notes\n")
	for name, c := range map[string]struct {
		args     []string
		password string
		want     string
	}{
		"wrong password": {
			[]string{bundle, to, "--ca-file", ca, "--username", r.Username, "--password-stdin"},
			"other",
			"refuses the account",
		},
		"no account": {[]string{bundle, to, "--ca-file", ca}, "", "refuses the account"},
		"no password": {
			[]string{bundle, to, "--ca-file", ca, "--username", r.Username, "--password-stdin"},
			"",
			"stdin has no password",
		},
		"unknown authority": {
			[]string{bundle, to, "--username", r.Username, "--password-stdin"}, r.Password, "--ca-file",
		},
		"a damaged bundle": {
			[]string{damaged, to, "--ca-file", ca, "--username", r.Username, "--password-stdin"}, r.Password, "digest",
		},
		"no bundle":           {[]string{notes, to, "--ca-file", ca}, "", "no bundle of a release"},
		"HTTP elsewhere":      {[]string{bundle, "http://registry.example.com/fairlead"}, "", "in clear text"},
		"an impossible name":  {[]string{bundle, "registry.example.com/Fairlead"}, "", "lower case"},
		"no authority inside": {[]string{bundle, to, "--ca-file", notes}, "", "no certificate in PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, failed := mirrored(t.Context(), c.password, c.args...); !strings.Contains(failed, c.want) ||
				strings.Contains(failed, r.Password) {
				t.Errorf("got %q, %q; want %q", out, failed, c.want)
			}
		})
	}
}
