// Package machine is the state table of a keeper: what a keeper does about one service in one cluster, and what it
// does next. The package is pure: an event goes in, the next state and the actions come out. The table in words is in
// ../spec.md; a test compares the two.
package machine

import "strconv"

// Place is where a keeper is. In a place of rest it waits for news or for its timer; in a place of work the worker has
// one piece of work; Clearing waits for repairs to end.
type Place int

// The places, in the order in which a service passes them.
const (
	New Place = iota
	Looking
	Deciding
	Fetching
	Queued
	Clearing
	Applying
	Pausing
	Gated
	Observing
	Settled
	Comparing
	Attending
	Standing
	Refusing
	Telling
	Failed
	Removing
	Leaving
	Gone
)

// Kind is the kind of an event.
type Kind int

// News, Changed, Due, Asked and Returned come from others. Looked is the answer to Look. The rest are outcomes of work.
const (
	// News: something of the service changed in the cluster, or on the disk.
	News Kind = iota
	// Changed: the hub wants something else of the service.
	Changed
	// Due: the timer is over.
	Due
	// Asked: a repair asks whether it may begin. Returned: a repair has ended.
	Asked
	Returned
	// Looked: what is wanted is known, see Event.Want, Other and SameContent.
	Looked
	// Judged: the verdict is known, see Event.Apply and what follows it.
	Judged
	// Compared: the comparison with the cluster was made.
	Compared
	// Fetched: the content is on the disk.
	Fetched
	// Admitted: the keeper has a slot at the cluster.
	Admitted
	// Applied: all of what is wanted is in the cluster.
	Applied
	// Waits: a wave of an apply waits for the objects before it.
	Waits
	// Fell: the work failed; Event.Final: another try makes no difference before other content comes.
	Fell
	// Done: the work is over, and the keeper may rest.
	Done
	// Removed: the service is out of the cluster, and the order is forgotten.
	Removed
	// Quit: the work was broken off.
	Quit
)

// Want is what is wanted of a service.
type Want int

// The wants.
const (
	Nothing Want = iota
	Removal
	Service
)

// Event is what a keeper hears of.
type Event struct {
	Kind Kind

	// Want, of Looked. Other: it is not what the keeper was doing. SameContent: the other want differs in no content.
	Want               Want
	Other, SameContent bool

	// Apply, of Judged: the verdict lets what is wanted into the cluster. Diff: it asks for a comparison.
	Apply, Diff bool
	// Named: a person's sync of single objects is due, and let through.
	Named bool
	// Current: what is wanted is what was applied.
	Current bool
	// Ready: the wait after a failure is over, or what was waited for is free.
	Ready bool
	// Fresh: values from the cluster changed, so that a final failure is final no more.
	Fresh bool

	// Final, of Fell.
	Final bool
}

// Action is what is to be done now.
type Action int

// Look to Sleep: of a keeper itself. Decide to Remove: work, one piece at a time.
const (
	// Look reads what is wanted; Looked follows at once.
	Look Action = iota
	// Interrupt breaks off the work that is under way.
	Interrupt
	// Release gives back the slot.
	Release
	// Grant and Deny answer Asked.
	Grant
	Deny
	// Sleep sets the timer to when the work said.
	Sleep
	// End ends the keeper.
	End

	// Decide reads the inventory and judges.
	Decide
	// Fetch gets the content; the timer tells when that is slow. FetchNamed does so for a sync of single objects.
	Fetch
	FetchNamed
	// Queue waits for a slot.
	Queue
	// Apply applies all of what is wanted and prunes, and gives back the slot. ApplyNamed does so for the objects that
	// a sync names, prunes nothing, and judges again.
	Apply
	ApplyNamed
	// TellWait reports what a wave waits for. TellFailure reports a failure.
	TellWait
	TellFailure
	// Observe looks after what is applied and reports it. Attend does so where new content is kept back.
	Observe
	Attend
	// Compare tells the hub what an apply would change.
	Compare
	// Refuse says again that the failure is final, to whom asks for more.
	Refuse
	// Remove takes the service out of the cluster.
	Remove
)

// Aim is what the way to the cluster is for.
type Aim int

// The aims.
const (
	All Aim = iota
	Named
	Leave
)

