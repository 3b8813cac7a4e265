package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"fairlead.dev/platform/retry"
	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/object"
)

const (
	// mostPods of a test, the newest, and mostContainers of a pod are read: they bound the memory that a test takes.
	mostPods, mostContainers = 3, 10
	// followed bounds what is read of a log while its container runs, in bytes. Output that comes after it is read at
	// the end, if the pod is still there.
	followed = 8 << 20
	// lastRead bounds the last read of a log, in bytes; see lastLines.
	lastRead = 32 << 20
	// maxMessageFile is how much of a termination message kubelets hand on, in bytes.
	maxMessageFile = 4096
	// lastPatience bounds the last read of all logs of a test.
	lastPatience = 15 * time.Second
)

// lastLines are how many lines from its end a log is read again, if more of them have more than lastRead bytes.
var lastLines = []int64{20_000, 500, 20} //nolint:gochecknoglobals // a constant

// API is what is needed of the cluster; *cluster.Cluster has it.
type API interface {
	Metadata(ctx context.Context, ref object.Ref) (*metav1.PartialObjectMetadata, error)
	WatchPods(ctx context.Context, namespace string, opts metav1.ListOptions) (watch.Interface, error)
	Log(ctx context.Context, namespace, pod string, options cluster.LogOptions) (io.ReadCloser, error)
	Select(ctx context.Context, gvk schema.GroupVersionKind, namespace string, opts metav1.ListOptions) ([]*unstructured.Unstructured, error)
}

// collector reads the logs of a test while it runs: its pods may be gone as soon as they have ended. The collector
// begins when the object is made.
type collector struct {
	api    API
	object object.Ref
	uid    types.UID
	end    context.CancelFunc
	// running are the goroutines of the collector, reads those of them that read the end of a log.
	running, reads sync.WaitGroup

	mu sync.Mutex // guards what follows
	// pods are the newest last.
	pods []*pod
	// trouble is why there may be less than there was.
	trouble string
	// isClosed: no log is begun to be read any more.
	isClosed bool
}

// pod is one of a test, and what its containers wrote.
type pod struct {
	name       string
	uid        types.UID
	made       time.Time
	containers []*container
	// messages are what containers left in their termination message.
	messages map[string]string
}

type container struct {
	name string
	log  *sink
	// end ends following it.
	end context.CancelFunc
	// isRead: its end was read, or is being read.
	isRead bool
}

// startCollector begins to read the logs of a Job's or Pod's object.
func startCollector(ctx context.Context, api API, ref object.Ref, uid types.UID) *collector {
	c := &collector{api: api, object: ref, uid: uid}
	ctx, c.end = context.WithCancel(context.WithoutCancel(ctx)) // the collector has to outlast the step that starts it
	c.running.Go(func() { c.followPods(ctx) })
	return c
}

// stopReading ends the collector, and waits for it.
func (c *collector) stopReading() {
	c.end()
	c.running.Wait()
}

// followPods watches the pods of the test.
func (c *collector) followPods(ctx context.Context) {
	backoff := retry.Backoff{Floor: 200 * time.Millisecond, Max: 5 * time.Second}
	for ctx.Err() == nil {
		stream, err := c.api.WatchPods(ctx, c.object.Namespace, c.podSelection())
		if err != nil {
			c.noteFailure("its pods can't be watched", err)
		} else {
			for event := range stream.ResultChan() {
				if found, ok := event.Object.(*unstructured.Unstructured); ok && event.Type != watch.Error && event.Type != watch.Bookmark {
					c.readBegun(ctx, found)
				}
			}
			stream.Stop()
		}
		retry.Sleep(ctx, backoff.Next())
	}
}

// podSelection is of the test's own pods, as far as the API server can select them.
func (c *collector) podSelection() metav1.ListOptions {
	if c.object.Kind == "Pod" {
		return metav1.ListOptions{FieldSelector: "metadata.name=" + c.object.Name}
	}
	return metav1.ListOptions{LabelSelector: "controller-uid=" + string(c.uid)}
}

// ownsPod tells whether a pod is of the test: labels are anybody's to set.
func (c *collector) ownsPod(found *unstructured.Unstructured) bool {
	if c.object.Kind == "Pod" {
		return found.GetUID() == c.uid
	}
	owner := metav1.GetControllerOf(found)
	return owner != nil && owner.UID == c.uid
}

// readBegun reads the logs of containers that have begun.
func (c *collector) readBegun(ctx context.Context, found *unstructured.Unstructured) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed || !c.ownsPod(found) {
		return
	}
	p := c.podOf(found)
	if p == nil {
		return
	}
	for _, field := range []string{"initContainerStatuses", "containerStatuses"} {
		statuses, _, _ := unstructured.NestedSlice(found.Object, "status", field)
		for _, one := range statuses {
			status, _ := one.(map[string]any)
			name, _ := status["name"].(string)
			_, runs, _ := unstructured.NestedMap(status, "state", "running")
			exit, ended, _ := unstructured.NestedMap(status, "state", "terminated")
			if message, _ := exit["message"].(string); message != "" {
				p.messages[name] = message
			}
			if name == "" || !runs && !ended {
				continue
			}
			at := slices.IndexFunc(p.containers, func(c *container) bool { return c.name == name })
			if at < 0 {
				if len(p.containers) == mostContainers {
					continue
				}
				at = len(p.containers)
				p.containers = append(p.containers, &container{name: name, log: &sink{}, end: func() {}})
				if !ended {
					following, end := context.WithCancel(ctx)
					p.containers[at].end = end
					c.tailLog(following, p, p.containers[at])
				}
			}
			if ended { // the container has nothing more to say, and the pod may be gone in a moment
				c.readLast(ctx, p, p.containers[at])
			}
		}
	}
}

