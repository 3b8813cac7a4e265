// Package alert evaluates the rules of the catalog's alerts over the views of clusters, and records an event when a
// rule finds something, and one when that is over.
//
// One console evaluates all alerts at a time: it claims the round, and writes a state only if nobody changed it since,
// in one transaction with the events. A rule's times are the sums of the times between rounds in which views answered:
// while no hub evaluates, and while a view is unknown, no time passes. A state outlives consoles.
package alert

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fairlead.dev/platform/plural"
)

const (
	// longestStep bounds the time that one round adds: nobody evaluated meanwhile.
	longestStep = 2 * lookEvery
	// mostGroups is how many groups of an alert have events of their own at the same time. Those beyond share one, so
	// that a label with a thousand values makes no thousand messages.
	mostGroups = 20
	// OtherGroups stands for those groups in events. No label has such a value.
	OtherGroups = "(others)"
	// growth of the clusters of a group makes another event: so many times as many, and at least leastGrowth more.
	growth, leastGrowth = 2, 5
	// flapTurns within flapWithin are flapping: the last of them is told so, and the group has no further event until
	// it has not turned for flapCalm.
	flapTurns, flapWithin, flapCalm = 4, 30 * time.Minute, 10 * time.Minute
)

// State is what an alert has found.
type State struct {
	// Looked is when the alert was evaluated last, and Unknown how many clusters gave no answer. The database has both
	// beside the rest.
	Looked  time.Time `json:"-"`
	Unknown int       `json:"-"`
	// Groups are those in which there is something to remember, by the value of the label.
	Groups map[string]*Group `json:"groups,omitempty"`
	// Others are the groups without events of their own, if there are some, or they flap; their Told counts groups.
	// OtherTurns are the Turns of Others while there are none.
	Others     *Group      `json:"others,omitempty"`
	OtherTurns []time.Time `json:"otherTurns,omitempty"`
	Silence    *Note       `json:"silence,omitempty"`
}

// Group is a part of the clusters.
type Group struct {
	// Members are clusters for which the question holds, or held a moment ago.
	Members map[string]*Member `json:"members,omitempty"`
	// Since is when the group began to fire; zero: it does not.
	Since time.Time `json:"since,omitzero"`
	// Told is the number of clusters in the last event; 0: there is none, or it said at an end that the group flaps.
	Told int `json:"told,omitempty"`
	// Other says that the group is one of OtherGroups.
	Other bool  `json:"other,omitempty"`
	Ack   *Note `json:"ack,omitempty"`
	// Turns are when it was told within flapWithin that the group fires, and that this is over.
	Turns []time.Time `json:"turns,omitempty"`
	// Flaps is since when the group flaps; zero: it does not. Calm is for how long it was seen not to turn since it did
	// last.
	Flaps time.Time     `json:"flaps,omitzero"`
	Calm  time.Duration `json:"calm,omitempty"`
}

// Member is a cluster. Bad and Good are how long the question was seen to hold, and not to hold since.
type Member struct {
	Bad  time.Duration `json:"bad,omitempty"`
	Good time.Duration `json:"good,omitempty"`
	// Met says that it held for long enough, and has not recovered since.
	Met bool `json:"met,omitempty"`
	// Unknown is since when the question has no answer; zero: it has one. Meanwhile the member stays what it was.
	Unknown time.Time `json:"unknown,omitzero"`

	chosen bool // by the alert, in the round that goes on
}

// Note is what a person said.
type Note struct {
	Author string    `json:"author"`
	Reason string    `json:"reason"`
	Time   time.Time `json:"time"`
	Until  time.Time `json:"until,omitzero"`
}

// Rule is what decides.
type Rule struct {
	For, Recover time.Duration
	MoreThan     int
}

// Seen is what a round sees of a cluster that the alert chooses.
type Seen struct {
	Cluster, Group string
	Holds, Unknown bool
}

// Turn is what a round changes, for an event.
type Turn struct {
	Group string
	// Fires says that the group fires, and not that it is over; Grown that it fired before, with fewer clusters.
	Fires, Grown bool
	// Flaps says that the group began and ceased to fire again and again, and that this is the last event until it is
	// calm. Calmed: it is, and does not fire.
	Flaps, Calmed bool
	Since         time.Time
	// Names are the clusters, or of OtherGroups the groups; Clusters is how many clusters that is, and Of how many
	// clusters there are in the group.
	Names        []string
	Clusters, Of int
}

// Look takes a round in, and returns what is to be told.
func (s *State) Look(rule Rule, all []Seen, now time.Time) (turns []Turn) {
	step := time.Duration(0)
	if !s.Looked.IsZero() {
		step = min(max(now.Sub(s.Looked), 0), longestStep)
	}
	s.Looked, s.Unknown = now, 0
	if s.Groups == nil {
		s.Groups = map[string]*Group{}
	}
	for _, g := range s.Groups {
		for _, m := range g.Members {
			m.chosen = false
		}
	}
	sizes := map[string]int{}
	for _, c := range all {
		sizes[c.Group]++
		s.see(rule, c, step, now)
	}
	for _, g := range s.Groups {
		maps.DeleteFunc(g.Members, func(_ string, m *Member) bool { return !m.chosen }) // gone, or chosen no more
	}
	turns = s.settle(rule, sizes, step, now)
	if turn := s.settleOthers(rule.MoreThan, step, now); turn != nil {
		turns = append(turns, *turn)
	}
	return turns
}

