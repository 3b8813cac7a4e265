package views

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/retry"
	"fairlead.dev/services/agent/internal/cluster"
)

const (
	retryFloor, retryMax = 500 * time.Millisecond, 30 * time.Second
	// askEvery is how often the agent tries what it may not.
	askEvery = 5 * time.Minute
	// absentEvery is how often the agent asks for a kind of a ViewSet that the cluster does not have: a question is one
	// small request.
	absentEvery = 30 * time.Second
	// silence is how long a watch may say nothing: the API server sends a bookmark about every minute.
	silence = 10 * time.Minute
	// pause is how long a watch may say nothing while it begins: the others wait for their turn.
	pause = time.Minute
	// stood is how long a watch has to stand to count as one that worked, although it brought nothing: a quiet kind has
	// a bookmark a minute alone.
	stood = 5 * time.Second
	// spareWait is how long the first push waits for what the view can begin without, such as a metrics-server that
	// does not answer.
	spareWait = 10 * time.Second
	// patience is how long a kind may not be followed before the view says so.
	patience = time.Minute
	// maxFrame bounds one event of a watch, in bytes: the API server takes no object that is nearly as large.
	maxFrame = 16 << 20
	// keptBuffer is the buffer of a stream, in bytes: a larger one is given back after the frame that needed it.
	keptBuffer = 64 << 10
	// listPage is how many objects a list brings at once, of API servers that do not begin a watch with all objects.
	listPage = 100
	// versionsEvery is between two looks at the versions that the API server has, and so on.
	versionsEvery, usageEvery, requestedEvery, endsEvery = 10 * time.Minute, time.Minute, 6 * time.Hour, 10 * time.Minute
)

// kind is a resource that is followed.
type kind struct {
	resource, path, fields string
	// The functions below are called with the lock of View.
	begin    func()
	thin     func() bool // nil: never
	complete func() (changed bool)
	forget   func()
	take     func(b []byte, gone bool) (changed bool, err error)
	// Of a kind of a ViewSet: find says where it is served now, and sets path; its objects come in a form that has
	// fields.
	find       func(ctx context.Context) error
	form       cluster.Form // "": Protobuf
	takeFields func(fields map[string]any, m meta, gone bool) (changed bool)
	what       string // is followed, for reasons; "": resource, in all namespaces

	// Instead of the functions above: look asks for what has no watch, every so often.
	look  func(ctx context.Context) error
	every time.Duration
	// spare: the view does not wait for the kind, but for spareWait.
	spare bool

	// The fields below are of the goroutine that follows the kind.
	place string // resourceVersion to go on from; "": from the beginning
	paged bool   // the API server does not begin a watch with all objects
	down  time.Time

	// The fields below are guarded by the lock of View.
	state  deliveryv1.SectionState // 0: nothing is known yet
	reason string
	known  bool // the records are of this cluster, however old
}

// settle notes how following goes.
func (v *View) settle(k *kind, state deliveryv1.SectionState, reason string) {
	v.mu.Lock()
	changed := k.state != state || k.reason != reason
	k.state, k.reason = state, reason
	if state == deliveryv1.SectionState_SECTION_STATE_DENIED && k.known {
		if k.forget != nil {
			k.forget()
		}
		k.known = false
	}
	v.mu.Unlock()
	if changed {
		v.wake()
	}
}

// follow follows a kind until ctx ends.
func (v *View) follow(ctx context.Context, k *kind, turn chan struct{}) {
	backoff := retry.Backoff{Floor: retryFloor, Max: retryMax}
	for ctx.Err() == nil {
		heard, err := v.stream(ctx, k, turn)
		if ctx.Err() != nil {
			return
		}
		if heard {
			backoff.Reset()
			k.down = time.Time{}
		}
		wait := v.judge(ctx, k, err, &backoff)
		retry.Sleep(ctx, wait)
	}
}

// settleWithout notes that the cluster has no such thing: its figures are absent, and nothing is wrong.
func (v *View) settleWithout(k *kind, reason string) {
	v.mu.Lock()
	k.known = false
	v.mu.Unlock()
	v.settle(k, deliveryv1.SectionState_SECTION_STATE_WHOLE, reason)
}

// denial says what the agent may not.
func (k *kind) denial() string {
	switch k.resource {
	case kindUsage:
		return "the agent may not list nodes of metrics.k8s.io: see rbac.views of the agent's chart"
	case kindRequested:
		return "the agent may not get /metrics of the API server: see rbac.views of the agent's chart. What Fairlead itself uses is known"
	}
	if k.find != nil {
		return fmt.Sprintf("the agent may not list and watch %s: name it in rbac.resources of the agent's chart", k.what)
	}
	return fmt.Sprintf("the agent may not list and watch %s in all namespaces: see rbac.views of the agent's chart", k.resource)
}

