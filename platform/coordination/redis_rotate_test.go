package coordination_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/await"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/coordination/redistest"
	"fairlead.dev/platform/localca"
)

func TestRedisIsVerifiedByTheAuthorityThatIsNamed(t *testing.T) {
	t.Parallel()
	ours, err := localca.Ensure(t.TempDir(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := localca.Ensure(t.TempDir(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	redistest.Start(t, "--tls-port", port, "--tls-cert-file", ours.CertFile, "--tls-key-file", ours.KeyFile,
		"--tls-ca-cert-file", ours.CAFile, "--tls-auth-clients", "no")
	url := "rediss://127.0.0.1:" + port
	for name, tt := range map[string]struct {
		coordination.Config
		want string // of the error; empty: none
	}{
		"its authority":     {coordination.Config{URL: url, CAFile: ours.CAFile}, ""},
		"another authority": {coordination.Config{URL: url, CAFile: theirs.CAFile}, "unknown authority"},
		"the system's":      {coordination.Config{URL: url}, "unknown authority"},
		"another host":      {coordination.Config{URL: "rediss://localhost:" + port, CAFile: ours.CAFile}, "localhost"},
	} {
		c, err := tt.Open()
		if err != nil {
			t.Fatal(err)
		}
		err = c.Ping(t.Context())
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []coordination.Config{
		{URL: "redis://127.0.0.1:" + port, CAFile: ours.CAFile},
		{URL: url, CAFile: ours.KeyFile},
		{URL: url, CAFile: ours.CAFile + ".gone"},
		{CAFile: ours.CAFile},
		{URL: "redis+sentinel://h/0?master_name=m", CAFile: ours.CAFile},
		{URL: "redis+cluster://h", CAFile: ours.CAFile},
	} {
		if _, err := c.Open(); err == nil || !strings.Contains(err.Error(), "--redis-ca-file") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// The steps are those of docs/operate/rotate.md: the file has the new authority beside the old one before Redis has a
// certificate of it.
func TestTheAuthorityOfRedisChangesWithoutAStop(t *testing.T) {
	t.Parallel()
	var authorities [2]localca.Files
	for i := range authorities {
		var err error
		if authorities[i], err = localca.Ensure(t.TempDir(), "127.0.0.1"); err != nil {
			t.Fatal(err)
		}
	}
	pem := func(i int) []byte {
		t.Helper()
		text, err := os.ReadFile(authorities[i].CAFile)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	file := filepath.Join(t.TempDir(), "ca.crt")
	write := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	port := freePort(t)
	s := redistest.Start(t, "--tls-port", port, "--tls-cert-file", authorities[0].CertFile, "--tls-key-file",
		authorities[0].KeyFile, "--tls-ca-cert-file", authorities[0].CAFile, "--tls-auth-clients", "no")
	write(pem(0))
	c, err := coordination.Config{URL: "rediss://127.0.0.1:" + port, CAFile: file}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	await.NoError(t, "Redis is reached", func() error { return c.Ping(t.Context()) })

	write([]byte("no certificate"))
	await.NoError(t, "Redis is reached", func() error {
		if err := c.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "--redis-ca-file") {
			return fmt.Errorf("said of a file without certificates: %w", err)
		}
		return nil
	})
	if _, err := c.Acquire(t.Context(), "k", "one", time.Minute); err != nil {
		t.Errorf("with a file without certificates: %v", err)
	}

	write(append(pem(0), pem(1)...))
	s.Do("CONFIG", "SET", "tls-cert-file", authorities[1].CertFile, "tls-key-file", authorities[1].KeyFile,
		"tls-ca-cert-file", authorities[1].CAFile)
	s.Do("CLIENT", "KILL", "TYPE", "normal") // so that all connections are opened again
	await.NoError(t, "Redis is reached", func() error { return c.Ping(t.Context()) })
}

// The steps are those of docs/operate/rotate.md. A lease is held, and messages arrive, all the time.
func TestThePasswordOfRedisChangesWithoutAStop(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("ACL", "SETUSER", "fairlead", "on", ">0ld", "~fairlead:*", "&fairlead:*", "+@all")
	file := filepath.Join(t.TempDir(), "url")
	write := func(url string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(url+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(asUser(s, "fairlead", "0ld"))
	c, err := coordination.Config{File: file}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l, err := c.Acquire(t.Context(), "k", "one", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	news, err := c.Subscribe(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	serves := func(step string) {
		t.Helper()
		if err := l.Renew(t.Context()); err != nil {
			t.Errorf("%s: %v", step, err)
		}
		await.NoError(t, "Redis is reached", func() error { // the connection for messages is opened again when the client changes
			if err := c.Publish(t.Context(), "t", []byte("x")); err != nil {
				return err
			}
			select {
			case <-news:
				return nil
			case <-time.After(100 * time.Millisecond):
				return errors.New("no message")
			}
		})
	}
	serves("before")

	// The file changes first: the password that works stays in use, and Ping says so.
	write(asUser(s, "fairlead", "n3w"))
	await.NoError(t, "Redis is reached", func() error {
		if err := l.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c.Ping(t.Context()) == nil {
			return errors.New("nothing is said of a URL that does not work")
		}
		return nil
	})
	serves("with a password in the file that Redis does not know")

	s.Do("ACL", "SETUSER", "fairlead", ">n3w")
	await.NoError(t, "Redis is reached", func() error { return c.Ping(t.Context()) })
	serves("with the new password in the file")
	s.Do("ACL", "SETUSER", "fairlead", "<0ld")
	s.Do("CLIENT", "KILL", "USER", "fairlead") // so that all connections are opened again
	await.NoError(t, "Redis is reached", func() error { return c.Ping(t.Context()) })
	serves("without the old password")
	if !l.Valid() {
		t.Error("the lease was lost")
	}
}
