package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
)

// live is the shared stack for a test that pushes content, and waits until a ConfigMap in clusters has the text of it.
type live struct {
	*stack.Stack
	t   *testing.T
	ctx context.Context // of the test, as t is
}

func newLive(t *testing.T) *live {
	t.Helper()
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	return &live{Stack: s, t: t, ctx: ctx}
}

// apply applies resources.
func (l *live) apply(resources string) {
	l.t.Helper()
	if out, err := l.FairleadStdin(l.ctx, resources, "apply", "-f", "-"); err != nil {
		l.t.Fatalf("apply: %v\n%s", err, out)
	}
}

// fairlead runs the command, and returns what it prints.
func (l *live) fairlead(args ...string) string {
	l.t.Helper()
	out, err := l.Fairlead(l.ctx, args...)
	if err != nil {
		l.t.Fatalf("fairlead %v: %v\n%s", args, err, out)
	}
	return out
}

// says repeats a command until it prints all words.
func (l *live) says(words []string, args ...string) {
	l.t.Helper()
	what := fmt.Sprintf("fairlead %s says %q", strings.Join(args, " "), words)
	err := process.Await(l.ctx, what, func(ctx context.Context) error {
		out, err := l.Fairlead(ctx, args...)
		for _, w := range words {
			if err == nil && !strings.Contains(out, w) {
				err = fmt.Errorf("%q is not in %s", w, out)
			}
		}
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
}

// runs waits until a ConfigMap has a text in clusters, without any in all of them; "": it is gone.
func (l *live) runs(namespace, name, want string, in ...stack.Cluster) {
	l.t.Helper()
	if len(in) == 0 {
		in = l.Clusters
	}
	for _, c := range in {
		err := process.Await(l.ctx, fmt.Sprintf("%s is %q in %s", name, want, c.Name), func(ctx context.Context) error {
			get := []string{
				"get", "configmap", name, "-n", namespace, "--ignore-not-found", "-o", "jsonpath={.data.text}",
			}
			got, err := l.Kubectl(ctx, c.Kubeconfig, get...)
			if err == nil && got != want {
				err = fmt.Errorf("it is %q", got)
			}
			return err
		})
		if err != nil {
			l.t.Fatal(err)
		}
	}
}

// rollBack takes a service of each cluster back.
func (l *live) rollBack(service string) {
	l.t.Helper()
	for _, c := range l.Clusters {
		l.fairlead("rollback", "service", service+"-"+c.Name, "--reason", "a test")
	}
}