// judge notes what a stream's end means, and says when to try again.
func (v *View) judge(ctx context.Context, k *kind, err error, backoff *retry.Backoff) time.Duration {
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return backoff.Next()
	case isExpired(err), errors.Is(err, errThin):
		k.place = ""
		v.mu.Lock()
		known := k.known
		v.mu.Unlock()
		if known {
			v.settle(k, deliveryv1.SectionState_SECTION_STATE_READING, "")
		}
		return backoff.Next()
	case apierrors.IsForbidden(err):
		k.place = ""
		v.settle(k, deliveryv1.SectionState_SECTION_STATE_DENIED, k.denial())
		return retry.Spread(askEvery)
	case apierrors.IsNotFound(err) && k.resource == kindUsage:
		v.settleWithout(k, "the cluster has no metrics.k8s.io: what nodes use is known where metrics-server, or another program that serves it, is installed")
		return retry.Spread(askEvery)
	case apierrors.IsNotFound(err) && k.resource == kindRequested:
		v.settleWithout(k, "the API server has no /metrics: which deprecated APIs others request is not known. What Fairlead itself uses is known")
		return retry.Spread(askEvery)
	case k.find != nil && (isUnknown(err) || apierrors.IsNotFound(err)):
		k.place = ""
		v.forgetKind(k)
		v.settleWithout(k, "the cluster has no "+k.resource)
		return retry.Spread(v.absentEvery)
	case k.find != nil && (errors.Is(err, errSecret) || apierrors.IsMethodNotSupported(err)):
		k.place = ""
		v.forgetKind(k)
		v.settleWithout(k, fmt.Sprintf("%s can't be in a view: %s", k.resource, why(err)))
		return retry.Spread(askEvery)
	case apierrors.IsNotFound(err), apierrors.IsNotAcceptable(err):
		k.place = ""
		v.settle(k, deliveryv1.SectionState_SECTION_STATE_STALE, fmt.Sprintf("the API server has no %s", k.resource))
		return retry.Spread(askEvery)
	}
	if k.down.IsZero() {
		k.down = v.Now()
	} else if v.Now().Sub(k.down) > patience {
		v.settle(k, deliveryv1.SectionState_SECTION_STATE_STALE, fmt.Sprintf("the API server does not answer about %s", cmp.Or(k.what, k.resource)))
	}
	v.Log.DebugContext(ctx, "a kind can't be followed for the view", "resource", k.resource, "err", err)
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return max(backoff.Next(), min(time.Duration(seconds)*time.Second, time.Minute))
}

func isExpired(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || ok && (f.code == 410 || f.reason == "Expired" || f.reason == "Gone")
}

var (
	errSilent = errors.New("the watch has gone silent")
	// errThin: a sample has become of so few objects that all of them are read.
	errThin = errors.New("all objects are read again in place of a sample")
)

// stream follows a kind until its watch ends. heard: the API server brought something, or kept a watch open that had
// nothing to bring.
func (v *View) stream(ctx context.Context, k *kind, turn chan struct{}) (heard bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	leave := func() {}
	if k.place == "" {
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			return false, ctx.Err()
		}
		held := true
		leave = func() {
			if held {
				held = false
				<-turn
			}
		}
		defer func() { leave() }()
		if k.find != nil {
			if err := k.find(ctx); err != nil {
				return false, err
			}
		}
		v.mu.Lock()
		k.begin()
		v.mu.Unlock()
		if k.paged {
			if err := v.list(ctx, k); err != nil {
				return false, err
			}
			heard = true
			leave()
		}
	}
	beginning := k.place == ""
	params := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}}
	if k.fields != "" {
		params.Set("fieldSelector", k.fields)
	}
	if beginning {
		params.Set("sendInitialEvents", "true")
		params.Set("resourceVersionMatch", "NotOlderThan")
	} else {
		params.Set("resourceVersion", k.place)
	}
	// The call has no bound in time of its own; a server that takes a request and says nothing is silent, too.
	quiet := func() time.Duration {
		if k.place == "" {
			return pause
		}
		return silence
	}
	alarm := time.AfterFunc(quiet(), func() { cancel(errSilent) })
	defer alarm.Stop()
	body, err := v.Cluster.RawWatch(ctx, cmp.Or(k.form, cluster.Protobuf), k.path, params)
	if err != nil {
		if beginning && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) {
			k.paged = true
			return heard, nil
		}
		return heard, err
	}
	defer func() { _ = body.Close() }()
	if !beginning {
		v.whole(k)
	}
	opened := time.Now()
	brought, err := v.followEvents(ctx, k, k.events(body), beginning, func() {
		alarm.Reset(quiet())
		if k.place != "" {
			leave()
		}
	})
	if !brought && errors.Is(err, errSilent) {
		k.place = "" // a server whose data were set back to a backup says nothing until it has come to the place
	}
	return heard || brought || !beginning && time.Since(opened) > stood, err
}

