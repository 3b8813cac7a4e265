package tunnel

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"
)

// everyWay runs a test once for each way, side by side.
func everyWay(t *testing.T, test func(t *testing.T, k kubectl, namespace string)) {
	t.Helper()
	t.Parallel()
	h := shared(t)
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			test(t, through(t, h, w), w.namespace())
		})
	}
}

// everyProtocol is everyWay with each of the protocols that kubectl has for exec and port-forward.
func everyProtocol(t *testing.T, test func(t *testing.T, k kubectl, namespace string)) {
	t.Helper()
	everyWay(t, func(t *testing.T, k kubectl, namespace string) {
		for name, on := range map[string]string{"WebSocket": "true", "SPDY": "false"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				k.env = []string{"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=" + on, "KUBECTL_PORT_FORWARD_WEBSOCKETS=" + on}
				test(t, k, namespace)
			})
		}
	})
}

func TestWatchSendsEachEventAtOnceAndNoOther(t *testing.T) {
	t.Parallel()
	h := shared(t)
	direct := straight(t)
	// The server says when it has sent what there is.
	const path = "/api/v1/namespaces/straight/configmaps?watch=true&labelSelector=watched&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
	watches := map[string]*running{"straight": direct.start(t, "get", "--raw", path)}
	for _, w := range ways() {
		watches[w.name] = through(t, h, w).start(t, "get", "--raw", path)
	}
	awaitAll := func(text string) {
		t.Helper()
		for _, w := range watches {
			w.stdout.await(t, text)
		}
	}
	awaitAll("k8s.io/initial-events-end")
	const number = 20
	for i := range number {
		name := fmt.Sprintf("watched-%d", i)
		direct.must(t, strings.ReplaceAll(configMap, "NAME", name+", labels: {watched: \"true\"}"), "create",
			"-n", "straight", "-f", "-")
		awaitAll(name)
		if i == 0 {
			direct.must(t, "", "patch", "configmap", name, "-n", "straight", "--type=merge",
				"-p", `{"data":{"a":"patched"}}`)
			awaitAll("patched")
		}
	}
	direct.must(t, "", "delete", "configmaps", "-n", "straight", "-l", "watched")
	for _, w := range watches {
		w.stdout.awaitCount(t, `"type":"DELETED"`, number)
	}
	want := withoutBookmarks(watches["straight"].stdout.String())
	for name, w := range watches {
		if got := withoutBookmarks(w.stdout.String()); got != want {
			t.Errorf("%s: the events are others: %s", name, difference(got, want))
		}
	}
}

func withoutBookmarks(events string) string {
	return regexp.MustCompile(`(?m)^\{"type":"BOOKMARK".*\n`).ReplaceAllString(events, "")
}

func TestLogsAreFollowed(t *testing.T) {
	everyWay(t, func(t *testing.T, k kubectl, namespace string) {
		r := k.start(t, "logs", "-f", "web", "-n", namespace)
		r.stdout.await(t, "line 1 ")
		lines := strings.Count(r.stdout.String(), "\n")
		r.stdout.await(t, fmt.Sprintf("line %d ", lines+2)) // one a second
		got := r.stdout.String()
		want := straight(t).must(t, "", "logs", "web", "-n", namespace)
		if !strings.HasPrefix(want, got[:strings.LastIndex(got, "\n")]) {
			t.Errorf("other lines than straight from the API server: %s", difference(got, want))
		}
	})
}

func TestExecKeepsStreamsApartAndTheExitCode(t *testing.T) {
	everyProtocol(t, func(t *testing.T, k kubectl, namespace string) {
		input := strings.Repeat("a line that goes in and out\n", 40_000)
		args := []string{"exec", "-i", "web", "-n", namespace, "--", "sh", "-c", "cat; echo to stderr >&2; exit 7"}
		want := answer{stdout: input, stderr: "to stderr\ncommand terminated with exit code 7\n", code: 7}
		if got := k.run(t, input, args...); got != want {
			t.Errorf("got %s", got)
		}
	})
}

