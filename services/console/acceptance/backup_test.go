package acceptance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/longform"
	"fairlead.dev/services/console"
)

// backup makes one, and checks that what was sent is whole.
func (r *running) backup(t *testing.T) []byte {
	t.Helper()
	stream, err := r.admin(t).admin.Backup(t.Context(), &consolev1.BackupRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var data []byte
	sum := ""
	for stream.Receive() {
		data = append(data, stream.Msg().GetData()...)
		sum = stream.Msg().GetSha256()
	}
	if is := sha256.Sum256(data); stream.Err() != nil || sum != hex.EncodeToString(is[:]) {
		t.Fatalf("%d bytes with sum %q: %v", len(data), sum, stream.Err())
	}
	return data
}

// into is an empty database with the master key of h.
func (h *hub) into(t *testing.T, db string) (*hub, console.Config) {
	t.Helper()
	to := newHub(t, db)
	to.secret = h.secret
	key, err := os.ReadFile(filepath.Join(h.dir, "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(to.dir, "master.key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	return to, console.Config{DataDir: to.dir, DatabaseURL: to.db}
}

// databases makes empty databases of each kind. The short form has SQLite alone.
func databases(t *testing.T) map[string]func() string {
	t.Helper()
	makers := map[string]func() string{"sqlite": func() string { return "" }}
	if !testing.Short() {
		makers["postgres"] = func() string { return postgres.Database(t) }
	}
	return makers
}

// A backup of either database is restored into either: everything is there as it was, sealed values can be read, what
// was made later is not known, and nothing is removed from clusters until that is confirmed.
func TestABackupIsRestoredIntoEitherDatabase(t *testing.T) {
	t.Parallel()
	for from, source := range databases(t) {
		for to, target := range databases(t) {
			t.Run(from+" to "+to, func(t *testing.T) {
				t.Parallel()
				restored(t, source(), target())
			})
		}
	}
}

func restored(t *testing.T, source, target string) {
	h := newHub(t, source)
	r := h.start(t)
	admin := r.admin(t)
	admin.putSource(t, "shop", "https://git.example.com/shop")
	cluster := admin.putCluster(t, "edge-1")
	admin.putService(t, "web", "edge-1")
	if _, err := admin.secrets.UpdateSecret(t.Context(), &consolev1.UpdateSecretRequest{
		AllowMissing: true, Secret: &consolev1.Secret{
			Metadata: meta("git"), Data: map[string]string{"token": "hunter2"},
		},
	}); err != nil {
		t.Fatal(err)
	}
	named := newSource("shop")
	named.Spec.Git.Secret = "git"
	admin.must(t, named)
	packed := r.backup(t)
	admin.putService(t, "new", "edge-1")
	f := newFollower()
	f.follow(t, r.service(t, identity.ServiceDistributor), func() bool { return f.snapshots == 1 && !f.inside })
	r.stop()

	to, cfg := h.into(t, target)
	if err := console.Restore(t.Context(), cfg, bytes.NewReader(packed), console.RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := console.Restore(t.Context(), cfg, bytes.NewReader(packed), console.RestoreOptions{}); err == nil ||
		!strings.Contains(err.Error(), "--replace") {
		t.Errorf("over another one: %v", err)
	}
	if err := console.Restore(t.Context(), cfg, bytes.NewReader(packed), console.RestoreOptions{
		Replace: true,
	}); err != nil {
		t.Errorf("in place of another one: %v", err)
	}
	again := to.start(t)
	admin = again.admin(t)
	got, err := admin.clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{Name: "edge-1"})
	if err != nil || got.GetCluster().GetMetadata().GetEtag() != cluster.GetMetadata().GetEtag() {
		t.Fatalf("got %v, %v", got, err)
	}
	if err := console.Restore(t.Context(), cfg, bytes.NewReader(packed), console.RestoreOptions{Replace: true}); err == nil || !strings.Contains(err.Error(), "stop all consoles") {
		t.Errorf("under a console: %v", err)
	}
	if _, err := admin.services.GetService(t.Context(), &consolev1.GetServiceRequest{
		Name: "new",
	}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("what was made later: %v", err)
	}
	secret, err := again.service(t, identity.ServiceGitcache).secrets.AccessSecret(t.Context(),
		&consolev1.AccessSecretRequest{Name: "git"})
	if err != nil || secret.GetData()["token"] != "hunter2" {
		t.Errorf("the secret is %v, %v", secret.GetData(), err)
	}
	events := listEvents(t, again.events(t, again.adminToken(t)), "")
	if !slices.Contains(strings.Fields(types(events)), "catalog.restored") {
		t.Errorf("events are %s", types(events))
	}
	if is := removals(t, again.service(t, identity.ServiceDistributor), f.token); !is.GetHeld() {
		t.Error("removals are not held")
	}
	admin.putService(t, "new", "edge-1") // writes go on, with numbers and audit
}

func TestABackupThatIsNotWholeIsNotRestored(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a restore of each damaged backup")
	h := newHub(t, "")
	r := h.start(t)
	r.admin(t).putCluster(t, "edge-1")
	packed := r.backup(t)
	r.stop()
	flipped := bytes.Clone(packed)
	flipped[len(flipped)/2] ^= 1
	for name, data := range map[string][]byte{
		"nothing": {}, "no backup": []byte("hello"), "half": packed[:len(packed)/2],
		"without its end": packed[:len(packed)-9], "a bit": flipped,
		"more": append(bytes.Clone(packed), packed...),
	} {
		_, cfg := h.into(t, "")
		if err := console.Restore(t.Context(), cfg, bytes.NewReader(data), console.RestoreOptions{}); err == nil {
			t.Errorf("%s: restored", name)
		}
		if err := console.Restore(t.Context(), cfg, bytes.NewReader(packed), console.RestoreOptions{}); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
	other := newHub(t, "")
	started := other.start(t)
	started.adminToken(t) // it has made its keys
	started.stop()
	err := console.Restore(t.Context(),
		console.Config{DataDir: other.dir, DatabaseURL: "sqlite:" + filepath.Join(other.dir, "new.db")},
		bytes.NewReader(packed), console.RestoreOptions{})
	if err == nil || !strings.Contains(err.Error(), "lacks the keys") {
		t.Errorf("with another master key: %v", err)
	}
}

// restoreEnv makes this test binary restore its standard input, and stop in the middle.
const restoreEnv = "CONSOLE_TEST_RESTORE"

func restoreChild() {
	cfg := console.Config{DataDir: os.Getenv(restoreEnv), DatabaseURL: os.Getenv(restoreEnv + "_DB")}
	err := console.Restore(context.Background(), cfg, os.Stdin, console.RestoreOptions{
		Replace: true, Progress: func(table string, _ int64) {
			if table == "resources" {
				_, _ = os.Stdout.WriteString("in the middle\n")
				select {}
			}
		},
	})
	_, _ = os.Stderr.WriteString(err.Error())
	os.Exit(1)
}

// A restore that is killed leaves what was there.
func TestARestoreThatIsKilledChangesNothing(t *testing.T) {
	t.Parallel()
	for name, db := range databases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, db())
			r := h.start(t)
			packed := r.backup(t)
			r.admin(t).putCluster(t, "edge-1")
			r.stop()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), restoreEnv+"="+h.dir, restoreEnv+"_DB="+h.db)
			cmd.Stdin, cmd.Stderr = bytes.NewReader(packed), h.logs
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(out, make([]byte, 6)); err != nil {
				t.Fatalf("it does not begin: %v", errors.Join(err, cmd.Wait()))
			}
			if err := errors.Join(cmd.Process.Kill()); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // the process was killed
			again := h.start(t)
			if _, err := again.admin(t).clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{
				Name: "edge-1",
			}); err != nil {
				t.Error(err)
			}
		})
	}
}

