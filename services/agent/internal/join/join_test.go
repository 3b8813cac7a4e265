package join_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/agent/internal/join"
)

// console lets an agent join by each join token once.
type console struct {
	consolev1connect.IdentityServiceClient
	t     *testing.T
	keys  *identity.KeySet
	bound bool // the console knows of keys
	uid   string
	used  map[string]bool
	asked *consolev1.JoinClusterRequest
}

func newConsole(t *testing.T, bound bool) *console {
	t.Helper()
	keys, err := identity.NewKeySet()
	if err != nil {
		t.Fatal(err)
	}
	return &console{t: t, keys: keys, bound: bound, used: map[string]bool{}}
}

func (c *console) JoinCluster(_ context.Context,
	r *consolev1.JoinClusterRequest,
) (*consolev1.JoinClusterResponse, error) {
	if c.used[r.GetJoinToken()] {
		return nil, connect.NewError(connect.CodeUnauthenticated, errors.New("used"))
	}
	c.used[r.GetJoinToken()], c.asked = true, r
	id := identity.Identity{Kind: identity.KindAgent, Name: "edge-1", ClusterUID: c.uid}
	if c.bound {
		var ok bool
		if id.Key, ok = identity.JoinKey(r.GetKey(), r.GetJoinToken()); !ok {
			return nil, connect.NewError(connect.CodeUnauthenticated, errors.New("not proved"))
		}
	}
	token, _, err := c.keys.Sign(id, identity.AgentLifetime)
	return &consolev1.JoinClusterResponse{Token: &consolev1.Token{Token: token}, Cluster: "edge-1"}, err
}

// agent is what an agent does about its identity at its start.
func agent(t *testing.T, c *console, dir, joinToken string) (*join.Joiner, error) {
	t.Helper()
	j, err := join.Open(dir, c, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "join-token")
	if err := os.WriteFile(file, []byte(joinToken), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = j.Join(t.Context(), file)
	return j, err
}

func started(t *testing.T, c *console, dir string) *join.Joiner {
	t.Helper()
	j, err := agent(t, c, dir, "first")
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func token(t *testing.T, j *join.Joiner) string {
	t.Helper()
	text, err := j.Tokens().Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTheKeyOfAnAgentStaysInItsFolder(t *testing.T) {
	t.Parallel()
	c, dir := newConsole(t, true), t.TempDir()
	text := token(t, started(t, c, dir))
	file := filepath.Join(dir, "key")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	key, err := identity.ParseAgentKey(data)
	if err != nil || key.Public() != identity.BoundTo(text) {
		t.Errorf("the token is bound to %q, the key is %v, %v", identity.BoundTo(text), key, err)
	}
	if again := token(t, started(t, c, dir)); again != text {
		t.Error("joined twice")
	}
}

// The same token is renewed by the same request in the next process, too, and another one by another.
func TestARenewalIsTheSameUntilItIsAnswered(t *testing.T) {
	t.Parallel()
	c, dir := newConsole(t, true), t.TempDir()
	j := started(t, c, dir)
	text := token(t, j)
	bind := func(j *join.Joiner, token string) []byte {
		t.Helper()
		m, err := j.Bind(token)
		if err != nil {
			t.Fatal(err)
		}
		if key, ok := identity.RenewalKey(m, token); !ok || key != identity.BoundTo(text) {
			t.Error("not proved")
		}
		return m.GetRequest()
	}
	first := bind(j, text)
	if again := bind(started(t, c, dir), text); !bytes.Equal(again, first) {
		t.Error("another request after a restart")
	}
	second := bind(j, "the token that it was renewed to")
	if bytes.Equal(second, first) || len(second) < 16 {
		t.Errorf("%q after %q", second, first)
	}
}

func TestARenewalThatCanNotBeKeptIsNotAskedFor(t *testing.T) {
	t.Parallel()
	c, dir := newConsole(t, true), t.TempDir()
	j := started(t, c, dir)
	if err := os.Mkdir(filepath.Join(dir, "renewal.json"), 0o700); err != nil { // the disk refuses
		t.Fatal(err)
	}
	if m, err := j.Bind(token(t, j)); err == nil {
		t.Errorf("asked for by %v", m)
	}
}

func TestAnAgentWhoseKeyIsLostSaysHowToJoinAgain(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(file string) error{
		"removed":     os.Remove,
		"emptied":     func(file string) error { return os.Truncate(file, 0) },
		"another one": func(file string) error { return os.WriteFile(file, otherKey(t), 0o600) },
	} {
		c, dir := newConsole(t, true), t.TempDir()
		text := token(t, started(t, c, dir))
		if err := lose(filepath.Join(dir, "key")); err != nil {
			t.Fatal(err)
		}
		_, err := agent(t, c, dir, "first")
		if err == nil || !strings.Contains(err.Error(), "join again") ||
			!strings.Contains(err.Error(), "fairlead cluster join-token") {
			t.Errorf("%s: %v", name, err)
		}
		j, err := agent(t, c, dir, "second") // a person has read the error
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if again := token(t, j); again == text || identity.BoundTo(again) == "" {
			t.Errorf("%s: joined with %s", name, again)
		}
		if cluster := c.asked.GetCluster(); cluster != "edge-1" { // a join token for another one is refused before it is used up
			t.Errorf("%s: the agent joined again as %q", name, cluster)
		}
	}
}

func otherKey(t *testing.T) []byte {
	t.Helper()
	key, err := identity.NewAgentKey()
	if err != nil {
		t.Fatal(err)
	}
	text, err := key.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// An agent that joined before there were keys goes on with its token, and has a key to bind the next one to.
func TestAnAgentOfBeforeThereWereKeysGetsOne(t *testing.T) {
	t.Parallel()
	c, dir := newConsole(t, false), t.TempDir()
	text := token(t, started(t, c, dir))
	if err := os.Remove(filepath.Join(dir, "key")); err != nil {
		t.Fatal(err)
	}
	j := started(t, c, dir)
	if token(t, j) != text {
		t.Error("it joined again")
	}
	m, err := j.Bind(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := identity.RenewalKey(m, text); !ok {
		t.Error("not proved")
	}
}

// What runs in the process is about the cluster that it joined as: it must not use the token of another one.
func TestAnAgentEndsWhenItJoinsAsAnotherClusterOfTheSameName(t *testing.T) {
	t.Parallel()
	c, dir := newConsole(t, true), t.TempDir()
	c.uid = "old"
	j := started(t, c, dir)
	obtain := func(joinToken string) error {
		file := filepath.Join(dir, "join-token")
		if err := os.WriteFile(file, []byte(joinToken), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := j.Obtain(t.Context(), file)
		return err
	}
	if err := obtain("second"); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := j.Run(ended); err != nil {
		t.Errorf("it joined as the same cluster: %v", err)
	}
	c.uid = "new"
	before := token(t, j)
	if err := obtain("third"); !errors.Is(err, join.ErrReplaced) {
		t.Errorf("it joined as another cluster: %v", err)
	}
	if err := j.Run(t.Context()); !errors.Is(err, join.ErrReplaced) {
		t.Errorf("the agent goes on: %v", err)
	}
	if token(t, j) != before {
		t.Error("this process has the token of the other cluster")
	}
	if of := identity.ClusterOf(token(t, started(t, c, dir))); of != "new" {
		t.Errorf("the next process has a token of %q", of)
	}
}