// followEvents takes over the events of a watch.
func (v *View) followEvents(ctx context.Context, k *kind, next func() (event, error), beginning bool, took func()) (heard bool, err error) {
	for {
		e, err := next()
		if broken, ok := errors.AsType[*brokenError](err); ok {
			k.place = ""
			return heard, broken.err
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return heard, err
		}
		if e.kind == "ERROR" {
			return heard, e.failure()
		}
		heard = true
		if beginning, err = v.takeEvent(k, e, beginning); err != nil {
			k.place = ""
			return heard, err
		}
		took()
	}
}

// takeEvent takes over one event. While a watch begins its place is not kept: the objects come in no order.
func (v *View) takeEvent(k *kind, e event, beginning bool) (bool, error) {
	m, err := e.meta()
	if err != nil {
		return beginning, err
	}
	changed := false
	thin := false
	if e.kind != "BOOKMARK" {
		v.mu.Lock()
		changed, err = k.takeOver(e, m)
		thin = !beginning && e.kind == "DELETED" && k.thin != nil && k.thin()
		v.mu.Unlock()
	}
	if err != nil {
		return beginning, err
	}
	if thin {
		return beginning, errThin
	}
	if beginning && m.end {
		beginning = false
		v.completed(k)
	}
	if !beginning {
		k.place = m.version
	}
	if changed {
		v.wake()
	}
	return beginning, nil
}

// completed notes that all objects of a kind came.
func (v *View) completed(k *kind) {
	v.mu.Lock()
	k.complete()
	k.known = true
	v.mu.Unlock()
	v.whole(k)
	v.wake()
}

func (v *View) whole(k *kind) {
	k.down = time.Time{}
	v.settle(k, deliveryv1.SectionState_SECTION_STATE_WHOLE, "")
}

// metaOf reads the metadata of any object.
func metaOf(b []byte) (m meta, err error) {
	var part []byte
	err = walk(b, func(number protowire.Number, _ uint64, b []byte) error {
		if number == 1 && part == nil {
			part = b
		}
		return nil
	})
	if err != nil {
		return m, err
	}
	return parseMeta(part)
}

// readFrame reads a frame: its length in 4 bytes, and that much.
func readFrame(from io.Reader, buffer []byte) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxFrame {
		return nil, fmt.Errorf("an event of %d bytes: the most is %d", size, maxFrame)
	}
	if int(size) > cap(buffer) {
		buffer = make([]byte, size)
	}
	buffer = buffer[:size]
	if _, err := io.ReadFull(from, buffer); err != nil {
		return nil, fmt.Errorf("read an event: %w", err)
	}
	return buffer, nil
}

// list reads all objects of a kind page by page.
func (v *View) list(ctx context.Context, k *kind) error {
	params, limit := url.Values{}, int64(listPage)
	if k.fields != "" {
		params.Set("fieldSelector", k.fields)
	}
	for {
		body, err := v.Cluster.RawList(ctx, cmp.Or(k.form, cluster.Protobuf), k.path, params, &limit)
		if err != nil {
			return err
		}
		p, err := k.parsePage(body)
		if err != nil {
			return err
		}
		v.mu.Lock()
		for _, item := range p.items {
			m, wrong := item.meta()
			if wrong == nil {
				_, wrong = k.takeOver(item, m)
			}
			if err = wrong; err != nil {
				break
			}
		}
		v.mu.Unlock()
		if err != nil {
			return err
		}
		if p.next == "" {
			k.place = p.version
			v.completed(k)
			return nil
		}
		params.Set("continue", p.next)
	}
}

// poll looks now and then at what has no watch.
func (v *View) poll(ctx context.Context, k *kind) {
	backoff := retry.Backoff{Floor: retryFloor, Max: retryMax}
	for ctx.Err() == nil {
		err := k.look(ctx)
		wait := retry.Spread(k.every)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			wait = v.judge(ctx, k, err, &backoff)
			if k.spare { // the view waits for no answer; a question may cost the API server much
				wait = max(wait, retry.Spread(min(k.every, askEvery)))
			}
		default:
			backoff.Reset()
			v.mu.Lock()
			k.known = true
			v.mu.Unlock()
			v.whole(k)
		}
		retry.Sleep(ctx, wait)
	}
}

// lookAtVersions asks for the versions that the API server has.
func (v *View) lookAtVersions(ctx context.Context) error {
	names, err := v.Cluster.APIVersions(ctx)
	if err != nil {
		return err
	}
	v.mu.Lock()
	v.versions = versionsOf(names)
	v.mu.Unlock()
	v.wake()
	return nil
}

// versionsOf sorts "apps/v1" by group and leaves out "apps/v1/Deployment".
func versionsOf(names []string) map[string][]string {
	out := map[string][]string{}
	for _, name := range names {
		of, version, ok := strings.Cut(name, "/")
		if !ok {
			of, version = "", name
		}
		if len(version) > 1 && version[0] == 'v' && version[1] >= '0' && version[1] <= '9' && !strings.Contains(version, "/") {
			out[of] = append(out[of], version)
		}
	}
	return out
}
