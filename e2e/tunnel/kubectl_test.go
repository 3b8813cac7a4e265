package tunnel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// answer is what a kubectl printed, and how it ended.
type answer struct {
	stdout, stderr string
	code           int
}

func (a answer) String() string {
	return fmt.Sprintf("exit code %d, stdout of %d bytes:\n%.2000s\nstderr:\n%.2000s", a.code, len(a.stdout), a.stdout,
		a.stderr)
}

// kubectl is the real one with the flags that say where to.
type kubectl struct {
	flags []string
	env   []string
}

// through is a kubectl that takes a way into the cluster.
func through(t testing.TB, h *hub, w way) kubectl {
	t.Helper()
	return kubectl{flags: []string{"--kubeconfig", h.kubeconfig(t, w.part)}}
}

// straight is a kubectl that goes straight to the API server, as the same person.
func straight(t testing.TB) kubectl {
	t.Helper()
	flags, err := impersonation()
	if err != nil {
		t.Fatal(err)
	}
	return kubectl{flags: append([]string{"--kubeconfig", world.kube.Kubeconfig}, flags...)}
}

// impersonation are the flags that make an administrator of the cluster the person of the hub.
var impersonation = sync.OnceValues(func() ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client, err := world.hub.client()
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	status, body, err := post(ctx, client, world.hub.base("x1")+"/apis/authentication.k8s.io/v1/selfsubjectreviews", world.hub.token,
		`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`)
	if err != nil {
		return nil, err
	}
	var review struct {
		Status struct {
			UserInfo struct {
				Username string
				Groups   []string
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &review); err != nil || status/100 != 2 {
		return nil, fmt.Errorf("who am I: %d %s %w", status, body, err)
	}
	who := review.Status.UserInfo
	if !slices.Contains(who.Groups, "fairlead:admins") {
		return nil, fmt.Errorf("the administrator comes as %q in %q", who.Username, who.Groups)
	}
	flags := []string{"--as", who.Username}
	for _, group := range who.Groups {
		if group != "system:authenticated" { // which everybody is in
			flags = append(flags, "--as-group", group)
		}
	}
	return flags, nil
})

func (k kubectl) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, world.bins.Kubelocal, slices.Concat([]string{"kubectl"}, k.flags, args)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	// No caches: each way asks for itself.
	cmd.Env = slices.Concat(os.Environ(), []string{"KUBECACHEDIR=/dev/null"}, k.env)
	return cmd
}

// run runs kubectl to its end. A kubectl that does not start fails the test, one that fails does not.
func (k kubectl) run(t testing.TB, stdin string, args ...string) answer {
	t.Helper()
	limit := 2 * patience
	if *long {
		limit *= 10
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := k.command(ctx, args...)
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed || ctx.Err() != nil {
		t.Fatalf("kubectl %q: %v\n%s%s", args, errors.Join(err, ctx.Err()), &stdout, &stderr)
	}
	return answer{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// must is run for what has to work.
func (k kubectl) must(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	a := k.run(t, stdin, args...)
	if a.code != 0 {
		t.Fatalf("kubectl %q: %s", args, a)
	}
	return a.stdout
}

// running is a kubectl that goes on until it is stopped.
type running struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser // of the program; close it to say that there is no more
	stdout *output
	stderr *output
	ended  chan error
}

func (k kubectl) start(t testing.TB, args ...string) *running {
	t.Helper()
	r := &running{
		cmd: k.command(t.Context(), args...), stdout: newOutput(), stderr: newOutput(),
		ended: make(chan error, 1),
	}
	r.cmd.Stdout, r.cmd.Stderr = r.stdout, r.stderr
	var err error
	if r.stdin, err = r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.ended <- r.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Signal(os.Interrupt)
		<-done
	})
	return r
}

func (r *running) String() string { return fmt.Sprintf("stdout:\n%s\nstderr:\n%s", r.stdout, r.stderr) }

// wait waits until it has ended by itself.
func (r *running) wait(t testing.TB) error {
	t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(patience):
		t.Fatalf("it goes on after %s: %s", patience, r)
		return nil
	}
}

// await waits until the output holds text.
func (o *output) await(t testing.TB, text string) {
	t.Helper()
	o.awaitCount(t, text, 1)
}

// awaitCount waits until the output holds text that often.
func (o *output) awaitCount(t testing.TB, text string, count int) {
	t.Helper()
	deadline := time.After(patience)
	for {
		have, changed := o.now()
		if strings.Count(have, text) >= count {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("no %q within %s in:\n%.4000s", text, patience, have)
		}
	}
}

// output collects what a process writes.
type output struct {
	mu      sync.Mutex // guards what follows
	text    bytes.Buffer
	changed chan struct{} // closed and made anew with each write
}

func newOutput() *output { return &output{changed: make(chan struct{})} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.text.Write(p)
}

func (o *output) now() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String(), o.changed
}

func (o *output) String() string {
	text, _ := o.now()
	return text
}