// State is the state of a keeper.
type State struct {
	Place Place
	// Aim of Fetching, Queued, Clearing and Applying.
	Aim Aim
	// Stuck: the content is at fault, or waits for a person, and is tried no more until other content comes.
	Stuck bool
	// Settled: what is applied stays for now, so that repairs make sense.
	Settled bool
	// Woken: News or Changed came during work.
	Woken bool
	// Stale: Changed came during work, whose outcome does not count.
	Stale bool
	// Repairs are under way.
	Repairs int
}

// Next is the table.
func Next(s State, e Event) (State, []Action) {
	switch e.Kind {
	case Asked:
		return s.ask()
	case Returned:
		return s.giveBack()
	case News:
		return s.hear(false)
	case Changed:
		return s.hear(true)
	case Due:
		return s.wake()
	case Looked:
		return s.takeUp(e)
	default:
		return s.finish(e)
	}
}

// Rests tells whether the keeper waits for news or its timer.
func (s State) Rests() bool {
	switch s.Place {
	case New, Gated, Settled, Standing, Failed, Leaving:
		return true
	}
	return false
}

// Works tells whether a piece of work is under way.
func (s State) Works() bool {
	switch s.Place {
	case Looking, Clearing, Gone:
		return false
	}
	return !s.Rests()
}

// Excludes tells whether no repair may be under way.
func (s State) Excludes() bool {
	switch s.Place {
	case Clearing, Applying, Removing, Leaving, Gone:
		return true
	}
	return false
}

func (s State) ask() (State, []Action) {
	if !s.Settled || s.Excludes() {
		return s, []Action{Deny}
	}
	s.Repairs++
	return s, []Action{Grant}
}

func (s State) giveBack() (State, []Action) {
	if s.Repairs > 0 {
		s.Repairs--
	}
	if s.Place == Clearing {
		return s.enter()
	}
	return s, nil
}

// hear takes note of news; isOther: of something else that is wanted.
func (s State) hear(isOther bool) (State, []Action) {
	switch {
	case s.Place == Gone || s.Place == Looking:
		return s, nil
	case s.Rests():
		return s.look()
	case s.Place == Clearing && isOther:
		return s.look(s.slot()...)
	case isOther && !s.Stale:
		s.Woken, s.Stale = true, true
		return s, []Action{Interrupt}
	}
	s.Woken = true
	return s, nil
}

func (s State) wake() (State, []Action) {
	switch {
	case s.Rests():
		return s.look()
	case s.Place == Fetching && s.Aim == All: // the hub is slow, and what is applied is repaired meanwhile
		s.Settled = true
	}
	return s, nil
}

// look begins anew: whatever is done next is decided by what is wanted then.
func (s State) look(before ...Action) (State, []Action) {
	s.Place, s.Aim, s.Woken, s.Stale = Looking, All, false, false
	return s, append(before, Look)
}

// takeUp begins with what is wanted.
func (s State) takeUp(e Event) (State, []Action) {
	if s.Place != Looking {
		return s, nil
	}
	if e.Other {
		s.Settled, s.Stuck = false, s.Stuck && e.SameContent
	}
	switch e.Want {
	case Nothing:
		return s.to(Gone, End)
	case Removal:
		s.Aim = Leave
		return s.enter()
	default:
		return s.to(Deciding, Decide)
	}
}

// enter goes to the cluster once no repair is under way.
func (s State) enter() (State, []Action) {
	switch {
	case s.Repairs > 0:
		return s.to(Clearing)
	case s.Aim == Leave:
		return s.to(Removing, Remove)
	case s.Aim == Named:
		return s.to(Applying, ApplyNamed)
	default:
		return s.to(Applying, Apply)
	}
}

// slot is the action that gives back the slot, where one is held.
func (s State) slot() []Action {
	if s.Place == Queued || s.Place == Clearing && s.Aim != Leave {
		return []Action{Release}
	}
	return nil
}