func (s *State) see(rule Rule, c Seen, step time.Duration, now time.Time) {
	g := s.Groups[c.Group]
	var m *Member
	if g != nil {
		if m = g.Members[c.Cluster]; m != nil {
			m.chosen = true
		}
	}
	if c.Unknown {
		s.Unknown++
		if m != nil && m.Unknown.IsZero() {
			m.Unknown = now
		}
		return
	}
	switch {
	case m == nil && !c.Holds:
		return
	case m == nil:
		if g == nil {
			g = &Group{}
			s.Groups[c.Group] = g
		}
		if g.Members == nil {
			g.Members = map[string]*Member{}
		}
		m, step = &Member{chosen: true}, 0 // since now
		g.Members[c.Cluster] = m
	}
	m.Unknown = time.Time{}
	if c.Holds {
		m.Bad, m.Good = min(m.Bad+step, rule.For), 0
		m.Met = m.Met || m.Bad >= rule.For
		return
	}
	m.Good += step
	if !m.Met || m.Good >= rule.Recover {
		delete(g.Members, c.Cluster)
	}
}

// settle says which groups turn.
func (s *State) settle(rule Rule, sizes map[string]int, step time.Duration, now time.Time) (turns []Turn) {
	if !s.silent(now) {
		s.Silence = nil
	}
	told := 0
	names := slices.Sorted(maps.Keys(s.Groups))
	for _, name := range names {
		g := s.Groups[name]
		met := g.met()
		if turn := g.turn(len(met), len(met) > rule.MoreThan, g.isDoubtful(rule.MoreThan), step, now, s.Silence != nil); turn != nil {
			turn.Group, turn.Names, turn.Clusters, turn.Of = name, met, len(met), sizes[name]
			turns = append(turns, *turn)
		}
		if len(g.Members)+len(g.Turns) == 0 && g.Begin().IsZero() {
			delete(s.Groups, name)
		}
		if g.isTold() {
			told++
		}
	}
	if s.Silence != nil {
		return turns
	}
	for _, name := range names {
		g := s.Groups[name]
		if g == nil || g.Since.IsZero() || g.Other || !g.Flaps.IsZero() {
			continue
		}
		met := g.met()
		turn := Turn{Group: name, Fires: true, Grown: g.Told > 0, Since: g.Since, Names: met, Clusters: len(met), Of: sizes[name]}
		switch {
		case g.Told > 0 && !grown(g.Told, len(met)):
		case g.Told == 0 && told >= mostGroups:
			g.Other = true
		default:
			if g.Told == 0 {
				told++
				turn.Flaps = g.flaps(now)
			}
			g.Told = len(met)
			turns = append(turns, turn)
		}
	}
	return turns
}

// turn notes whether the group fires, and returns what is to be told of that, if it is what was told before that ends,
// that the group flaps, or that it fires and has ceased to flap. met are the clusters that would be told. doubtful:
// what is unknown decides whether the group fires. A silent alert tells ends only.
func (g *Group) turn(met int, fires, doubtful bool, step time.Duration, now time.Time, silent bool) *Turn {
	g.Turns = recent(g.Turns, now)
	begin, turned := g.Begin(), fires == g.Since.IsZero()
	if turned {
		g.Since = time.Time{}
		if fires {
			g.Since = now
		}
	}
	switch {
	case !g.Flaps.IsZero():
		if g.Calm = g.calmer(turned, doubtful, step); g.Calm < flapCalm || fires && g.Told == 0 && silent {
			return nil
		}
		g.Flaps, g.Calm = time.Time{}, 0
		switch {
		case !fires:
			*g = Group{Members: g.Members}
			return &Turn{Calmed: true, Since: begin}
		case g.Told == 0: // the last event said that the group had ended
			g.Told = met
			return &Turn{Fires: true, Grown: true, Since: g.Since}
		}
		return nil // as was told
	case !turned || fires:
		return nil
	case g.Told == 0:
		*g = Group{Members: g.Members, Turns: g.Turns}
		return nil
	case !silent && g.flaps(now):
		g.Told = 0
		return &Turn{Fires: true, Grown: true, Flaps: true, Since: begin}
	}
	*g = Group{Members: g.Members, Turns: g.Turns}
	return &Turn{Since: begin}
}

// flaps notes a turn that is to be told, and says whether the group flaps with it.
func (g *Group) flaps(now time.Time) bool {
	if g.Turns = append(g.Turns, now); len(g.Turns) < flapTurns {
		return false
	}
	g.Turns, g.Flaps = nil, now
	return true
}

