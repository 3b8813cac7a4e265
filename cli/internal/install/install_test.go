package install_test

import (
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/cli/internal/install"
)

func options(dir string) install.Options {
	return install.Options{
		Dir: dir, Hosts: []string{"hub.example.com", "127.0.0.1"}, Git: true,
		RedisURL:    "redis://:{password}@redis:6379/0",
		DatabaseURL: "postgres://fairlead:{password}@postgres:5432/fairlead",
	}
}

// read returns all files of a folder by name, and checks that only their owner can read them.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if info.Mode().Perm()&0o077 != 0 && !strings.HasPrefix(name, "ca/") {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		files[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestAnInstallationIsMadeOnceAndKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	made, err := install.EnsureFiles(options(dir))
	if err != nil {
		t.Fatal(err)
	}
	first := read(t, dir)
	for _, name := range []string{
		"ca/ca.key", "tls/ca.crt", "tls/tls.crt", "tls/tls.key", "hub/hub.secret", "metrics/metrics.token",
		"metrics/ca.crt", "console/master.key",
		"redis/password", "redis/url", "postgres/password", "postgres/url", "git/password", "git/secret.yaml",
	} {
		if len(first[name]) < 16 {
			t.Errorf("%s: %d bytes", name, len(first[name]))
		}
	}
	if len(made) != 13 {
		t.Errorf("told of %d files: %v", len(made), made)
	}
	if want := "redis://:" + strings.TrimSpace(first["redis/password"]) + "@redis:6379/0"; first["redis/url"] != want {
		t.Errorf("redis/url: %q", first["redis/url"])
	}
	if _, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls/tls.crt"), filepath.Join(dir, "tls/tls.key")); err != nil {
		t.Error(err)
	}
	if !strings.Contains(first["git/secret.yaml"], strings.TrimSpace(first["git/password"])) ||
		!strings.Contains(first["git/secret.yaml"], "BEGIN CERTIFICATE") {
		t.Error("git/secret.yaml has no password or no authority")
	}
	if made, err := install.EnsureFiles(options(dir)); err != nil || len(made) > 0 {
		t.Errorf("again: %v, %v", made, err)
	}
	for name, content := range read(t, dir) {
		if content != first[name] {
			t.Errorf("%s was replaced", name)
		}
	}
}

func TestAnotherHostKeepsAllSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := options(dir)
	if _, err := install.EnsureFiles(o); err != nil {
		t.Fatal(err)
	}
	before := read(t, dir)
	o.Hosts = append(o.Hosts, "another.example.com")
	o.RedisURL = "redis://:{password}@another:6379/0"
	if _, err := install.EnsureFiles(o); err != nil {
		t.Fatal(err)
	}
	changed := map[string]bool{
		"ca/server.crt": true, "ca/server.key": true, "tls/tls.crt": true, "tls/tls.key": true, "redis/url": true,
	}
	for name, content := range read(t, dir) {
		if (content != before[name]) != changed[name] {
			t.Errorf("%s: changed is %v", name, !changed[name])
		}
	}
}

func TestAURLWithoutRoomForThePasswordIsRefused(t *testing.T) {
	t.Parallel()
	o := options(t.TempDir())
	o.DatabaseURL = "postgres://fairlead@postgres/fairlead"
	if _, err := install.EnsureFiles(o); err == nil || !strings.Contains(err.Error(), "--database-url") {
		t.Errorf("got %v", err)
	}
	if left := read(t, o.Dir); len(left) > 0 {
		t.Errorf("made %d files", len(left))
	}
}

func TestServersBesideTheHubHaveKeysOfTheirOwn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := options(dir)
	o.RedisHosts, o.DatabaseHosts = []string{"redis", "localhost"}, []string{"postgres"}
	if _, err := install.EnsureFiles(o); err != nil {
		t.Fatal(err)
	}
	files := read(t, dir)
	if again, err := install.EnsureFiles(o); err != nil || len(again) > 0 {
		t.Errorf("made again: %q, %v", again, err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(files["tls/ca.crt"]))
	keys := map[string]bool{files["tls/tls.key"]: true}
	for folder, host := range map[string]string{"redis": "redis", "postgres": "postgres"} {
		pair, err := tls.X509KeyPair([]byte(files[folder+"/tls.crt"]), []byte(files[folder+"/tls.key"]))
		if err != nil {
			t.Fatalf("%s: %v", folder, err)
		}
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("%s: %v", folder, err)
		}
		if pair.Leaf.VerifyHostname("hub.example.com") == nil || keys[files[folder+"/tls.key"]] {
			t.Errorf("%s can be taken for the hub", folder)
		}
		keys[files[folder+"/tls.key"]] = true
		if files[folder+"/ca.crt"] != files["tls/ca.crt"] {
			t.Errorf("%s has another authority", folder)
		}
	}
}