func TestExecOfWhatIsNotThereFails(t *testing.T) {
	everyProtocol(t, func(t *testing.T, k kubectl, namespace string) {
		for _, args := range [][]string{
			{"exec", "none", "-n", namespace, "--", "true"},
			{"exec", "web", "-n", namespace, "-c", "none", "--", "true"},
		} {
			direct := straight(t)
			direct.env = k.env
			if got, want := k.run(t, "", args...), direct.run(t, "", args...); got != want || got.code == 0 {
				t.Errorf("got %s\nwant %s", got, want)
			}
		}
	})
}

func TestExecInATerminal(t *testing.T) {
	everyProtocol(t, func(t *testing.T, k kubectl, namespace string) {
		person, program := openTerminal(t)
		resize(t, person, 33, 101)
		cmd := k.command(t.Context(), "exec", "-it", "web", "-n", namespace, "--", "sh")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = program.Close()
		screen := newOutput()
		shown := make(chan struct{})
		go func() {
			defer close(shown)
			_, _ = io.Copy(screen, person) // until the program's end is closed
		}()
		say := func(text, want string) {
			t.Helper()
			if _, err := io.WriteString(person, text+"\n"); err != nil {
				t.Fatal(err)
			}
			screen.await(t, want)
		}
		say("echo first$((40+2))", "first42")
		say("while [ \"$(stty size)\" != '33 101' ]; do :; done; echo size$((40+2))", "size42")
		resize(t, person, 44, 99)
		if err := cmd.Process.Signal(syscall.SIGWINCH); err != nil {
			t.Fatal(err)
		}
		say("while [ \"$(stty size)\" != '44 99' ]; do :; done; echo resized$((40+2))", "resized42")
		if _, err := io.WriteString(person, "exit 3\n"); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 3 {
			t.Errorf("ended with %v; the screen:\n%s", err, screen)
		}
		<-shown
	})
}

func TestAttach(t *testing.T) {
	everyProtocol(t, func(t *testing.T, k kubectl, namespace string) {
		r := k.start(t, "attach", "-i", "web", "-n", namespace)
		for _, line := range []string{"first line\n", "second line\n"} {
			if _, err := io.WriteString(r.stdin, line); err != nil {
				t.Fatal(err)
			}
			r.stdout.await(t, line)
		}
		_ = r.stdin.Close() // half-close: the container ends
		if err := r.wait(t); err != nil || r.stdout.String() != "first line\nsecond line\n" {
			t.Errorf("ended with %v: %s", err, r)
		}
	})
}

func TestCopyBothWays(t *testing.T) {
	size := int64(24 << 20)
	if *long {
		size = 1 << 30
	}
	everyProtocol(t, func(t *testing.T, k kubectl, namespace string) {
		dir := t.TempDir()
		sum := randomFile(t, filepath.Join(dir, "up"), size)
		there := strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())
		k.must(t, "", "cp", filepath.Join(dir, "up"), namespace+"/web:"+there)
		pod := filepath.Join(world.kube.Dir, "exec", there)
		if got := sumOf(t, pod); got != sum {
			t.Errorf("what arrives in the pod is not what was sent")
		}
		k.must(t, "", "cp", namespace+"/web:"+there, filepath.Join(dir, "down"))
		if got := sumOf(t, filepath.Join(dir, "down")); got != sum {
			t.Errorf("what comes back is not what was sent")
		}
		_ = os.Remove(pod)
	})
}

func TestPortForwardUnderLoad(t *testing.T) {
	const connections, size = 8, 2 << 20
	everyProtocol(t, func(t *testing.T, k kubectl, namespace string) {
		r := k.start(t, "port-forward", "pod/web", "-n", namespace, ":80", "--address=127.0.0.1")
		r.stdout.await(t, " -> 80")
		port := regexp.MustCompile(`127.0.0.1:(\d+)`).FindStringSubmatch(r.stdout.String())
		if port == nil {
			t.Fatal(r)
		}
		var group errgroup.Group
		for range connections {
			group.Go(func() error {
				client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
				for range 3 {
					sent := make([]byte, size)
					_, _ = rand.Read(sent) // never fails
					resp, err := client.Post("http://"+port[0], "application/octet-stream", bytes.NewReader(sent))
					if err != nil {
						return err
					}
					got, err := io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					if err != nil {
						return err
					}
					if !bytes.Equal(got, sent) {
						return fmt.Errorf("%d bytes come back for %d, or others", len(got), len(sent))
					}
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Errorf("%v: %s", err, r)
		}
	})
}
