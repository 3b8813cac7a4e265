package machine_test

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"fairlead.dev/services/agent/internal/reconcile/machine"
)

var walkSeed = flag.Uint64("walk.seed", uint64(time.Now().UnixNano()), "of the random walk")

// walk is a keeper's world in a test: a hub that wants something, a worker, and repairs. It holds what the actions must
// keep to by its own books, and not by the marks of the state.
type walk struct {
	t      *testing.T
	random *rand.Rand
	state  machine.State

	// wanted is what the hub wants, and content its number; looked are those of the last look.
	wanted, looked             machine.Want
	content, digest            int
	lookedContent, lookedAt    int
	work                       *machine.Action
	workContent                int
	outdated, news, hasSlot    bool
	letAll, letNamed, finished bool
	// failedFor is the content that failed for good; 0: none.
	failedFor int
	// untold is the report that an end is followed by; nil: none.
	untold  *machine.Action
	repairs int
	begun   map[machine.Action]int
}

// isOneOf is true once in so many times.
func (w *walk) isOneOf(many int) bool { return w.random.IntN(many) == 0 }

// drawWant is what the hub wants: mostly the service.
func (w *walk) drawWant() machine.Want {
	switch w.random.IntN(100) {
	case 0:
		return machine.Nothing
	case 1, 2, 3, 4, 5, 6, 7, 8, 9:
		return machine.Removal
	}
	return machine.Service
}

func (w *walk) send(e machine.Event) {
	next, actions := machine.Next(w.state, e)
	w.state = next
	for _, action := range actions {
		w.act(action)
	}
}

// refuse fails the test.
func (w *walk) refuse(why string, action machine.Action) {
	w.t.Fatalf("%s: %s in %+v", action, why, w.state)
}

func (w *walk) act(action machine.Action) {
	w.begun[action]++
	switch action {
	case machine.Look:
		w.look()
	case machine.Interrupt:
		if w.work == nil || !w.outdated {
			w.refuse("there is nothing to break off", action)
		}
	case machine.Release:
		if !w.hasSlot {
			w.refuse("no slot is held", action)
		}
		w.hasSlot = false
	case machine.Grant:
		if w.isExclusive() {
			w.refuse("a repair would run beside an apply or a removal", action)
		}
		w.repairs++
	case machine.Deny:
	case machine.Sleep:
		switch {
		case w.news:
			w.refuse("there was news since the last look", action)
		case w.untold != nil:
			w.refuse("an end was not reported", action)
		case w.hasSlot || w.work != nil:
			w.refuse("a slot is held, or work is under way", action)
		}
	case machine.End:
		if w.finished = true; w.wanted != machine.Nothing {
			w.refuse("the service is still wanted", action)
		}
	default:
		w.begin(action)
	}
}

func (w *walk) isExclusive() bool {
	return w.work != nil && slices.Contains([]machine.Action{machine.Apply, machine.ApplyNamed, machine.Remove}, *w.work)
}

func (w *walk) look() {
	switch {
	case w.work != nil:
		w.refuse("work is under way", machine.Look)
	case w.hasSlot:
		w.refuse("the slot is not given back", machine.Look)
	case w.untold != nil:
		w.refuse("an end was not reported", machine.Look)
	}
	isOther := w.looked != w.wanted || w.lookedAt != w.digest
	same := w.looked == w.wanted && w.lookedContent == w.content
	if !same {
		w.failedFor = 0
	}
	w.looked, w.lookedContent, w.lookedAt = w.wanted, w.content, w.digest
	w.outdated, w.news, w.letAll, w.letNamed = false, false, false, false
	w.send(machine.Event{Kind: machine.Looked, Want: w.wanted, Other: isOther, SameContent: same})
}

// begin begins a piece of work.
func (w *walk) begin(action machine.Action) {
	switch {
	case w.work != nil:
		w.refuse("other work is under way", action)
	case w.outdated && action != machine.TellWait:
		w.refuse("something newer is wanted", action)
	case w.untold != nil && *w.untold != action:
		w.refuse("an end was not reported", action)
	case (action == machine.Remove) != (w.looked == machine.Removal):
		w.refuse("that is not what is wanted", action)
	}
	w.untold = nil
	switch action {
	case machine.Fetch, machine.Apply:
		if !w.letAll {
			w.refuse("the verdict keeps it back", action)
		}
		if w.failedFor != 0 {
			w.refuse("it failed for good, or waits for a person", action)
		}
	case machine.FetchNamed, machine.ApplyNamed:
		if !w.letNamed {
			w.refuse("no sync of single objects was let through", action)
		}
	}
	switch action {
	case machine.Apply, machine.ApplyNamed:
		if !w.hasSlot || w.repairs > 0 {
			w.refuse("there is no slot, or a repair is under way", action)
		}
	case machine.Remove:
		if w.repairs > 0 {
			w.refuse("a repair is under way", action)
		}
	}
	w.work, w.workContent = &action, w.lookedContent
}

// wantOther has the hub want something else.
func (w *walk) wantOther() {
	w.wanted = w.drawWant()
	w.digest++
	if w.isOneOf(2) {
		w.content++
	}
	if w.finished {
		return
	}
	w.news, w.outdated = true, true
	w.send(machine.Event{Kind: machine.Changed})
}