// finish takes the outcome of work.
func (s State) finish(e Event) (State, []Action) {
	switch {
	case !s.awaits(e.Kind):
		return s, nil
	case e.Kind == Waits: // Jobs that ended are written down, also when something else is wanted by now
		s.Settled = true
		return s.to(Pausing, TellWait)
	case s.Stale && e.Kind == Admitted:
		return s.look(Release)
	case s.Stale:
		return s.look()
	}
	switch e.Kind {
	case Judged:
		return s.follow(e)
	case Compared:
		s.Settled = true
		return s.to(Attending, Attend)
	case Fetched:
		return s.to(Queued, Queue)
	case Admitted:
		if s.Aim == All {
			s.Settled = false
		}
		return s.enter()
	case Fell:
		if s.Aim == All && (s.Place == Fetching || s.Place == Applying) {
			s.Stuck = e.Final
		}
		s.Settled = true
		return s.to(Telling, TellFailure)
	case Done:
		return s.rest()
	default: // Applied, Removed, Quit
		return s.look()
	}
}

// follow does what a verdict says.
func (s State) follow(e Event) (State, []Action) {
	s.Stuck, s.Aim = s.Stuck && !e.Fresh, All
	switch {
	case e.Named:
		s.Aim = Named
		return s.to(Fetching, FetchNamed)
	case !e.Apply && e.Diff:
		return s.to(Comparing, Compare)
	case !e.Apply:
		s.Settled = true
		return s.to(Attending, Attend)
	case e.Current:
		s.Settled = true
		return s.to(Observing, Observe)
	case s.Stuck:
		return s.to(Refusing, Refuse)
	case !e.Ready:
		s.Place = Refusing
		return s.rest()
	default:
		return s.to(Fetching, Fetch)
	}
}

// rest ends a round, unless there was news during it.
func (s State) rest() (State, []Action) {
	if s.Woken {
		return s.look()
	}
	switch s.Place {
	case Pausing:
		return s.to(Gated, Sleep)
	case Observing:
		return s.to(Settled, Sleep)
	case Attending:
		return s.to(Standing, Sleep)
	case Removing:
		return s.to(Leaving, Sleep)
	default:
		return s.to(Failed, Sleep)
	}
}

func (s State) to(place Place, actions ...Action) (State, []Action) {
	s.Place = place
	if s.Rests() {
		s.Aim = All
	}
	return s, actions
}

// awaits tells whether the work of a place has such outcomes.
func (s State) awaits(kind Kind) bool {
	switch s.Place {
	case Deciding:
		return kind == Judged || kind == Fell || kind == Quit
	case Comparing:
		return kind == Compared || kind == Fell || kind == Quit
	case Fetching:
		if s.Aim == Named { // that a sync of single objects fails is no failure of the service
			return kind == Fetched || kind == Judged || kind == Quit
		}
		return kind == Fetched || kind == Fell || kind == Quit
	case Queued:
		return kind == Admitted || kind == Quit
	case Applying:
		if s.Aim == Named {
			return kind == Judged || kind == Quit
		}
		return kind == Applied || kind == Waits || kind == Fell || kind == Quit
	case Pausing, Observing, Attending, Refusing, Telling:
		return kind == Done || kind == Quit
	case Removing:
		return kind == Done || kind == Removed || kind == Quit
	}
	return false
}

func (p Place) String() string { return name(int(p), placeNames()) }

func (k Kind) String() string { return name(int(k), kindNames()) }

func (a Action) String() string { return name(int(a), actionNames()) }

func name(at int, names []string) string {
	if at < 0 || at >= len(names) {
		return strconv.Itoa(at)
	}
	return names[at]
}

func placeNames() []string {
	return []string{
		"New", "Looking", "Deciding", "Fetching", "Queued", "Clearing", "Applying", "Pausing", "Gated", "Observing",
		"Settled", "Comparing", "Attending", "Standing", "Refusing", "Telling", "Failed", "Removing", "Leaving", "Gone",
	}
}

func kindNames() []string {
	return []string{
		"News", "Changed", "Due", "Asked", "Returned", "Looked", "Judged", "Compared", "Fetched", "Admitted", "Applied",
		"Waits", "Fell", "Done", "Removed", "Quit",
	}
}

func actionNames() []string {
	return []string{
		"Look", "Interrupt", "Release", "Grant", "Deny", "Sleep", "End", "Decide", "Fetch", "FetchNamed",
		"Queue", "Apply", "ApplyNamed", "TellWait", "TellFailure", "Observe", "Attend", "Compare", "Refuse", "Remove",
	}
}
