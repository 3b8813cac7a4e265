// Package install makes the secrets of a new installation. A file that is there already is never replaced, but for what
// follows from the options (a certificate's hosts, a URL's host) or runs out.
package install

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"fairlead.dev/platform/durable"
	"fairlead.dev/platform/localca"
)

// placeholder stands for the password in a URL.
const placeholder = "{password}"

// GitUser is whom the Git server of docker-compose.yml knows; its secret has this name, too.
const GitUser = "git"

// Options say what is made.
type Options struct {
	Dir   string
	Hosts []string
	// RedisURL and DatabaseURL have {password} in them.
	RedisURL, DatabaseURL string
	// RedisHosts and DatabaseHosts are those of servers that are run along with the hub: each gets a certificate of its
	// authority.
	RedisHosts, DatabaseHosts []string
	// Git adds the account of the small Git server.
	Git bool
}

// hostName is what a certificate can be for besides addresses.
var hostName = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?$`)

// EnsureFiles makes what is missing, and returns the files that it wrote.
func EnsureFiles(o Options) (made []string, err error) {
	for _, url := range []struct{ flag, value string }{{"--redis-url", o.RedisURL}, {"--database-url", o.DatabaseURL}} {
		if !strings.Contains(url.value, placeholder) {
			return nil, fmt.Errorf("%s: must have %s where the password belongs", url.flag, placeholder)
		}
	}
	for _, hosts := range []struct {
		flag  string
		names []string
	}{{"--host", o.Hosts}, {"--redis-host", o.RedisHosts}, {"--database-host", o.DatabaseHosts}} {
		for _, name := range hosts.names {
			if net.ParseIP(name) == nil && !hostName.MatchString(name) {
				return nil, fmt.Errorf("%s %q: must be a name such as hub.example.com or *.example.com, or an IP address", hosts.flag, name)
			}
		}
	}
	w := &writer{dir: o.Dir}
	ca := w.writeCertificate(o.Hosts)
	// The API wants what the console would make: 32 bytes as base64.
	w.writeSecretOnce("console/master.key", newKey)
	w.writeSecretOnce("hub/hub.secret", newKey)
	w.writeSecretOnce("metrics/metrics.token", newPassword)
	w.writeFile("metrics/ca.crt", ca)
	w.writeFile("redis/url", strings.ReplaceAll(o.RedisURL, placeholder, w.writeSecretOnce("redis/password", newPassword)))
	w.writeFile("postgres/url", strings.ReplaceAll(o.DatabaseURL, placeholder, w.writeSecretOnce("postgres/password", newPassword)))
	w.serverOf("redis", o.RedisHosts)
	w.serverOf("postgres", o.DatabaseHosts)
	if o.Git {
		w.writeGitSecret(w.writeSecretOnce("git/password", newPassword), ca)
	}
	return w.made, w.err
}

// newKey returns 32 random bytes; newPassword is as hard to guess and needs no escaping in URLs and configurations.
func newKey() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.StdEncoding.EncodeToString(b)
}

func newPassword() string { return rand.Text() }

// writer writes files below a folder until one fails.
type writer struct {
	dir  string
	made []string
	err  error
}

// writeCertificate has the authority's key apart from what services get. certificate returns the authority's
// certificate.
func (w *writer) writeCertificate(hosts []string) (authority string) {
	files, err := localca.Ensure(filepath.Join(w.dir, "ca"), hosts...)
	if err != nil {
		w.err = err
		return ""
	}
	return w.copyCertificate(files, "tls")
}

// serverOf has the certificate of a server beside its password: its key is no key of the hub's, so that who has it is
// not the hub.
func (w *writer) serverOf(folder string, hosts []string) {
	if w.err != nil || len(hosts) == 0 {
		return
	}
	files, err := localca.EnsureNamed(filepath.Join(w.dir, "ca"), folder, hosts...)
	if err != nil {
		w.err = err
		return
	}
	w.copyCertificate(files, folder)
}

// copyCertificate writes what a server needs into a folder. The key first, as localca does: a pair that does not fit is
// replaced by the next run. copy returns the authority's certificate.
func (w *writer) copyCertificate(files localca.Files, folder string) (authority string) {
	for _, file := range []struct{ from, to string }{
		{files.KeyFile, "tls.key"}, {files.CertFile, "tls.crt"}, {files.CAFile, "ca.crt"},
	} {
		content, err := os.ReadFile(file.from)
		if err != nil {
			w.err = errors.Join(w.err, err)
			return ""
		}
		authority = string(content)
		w.writeFile(folder+"/"+file.to, authority)
	}
	return authority
}

// writeSecretOnce makes a file with a new secret if there is none, and returns what is in it.
func (w *writer) writeSecretOnce(name string, secret func() string) string {
	if w.err != nil {
		return ""
	}
	content, err := os.ReadFile(filepath.Join(w.dir, name))
	if err == nil {
		return strings.TrimSpace(string(content))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		w.err = err
		return ""
	}
	made := secret()
	w.writeFile(name, made+"\n")
	return made
}

// writeFile writes a file unless that is in it.
func (w *writer) writeFile(name, content string) {
	if w.err != nil {
		return
	}
	path := filepath.Join(w.dir, name)
	if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, []byte(content)) {
		return
	}
	if w.err = os.MkdirAll(filepath.Dir(path), 0o700); w.err != nil {
		return
	}
	if w.err = durable.WriteFile(path, []byte(content), 0o600); w.err == nil {
		w.made = append(w.made, path)
	}
}

// writeGitSecret writes the account of the Git server as a secret of the catalog.
func (w *writer) writeGitSecret(password, authority string) {
	manifest := map[string]any{
		"apiVersion": "fairlead.dev/v1", "kind": "Secret", "metadata": map[string]any{"name": GitUser},
		"data": map[string]string{"username": GitUser, "password": password, "ca.crt": authority},
	}
	text, err := yaml.Marshal(manifest)
	if err != nil {
		w.err = errors.Join(w.err, fmt.Errorf("write secret: %w", err))
		return
	}
	w.writeFile("git/secret.yaml", string(text))
}
