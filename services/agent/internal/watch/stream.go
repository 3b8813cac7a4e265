package watch

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// silence is how long a stream may say nothing: the server sends a bookmark about every minute.
const silence = 10 * time.Minute

var errSilent = errors.New("the stream has gone silent")

// stream is one look at a kind, from a place on. The functions are called one at a time.
type stream struct {
	watcher *Watcher

	gvk          schema.GroupVersionKind
	metadataOnly bool
	options      metav1.ListOptions
	// place is the resourceVersion to go on from; "": from the beginning.
	place string
	// begin is called before all objects come, complete when they have come.
	begin, complete func()
	saw, gone       func(obj metav1.Object)
	// opened is called when the server agrees to go on; it may be nil.
	opened func()
}

// run follows the stream to its end. heard: the server said something. With another place the next run goes on.
func (s *stream) run(ctx context.Context) (heard bool, err error) {
	options := s.options
	options.AllowWatchBookmarks = true
	beginning := s.place == ""
	if beginning {
		s.begin()
	}
	if beginning && s.watcher.paged.Load() {
		if err := s.list(ctx); err != nil {
			return false, err
		}
		heard, beginning = true, false
	}
	options.ResourceVersion = s.place
	from := "last"
	if beginning {
		all := true
		options.SendInitialEvents, options.ResourceVersionMatch = &all, metav1.ResourceVersionMatchNotOlderThan
		from = "start"
	}
	// The call has no bound in time of its own; a server that takes a request and says nothing is silent, too.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	alarm := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer alarm.Stop()
	events, err := s.watcher.api.Watch(ctx, s.gvk, s.metadataOnly, options)
	if err != nil {
		if beginning && apierrors.IsInvalid(err) || beginning && apierrors.IsBadRequest(err) {
			s.watcher.paged.Store(true)
			return s.run(ctx)
		}
		return heard, s.lost(ctx, heard, err)
	}
	defer events.Stop()
	s.watcher.begun.WithLabelValues(from).Inc()
	if s.opened != nil {
		s.opened()
	}
	for {
		select {
		case <-ctx.Done():
			return heard, s.lost(ctx, heard, context.Cause(ctx))
		case event, ok := <-events.ResultChan():
			if !ok {
				return heard, s.lost(ctx, heard, context.Cause(ctx))
			}
			alarm.Reset(silence)
			if event.Type == watch.Error {
				return heard, s.lost(ctx, heard, apierrors.FromObject(event.Object))
			}
			heard = true
			beginning = s.take(event, beginning)
		}
	}
}

// take handles one event, and says whether there are more objects of the beginning to come.
func (s *stream) take(event watch.Event, beginning bool) bool {
	obj, ok := event.Object.(metav1.Object)
	if !ok {
		return beginning
	}
	switch event.Type {
	case watch.Added, watch.Modified:
		s.saw(obj)
	case watch.Deleted:
		s.gone(obj)
	case watch.Bookmark:
		if beginning && obj.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
			s.complete()
			beginning = false
		}
	case watch.Error: // handled before
	}
	if !beginning { // until then versions come in no order
		s.place = obj.GetResourceVersion()
	}
	return beginning
}

// lost looks at why a stream ended: where the place is not known any more the next one begins anew.
func (s *stream) lost(ctx context.Context, heard bool, err error) error {
	// A server whose data were set back to a backup says nothing until it has come to the place again.
	mute := !heard && errors.Is(context.Cause(ctx), errSilent)
	if expired(err) || apierrors.IsTimeout(err) || apierrors.IsInvalid(err) || mute {
		s.place = ""
	}
	if cause := context.Cause(ctx); cause != nil && err == nil {
		return cause
	}
	return err
}

// list reads all objects page by page.
func (s *stream) list(ctx context.Context) error {
	version, err := s.watcher.api.List(ctx, s.gvk, s.metadataOnly, s.options, s.saw)
	if err != nil {
		return err
	}
	s.place = version
	s.complete()
	return nil
}
