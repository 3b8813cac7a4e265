package acceptance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"connectrpc.com/connect"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/await"
)

func needStrace(t *testing.T) {
	t.Helper()
	if err := exec.CommandContext(t.Context(), "strace", "-o", os.DevNull, "true").Run(); err != nil {
		t.Skipf("strace can't be used here: %v", err)
	}
}

// Killed exactly before any of the calls by which something gets onto its disk, a distributor starts
// again, holds nothing that is bad, takes nothing back that it told an agent, and goes on.
func TestKilledAtAnyStepOfAWriteItNeverServesWrongBytes(t *testing.T) {
	t.Parallel()
	needStrace(t)
	var injects []string
	for n := 3; n <= 10; n++ { // strace counts per thread
		injects = append(injects, fmt.Sprintf("fsync,fdatasync:signal=SIGKILL:when=%d", n))
	}
	for n := 2; n <= 5; n++ {
		injects = append(injects, fmt.Sprintf("rename,renameat,renameat2:signal=SIGKILL:when=%d", n))
	}
	for _, inject := range injects {
		t.Run(inject, func(t *testing.T) { t.Parallel(); killAt(t, inject) })
	}
}

func killAt(t *testing.T, inject string) {
	w := newWorld(t)
	w.ship()
	told := w.shipUntilKilled(inject)

	// The agent was told something by now, or the process ended before it told anybody anything.
	w.consoleServer.stop()
	if told.have["hello"] != "" {
		again := w.startUnready().agent("edge-1")
		again.have["hello"] = told.have["hello"]
		resp, err := again.rpc.Sync(context.Background(),
			&deliveryv1.SyncRequest{Digest: again.digest(), Have: again.list()})
		if connect.CodeOf(err) != connect.CodeUnavailable &&
			len(resp.GetChanges().GetServices())+len(resp.GetChanges().GetRemoved()) > 0 {
			t.Errorf("what was told is turned back: %v", resp)
		}
		again.e.stop()
	}
	w.consoleServer.start()
	e := w.start()
	last := commit("f")
	w.git.commit(t, last, "apps/hello", "the last one")
	w.console.Put(shop("HEAD", last))
	a := e.agent("edge-1")
	a.awaitCommit("hello", last)
	a.mustHave()
	e.stop()
	w.allGood()
}

// shipUntilKilled ships commits until the distributor is killed, and returns its agent.
func (w *world) shipUntilKilled(inject string) *agent {
	w.t.Helper()
	told := &agent{have: map[string]string{}}
	p := w.spawn("strace", "-f", "-o", os.DevNull, "-e", "inject="+inject)
	if p == nil {
		return told
	}
	told = p.agent("edge-1")
	for i := 2; i < 100 && !p.gone(); i++ {
		c := fmt.Sprintf("%040x", i)
		w.git.commit(w.t, c, "apps/hello", "content "+c)
		w.console.Put(shop("HEAD", c))
		await.True(w.t, "the commit is delivered, or the process gone", func() bool {
			resp, err := told.rpc.Sync(context.Background(),
				&deliveryv1.SyncRequest{Digest: told.digest(), Have: told.list()})
			for _, s := range resp.GetChanges().GetServices() {
				told.have[s.GetName()], told.got[s.GetName()] = s.GetDigest(), s
			}
			return err == nil && told.got["hello"].GetRevision().GetCommit() == c || p.gone()
		})
		if d := told.got["hello"].GetArtifact().GetDigest(); d != "" {
			if b, err := told.download(d); err == nil && digestOf(b) != artifact.Digest(d) {
				w.t.Errorf("wrong bytes under %s", d)
			}
		}
	}
	if !p.gone() {
		w.t.Fatal("it was never killed: this test shows nothing")
	}
	return told
}

// allGood reads everything that is in the folder of artifacts.
func (w *world) allGood() {
	w.t.Helper()
	dir := filepath.Join(w.dir, "artifacts")
	if left, _ := filepath.Glob(filepath.Join(dir, "tmp-*")); len(left) > 0 {
		w.t.Errorf("left: %v", left)
	}
	store, err := artifact.OpenStore(dir, artifact.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	defer store.Close()
	files, err := filepath.Glob(filepath.Join(dir, "*.tar.zst"))
	if err != nil || len(files) == 0 {
		w.t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		d, err := artifact.ParseDigest("sha256:" + filepath.Base(f)[:64])
		if err != nil {
			w.t.Fatal(err)
		}
		b, err := store.Open(d)
		if err != nil {
			w.t.Errorf("%s: %v", f, err)
			continue
		}
		_ = b.Close()
	}
	if bad, _ := filepath.Glob(filepath.Join(dir, "quarantine", "*")); len(bad) > 0 {
		w.t.Errorf("bad files were found: %v", bad)
	}
}