// recent are the turns that count for flapping.
func recent(turns []time.Time, now time.Time) []time.Time {
	return slices.DeleteFunc(turns, func(at time.Time) bool { return now.Sub(at) >= flapWithin })
}

// calmer is Calm after a round. Calm stays as it is while the group is doubtful: it may have turned.
func (g *Group) calmer(turned, doubtful bool, step time.Duration) time.Duration {
	switch {
	case turned:
		return 0
	case doubtful:
		return g.Calm
	}
	return g.Calm + step
}

// isDoubtful tells whether clusters without an answer decide whether the group fires.
func (g *Group) isDoubtful(moreThan int) bool {
	met, unknown := 0, 0
	for _, m := range g.Members {
		switch {
		case !m.Unknown.IsZero():
			unknown++
		case m.Met:
			met++
		}
	}
	return met <= moreThan && met+unknown > moreThan
}

// isTold tells whether an event of the group is to be followed by one of its end.
func (g *Group) isTold() bool { return g.Told > 0 || !g.Flaps.IsZero() }

// Begin is since when the group fires, or flaps; zero: it does neither.
func (g *Group) Begin() time.Time {
	if !g.Flaps.IsZero() {
		return g.Flaps
	}
	return g.Since
}

// settleOthers says whether the groups without events of their own turn, all together.
func (s *State) settleOthers(moreThan int, step time.Duration, now time.Time) *Turn {
	var names []string
	clusters, doubtful := 0, true // none of them fires for sure
	for _, name := range slices.Sorted(maps.Keys(s.Groups)) {
		if g := s.Groups[name]; g.Other {
			names = append(names, name)
			clusters += len(g.met())
			doubtful = doubtful && g.isDoubtful(moreThan)
		}
	}
	switch {
	case s.Others == nil && len(names) == 0:
		s.OtherTurns = recent(s.OtherTurns, now)
		return nil
	case s.Others == nil:
		s.Others, s.OtherTurns = &Group{Turns: s.OtherTurns}, nil
	}
	g, silent := s.Others, s.Silence != nil
	turn := g.turn(len(names), len(names) > 0, len(names) > 0 && doubtful, step, now, silent)
	switch {
	case turn != nil || silent || g.Since.IsZero() || !g.Flaps.IsZero():
	case g.Told == 0:
		turn = &Turn{Fires: true, Since: g.Since, Flaps: g.flaps(now)}
		g.Told = len(names)
	case grown(g.Told, len(names)):
		turn = &Turn{Fires: true, Since: g.Since, Grown: true}
		g.Told = len(names)
	}
	if g.Begin().IsZero() {
		s.Others, s.OtherTurns = nil, g.Turns
	}
	if turn != nil {
		turn.Group, turn.Names, turn.Clusters = OtherGroups, names, clusters
	}
	return turn
}

// silent says whether nothing that begins is told now.
func (s *State) silent(now time.Time) bool { return s.Silence != nil && now.Before(s.Silence.Until) }

func grown(from, to int) bool { return to >= growth*from && to-from >= leastGrowth }

// met are the clusters that meet the rule.
func (g *Group) met() []string {
	var out []string
	for name, m := range g.Members {
		if m.Met {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// words say what a turn is.
func (t Turn) words(name string, spec Spec) string {
	at := fmt.Sprintf("%d of %s", t.Clusters, plural.Of(t.Of, "cluster"))
	switch {
	case t.Group == OtherGroups:
		at = fmt.Sprintf("%s of %s by %s", plural.Of(t.Clusters, "cluster"), plural.Of(len(t.Names), "further group"), spec.GroupBy)
	case spec.GroupBy != "" && t.Group == "":
		at += " without label " + spec.GroupBy
	case spec.GroupBy != "":
		at += fmt.Sprintf(" with %s = %s", spec.GroupBy, t.Group)
	}
	switch {
	case t.Calmed:
		return fmt.Sprintf("It is over: %s holds at %s, and that did not change for %s.", spec.When, at, age(flapCalm))
	case !t.Fires:
		return fmt.Sprintf("It is over: %s holds at %s.", spec.When, at)
	case t.Flaps:
		return fmt.Sprintf("%s flaps: it began or ended %d times within %s, and holds at %s now. The next event comes when it has ended and that did not change for %s.",
			spec.When, flapTurns, age(flapWithin), at, age(flapCalm))
	}
	text := fmt.Sprintf("%s holds at %s", spec.When, at)
	if spec.For > 0 {
		text += " for " + age(spec.For)
	}
	const few = 5
	text += ": " + strings.Join(t.Names[:min(few, len(t.Names))], ", ")
	if more := len(t.Names) - few; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if text += "."; spec.Description != "" {
		text += " " + spec.Description
	}
	return text + fmt.Sprintf(" `fairlead acknowledge alert %s` says that you work on it.", name)
}

// age writes 10m0s as 10m.
func age(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Clusters are the names that a state has.
func (s *State) Clusters() []string {
	var out []string
	for _, g := range s.Groups {
		for name := range g.Members {
			out = append(out, name)
		}
	}
	return out
}
