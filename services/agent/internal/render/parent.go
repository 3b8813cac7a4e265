package render

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.dev/platform/subprocess"
	"fairlead.dev/services/agent/internal/kubeyaml"
)

const (
	// maxMemory is what a child may have in memory, in bytes; it is looked at every memoryPause.
	maxMemory   = 512 << 20
	memoryPause = 50 * time.Millisecond
	// maxOutput bounds what a child tells, in bytes.
	maxOutput = 64 << 20
	// maxLookups bounds what a child asks of the cluster, and maxLooked what it gets, in bytes of JSON: templates may
	// keep all of it, and take twenty times the room for it.
	maxLookups = 1000
	maxLooked  = 16 << 20
)

// renderInChild renders in a process of its own. However that ends, it is the service's error and nobody else's.
func (r *Renderer) renderInChild(ctx context.Context, in Input, add kubeyaml.Add) error {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c, err := r.startChild()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.limits.Time)
	defer cancel()
	var helpers sync.WaitGroup
	helpers.Go(func() { c.feedJob(in) })
	helpers.Go(func() { c.guardLimits(ctx) })
	err = c.listenToEnd(ctx, in, add)
	c.stopChild(err)
	helpers.Wait()
	return c.explainEnd(ctx, in.Folder, err)
}

// child is a child process at work.
type child struct {
	process *subprocess.Process
	cmd     *exec.Cmd
	said    *head
	// limits are what it may take.
	limits Limits
	// stdin, stdout and answers are our ends of its pipes, ours all of them.
	stdin, stdout, answers *os.File
	ours                   []*os.File

	mu sync.Mutex // guards why
	// why it was killed, "" if it was not.
	why string
}

func (r *Renderer) startChild() (*child, error) {
	if len(r.program) == 0 {
		return nil, errors.New("start renderer: the program is missing")
	}
	c := &child{limits: r.currentLimits(), said: &head{}, cmd: exec.Command(r.program[0], r.program[1:]...)} //nolint:noctx // watch kills it, and says why
	theirs, err := c.makePipes()
	defer closeAll(theirs) // the child has its own
	if err != nil {
		closeAll(c.ours)
		return nil, fmt.Errorf("start renderer: %w", err)
	}
	c.cmd.Stderr = c.said
	c.cmd.Env = []string{} // nothing of the agent's
	c.cmd.Dir = "/"
	if c.process, err = subprocess.Start(c.cmd); err != nil {
		closeAll(c.ours)
		return nil, fmt.Errorf("start renderer: %w. It belongs beside the agent", err)
	}
	return c, nil
}

// makePipes makes the child's pipes, and returns its ends.
func (c *child) makePipes() (theirs []*os.File, err error) {
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			return theirs, err
		}
		if len(c.ours) == 1 { // its stdout
			c.ours, theirs = append(c.ours, r), append(theirs, w)
		} else {
			c.ours, theirs = append(c.ours, w), append(theirs, r)
		}
	}
	c.stdin, c.stdout, c.answers = c.ours[0], c.ours[1], c.ours[2]
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.ExtraFiles = theirs[0], theirs[1], theirs[2:]
	return theirs, nil
}

func closeAll(files []*os.File) {
	for _, file := range files {
		_ = file.Close()
	}
}

