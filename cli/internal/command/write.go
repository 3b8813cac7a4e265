package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"fairlead.dev/cli/internal/hub"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/manifest"
)

const (
	// minBatch is as few as are worth a batch; maxBatch and maxBatchBytes are well within what the console takes.
	minBatch      = 10
	maxBatch      = 1000
	maxBatchBytes = 2 << 20
	// progressEvery is between two lines about work that takes long.
	progressEvery = 5 * time.Second
)

// writer sends objects to the hub, also after one was refused, and says of each what became of it.
type writer struct {
	*app
	hub     *hub.Hub
	total   int
	done    int
	refused int
	told    time.Time
}

func (a *app) write(ctx context.Context, h *hub.Hub, objects []*manifest.Object) error {
	w := &writer{app: a, hub: h, total: len(objects), told: time.Now()}
	for len(objects) > 0 {
		n := batchOf(objects)
		if err := w.some(ctx, objects[:n]); err != nil {
			return err
		}
		objects = objects[n:]
	}
	if w.refused > 0 {
		return fmt.Errorf("%d of %d resources could not be applied", w.refused, w.total)
	}
	return nil
}

// batchOf is how many of the first objects go together.
func batchOf(objects []*manifest.Object) (n int) {
	size := 0
	for n < min(len(objects), maxBatch) && objects[n].Kind() == objects[0].Kind() {
		size += proto.Size(objects[n].Message)
		if n > 0 && size > maxBatchBytes {
			break
		}
		n++
	}
	return n
}

// some writes objects of one kind: at once, or one by one if they are few or not all of them are good.
func (w *writer) some(ctx context.Context, objects []*manifest.Object) error {
	k, err := findKind(string(objects[0].Kind()))
	if err != nil {
		return err
	}
	if k.batch != nil && len(objects) >= minBatch {
		outcomes, err := w.batch(ctx, k, objects)
		if err == nil {
			return w.tell(objects, outcomes)
		}
		if !oneByOne(err) {
			w.refuse(objects, err)
			return w.interrupted(ctx, objects[0])
		}
	}
	for i, o := range objects {
		outcome, err := w.one(ctx, k, o)
		if err := w.interrupted(ctx, o); err != nil {
			return err
		}
		if err != nil {
			w.refuse(objects[i:i+1], err)
			continue
		}
		if err := w.tell(objects[i:i+1], []consolev1.Outcome{outcome}); err != nil {
			return err
		}
	}
	return nil
}

// oneByOne says whether a batch failed for something about one of its resources, or because the hub is
// older than batches.
func oneByOne(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument, connect.CodeNotFound, connect.CodeFailedPrecondition, connect.CodeAborted,
		connect.CodeResourceExhausted, connect.CodeUnimplemented:
		return true
	}
	return false
}

func (w *writer) batch(ctx context.Context, k kind, objects []*manifest.Object) ([]consolev1.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list := make([]manifest.Message, len(objects))
	for i, o := range objects {
		list[i] = o.Message
	}
	outcomes, err := k.batch(ctx, w.hub, list)
	if err == nil && len(outcomes) != len(objects) {
		err = errors.New("the hub answered about a part of the batch only: apply it again")
	}
	return outcomes, err
}

func (w *writer) one(ctx context.Context, k kind, o *manifest.Object) (consolev1.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return k.update(ctx, w.hub, o.Message)
}

func (w *writer) interrupted(ctx context.Context, before *manifest.Object) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("interrupted before %s: what is printed above is done", before.Ref())
}

func (w *writer) refuse(objects []*manifest.Object, err error) {
	who := objects[0].Ref()
	if len(objects) > 1 {
		who = fmt.Sprintf("%s and %d more", who, len(objects)-1)
	}
	w.notef("%s refused: %v\n", who, err)
	w.refused += len(objects)
	w.progress(len(objects))
}

func (w *writer) tell(objects []*manifest.Object, outcomes []consolev1.Outcome) error {
	for i, outcome := range outcomes {
		if err := w.printf("%s %s\n", objects[i].Ref(), outcomeText(outcome)); err != nil {
			return err
		}
	}
	w.progress(len(objects))
	return nil
}

// progress says on stderr how far long work is.
func (w *writer) progress(n int) {
	w.done += n
	if w.done < w.total && time.Since(w.told) >= progressEvery {
		w.told = time.Now()
		w.notef("%d of %d resources\n", w.done, w.total)
	}
}

func outcomeText(o consolev1.Outcome) string {
	switch o {
	case consolev1.Outcome_OUTCOME_CREATED:
		return "created"
	case consolev1.Outcome_OUTCOME_UPDATED:
		return "updated"
	case consolev1.Outcome_OUTCOME_UNCHANGED:
		return "unchanged"
	default:
		return "applied"
	}
}