// wantFormer has the hub change its mind before the keeper looked.
func (w *walk) wantFormer() {
	w.wanted, w.content, w.digest = w.looked, w.lookedContent, w.lookedAt
	// The keeper may have heard of the other want, so that its work stays outdated.
}

func (w *walk) hear() {
	w.news = !w.finished
	w.send(machine.Event{Kind: machine.News})
}

func (w *walk) due() {
	w.send(machine.Event{Kind: machine.Due})
}

func (w *walk) ask() {
	w.send(machine.Event{Kind: machine.Asked})
}

func (w *walk) giveBack() {
	if w.repairs == 0 {
		return
	}
	w.repairs--
	w.send(machine.Event{Kind: machine.Returned})
}

// finishWork has the worker come to an outcome that its work can have.
func (w *walk) finishWork() {
	if w.work == nil {
		return
	}
	work := *w.work
	outcomes := outcomesOf(work)
	kind := outcomes[0]
	if w.isOneOf(3) {
		kind = outcomes[w.random.IntN(len(outcomes))]
	}
	e := machine.Event{Kind: kind}
	switch kind {
	case machine.Judged:
		e = w.drawVerdict(work)
	case machine.Fell:
		e.Final = w.isOneOf(2)
		if !w.outdated {
			w.untold = new(machine.TellFailure)
			if e.Final && (work == machine.Apply || work == machine.Fetch) {
				w.failedFor = max(w.workContent, 1)
			}
		}
	case machine.Waits:
		w.untold = new(machine.TellWait)
	case machine.Admitted:
		w.hasSlot = true
	}
	if work == machine.Apply || work == machine.ApplyNamed {
		w.hasSlot = false
	}
	w.work = nil
	w.send(e)
}

func (w *walk) drawVerdict(work machine.Action) machine.Event {
	e := machine.Event{
		Kind: machine.Judged, Apply: w.isOneOf(2), Diff: w.isOneOf(2),
		Named: work == machine.Decide && w.isOneOf(4),
		Ready: w.isOneOf(2), Fresh: w.isOneOf(10),
	}
	e.Current = e.Apply && w.isOneOf(4)
	w.letAll, w.letNamed = e.Apply, e.Named
	if e.Fresh && !w.outdated {
		w.failedFor = 0
	}
	return e
}

// outcomesOf are the outcomes that a piece of work can have.
func outcomesOf(work machine.Action) []machine.Kind {
	switch work {
	case machine.Decide:
		return []machine.Kind{machine.Judged, machine.Fell, machine.Quit}
	case machine.Compare:
		return []machine.Kind{machine.Compared, machine.Fell, machine.Quit}
	case machine.Fetch:
		return []machine.Kind{machine.Fetched, machine.Fell, machine.Quit}
	case machine.FetchNamed:
		return []machine.Kind{machine.Fetched, machine.Judged, machine.Quit}
	case machine.Queue:
		return []machine.Kind{machine.Admitted, machine.Quit}
	case machine.Apply:
		return []machine.Kind{machine.Applied, machine.Waits, machine.Fell, machine.Quit}
	case machine.ApplyNamed:
		return []machine.Kind{machine.Judged, machine.Quit}
	case machine.Remove:
		return []machine.Kind{machine.Done, machine.Removed, machine.Quit}
	}
	return []machine.Kind{machine.Done, machine.Quit}
}

// check holds what is true between any two events.
func (w *walk) check() {
	switch {
	case w.state.Repairs != w.repairs:
		w.t.Fatalf("%d repairs are under way: %+v", w.repairs, w.state)
	case w.state.Works() != (w.work != nil):
		w.t.Fatalf("the worker is at work: %t, %+v", w.work != nil, w.state)
	case w.state.Place == machine.Clearing && w.repairs == 0:
		w.t.Fatalf("no repair ends the wait: %+v", w.state)
	case w.state.Place == machine.Looking:
		w.t.Fatalf("a look lasts: %+v", w.state)
	case w.isExclusive() && w.repairs > 0:
		w.t.Fatalf("%d repairs run beside %s", w.repairs, *w.work)
	case w.state.Place != machine.Gone && w.state.Rests() && w.news:
		w.t.Fatalf("news was lost: %+v", w.state)
	}
}

// step has one thing happen.
func (w *walk) step() {
	switch n := w.random.IntN(60); {
	case n == 0:
		w.wantOther()
	case n == 1:
		w.wantFormer()
	case n < 4:
		w.hear()
	case n < 8:
		w.due()
	case n < 13:
		w.ask()
	case n < 20:
		w.giveBack()
	case w.work == nil:
		w.due()
	default:
		w.finishWork()
	}
	w.check()
}

// The walks take any events in any order.
func TestWhatHoldsOnEveryWalk(t *testing.T) {
	t.Parallel()
	const walks, steps, least = 1000, 1000, 100
	t.Logf("-walk.seed %d", *walkSeed)
	random := rand.New(rand.NewPCG(*walkSeed, 0))
	begun := map[machine.Action]int{}
	for range walks {
		w := &walk{t: t, random: random, begun: begun}
		for range steps {
			if w.step(); w.finished {
				w = &walk{t: t, random: random, begun: begun}
			}
		}
	}
	for action := machine.Look; action <= machine.Remove; action++ {
		if begun[action] < least {
			t.Errorf("%s came %d times", action, begun[action])
		}
	}
	t.Log(begun)
}