// podOf is what is known of a pod, nil if there are enough newer ones. The caller holds mu.
func (c *collector) podOf(found *unstructured.Unstructured) *pod {
	for _, p := range c.pods {
		if p.uid == found.GetUID() {
			return p
		}
	}
	made := found.GetCreationTimestamp().Time
	if len(c.pods) == mostPods {
		if made.Before(c.pods[0].made) {
			return nil
		}
		for _, one := range c.pods[0].containers {
			one.end()
		}
		c.pods = c.pods[1:]
	}
	p := &pod{name: found.GetName(), uid: found.GetUID(), made: made, messages: map[string]string{}}
	c.pods = append(c.pods, p)
	slices.SortStableFunc(c.pods, func(a, b *pod) int { return a.made.Compare(b.made) })
	return p
}

// tailLog reads a log while it is written, so that there is something of a pod that goes at once.
func (c *collector) tailLog(ctx context.Context, p *pod, one *container) {
	into := one.log
	c.running.Go(func() {
		_, _ = c.readLog(ctx, p, one.name, into, cluster.LogOptions{Follow: true, Bytes: followed}) // the last read tells what is wrong
	})
}

// readLast reads the end of a log anew, once. If that can't be read any more, what was followed counts. The caller
// holds mu.
func (c *collector) readLast(ctx context.Context, p *pod, one *container) {
	if one.isRead {
		return
	}
	one.isRead = true
	c.reads.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, lastPatience)
		defer cancel()
		fresh := c.readEnd(ctx, p, one.name)
		one.end()
		c.mu.Lock()
		defer c.mu.Unlock()
		if fresh != nil {
			one.log = fresh
		}
	})
}

// readEnd reads the end of a log: fewer lines of it if they are too long.
func (c *collector) readEnd(ctx context.Context, p *pod, name string) *sink {
	for _, lines := range lastLines {
		fresh := &sink{}
		read, err := c.readLog(ctx, p, name, fresh, cluster.LogOptions{Bytes: lastRead, Lines: lines})
		if err != nil {
			c.noteFailure("the log of container "+name+" of pod "+p.name+" can't be read", err)
			return nil
		}
		if read < lastRead || lines == lastLines[len(lastLines)-1] {
			fresh.isCut = fresh.isCut || fresh.lines >= lines
			return fresh
		}
	}
	return nil
}

// readLog reads a log into a sink.
func (c *collector) readLog(ctx context.Context, p *pod, name string, into *sink, options cluster.LogOptions) (read int64, err error) {
	options.Container = name
	c.mu.Lock()
	into.isOpen = true
	c.mu.Unlock()
	stream, err := c.api.Log(ctx, c.object.Namespace, p.name, options)
	if err != nil {
		return 0, err
	}
	defer func() { _ = stream.Close() }() // the stream was only read
	chunk := make([]byte, 32<<10)
	for {
		n, err := stream.Read(chunk)
		read += int64(n)
		c.mu.Lock()
		_, _ = into.Write(chunk[:n]) // Write does not fail
		into.isOpen = !errors.Is(err, io.EOF) || read >= options.Bytes
		c.mu.Unlock()
		switch {
		case errors.Is(err, io.EOF):
			return read, nil
		case err != nil:
			return read, err
		}
	}
}

// noteFailure notes the first thing that went wrong, unless the pod is just gone.
func (c *collector) noteFailure(what string, err error) {
	if apierrors.IsNotFound(err) || errors.Is(err, context.Canceled) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trouble == "" {
		c.trouble = what + ": " + err.Error()
	}
}

// finishReading reads what has not been read to its end, and ends the collector.
func (c *collector) finishReading(ctx context.Context) {
	found, err := c.api.Select(ctx, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, c.object.Namespace, c.podSelection())
	if err != nil {
		c.noteFailure("its pods can't be listed", err)
	}
	for _, one := range found { // of which the stream may not have told yet
		c.readBegun(ctx, one)
	}
	c.mu.Lock()
	c.isClosed = true
	for _, p := range c.pods {
		for _, one := range p.containers {
			c.readLast(ctx, p, one)
		}
	}
	c.mu.Unlock()
	c.reads.Wait()
	c.stopReading()
}

// maskedOutput is the masked end of what the containers of the test wrote, and the cases of its reports.
func (c *collector) maskedOutput(mask func(string) string) (text string, isCut bool, cases report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out strings.Builder
	several := len(c.pods) > 1 || len(c.pods) == 1 && len(c.pods[0].containers) > 1
	for _, p := range c.pods {
		newest := p == c.pods[len(c.pods)-1]
		for _, one := range p.containers {
			if several {
				fmt.Fprintf(&out, "--- pod %s, container %s ---\n", p.name, one.name)
			}
			log, cut := one.log.maskedTail(mask)
			out.WriteString(log)
			if log != "" && !strings.HasSuffix(log, "\n") {
				out.WriteString("\n")
			}
			isCut = isCut || cut
			if newest {
				cases.addReport(one.log.readReports(mask))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(p.messages)) {
			if !newest {
				continue
			}
			found := parseReports([]byte(p.messages[name]), mask)
			if cases.addReport(found); found.isEmpty() && len(p.messages[name]) >= maxMessageFile {
				fmt.Fprintf(&out, "(agent) container %s left more than the %d bytes that Kubernetes hands on; print a larger report on standard output\n", name, maxMessageFile)
			}
		}
	}
	text, shorter := lastBytes(out.String(), maxLog)
	return text, isCut || shorter, cases
}
