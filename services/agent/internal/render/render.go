// Package render turns the folder of a service into objects.
//
// Plain manifests of usual size are read right here, file by file. Everything that runs a language of
// its own, or may be large, is done by a child process with limits: what is in a folder was written by
// anybody, and must not take the agent along.
package render

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/agent/internal/kubeyaml"
)

const (
	// Plain manifests above one of these are read by a child: what a parser makes of them takes many times the room.
	inlineFile   = 1 << 20
	inlineFolder = 16 << 20
	// children bounds the child processes at work.
	children = 2

	usualCPU  = 30 * time.Second
	usualTime = 60 * time.Second
)

// Input is what is rendered, and what renderers may ask for.
type Input struct {
	Folder *Folder
	Scope  Scope
	// Lookup may be nil: then nothing is found.
	Lookup Lookup
	// Recall may be nil: then nothing is kept. Answers is called with what templates got of random and time functions,
	// if they called any, once all objects were told. Answers may be nil.
	Recall  Recall
	Answers func(used []Answer)
	// Memo may be nil.
	Memo kubeyaml.Memo
	// Warn is told what is read, though its author may have meant something else. Warn may be nil.
	Warn func(text string)
	// Notes is called with the notes of a chart, "" if it has none, once all objects were told. Notes may be nil.
	Notes func(text string)
	// Depends is called if the objects depend on the cluster's version, or on what its API has. Depends may be nil.
	Depends func()
}

// Renderer renders folders. A Renderer is safe for concurrent use.
type Renderer struct {
	// CPU is how much of a processor a child gets, in whole seconds.
	CPU time.Duration
	// Time is how long a child may take, by the clock.
	Time time.Duration

	program []string
	slots   chan struct{}
	narrow  atomic.Pointer[Limits]
}

// Limits bound a child. What is 0 is bounded as usual.
type Limits struct {
	CPU, Time time.Duration
	// Memory is in bytes.
	Memory int64
	// configured: the hub narrowed them, and may let go again.
	configured bool
}

// Narrow puts limits below those of the renderer, for children to come.
func (r *Renderer) Narrow(to Limits) { r.narrow.Store(&to) }

// currentLimits are those that count.
func (r *Renderer) currentLimits() Limits {
	out := Limits{CPU: r.CPU, Time: r.Time, Memory: maxMemory}
	if n := r.narrow.Load(); n != nil {
		usual := out
		out.CPU, out.Time, out.Memory = lowerOf(n.CPU, out.CPU), lowerOf(n.Time, out.Time), lowerOf(n.Memory, out.Memory)
		out.configured = out != usual
	}
	return out
}

func lowerOf[N time.Duration | int64](narrow, usual N) N {
	if narrow <= 0 {
		return usual
	}
	return min(narrow, usual)
}

// New returns a renderer whose children are this program with its arguments, see package child.
func New(program ...string) *Renderer {
	return &Renderer{CPU: usualCPU, Time: usualTime, program: program, slots: make(chan struct{}, children)}
}

// Render gives the objects of a service to add, in the order in which they are written down. A
// *kubeyaml.Error is a mistake in the folder.
func (r *Renderer) Render(ctx context.Context, in Input, add kubeyaml.Add) error {
	f := in.Folder
	if f.Renderer == deliveryv1.Renderer_RENDERER_RAW && f.largest <= inlineFile && f.bytes <= inlineFolder {
		return Plain(f, add, in.Memo, in.Warn)
	}
	return r.renderInChild(ctx, in, add)
}

// Plain reads a folder of plain manifests.
func Plain(f *Folder, add kubeyaml.Add, memo kubeyaml.Memo, warn func(text string)) error {
	reader := kubeyaml.NewReader(add, memo)
	reader.Warn = warn
	err := f.Walk(func(entry artifact.Entry, content io.Reader) error {
		name, ok := f.Name(entry)
		if !ok {
			return nil
		}
		data, err := io.ReadAll(io.LimitReader(content, kubeyaml.MaxFileBytes+1))
		if err != nil {
			return err
		}
		if !reader.Read(f.Shown(name), data) {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	return reader.Err()
}