// feedJob writes the job and the folder. That the child reads no more is told by its end.
func (c *child) feedJob(in Input) {
	defer func() { _ = c.stdin.Close() }()
	spec, err := protojson.Marshal(in.Folder.Service.Render)
	if err != nil {
		c.killFor("the spec can't be encoded: " + err.Error())
		return
	}
	service := in.Folder.Service
	job, err := json.Marshal(Job{
		Name: service.Name, Namespace: service.Namespace, Path: service.Path, Renderer: int32(in.Folder.Renderer),
		Render: spec, Tests: service.Tests.GetPath(), Scope: in.Scope, Seconds: uint64(c.limits.CPU.Seconds()),
	})
	if err != nil {
		c.killFor("the scope can't be encoded: " + err.Error())
		return
	}
	if WriteFrame(c.stdin, FrameJob, job) != nil {
		return
	}
	content, err := in.Folder.open()
	if err != nil {
		c.killFor("the folder can't be read: " + err.Error())
		return
	}
	_, err = io.Copy(c.stdin, content)
	if closeErr := content.Close(); err == nil {
		err = closeErr
	}
	if pathErr := (*os.PathError)(nil); err != nil && !errors.As(err, &pathErr) {
		c.killFor("the folder can't be read: " + err.Error())
	}
}

// guardLimits kills a child that takes too long, or too much.
func (c *child) guardLimits(ctx context.Context) {
	ticker := time.NewTicker(memoryPause)
	defer ticker.Stop()
	for {
		select {
		case <-c.process.Ended():
			return
		case <-ctx.Done():
			c.process.Kill()
			return
		case <-ticker.C:
			if residentBytes(c.process.Pid()) > c.limits.Memory {
				c.killFor(c.tooLarge())
			}
		}
	}
}

// tooMuch and tooLarge are the words for what a child was killed for; each is a mistake of the folder.
const tooMuch = "renders to more than 64 MiB"

func (c *child) tooLarge() string {
	return fmt.Sprintf("takes more than %d MiB of memory to render", c.limits.Memory>>20)
}

// mistakeOf is one of the folder. Against limits that the hub narrowed it is none that lasts: the hub may let go again.
func (c *child) mistakeOf(f *Folder, what string) error {
	if c.limits.configured {
		return fmt.Errorf("the folder %s (an AgentConfig of the hub may have narrowed the renderer)", what)
	}
	return f.Mistake("", what)
}

func (c *child) killFor(why string) {
	c.mu.Lock()
	if c.why == "" {
		c.why = why
	}
	c.mu.Unlock()
	c.process.Kill()
}

// listenToEnd reads what the child tells, until it says that this was all.
func (c *child) listenToEnd(ctx context.Context, in Input, add kubeyaml.Add) error {
	limited := &io.LimitedReader{R: c.stdout, N: maxOutput}
	frames := bufio.NewReaderSize(limited, 64<<10)
	objects, lookups, looked := 0, 0, 0
	for {
		kind, payload, err := ReadFrame(frames)
		if err != nil {
			if limited.N <= 0 {
				return in.Folder.Mistake("", tooMuch)
			}
			return &endedError{err}
		}
		switch kind {
		case FrameObject:
			if objects++; objects > kubeyaml.MaxDocuments {
				return in.Folder.Mistake("", fmt.Sprintf("renders to more than %d objects. Split the service", kubeyaml.MaxDocuments))
			}
			obj, at, err := DecodeObject(payload)
			if err != nil {
				return err
			}
			if err := add(obj, at); err != nil {
				return err
			}
		case FrameLookup:
			if lookups++; lookups > maxLookups {
				return in.Folder.Mistake("", fmt.Sprintf("looks up more than %d objects of the cluster", maxLookups))
			}
			answer, err := answerTo(ctx, in.Lookup, payload)
			if err != nil {
				return err
			}
			if looked += len(answer.Object); looked > maxLooked {
				answer = LookupAnswer{
					Refused: true,
					Error:   fmt.Sprintf("the lookups of the service find more than %d MiB in all: ask for single objects", maxLooked>>20),
				}
			}
			if err := c.sendReply(answer); err != nil {
				return err
			}
		case FrameRecall:
			if err := c.recallAnswers(ctx, in.Recall); err != nil {
				return err
			}
		case FrameFailed:
			var failure Failure
			if err := json.Unmarshal(payload, &failure); err != nil {
				return fmt.Errorf("read the renderer's error: %w", err)
			}
			return failure.Err()
		case FrameDone:
			var done Done
			if err := json.Unmarshal(payload, &done); err != nil {
				return fmt.Errorf("read the renderer's last words: %w", err)
			}
			if done.Depends && in.Depends != nil {
				in.Depends()
			}
			for _, text := range done.Warnings {
				if in.Warn != nil {
					in.Warn(text)
				}
			}
			if in.Notes != nil {
				in.Notes(done.Notes)
			}
			if len(done.Answers) > 0 && in.Answers != nil {
				in.Answers(done.Answers)
			}
			return nil
		default:
			return fmt.Errorf("the renderer said %q, which means nothing", kind)
		}
	}
}

