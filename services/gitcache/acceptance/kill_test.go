package acceptance

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"fairlead.dev/platform/await"
	"fairlead.dev/platform/hubservice"
	"fairlead.dev/platform/longform"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache"
	"fairlead.dev/services/gitcache/internal/gittest"
)

// runProcess is a gitcache that says its URL on standard output and runs until it is killed.
func runProcess(dir string) {
	cfg := gitcache.Config{Config: hubservice.Config{
		Server: server.Config{Listen: "127.0.0.1:0"}, DataDir: dir, RedisURL: os.Getenv("GITCACHE_TEST_REDIS"),
		ConsoleURL: os.Getenv("GITCACHE_TEST_CONSOLE"), HubSecretFile: os.Getenv("GITCACHE_TEST_SECRET"),
	}, AllowAddresses: thisMachine()}
	if cfg.RedisURL != "" {
		cfg.LeaseTTL = fleetTTL
	}
	s, err := gitcache.New(cfg, gitcache.Deps{Log: slog.New(slog.DiscardHandler), Telemetry: telemetry.Discard()})
	if err == nil {
		err = s.Listen()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, s.URL())
	if err := s.Run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// spawn runs a gitcache as a process of its own; kill ends it as kill -9 does.
func (f *fixture) spawn(dir string, env ...string) (n *node, kill func()) {
	f.t.Helper()
	cmd := exec.CommandContext(context.Background(), os.Args[0])
	cmd.Env = append(os.Environ(), asProcess+"="+dir, "GITCACHE_TEST_CONSOLE="+f.console.URL,
		"GITCACHE_TEST_SECRET="+f.secret)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	f.t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		f.t.Fatalf("the process says nothing: %v", err)
	}
	return f.talkTo(&node{f: f, dir: dir, url: strings.TrimSpace(line), stop: kill, process: cmd.Process}), kill
}

func TestKillNineDuringAFetchLeavesAUsableMirror(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a process that is killed")
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
	dir := t.TempDir()
	n, kill := f.spawn(dir)
	f.published("HEAD", first)
	digest := n.resolve("HEAD", "deploy").GetArtifact().GetDigest()

	started, resume := make(chan struct{}, 1), make(chan struct{})
	release := sync.OnceFunc(func() { close(resume) })
	t.Cleanup(release)
	f.git.SetFault(gittest.StallFetch(started, resume))
	second := f.repo.Commit("two", gittest.Files{"deploy/a": "2"})
	n.refresh()
	<-started
	await.NoError(t, "a pack is half there", func() error {
		if halves(t, dir) == 0 {
			return os.ErrNotExist
		}
		return nil
	})
	kill()
	if _, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://")); err == nil {
		t.Fatal("it lives on")
	}

	// Upstream hangs still: everything from before is served, and the half pack is gone.
	again, _ := f.spawn(dir)
	if got := again.download(digest); got["a"] != "1" {
		t.Errorf("the artifact holds %q", got)
	}
	again.resolve(first, "deploy")
	f.git.SetFault(nil)
	release()
	f.published("HEAD", second)
	if got := again.download(again.resolve(second, "deploy").GetArtifact().GetDigest()); got["a"] != "2" {
		t.Errorf("the artifact holds %q", got)
	}
	if left := halves(t, dir); left != 0 {
		t.Errorf("%d temporary files are left", left)
	}
	repo := filepath.Join(dir, "mirrors", "uid-shop", "repo.git")
	if out, err := exec.CommandContext(t.Context(), "git", "-C", repo, "fsck", "--full", "--strict").CombinedOutput(); err != nil {
		t.Errorf("git fsck: %v: %s", err, out)
	}
}

func halves(t *testing.T, dir string) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "mirrors", "*", "repo.git", "objects", "pack", "tmp_*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}
