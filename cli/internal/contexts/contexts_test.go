package contexts_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/cli/internal/contexts"
)

func newStore(t *testing.T) *contexts.Store {
	t.Helper()
	return contexts.NewStore(filepath.Join(t.TempDir(), "deep", "config.yaml"), nil)
}

func TestWhatIsPutIsFound(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	prod := contexts.Context{
		Name: "prod", URL: "https://hub.example.com", CA: "-----BEGIN\nx\n", User: "kim", Token: "t",
		Issued: time.Unix(1e9, 0).UTC(), Expires: time.Unix(2e9, 0).UTC(),
		Endpoints: contexts.Endpoints{Tunnels: []string{"https://t"}},
	}
	local := contexts.Context{Name: "local", URL: "https://127.0.0.1:7400", Token: "u"}
	for _, c := range []contexts.Context{prod, local} {
		if err := s.Put(c); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]contexts.Context{"": local, "local": local, "prod": prod} {
		if got, err := s.Get(name); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Get(%q) = %+v, %v", name, got, err)
		}
	}
	if err := s.Use("prod"); err != nil {
		t.Fatal(err)
	}
	local.Token = "renewed"
	if err := s.Update(local); err != nil {
		t.Fatal(err)
	}
	all, current, err := s.List()
	if err != nil || current != "prod" || len(all) != 2 || all[0].Token != "renewed" {
		t.Errorf("got %+v, %s, %v", all, current, err)
	}
	info, err := os.Stat(s.Path())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// ring is a keyring that can be away.
type ring map[string]string

func (r ring) Set(account, secret string) error {
	if r == nil {
		return errors.New("away")
	}
	r[account] = secret
	return nil
}

func (r ring) Get(account string) (string, error) {
	if secret, ok := r[account]; ok {
		return secret, nil
	}
	return "", errors.New("locked")
}

func TestTokensAreInTheKeyringAndNotInTheFile(t *testing.T) {
	t.Parallel()
	path, keys := filepath.Join(t.TempDir(), "config.yaml"), ring{}
	s := contexts.NewStore(path, keys)
	c := contexts.Context{Name: "prod", URL: "https://hub.example.com", Token: "s3cret", Keyring: true}
	if err := s.Put(c); err != nil {
		t.Fatal(err)
	}
	c.Token = "s3cret-renewed"
	if err := s.Update(c); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), "s3cret") {
		t.Errorf("%s, %v", text, err)
	}
	if got, err := s.Get(""); err != nil || !reflect.DeepEqual(got, c) {
		t.Errorf("got %+v, %v", got, err)
	}
	other := contexts.NewStore(filepath.Join(t.TempDir(), "config.yaml"), keys)
	if err := other.Put(contexts.Context{Name: "prod", Token: "another", Keyring: true}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get("prod"); err != nil || got.Token != c.Token {
		t.Errorf("a context of another file has changed it: %q, %v", got.Token, err)
	}
	away := contexts.NewStore(path, ring(nil))
	if _, err := away.Get(""); err == nil ||
		!strings.Contains(err.Error(),
			"locked. Unlock it, or run `fairlead login https://hub.example.com --context prod`") {
		t.Error(err)
	}
	if err := away.Put(c); err == nil {
		t.Error("a token was lost without a word")
	}
}

func TestMistakesSayWhatToDo(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	check := func(err error, want ...string) {
		t.Helper()
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("got %v, want %q", err, w)
			}
		}
	}
	_, err := s.Get("")
	check(err, "fairlead login", "fairlead up", s.Path())
	check(s.Update(contexts.Context{Name: "gone"}), "gone")
	if err := s.Put(contexts.Context{Name: "local", Token: "s3cret"}); err != nil {
		t.Fatal(err)
	}
	_, err = s.Get("prod")
	check(err, `"prod"`, "local")
	check(s.Use("prod"), `"prod"`, "local")
	if err := os.Chmod(s.Path(), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = s.Get("")
	check(err, "chmod 600")
	if err := os.WriteFile(s.Path(), []byte("token: s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.Path(), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = s.Get("")
	check(err, "fairlead login")
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the error tells a token: %v", err)
	}
}

func TestManyAtOnceLoseNothing(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if err := s.Put(contexts.Context{Name: fmt.Sprint(i)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if all, _, err := s.List(); err != nil || len(all) != 20 {
		t.Errorf("%d are left, %v", len(all), err)
	}
}

func TestDefaultPath(t *testing.T) {
	t.Parallel()
	for want, env := range map[string]map[string]string{
		"/x/c.yaml":                       {"FAIRLEAD_CONFIG": "/x/c.yaml", "HOME": "/h"},
		"/x/fairlead/config.yaml":         {"XDG_CONFIG_HOME": "/x", "HOME": "/h"},
		"/h/.config/fairlead/config.yaml": {"HOME": "/h"},
		"":                                {},
	} {
		got, err := contexts.DefaultPath(func(name string) string { return env[name] })
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%v: got %q, %v", env, got, err)
		}
	}
}