// endedError is the end of a child that had not said that it was done.
type endedError struct{ error }

// answerTo looks something up for a child.
func answerTo(ctx context.Context, lookup Lookup, payload []byte) (LookupAnswer, error) {
	var request LookupRequest
	if err := json.Unmarshal(payload, &request); err != nil {
		return LookupAnswer{}, fmt.Errorf("read the renderer's lookup: %w", err)
	}
	if lookup == nil {
		return LookupAnswer{}, nil
	}
	found, err := lookup(ctx, schema.FromAPIVersionAndKind(request.APIVersion, request.Kind), request.Namespace, request.Name)
	if err != nil {
		_, refused := errors.AsType[*RefusedError](err)
		return LookupAnswer{Error: err.Error(), Refused: refused}, nil
	}
	return LookupAnswer{Object: found}, nil
}

// recallAnswers tells the child which answers are kept.
func (c *child) recallAnswers(ctx context.Context, recall Recall) error {
	var answer RecallAnswer
	if recall != nil {
		var err error
		if answer.Answers, err = recall(ctx); err != nil {
			answer = RecallAnswer{Error: err.Error()}
		}
	}
	return c.sendReply(answer)
}

func (c *child) sendReply(answer any) error {
	text, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	if err := WriteFrame(c.answers, FrameAnswer, text); err != nil {
		return &endedError{err}
	}
	return nil
}

// stopChild ends the child: what it has to say was said.
func (c *child) stopChild(err error) {
	if err != nil {
		if ended := (*endedError)(nil); !errors.As(err, &ended) {
			c.process.Kill()
		}
	}
	_ = c.stdout.Close()
	_ = c.answers.Close()
	_ = c.process.Wait() // its end is judged by verdict
}

// explainEnd finds the words for how a child ended.
func (c *child) explainEnd(ctx context.Context, f *Folder, err error) error {
	ended := (*endedError)(nil)
	if !errors.As(err, &ended) {
		return err
	}
	c.mu.Lock()
	why := c.why
	c.mu.Unlock()
	state := c.cmd.ProcessState
	said := c.said.String()
	switch {
	case why == c.tooLarge():
		return c.mistakeOf(f, why+". Split the service")
	case why != "":
		return errors.New("render: " + why)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("the folder takes more than %s to render", c.limits.Time)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case strings.Contains(said, "SIGXCPU") || state.SystemTime()+state.UserTime() >= c.limits.CPU:
		return c.mistakeOf(f, fmt.Sprintf("takes more than %s of processor time to render. Look for a loop that does not end", c.limits.CPU))
	case strings.Contains(said, "out of memory") || strings.Contains(said, "cannot allocate memory"):
		return c.mistakeOf(f, c.tooLarge()+". Split the service")
	case strings.Contains(said, "stack exceeds") || strings.Contains(said, "stack overflow"):
		return f.Mistake("", "calls itself without an end: look for a template that includes itself")
	}
	return fmt.Errorf("the renderer ended in the middle (%s)", state)
}

// head keeps the beginning of what is written to it: a Go program that dies says first why.
type head struct {
	mu   sync.Mutex // guards text
	text []byte
}

func (t *head) Write(p []byte) (int, error) {
	const most = 16 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[:min(len(p), most-len(t.text))]...)
	return len(p), nil
}

func (t *head) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
