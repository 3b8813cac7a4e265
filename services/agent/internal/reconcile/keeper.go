package reconcile

import (
	"context"
	"log/slog"
	"time"

	"fairlead.dev/platform/retry"
	"fairlead.dev/platform/window"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/impersonate"
	"fairlead.dev/services/agent/internal/reconcile/machine"
	"fairlead.dev/services/agent/internal/trial"
)

// idle is the wait of a keeper that has nothing to do before it hears of something.
const idle = 24 * time.Hour

// site is a service in this cluster: what its keeper, its worker, repairs and people's questions have in common. Any
// goroutine may use it.
type site struct {
	controller *Controller
	name       string
	log        *slog.Logger
	// news has a value when the keeper is to look again.
	news chan struct{}
	// windows are what the service's windows said last.
	windows window.Cache
	renders renders
}

// keeper looks after one service: it follows the table in package machine. Its worker does the work.
type keeper struct {
	site *site

	worker *worker
	// mail is what others send. The keeper waits for nothing else, so that nobody waits for the keeper.
	mail chan letter
	// looks has a value when something else may be wanted.
	looks chan struct{}
	// closed is closed when the keeper has ended.
	closed chan struct{}

	// Only run's goroutine uses the fields below.

	state machine.State
	// doing is what was wanted at the last look, and order what the worker gets of it until the keeper sleeps.
	doing want
	order order
	// interrupt ends the patience of the order.
	interrupt context.CancelFunc
	timer     *time.Timer
	// wait is how long the last piece of work wants the keeper to rest.
	wait time.Duration
	// mended is the last repair, and lacking says that repairs need content that is not on the disk.
	mended  *mended
	lacking bool
}

// letter is what a keeper gets to read.
type letter struct {
	kind machine.Kind
	// reply gets the answer to Asked.
	reply chan<- bool
	// outcome is that of the worker.
	outcome *outcome
	mended  *mended
	lacking bool
}

// want is what is wanted of a service, as far as it makes a difference.
type want struct {
	what   desired.Want
	digest string
	// content is the same where only tests differ.
	content string
	// windows are other ones under the same digest when an agent that does not know windows had the service before.
	windows string
}

func wantOf(service desired.Service, what desired.Want) want {
	return want{
		what: what, digest: service.Digest, content: service.RevisionDigest() + " " + setOf(service).String(),
		windows: service.WindowsSum(),
	}
}

func newKeeper(c *Controller, name string) *keeper {
	s := &site{controller: c, name: name, log: c.Log.With("service", name), news: make(chan struct{}, 1)}
	return &keeper{
		site: s, worker: newWorker(s, c.Trials.Of(name)),
		mail: make(chan letter), looks: make(chan struct{}, 1), closed: make(chan struct{}),
		interrupt: func() {},
	}
}

func newWorker(s *site, t *trial.Trial) *worker {
	return &worker{
		site: s, trial: t, backoff: retry.Backoff{Floor: retryFloor, Max: retryMax}, attempt: attempt{looks: newLooks()},
	}
}

// wakeKeeper has the keeper look again at what is to be done. poke does not block.
func (s *site) wakeKeeper() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// askLook has the keeper see whether something else is wanted. askLook does not block.
func (k *keeper) askLook() {
	select {
	case k.looks <- struct{}{}:
	default:
	}
}

// hasEnded tells whether the keeper has ended.
func (k *keeper) hasEnded() bool {
	select {
	case <-k.closed:
		return true
	default:
		return false
	}
}

// postLetter sends a letter, unless the keeper has ended.
func (k *keeper) postLetter(l letter) {
	select {
	case k.mail <- l:
	case <-k.closed:
	}
}

// grantRepair asks whether a repair may begin. A repair that was granted posts Returned at its end.
func (k *keeper) grantRepair() bool {
	reply := make(chan bool, 1)
	select {
	case k.mail <- letter{kind: machine.Asked, reply: reply}:
		return <-reply
	case <-k.closed:
		return false
	}
}

