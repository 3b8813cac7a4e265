package acceptance

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/console"
)

// crashEnv makes this test binary be a console on the given data folder.
const crashEnv = "CONSOLE_TEST_CRASH"

func crashChild() {
	profileSteps(os.Getenv(profileEnv))
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	service, err := console.New(console.Config{
		Server: server.Config{Listen: "127.0.0.1:0"}, DataDir: os.Getenv(crashEnv),
		DatabaseURL: os.Getenv(crashEnv + "_DB"),
	}, console.Deps{Log: log, Telemetry: telemetry.Discard()})
	if err == nil {
		err = service.Listen()
	}
	if err == nil {
		_, _ = fmt.Fprintln(os.Stdout, service.URL())
		err = service.Run(context.Background())
	}
	log.Error("console ended", "err", err)
	os.Exit(1)
}

// process starts a console as a process of its own.
func (h *hub) process(t *testing.T) (*running, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashEnv+"="+h.dir, crashEnv+"_DB="+h.db)
	cmd.Stderr = h.logs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the console may be dead already, which is the point
		_ = cmd.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("console did not start: %v", err)
	}
	return &running{hub: h, url: strings.TrimSpace(url)}, cmd
}

func TestAcknowledgedWriteSurvivesKill(t *testing.T) {
	t.Parallel()
	for name, db := range map[string]func(*testing.T) string{
		"sqlite":   func(*testing.T) string { return "" },
		"postgres": func(t *testing.T) string { return postgres.Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, db(t))
			acknowledged := map[string]int64{}
			for round := range 3 {
				writeUntilKilled(t, h, round, acknowledged)
			}
			r, _ := h.process(t)
			admin := r.admin(t)
			for name, revision := range acknowledged {
				got, err := admin.clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{Name: name})
				if err != nil || got.GetCluster().GetMetadata().GetRevision() < revision {
					t.Fatalf("lost write of %s at revision %d: %v, %v", name, revision, got, err)
				}
			}
			if len(acknowledged) < 10 {
				t.Fatalf("only %d writes were acknowledged: the test shows nothing", len(acknowledged))
			}
		})
	}
}

// writeUntilKilled writes with several writers and kills the console in the middle of it.
func writeUntilKilled(t *testing.T, h *hub, round int, acknowledged map[string]int64) {
	t.Helper()
	r, cmd := h.process(t)
	admin := r.admin(t)
	var mu sync.Mutex
	var wg sync.WaitGroup
	enough := make(chan struct{})
	count := 0
	for w := range 3 {
		wg.Go(func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("c%d-%d-%d", round, w, i/2) // each cluster is created and then updated
				resp, err := admin.clusters.UpdateCluster(t.Context(), &consolev1.UpdateClusterRequest{AllowMissing: true, Cluster: &consolev1.Cluster{
					Metadata: meta(name), Spec: &consolev1.ClusterSpec{Description: fmt.Sprint(i)},
				}})
				if err != nil {
					return // the console is dead
				}
				mu.Lock()
				acknowledged[name] = resp.GetCluster().GetMetadata().GetRevision()
				if count++; count == 30 {
					close(enough)
				}
				mu.Unlock()
			}
		})
	}
	<-enough
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	wg.Wait()
}
