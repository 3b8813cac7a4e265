package backend_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"

	"fairlead.dev/platform/durable"
	"fairlead.dev/services/console/internal/backend"
	"fairlead.dev/services/console/internal/backend/backendtest"
)

func newIdentity(t *testing.T) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// seal encrypts as `age -a -r` does.
func seal(t *testing.T, plain []byte, to ...age.Recipient) []byte {
	t.Helper()
	var out bytes.Buffer
	text := armor.NewWriter(&out)
	w, err := age.Encrypt(text, to...)
	if err == nil {
		_, err = w.Write(plain)
	}
	if err = errors.Join(err, w.Close(), text.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestFilesKeepTheContract(t *testing.T) {
	t.Parallel()
	id := newIdentity(t)
	encode := func(values backend.Values) ([]byte, error) { return json.Marshal(values) }
	for name, kind := range map[string]struct {
		ext    string
		encode func(backend.Values) ([]byte, error)
	}{
		"JSON": {".json", encode},
		"YAML": {".yaml", encode}, // as which JSON counts
		"age": {".yaml.age", func(v backend.Values) ([]byte, error) {
			plain, err := encode(v)
			return seal(t, plain, id.Recipient()), err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backendtest.Run(t, func(t *testing.T) backendtest.Subject {
				t.Helper()
				dir := t.TempDir()
				if err := os.MkdirAll(filepath.Join(dir, "shop"), 0o700); err != nil {
					t.Fatal(err)
				}
				b, err := backend.NewFiles(backend.Files{
					Dir: dir, Folder: "shop", Credentials: map[string]string{"identity": id.String()},
				})
				if err != nil {
					t.Fatal(err)
				}
				return backendtest.Subject{
					Backend: b, Credentials: []string{id.String(), dir},
					Path: func(name string) string { return name + kind.ext },
					Put: func(_ context.Context, path string, values backend.Values) error {
						data, err := kind.encode(values)
						if err != nil {
							return err
						}
						return durable.WriteFile(filepath.Join(dir, "shop", path), data, 0o600)
					},
					Remove: func(_ context.Context, path string) error {
						return os.Remove(filepath.Join(dir, "shop", path))
					},
				}
			})
		})
	}
}

// read reads one file of a folder.
func read(t *testing.T, dir, path, identity string) (backend.Values, error) {
	t.Helper()
	credentials := map[string]string{}
	if identity != "" {
		credentials["identity"] = identity
	}
	b, err := backend.NewFiles(backend.Files{Dir: dir, Credentials: credentials})
	if err != nil {
		t.Fatal(err)
	}
	return b.Read(t.Context(), path)
}

func TestFilesAreReadAsTheyAreMeant(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want backend.Values
		err  string
	}{
		"a.yaml": {
			text: "user: app\ndb:\n  password: hunter2\n  port: 0123\nlist: [1, {a: true}, x]\nnone: null\nflag: yes\nbase: &b {x: 1}\nagain: *b\n",
			want: backend.Values{
				"user": "app", "db.password": "hunter2", "db.port": "0123", "list": `[1,{"a":true},"x"]`,
				"flag": "yes", "base.x": "1", "again.x": "1",
			},
		},
		"b.json": {
			text: `{"n": 1e400, "big": 12345678901234567890}`,
			want: backend.Values{"n": "1e400", "big": "12345678901234567890"},
		},
		"c.env": {
			text: "# hello\nexport A=1\nB=\"x y\"\nC=a=b\\nc\n\n",
			want: backend.Values{"A": "1", "B": "x y", "C": "a=b\nc"},
		},
		"empty.yaml": {text: "", want: backend.Values{}},
		"d.yaml":     {text: "hunter2", err: "must be a map"},
		"e.yaml":     {text: "a: [hunter2", err: "neither YAML nor JSON"},
		"f.yaml":     {text: "a.b: 1\na: {b: hunter2}", err: `the key "a.b" twice`},
		"g.yaml":     {text: "a: hunter2\na: 2\n", err: "twice"},
		"h.env":      {text: "hunter2\n", err: "line 1: must be NAME=value"},
		"i.yaml": {
			text: "a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f]\n",
			err:  "holds more than",
		},
		"j.yaml.age": {text: "hunter2", err: "none of the identities"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, name), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := read(t, dir, name, "")
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("got %v, want %s", err, c.err)
				}
				return
			}
			if err != nil || len(got) != len(c.want) {
				t.Fatalf("got %q, %v", got, err)
			}
			for key, value := range c.want {
				if got[key] != value {
					t.Errorf("%s: got %q, want %q", key, got[key], value)
				}
			}
		})
	}
}

// A person who can put a link into the folder must not have the console's own files read.
func TestLinksLeadOutOfNoFolder(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	secret := filepath.Join(outside, "master.yaml")
	if err := os.WriteFile(secret, []byte("key: hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{
		"abs.yaml": secret, "up.yaml": "../" + filepath.Base(outside) + "/master.yaml", "dir": outside,
	} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"abs.yaml", "up.yaml", "dir/master.yaml"} {
		if got, err := read(t, dir, path, ""); err == nil || got != nil || strings.Contains(err.Error(), outside) {
			t.Errorf("%s: got %v, %v", path, got, err)
		}
	}
	// As Kubernetes mounts volumes.
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "..v1"), 0o700),
		os.WriteFile(filepath.Join(dir, "..v1", "a.yaml"), []byte("a: 1\n"), 0o600),
		os.Symlink("..v1", filepath.Join(dir, "..data")),
		os.Symlink("..data/a.yaml", filepath.Join(dir, "a.yaml"))); err != nil {
		t.Fatal(err)
	}
	if got, err := read(t, dir, "a.yaml", ""); err != nil || got["a"] != "1" {
		t.Errorf("got %v, %v", got, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a.yaml", []byte("a: {b: [1, &x 2, *x]}\n"))
	f.Add("a.env", []byte("A=1\nsops_mac=ENC[AES256_GCM,data:AA==,iv:AA==,tag:AA==,type:str]\nsops_age__list_0__map_enc=x\n"))
	f.Add("a.json", []byte(`{"sops": {"mac": "x", "age": [{"enc": ""}]}, "a": "ENC[AES256_GCM,data:,iv:AA==,tag:AA==,type:int]"}`))
	id, err := age.GenerateX25519Identity()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if strings.ContainsAny(name, "/\x00\\") || len(name) > 100 || name == "" || name == "." || name == ".." {
			t.Skip()
		}
		dir := t.TempDir()
		if os.WriteFile(filepath.Join(dir, name), data, 0o600) != nil {
			t.Skip()
		}
		values, err := read(t, dir, name, id.String())
		if err != nil && values != nil {
			t.Errorf("got %v and %v", values, err)
		}
	})
}
