package machine_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/services/agent/internal/reconcile/machine"
)

// row is one transition of spec.md.
type row struct {
	places, events, guards, marks []string
	next                          string
	actions                       []string
}

// spec is what spec.md says: its transitions, and the outcomes by place and aim.
type spec struct {
	rows     []row
	outcomes map[string][]string
}

func readSpec(t *testing.T) spec {
	t.Helper()
	text, err := os.ReadFile("../spec.md")
	if err != nil {
		t.Fatal(err)
	}
	s := spec{outcomes: map[string][]string{}}
	for _, table := range tablesOf(string(text)) {
		switch strings.Join(table[0], "|") {
		case "place|outcomes":
			for _, cells := range table[1:] {
				for _, place := range list(cells[0]) {
					s.outcomes[place] = list(cells[1])
				}
			}
		case "place|event|if|next|actions|marks":
			for _, cells := range table[1:] {
				s.rows = append(s.rows, row{
					places: list(cells[0]), events: list(cells[1]), guards: list(cells[2]), next: cells[3],
					actions: list(cells[4]), marks: list(cells[5]),
				})
			}
		}
	}
	if len(s.rows) < 40 || len(s.outcomes) < 10 {
		t.Fatalf("spec.md has %d transitions and %d places with outcomes", len(s.rows), len(s.outcomes))
	}
	return s
}

// tablesOf finds the tables of a page: the cells of their lines, the head first.
func tablesOf(page string) (tables [][][]string) {
	inTable := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			inTable = false
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case !inTable:
			tables, inTable = append(tables, [][]string{cells}), true
		case strings.HasPrefix(cells[0], "--"):
		default:
			tables[len(tables)-1] = append(tables[len(tables)-1], cells)
		}
	}
	return tables
}

