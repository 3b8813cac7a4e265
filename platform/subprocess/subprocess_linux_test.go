package subprocess_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/subprocess"
)

// patience is for a busy machine.
const patience = time.Minute

// TestMain can be a parent: it starts its arguments and waits.
func TestMain(m *testing.M) {
	if os.Getenv("SUBPROCESS_TEST_PARENT") == "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stdout = os.Stdout
	p, err := subprocess.Start(cmd)
	if err != nil {
		panic(err)
	}
	_ = p.Wait()
}

// output makes a pipe that ends when nobody who got cmd's stdout is left.
func output(t *testing.T, cmd *exec.Cmd) (lines *bufio.Reader, started func()) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	return bufio.NewReader(r), func() { w.Close() }
}

func start(t *testing.T, cmd *exec.Cmd) *subprocess.Process {
	t.Helper()
	p, err := subprocess.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func expect(t *testing.T, lines *bufio.Reader, want string) {
	t.Helper()
	if got, err := lines.ReadString('\n'); got != want+"\n" {
		t.Fatalf("it said %q, %v, want %s", got, err, want)
	}
}

func expectEnd(t *testing.T, lines *bufio.Reader) {
	t.Helper()
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Fatalf("it goes on: %q, %v", rest, err)
	}
}

func TestProgramDiesWithItsParent(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self, "sh", "-c", "echo up; exec sleep 1000")
	parent.Env = append(os.Environ(), "SUBPROCESS_TEST_PARENT=1")
	lines, started := output(t, parent)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	started()
	expect(t, lines, "up")
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	expectEnd(t, lines)
}

func TestProgramOutlivesTheThreadThatAskedForIt(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	lines, started := output(t, cmd)
	var p *subprocess.Process
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		var err error
		p, err = subprocess.Start(cmd)
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	started()
	for range 3 {
		if _, err := stdin.Write([]byte("alive\n")); err != nil {
			t.Fatal(err)
		}
		expect(t, lines, "alive")
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("cat ended with %v", err)
	}
}

func TestStopAsksFirst(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", `trap 'echo asked; exit 3' TERM; echo up; while :; do sleep 0.01; done`)
	lines, started := output(t, cmd)
	p := start(t, cmd)
	started()
	expect(t, lines, "up")
	if err := p.Stop(patience); err != nil {
		t.Error(err)
	}
	expect(t, lines, "asked")
	if err := p.Wait(); err == nil || err.Error() != "exit status 3" {
		t.Errorf("it ended with %v", err)
	}
}

func TestStopKillsTheGroupOfAProgramThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", `trap '' TERM; sleep 1000 & echo up; wait`)
	lines, started := output(t, cmd)
	p := start(t, cmd)
	started()
	expect(t, lines, "up")
	if err := p.Stop(time.Millisecond); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("stop: %v", err)
	}
	expectEnd(t, lines)
}

func TestProgramThatIsNotThereIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := subprocess.Start(exec.Command("/nowhere")); err == nil {
		t.Error("it was started")
	}
}
