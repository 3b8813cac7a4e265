package main

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// checkout copies the last commit into a folder of its own name.
func checkout(t *testing.T, name string) source {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `git -C ../.. archive HEAD | tar -x -C "$0"`, dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("copy the commit: %v: %s", err, out)
	}
	return source{root: dir, version: "v1.2.3", revision: "abc", time: time.Unix(1_700_000_000, 0).UTC()}
}

func named(t *testing.T, name string) image {
	t.Helper()
	for _, i := range released() {
		if i.name == name {
			return i
		}
	}
	t.Fatalf("no image %q", name)
	return image{}
}

// produced makes an image and returns what it is, and where its layout lies.
func produced(t *testing.T, s source, name string, platforms ...platform) (result, string) {
	t.Helper()
	out := t.TempDir()
	r, err := s.produce(t.Context(), named(t, name), platforms, out, "fairlead/"+name+":test", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return r, filepath.Join(out, name)
}

func TestTheSameCommitGivesTheSameDigest(t *testing.T) {
	t.Parallel()
	first, _ := produced(t, checkout(t, "here"), "tunnel", thisPlatform())
	second, _ := produced(t, checkout(t, "somewhere-else"), "tunnel", thisPlatform())
	if first.digest != second.digest || first.bytes != second.bytes {
		t.Errorf("got %v and %v", first, second)
	}
	other := checkout(t, "another-version")
	other.version = "v1.2.4"
	if third, _ := produced(t, other, "tunnel", thisPlatform()); third.digest == first.digest {
		t.Error("another version has the same digest")
	}
}

// manifests of a layout: the images by architecture, and the lists of modules.
func manifests(t *testing.T, at string) (images map[string]v1.Image, bills []v1.Image) {
	t.Helper()
	index, err := layout.ImageIndexFromPath(at)
	if err != nil {
		t.Fatal(err)
	}
	list, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	images = map[string]v1.Image{}
	for _, d := range list.Manifests {
		img, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := img.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		if manifest.Subject != nil {
			bills = append(bills, img)
			continue
		}
		images[d.Platform.Architecture] = img
	}
	return images, bills
}

// content of a file in an image.
func content(t *testing.T, img v1.Image, path string) []byte {
	t.Helper()
	files := mutate.Extract(img)
	defer files.Close()
	cmd := exec.CommandContext(t.Context(), "tar", "-xO", strings.TrimPrefix(path, "/"))
	cmd.Stdin = files
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return out
}

func TestImagesAreForEveryPlatformAndTellWhatIsInThem(t *testing.T) {
	t.Parallel()
	s := checkout(t, "here")
	_, at := produced(t, s, "tunnel", platform{"linux", "amd64"}, platform{"linux", "arm64"})
	images, bills := manifests(t, at)
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		img := images[arch]
		if img == nil {
			t.Fatalf("no image for %s", arch)
		}
		binary, err := elf.NewFile(bytes.NewReader(content(t, img, "/tunnel")))
		if err != nil || binary.Machine != machine {
			t.Fatalf("%s: the program is for %v, %v", arch, binary.Machine, err)
		}
		if binary.Section(".interp") != nil {
			t.Errorf("%s: the program is not static", arch)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != arch || config.Config.User != "65532:65532" || config.Config.Healthcheck == nil ||
			config.Config.Labels["org.opencontainers.image.version"] != "v1.2.3" || !config.Created.Equal(s.time) {
			t.Errorf("%s: %+v", arch, config)
		}
		if roots := content(t, img,
			"/etc/ssl/certs/ca-certificates.crt"); bytes.Count(roots, []byte("BEGIN CERTIFICATE")) < 50 {
			t.Errorf("%s: %d bytes of authorities", arch, len(roots))
		}
	}
	if len(bills) != 2 {
		t.Fatalf("%d lists of modules", len(bills))
	}
	for _, bill := range bills {
		checkBill(t, bill)
	}
}

// Every image has the version as a label, also those that no other test makes.
func TestLabelsOfAllImagesHaveTheVersion(t *testing.T) {
	t.Parallel()
	for _, of := range append(released(), tryOut()...) {
		if got := (source{version: "v1.2.3"}).config(of).Labels["org.opencontainers.image.version"]; got != "v1.2.3" {
			t.Errorf("%s: the label says %q", of.name, got)
		}
	}
}

func checkBill(t *testing.T, bill v1.Image) {
	t.Helper()
	layers, err := bill.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	text, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	var doc spdx
	if err := json.NewDecoder(text).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, p := range doc.Packages {
		found[p.Name] = p.Version != ""
	}
	for _, name := range []string{"fairlead.dev/services/tunnel/cmd/tunnel", "connectrpc.com/connect", "stdlib"} {
		if !found[name] {
			t.Errorf("%s is not listed with a version, among %d packages", name, len(doc.Packages))
		}
	}
}
