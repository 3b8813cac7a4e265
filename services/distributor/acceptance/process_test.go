package acceptance

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"fairlead.dev/platform/await"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/hubservice"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/subprocess"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/distributor"
)

// asProcess makes the test's own binary a distributor, for tests that kill or weigh one.
const asProcess = "DISTRIBUTOR_TEST_PROCESS"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asProcess); dir != "" {
		if err := runProcess(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runProcess is a distributor that says its URL on standard output and runs until it is killed.
func runProcess(dir string) error {
	coord, err := coordination.Open("")
	if err != nil {
		return err
	}
	env := func(name string) string { return os.Getenv("DISTRIBUTOR_TEST_" + name) }
	s, err := distributor.New(distributor.Config{
		Config: hubservice.Config{
			Server:  server.Config{Listen: "127.0.0.1:0", CertFile: env("CERT"), KeyFile: env("KEY")},
			DataDir: dir, ConsoleURL: env("CONSOLE"), HubCAFile: env("CA"), HubSecretFile: env("SECRET"),
		},
		GitcacheURLs: []string{env("GITCACHE")},
	}, distributor.Deps{Log: slog.New(slog.DiscardHandler), Telemetry: telemetry.Discard(), Coordinator: coord})
	if err == nil {
		err = s.Listen()
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, s.URL())
	return s.Run(context.Background())
}

// process is a distributor in a process of its own.
type process struct {
	*edge
	*subprocess.Process
}

// spawn runs one, after the words of a wrapper such as strace. The result is nil if the process ended before it was
// ready.
func (w *world) spawn(wrapper ...string) *process {
	w.t.Helper()
	words := append(wrapper, os.Args[0]) //nolint:gocritic // the caller's slice is not used again
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), asProcess+"="+w.dir, "DISTRIBUTOR_TEST_CERT="+w.ca.CertFile, "DISTRIBUTOR_TEST_KEY="+w.ca.KeyFile,
		"DISTRIBUTOR_TEST_CA="+w.ca.CAFile, "DISTRIBUTOR_TEST_CONSOLE="+w.consoleServer.url,
		"DISTRIBUTOR_TEST_GITCACHE="+w.gitServer.url, "DISTRIBUTOR_TEST_SECRET="+w.secret())
	r, out, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Close()
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	p, err := subprocess.Start(cmd)
	_ = out.Close()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(p.Kill)
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		return nil
	}
	n := &process{edge: &edge{w: w, url: strings.TrimSpace(line), stop: p.Kill}, Process: p}
	await.True(w.t, "the process is ready or gone", func() bool { return n.gone() || n.readyz() == http.StatusOK })
	return n
}

func (p *process) gone() bool {
	select {
	case <-p.Ended():
		return true
	default:
		return false
	}
}

// resident is the memory of the process, in bytes.
func (p *process) resident() int64 {
	p.w.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.Pid()))
	if err != nil {
		p.w.t.Skipf("the memory of a process can't be seen here: %v", err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		p.w.t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