func list(cell string) (out []string) {
	for part := range strings.SplitSeq(cell, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// expect is what the page says of a state and an event.
func (s spec) expect(t *testing.T, state machine.State, e machine.Event) (machine.State, []string) {
	t.Helper()
	isOutcome := e.Kind >= machine.Judged
	if isOutcome && !slices.Contains(s.outcomesAt(state), e.Kind.String()) {
		return state, nil
	}
	stuck := state.Stuck && (e.Kind != machine.Judged || !e.Fresh)
	for _, r := range s.rows {
		isEvent := slices.Contains(r.events, e.Kind.String()) || isOutcome && slices.Contains(r.events, "outcome")
		isPlace := slices.ContainsFunc(r.places, func(place string) bool { return isAt(state, place) })
		if !isEvent || !isPlace {
			continue
		}
		holds := true
		for _, guard := range r.guards {
			holds = holds && isSo(t, guard, state, e, stuck)
		}
		if holds {
			return r.after(t, state, e, stuck), r.actions
		}
	}
	return state, nil
}

func (s spec) outcomesAt(state machine.State) []string {
	if outcomes, ok := s.outcomes[state.Place.String()]; ok {
		return outcomes
	}
	return s.outcomes[state.Place.String()+" "+map[machine.Aim]string{
		machine.All: "all", machine.Named: "named", machine.Leave: "leave",
	}[state.Aim]]
}

func isAt(state machine.State, place string) bool {
	atRest := slices.Contains([]string{"New", "Gated", "Settled", "Standing", "Failed", "Leaving"}, state.Place.String())
	switch place {
	case "any":
		return true
	case "at rest":
		return atRest
	case "at work":
		return !atRest && !slices.Contains([]string{"Looking", "Clearing", "Gone"}, state.Place.String())
	}
	return place == state.Place.String()
}

func isSo(t *testing.T, guard string, state machine.State, e machine.Event, stuck bool) bool {
	t.Helper()
	guards := map[string]bool{
		"not settled": !state.Settled, "other repairs": state.Repairs > 1, "repairs": state.Repairs > 0,
		"all": state.Aim == machine.All, "named": state.Aim == machine.Named, "leave": state.Aim == machine.Leave,
		"stale": state.Stale, "not stale": !state.Stale, "woken": state.Woken, "stuck": stuck,
		"nothing wanted": e.Want == machine.Nothing, "removal wanted": e.Want == machine.Removal,
		"sync of named objects": e.Named, "kept back": !e.Apply, "to compare": e.Diff, "current": e.Current,
		"not ready": !e.Ready,
	}
	holds, ok := guards[guard]
	if !ok {
		t.Fatalf("spec.md has an unknown condition: %q", guard)
	}
	return holds
}

// after is the state that a row leads to.
func (r row) after(t *testing.T, state machine.State, e machine.Event, stuck bool) machine.State {
	t.Helper()
	if r.next != "same" {
		state.Place = placeOf(t, r.next)
	}
	for _, mark := range r.marks {
		switch mark {
		case "repair begins":
			state.Repairs++
		case "repair ends":
			state.Repairs = max(state.Repairs-1, 0)
		case "woken":
			state.Woken = true
		case "stale":
			state.Stale = true
		case "settled":
			state.Settled = true
		case "unsettled":
			state.Settled = false
		case "all":
			state.Aim = machine.All
		case "named":
			state.Aim = machine.Named
		case "leave":
			state.Aim = machine.Leave
		case "attempt":
			if e.Other {
				state.Settled, state.Stuck = false, state.Stuck && e.SameContent
			}
		case "fresh":
			state.Stuck = stuck
		case "verdict on content":
			state.Stuck = e.Final
		default:
			t.Fatalf("spec.md has an unknown mark: %q", mark)
		}
	}
	if state.Place == machine.Looking && r.next != "same" {
		state.Aim, state.Woken, state.Stale = machine.All, false, false
	}
	return state
}

func placeOf(t *testing.T, name string) machine.Place {
	t.Helper()
	for place := machine.New; place <= machine.Gone; place++ {
		if place.String() == name {
			return place
		}
	}
	t.Fatalf("spec.md has an unknown place: %q", name)
	return 0
}

// everyEvent is each kind of event with all that it can say.
func everyEvent() (all []machine.Event) {
	for kind := machine.News; kind <= machine.Quit; kind++ {
		switch kind {
		case machine.Looked:
			for bits := range 12 {
				all = append(all, machine.Event{
					Kind: kind, Want: machine.Want(bits % 3), Other: bits/3&1 > 0, SameContent: bits/6 > 0,
				})
			}
		case machine.Judged:
			for bits := range 64 {
				all = append(all, machine.Event{
					Kind: kind, Apply: bits&1 > 0, Diff: bits&2 > 0, Named: bits&4 > 0, Current: bits&8 > 0,
					Ready: bits&16 > 0, Fresh: bits&32 > 0,
				})
			}
		case machine.Fell:
			all = append(all, machine.Event{Kind: kind}, machine.Event{Kind: kind, Final: true})
		default:
			all = append(all, machine.Event{Kind: kind})
		}
	}
	return all
}

// everyState is each state that events lead to, with two repairs at most.
func everyState() []machine.State {
	all := []machine.State{{}}
	seen := map[machine.State]bool{all[0]: true}
	for at := 0; at < len(all); at++ {
		for _, e := range everyEvent() {
			next, _ := machine.Next(all[at], e)
			if !seen[next] && next.Repairs <= 2 {
				seen[next] = true
				all = append(all, next)
			}
		}
	}
	return all
}

func TestEveryStateAndEventIsAsThePageSays(t *testing.T) {
	t.Parallel()
	page := readSpec(t)
	states, used := everyState(), map[machine.Place]bool{}
	for _, state := range states {
		used[state.Place] = true
		for _, e := range everyEvent() {
			want, wantActions := page.expect(t, state, e)
			got, actions := machine.Next(state, e)
			var names []string
			for _, action := range actions {
				names = append(names, action.String())
			}
			if got != want || !slices.Equal(names, wantActions) {
				t.Fatalf("%+v, %+v\nleads to %+v, %v\nspec.md: %+v, %v", state, e, got, names, want, wantActions)
			}
		}
	}
	if len(used) != int(machine.Gone)+1 {
		t.Errorf("events lead to %d of %d places", len(used), machine.Gone+1)
	}
	t.Logf("%d states, %d events", len(states), len(everyEvent()))
}

func TestNamesAreThoseOfThePage(t *testing.T) {
	t.Parallel()
	for what, got := range map[string]string{
		"Gone": machine.Gone.String(), "Quit": machine.Quit.String(), "Remove": machine.Remove.String(),
		"20": (machine.Gone + 1).String(),
	} {
		if got != what {
			t.Errorf("%s is called %s", what, got)
		}
	}
}
