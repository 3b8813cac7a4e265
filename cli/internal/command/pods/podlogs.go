package pods

import (
	"cmp"
	"context"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"fairlead.dev/cli/internal/kubectl"
	"fairlead.dev/cli/internal/object"
)

// followedPod returns the pod that a line of kubectl logs follows. ok is false for lines that are left to kubectl: of
// other things than one pod, and with other flags than the command has itself.
func (l *logging) followedPod(cluster string, words []string) (p object.Pod, ok bool) {
	fs := pflag.NewFlagSet("logs", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	namespace := fs.StringP("namespace", "n", "default", "")
	fs.StringVarP(&l.container, "container", "c", l.container, "")
	fs.BoolVarP(&l.follow, "follow", "f", l.follow, "")
	fs.DurationVar(&l.since, "since", l.since, "")
	fs.Int64Var(&l.tail, "tail", l.tail, "")
	fs.BoolVar(&l.timestamps, "timestamps", l.timestamps, "")
	if err := fs.Parse(words); err != nil || fs.NArg() != 1 || fs.ArgsLenAtDash() >= 0 || !l.follow || l.previous {
		return p, false
	}
	kind, name, named := strings.Cut(fs.Arg(0), "/")
	if !named {
		kind, name = "pod", kind
	}
	switch kind {
	case "pod", "pods", "po":
		return object.Pod{Cluster: cluster, Namespace: *namespace, Name: name}, name != ""
	}
	return p, false
}

// followPod prints what a container of a pod writes, as kubectl logs does, until the container ends. A stream that
// breaks goes on after its last whole line.
func (l *logging) followPod(ctx context.Context, p object.Pod) error {
	if err := kubectl.CheckCluster(ctx, l.Hub, p.Cluster); err != nil {
		return err
	}
	p, err := l.ReadPod(ctx, p)
	if err != nil {
		return err
	}
	container := cmp.Or(l.container, p.Usual)
	if container == "" && len(p.Containers) > 0 {
		container = p.Containers[0]
		if len(p.Containers) > 1 {
			l.App.Notef("Defaulted container %q out of: %s\n", container, strings.Join(p.Containers, ", "))
		}
	}
	l.bare = true
	key, begun := p.String()+" "+container, false
	for outage := l.App.NewOutage(); ; {
		l.beginStream(key)
		stream, err := l.openStream(ctx, p, container, key, true)
		if err == nil {
			begun = true
			outage.End()
			if err = l.printLines(stream, p, container, key); err == nil {
				return nil
			}
		}
		l.endStream(key)
		if begun && outage.WaitOut(ctx, err) {
			continue
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // interrupted, as it is meant to end
		}
		return err
	}
}