// run owns the state of the service until nothing is wanted of it any more, or ctx ends.
func (k *keeper) run(ctx context.Context) {
	defer k.endKeeper()
	k.timer = time.NewTimer(idle)
	defer k.timer.Stop()
	for k.state.Place != machine.Gone {
		select {
		case <-ctx.Done():
			k.awaitWorker()
			return
		case <-k.site.news:
			k.takeStep(ctx, machine.Event{Kind: machine.News})
		case <-k.looks:
			if wantOf(k.site.controller.Desired.Get(k.site.name)) != k.doing {
				k.takeStep(ctx, machine.Event{Kind: machine.Changed})
			}
		case l := <-k.mail:
			k.readLetter(ctx, l)
		case <-k.timer.C:
			k.takeStep(ctx, machine.Event{Kind: machine.Due})
		}
	}
}

// endKeeper ends the keeper.
func (k *keeper) endKeeper() {
	k.interrupt()
	k.worker.dropHeld()
	k.worker.trial.Close()
	close(k.closed)
	select {
	case k.site.controller.retired <- struct{}{}:
	default:
	}
}

// awaitWorker waits for the work that is under way when the agent stops.
func (k *keeper) awaitWorker() {
	for k.state.Works() {
		switch l := <-k.mail; {
		case l.reply != nil:
			l.reply <- false
		case l.outcome != nil:
			return
		}
	}
}

// readLetter takes in a letter.
func (k *keeper) readLetter(ctx context.Context, l letter) {
	switch {
	case l.outcome != nil:
		k.wait = l.outcome.wait
		if k.worker.order.lacking {
			k.lacking = true
		} else if k.order.lacking {
			k.lacking = false
		}
		k.takeStep(ctx, l.outcome.event)
	case l.reply != nil:
		var actions []machine.Action
		k.state, actions = machine.Next(k.state, machine.Event{Kind: l.kind})
		l.reply <- actions[0] == machine.Grant
	case l.mended != nil:
		if k.mended = l.mended; k.state.Works() { // whose report may come too early to tell of it
			k.takeStep(ctx, machine.Event{Kind: machine.News})
		}
	case l.lacking:
		if !k.lacking {
			k.lacking = true
			k.takeStep(ctx, machine.Event{Kind: machine.News})
		}
	default:
		k.takeStep(ctx, machine.Event{Kind: l.kind})
	}
}

// takeStep takes the step of the table.
func (k *keeper) takeStep(ctx context.Context, e machine.Event) {
	var actions []machine.Action
	k.state, actions = machine.Next(k.state, e)
	for _, action := range actions {
		switch action {
		case machine.Interrupt:
			k.interrupt()
		case machine.Release:
			k.worker.dropHeld()
		case machine.Sleep:
			k.sleepUntilNews()
		case machine.End:
		case machine.Look:
			k.setWanted(ctx)
		default:
			k.startAction(action)
		}
	}
}

// setWanted reads what is wanted, and goes on with that.
func (k *keeper) setWanted(ctx context.Context) {
	k.interrupt()
	k.worker.dropHeld()
	service, what := k.site.controller.Desired.Get(k.site.name)
	before := k.doing
	k.doing = wantOf(service, what)
	ctx = impersonate.As(ctx, service.Sync.GetImpersonate())
	k.order = order{ctx: ctx, service: service, want: k.doing}
	k.order.patience, k.interrupt = context.WithCancel(ctx)
	e := machine.Event{
		Kind: machine.Looked, Want: machine.Nothing,
		Other: k.doing != before, SameContent: what == before.what && k.doing.content == before.content,
	}
	switch what {
	case desired.Apply:
		e.Want = machine.Service
	case desired.Remove:
		e.Want = machine.Removal
	}
	k.takeStep(ctx, e)
}

// sleepUntilNews waits for the timer or for news. The keeper forgets what the round knew: most keepers sleep most of
// the time.
func (k *keeper) sleepUntilNews() {
	k.interrupt()
	k.order = order{}
	k.worker.forgetRound()
	k.timer.Reset(k.wait)
}

// startAction has the worker do a piece of work. The timer tells when a fetch is slow.
func (k *keeper) startAction(action machine.Action) {
	k.timer.Stop()
	if action == machine.Fetch {
		k.timer.Reset(prepareSoon)
	}
	k.order.mended, k.order.lacking = k.mended, k.lacking
	k.worker.order = k.order
	go func() {
		out := k.worker.doAction(action)
		k.mail <- letter{outcome: &out}
	}()
}
