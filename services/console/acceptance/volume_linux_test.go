package acceptance

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/await"
)

// volume is a folder as a pod gets it: of root, with rights by its group or for all.
func volume(t *testing.T, group int, mode os.FileMode) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root gives folders to other users")
	}
	dir, err := os.MkdirTemp("", "console-volume-") //nolint:usetesting // no other user gets into t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	data := filepath.Join(dir, "data")
	for _, err := range []error{
		os.Chmod(dir, 0o755), os.Mkdir(data, 0o700), os.Chown(data, 0, group), os.Chmod(data, mode),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return data
}

// runAs starts a console as another user; nil and what it says when it does not start.
func (h *hub) runAs(t *testing.T, user syscall.Credential) (*running, string) {
	t.Helper()
	cmd := exec.Command(program(t))
	cmd.Env = append(os.Environ(), crashEnv+"="+h.dir, crashEnv+"_DB=")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &user}
	said := new(logBuffer)
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // the process may have ended
		_ = cmd.Wait()
	})
	t.Cleanup(stop)
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return nil, said.String()
	}
	await.NoError(t, "the console has made its hub secret", func() error {
		secret, err := os.ReadFile(filepath.Join(h.dir, "hub.secret"))
		h.secret = strings.TrimSpace(string(secret))
		return err
	})
	return &running{hub: h, url: strings.TrimSpace(url), stop: stop}, ""
}

// program is this test, where every user can start it.
func program(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "console-program-") //nolint:usetesting // no other user gets into t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "console")
	// A process of its own writes the file: what this one has open to write is inherited by each program that another
	// test starts at that moment, and a file that is open to write can't be started.
	if text, err := exec.CommandContext(t.Context(), "cp", os.Args[0], path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, of := range []string{dir, path} {
		if err := os.Chmod(of, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func mustHaveMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
		t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
	}
}

var secretFiles = []string{"master.key", "hub.secret", "console.db", "console.db-wal", "console.db-shm"}

func TestAConsoleStartsOnAVolumeOfAPod(t *testing.T) {
	t.Parallel()
	for name, pod := range map[string]struct {
		group int
		mode  os.FileMode
		user  syscall.Credential
	}{
		"with an fsGroup": {
			65532, 0o775 | os.ModeSetgid, syscall.Credential{Uid: 65532, Gid: 65532},
		},
		"with an fsGroup beside another group": {
			2000, 0o770 | os.ModeSetgid, syscall.Credential{Uid: 65532, Gid: 65532, Groups: []uint32{2000}},
		},
		"as a random user of group 0": {0, 0o770, syscall.Credential{Uid: 1000680000, Gid: 0}},
		"in memory":                   {0, 0o777, syscall.Credential{Uid: 65532, Gid: 65532}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, "")
			h.dir = volume(t, pod.group, pod.mode)
			r, said := h.runAs(t, pod.user)
			if r == nil {
				t.Fatalf("the console does not start: %s", said)
			}
			r.admin(t).putCluster(t, "edge-1")
			for _, file := range secretFiles {
				mustHaveMode(t, filepath.Join(h.dir, file), 0o600)
			}
			mustHaveMode(t, h.dir, pod.mode.Perm())
		})
	}
}

// The kubelet opens the files on a volume to the group of its fsGroup, and keeps their owner, which another namespace's
// pods are not.
func TestAConsoleStartsOnTheFilesOfAnotherUser(t *testing.T) {
	t.Parallel()
	const group = 2000
	h := newHub(t, "")
	h.dir = volume(t, group, 0o770|os.ModeSetgid)
	first, said := h.runAs(t, syscall.Credential{Uid: 65532, Gid: 65532, Groups: []uint32{group}})
	if first == nil {
		t.Fatalf("the console does not start: %s", said)
	}
	first.admin(t).putCluster(t, "edge-1")
	first.stop()
	err := filepath.WalkDir(h.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o660)
		if d.IsDir() {
			mode = 0o770 | os.ModeSetgid
		}
		return errors.Join(os.Lchown(path, -1, group), os.Chmod(path, mode))
	})
	if err != nil {
		t.Fatal(err)
	}
	again, said := h.runAs(t, syscall.Credential{Uid: 65533, Gid: 65533, Groups: []uint32{group}})
	if again == nil {
		t.Fatalf("the console does not start again: %s", said)
	}
	if _, err := again.admin(t).clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{
		Name: "edge-1",
	}); err != nil {
		t.Error(err)
	}
}

func TestAConsoleSaysWhatItLacksInItsFolder(t *testing.T) {
	t.Parallel()
	t.Run("it can't write there", func(t *testing.T) {
		t.Parallel()
		h := newHub(t, "")
		h.dir = volume(t, 0, 0o755)
		_, said := h.runAs(t, syscall.Credential{Uid: 65532, Gid: 65532})
		for _, part := range []string{h.dir, "user 65532", "drwxr-xr-x, user 0, group 0", "fsGroup"} {
			if !strings.Contains(said, part) {
				t.Errorf("not said: %s, in: %s", part, said)
			}
		}
	})
	t.Run("others can read a secret", func(t *testing.T) {
		t.Parallel()
		h := newHub(t, "")
		h.dir = volume(t, 65532, 0o775|os.ModeSetgid)
		file := filepath.Join(h.dir, "hub.secret")
		if err := os.WriteFile(file, []byte("a hub secret for tests\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, 0o644); err != nil {
			t.Fatal(err)
		}
		_, said := h.runAs(t, syscall.Credential{Uid: 65532, Gid: 65532})
		for _, part := range []string{file, "-rw-r--r--", "other users can read", "chmod 0600"} {
			if !strings.Contains(said, part) {
				t.Errorf("not said: %s, in: %s", part, said)
			}
		}
	})
}