// Data that nobody can make again are lost only if that is said, resources or not.
func TestADatabaseWithAnythingOfPeopleIsNotEmpty(t *testing.T) {
	t.Parallel()
	for name, db := range databases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, "")
			r := h.start(t)
			packed := r.backup(t)
			r.stop()
			to, cfg := h.into(t, db())
			restore := func() error {
				return console.Restore(t.Context(), cfg, bytes.NewReader(packed), console.RestoreOptions{})
			}
			to.start(t).stop()
			if err := restore(); err != nil {
				t.Errorf("into one that nobody has used: %v", err)
			}
			to, cfg = h.into(t, db())
			used := to.start(t)
			if _, err := used.admin(t).tokens.CreateToken(t.Context(), &consolev1.CreateTokenRequest{}); err != nil {
				t.Fatal(err)
			}
			used.stop()
			if err := restore(); err == nil || !strings.Contains(err.Error(), "--replace") {
				t.Errorf("over a token: %v", err)
			}
		})
	}
}

func TestAMissingFolderIsToldBeforeARestore(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "consle")
	err := console.Restore(t.Context(), console.Config{DataDir: folder}, strings.NewReader(""),
		console.RestoreOptions{})
	if err == nil || !strings.Contains(err.Error(), "there is no folder "+folder) ||
		!strings.Contains(err.Error(), "master.key") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(folder); err == nil {
		t.Error("a folder was made")
	}
}
