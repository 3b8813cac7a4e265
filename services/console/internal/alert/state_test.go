package alert

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// history looks at one group of clusters, tick by tick; each letter is a cluster: x is so, o otherwise, ? unknown.
func history(t *testing.T, rule Rule, looks ...string) (told []string, s *State) {
	t.Helper()
	s = &State{}
	now := time.Date(2026, 11, 22, 20, 0, 0, 0, time.UTC)
	for i, look := range looks {
		var all []Seen
		for n, is := range look {
			all = append(all, Seen{Cluster: fmt.Sprint("c", n), Holds: is == 'x', Unknown: is == '?'})
		}
		for _, turn := range s.Look(rule, all, now) {
			told = append(told, fmt.Sprintf("%d:%v:%d", i, turn.Fires, turn.Clusters))
		}
		text, err := json.Marshal(s) // as over a restart
		if err != nil {
			t.Fatal(err)
		}
		s = &State{Looked: now, Unknown: s.Unknown}
		if err := json.Unmarshal(text, s); err != nil {
			t.Fatal(err)
		}
		now = now.Add(lookEvery)
	}
	return told, s
}

func TestWhatIsFoundIsToldOnceAndItsEndOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		rule  Rule
		looks []string
		want  string
	}{
		"at once":         {Rule{}, []string{"o", "x", "x", "o"}, "[1:true:1 3:false:0]"},
		"for a while":     {Rule{For: 2 * lookEvery}, []string{"x", "x", "x", "x"}, "[2:true:1]"},
		"not long enough": {Rule{For: 2 * lookEvery}, []string{"x", "x", "o", "x", "x", "o"}, "[]"},
		"recovers": {
			Rule{Recover: 2 * lookEvery}, []string{"x", "o", "x", "o", "o", "o"}, "[0:true:1 4:false:0]",
		},
		"more than one":            {Rule{MoreThan: 1}, []string{"xo", "ox", "xx", "xo"}, "[2:true:2 3:false:1]"},
		"others join":              {Rule{}, []string{"xoo", "xxo", "xxx", "oox", "ooo"}, "[0:true:1 4:false:0]"},
		"unknown pauses for":       {Rule{For: 2 * lookEvery}, []string{"x", "?", "?", "x", "x"}, "[4:true:1]"},
		"unknown keeps what fires": {Rule{}, []string{"x", "?", "?", "o"}, "[0:true:1 3:false:0]"},
		"unknown is no trouble":    {Rule{}, []string{"?", "?"}, "[]"},
		"the cluster goes":         {Rule{}, []string{"ox", "o"}, "[0:true:1 1:false:0]"},
	} {
		if got, _ := history(t, tc.rule, tc.looks...); fmt.Sprint(got) != tc.want {
			t.Errorf("%s: told %v, want %s", name, got, tc.want)
		}
	}
}

// TestTurnsAlternate tries random histories: a group never fires twice, nor ends twice.
func TestTurnsAlternate(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		rule := Rule{
			For: time.Duration(random.IntN(4)) * lookEvery, Recover: time.Duration(random.IntN(4)) * lookEvery,
			MoreThan: random.IntN(3),
		}
		s, fires, now := &State{}, map[string]bool{}, time.Unix(1e9, 0)
		for range 60 {
			var all []Seen
			for n := range 6 {
				all = append(all, Seen{
					Cluster: fmt.Sprint("c", n), Group: fmt.Sprint("g", n%2), Holds: random.IntN(3) == 0,
					Unknown: random.IntN(4) == 0,
				})
			}
			if random.IntN(10) == 0 {
				s.Silence = &Note{Until: now.Add(3 * lookEvery)}
			}
			for _, turn := range s.Look(rule, all, now) {
				if turn.Fires == fires[turn.Group] && !turn.Grown {
					t.Fatalf("group %s: fires %v twice", turn.Group, turn.Fires)
				}
				if turn.Fires && !turn.Flaps && turn.Clusters <= rule.MoreThan {
					t.Fatalf("fires with %v, and more than %d are needed", turn.Names, rule.MoreThan)
				}
				fires[turn.Group] = turn.Fires
			}
			now = now.Add(time.Duration(random.IntN(3)) * lookEvery)
		}
	}
}

func TestASilenceTellsLaterWhatIsNotOver(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	s := &State{Silence: &Note{Until: now.Add(3 * lookEvery)}}
	var told []string
	for i, is := range []bool{true, false, true, true, true, false} {
		for _, turn := range s.Look(Rule{}, []Seen{{Cluster: "c", Holds: is}}, now) {
			told = append(told, fmt.Sprint(i, turn.Fires))
		}
		now = now.Add(lookEvery)
	}
	if got := fmt.Sprint(told); got != "[3 true 5 false]" {
		t.Errorf("told %s", got)
	}
	if s.Silence != nil || remembered(s) != 0 {
		t.Errorf("it remembers %+v", s)
	}
}

// remembered counts groups of which more is known than when they were told of last.
func remembered(s *State) (n int) {
	for _, g := range s.Groups {
		if len(g.Members) > 0 || !g.Begin().IsZero() {
			n++
		}
	}
	return n
}

// minutes looks at a cluster for as long as letters go, each of them two minutes; letters are those of history.
func minutes(t *testing.T, rule Rule, letters string) (told string, s *State) {
	t.Helper()
	var looks []string
	for _, is := range letters {
		for range 2 * time.Minute / lookEvery {
			looks = append(looks, string(is))
		}
	}
	var words []string
	s = &State{}
	now := time.Date(2026, 11, 22, 20, 0, 0, 0, time.UTC)
	began := now
	for _, look := range looks {
		for _, turn := range s.Look(rule, []Seen{{Cluster: "c", Holds: look == "x", Unknown: look == "?"}}, now) {
			is := map[bool]string{true: "fires", false: "over"}[turn.Fires]
			switch {
			case turn.Flaps:
				is = "flaps"
			case turn.Calmed:
				is = "calm"
			}
			words = append(words, fmt.Sprintf("%dm %s", now.Sub(began)/time.Minute, is))
		}
		now = now.Add(lookEvery)
	}
	return strings.Join(words, ", "), s
}

// The fourth event within half an hour says that the group flaps; then there is none until it has not turned for ten
// minutes.
func TestAGroupThatFlapsIsToldOfOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		rule          Rule
		letters, want string
	}{
		"calm at last":        {Rule{}, "xoxoxoxoxooooooxxoo", "0m fires, 2m over, 4m fires, 6m flaps, 28m calm, 30m fires, 34m over"},
		"fires at last":       {Rule{}, "xoxoxoxxxxxxxxo", "0m fires, 2m over, 4m fires, 6m flaps, 22m fires, 28m over"},
		"a turn begins anew":  {Rule{}, "xoxoooooxooooooo", "0m fires, 2m over, 4m fires, 6m flaps, 28m calm"},
		"slow turns":          {Rule{}, "x" + strings.Repeat("o", 16) + "xo", "0m fires, 2m over, 34m fires, 36m over"},
		"away before it ends": {Rule{Recover: 3 * time.Minute}, "xooxo?????????ooooooo", "0m fires, 4m over, 6m fires, 28m flaps, 38m calm"},
		"away while it flaps": {Rule{Recover: 3 * time.Minute}, "xooxoox?????????oooooooo", "0m fires, 4m over, 6m fires, 10m flaps, 44m calm"},
	} {
		if got, s := minutes(t, tc.rule, tc.letters); got != tc.want {
			t.Errorf("%s: told %s, want %s; it remembers %+v", name, got, tc.want, s.Groups[""])
		}
	}
}

// What a group that flaps was told of last may not be that it had ended, while it fires on. In a silence the group
// flaps on.
func TestAGroupThatFlappedAtItsEndAndFiresOnIsToldOf(t *testing.T) {
	t.Parallel()
	s, now := &State{}, time.Unix(1e9, 0)
	var told []string
	look := func(holds bool) {
		told = nil
		for _, turn := range s.Look(Rule{}, []Seen{{Cluster: "c", Holds: holds}}, now) {
			told = append(told, turn.words("pods", Spec{When: "pods.failed > 0"}))
		}
		now = now.Add(lookEvery)
	}
	for n := range flapTurns {
		look(n%2 == 0)
	}
	if got := fmt.Sprint(told); !strings.Contains(got, "flaps") || !strings.Contains(got, "holds at 0 of 1 cluster now") {
		t.Fatalf("told %s", got)
	}
	s.Silence = &Note{Until: now.Add(flapCalm + time.Minute)}
	for range flapCalm/lookEvery + 3 {
		if look(true); len(told) > 0 {
			t.Fatalf("told %v", told)
		}
	}
	s.Silence = nil
	if look(true); len(told) != 1 || !strings.Contains(told[0], "holds at 1 of 1 cluster: c.") {
		t.Errorf("told %q", told)
	}
	if look(true); len(told) > 0 {
		t.Errorf("told %q", told)
	}
	if look(false); len(told) != 1 || !strings.Contains(told[0], "It is over") {
		t.Errorf("told %q", told)
	}
}

// The groups that share events flap together as any group does.
func TestOtherGroupsThatFlapAreToldOfOnce(t *testing.T) {
	t.Parallel()
	s, now := &State{}, time.Unix(1e9, 0)
	var told []string
	look := func(groups int) {
		t.Helper()
		var all []Seen
		for n := range groups {
			all = append(all, Seen{Cluster: fmt.Sprint("c", n), Group: fmt.Sprintf("g%02d", n), Holds: true})
		}
		for _, turn := range s.Look(Rule{}, all, now) {
			if turn.Group == OtherGroups {
				told = append(told, fmt.Sprint(turn.Fires, turn.Flaps, turn.Calmed, turn.Clusters))
			}
		}
		text, err := json.Marshal(s) // as over a restart
		if err != nil {
			t.Fatal(err)
		}
		s = &State{Looked: now}
		if err := json.Unmarshal(text, s); err != nil {
			t.Fatal(err)
		}
		now = now.Add(lookEvery)
	}
	for n := range 20 {
		look(mostGroups + 3*((n+1)%2))
	}
	if got := fmt.Sprint(told); got != "[true false false 3 false false false 0 true false false 3 true true false 0]" {
		t.Errorf("while they flap it told %s", got)
	}
	told = nil
	for range flapCalm/lookEvery + 2 {
		look(mostGroups)
	}
	if got := fmt.Sprint(told); got != "[false false true 0]" || s.Others != nil || len(s.OtherTurns) > 0 {
		t.Errorf("once they are calm it told %s and remembers %+v", got, s.Others)
	}
	told = nil
	for n := range 8 {
		look(mostGroups + 3*((n+1)%2))
	}
	for range flapCalm/lookEvery + 2 {
		look(mostGroups + 4)
	}
	if got := fmt.Sprint(told); got != "[true false false 3 false false false 0 true false false 3 true true false 0 true false false 4]" {
		t.Errorf("when they fire on it told %s", got)
	}
}

// A cluster that is away for good and decides nothing keeps no group flapping: its growth is told once it is calm.
func TestAClusterThatStaysAwayKeepsNoGroupFlapping(t *testing.T) {
	t.Parallel()
	s, now := &State{}, time.Unix(1e9, 0)
	var told []string
	look := func(flaps bool, away bool, others int) {
		all := []Seen{{Cluster: "flaps", Holds: flaps}, {Cluster: "away", Holds: !away, Unknown: away}}
		for n := range others {
			all = append(all, Seen{Cluster: fmt.Sprint("c", n), Holds: true})
		}
		for _, turn := range s.Look(Rule{MoreThan: 1}, all, now) {
			told = append(told, fmt.Sprintf("%v %v %d", turn.Flaps, turn.Grown, turn.Clusters))
		}
		now = now.Add(lookEvery)
	}
	for range 2 {
		look(true, false, 0)
		look(false, false, 0)
	}
	if got := told[len(told)-1]; len(told) != 4 || !strings.HasPrefix(got, "true") {
		t.Fatalf("it does not flap: %v", told)
	}
	told = nil
	for range flapCalm/lookEvery + 2 {
		look(true, true, 9)
	}
	if got := fmt.Sprint(told); got != "[false true 11]" {
		t.Errorf("told %s", got)
	}
}

// A silence lets ends through, also the one with which a group would be said to flap.
func TestASilentAlertTellsAnEndAndNotThatItFlaps(t *testing.T) {
	t.Parallel()
	s, now := &State{}, time.Unix(1e9, 0)
	var told []string
	for n := range 4 {
		if n == 3 {
			s.Silence = &Note{Until: now.Add(time.Hour)}
		}
		for _, turn := range s.Look(Rule{}, []Seen{{Cluster: "c", Holds: n%2 == 0}}, now) {
			told = append(told, fmt.Sprint(turn.Fires, turn.Flaps))
		}
		now = now.Add(lookEvery)
	}
	if got := fmt.Sprint(told); got != "[true false false false true false false false]" {
		t.Errorf("told %s", got)
	}
}

// A cluster that goes away while it meets the rule goes on to do so, and is said to be unknown since then.
func TestWhatFiresIsUnknownSinceTheClusterWentAway(t *testing.T) {
	t.Parallel()
	told, s := minutes(t, Rule{For: 2 * time.Minute}, "xx???")
	m := s.Groups[""].Members["c"]
	if want := time.Date(2026, 11, 22, 20, 4, 0, 0, time.UTC); told != "2m fires" || !m.Met || !m.Unknown.Equal(want) {
		t.Errorf("told %s of %+v", told, m)
	}
	if told, s = minutes(t, Rule{For: 2 * time.Minute}, "xx??x"); told != "2m fires" || !s.Groups[""].Members["c"].Unknown.IsZero() {
		t.Errorf("told %s of %+v", told, s.Groups[""].Members["c"])
	}
	if told, s = minutes(t, Rule{For: 4 * time.Minute}, "x?????"); told != "" || s.Groups[""].Members["c"].Bad >= 4*time.Minute {
		t.Errorf("unknown did not pause for: told %s of %+v", told, s.Groups[""].Members["c"])
	}
}

// What was told before a silence is ended within it. Neither what begins in it nor the growth of what was told makes an
// event.
func TestTheEndOfWhatBeganBeforeASilenceIsToldAtOnce(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	s := &State{}
	var told []string
	look := func(before, within int) {
		var all []Seen
		for n := range 12 {
			all = append(all, Seen{Cluster: fmt.Sprint("a", n), Group: "before", Holds: n < before},
				Seen{Cluster: fmt.Sprint("b", n), Group: "within", Holds: n < within})
		}
		for _, turn := range s.Look(Rule{}, all, now) {
			told = append(told, fmt.Sprint(turn.Group, " ", turn.Fires))
		}
		now = now.Add(lookEvery)
	}
	for _, step := range []struct {
		before, within int
		want           string
	}{
		{1, 0, "[before true]"},
		{12, 1, "[]"}, // the silence begins
		{0, 1, "[before false]"},
		{1, 0, "[]"}, // it begins again, and the other is over: neither was told
		{0, 0, "[]"},
	} {
		told = nil
		if look(step.before, step.within); fmt.Sprint(told) != step.want {
			t.Errorf("of %d and %d it told %v, want %s", step.before, step.within, told, step.want)
		}
		if s.Silence == nil {
			s.Silence = &Note{Until: now.Add(time.Hour)}
		}
	}
}

// A hub that was away for an hour did not see that it was so for an hour.
func TestTimeThatNobodyLookedDoesNotCount(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	s, seen := &State{}, []Seen{{Cluster: "c", Holds: true}}
	rule := Rule{For: 10 * time.Minute}
	s.Look(rule, seen, now)
	if turns := s.Look(rule, seen, now.Add(time.Hour)); len(turns) != 0 {
		t.Errorf("fired after an hour away: %v", turns)
	}
	if turns := s.Look(rule, seen, now.Add(-time.Hour)); len(turns) != 0 {
		t.Errorf("fired after the clock went back: %v", turns)
	}
}

// A thousand clusters that meet a rule at once are one event, and so is their end; more of them later are another one
// only when they double.
func TestAStormIsOneEvent(t *testing.T) {
	t.Parallel()
	look := func(s *State, n int, now time.Time, group func(int) string) (told []string) {
		var all []Seen
		for i := range 1000 {
			all = append(all, Seen{Cluster: fmt.Sprint("c", i), Group: group(i), Holds: i < n})
		}
		for _, turn := range s.Look(Rule{}, all, now) {
			told = append(told, fmt.Sprint(turn.Fires, turn.Grown, turn.Clusters))
		}
		return told
	}
	s, now := &State{}, time.Unix(1e9, 0)
	together := func(int) string { return "" }
	for i, step := range []struct {
		n    int
		want string
	}{
		{10, "[true false 10]"},
		{14, "[]"},
		{1000, "[true true 1000]"},
		{900, "[]"},
		{1000, "[]"},
		{0, "[false false 0]"},
		{1000, "[true false 1000]"},
	} {
		if got := fmt.Sprint(look(s, step.n, now.Add(time.Duration(i)*lookEvery), together)); got != step.want {
			t.Errorf("step %d: told %s, want %s", i, got, step.want)
		}
	}
	s = &State{}
	apart := func(i int) string { return fmt.Sprint("site-", i) }
	told := look(s, 1000, now, apart)
	if len(told) != mostGroups+1 || told[mostGroups] != "true false 980" {
		t.Errorf("of 1000 groups it told %v", told)
	}
	if told = look(s, 1000, now.Add(lookEvery), apart); len(told) != 0 {
		t.Errorf("it told again %v", told)
	}
	if told = look(s, 0, now.Add(2*lookEvery), apart); len(told) != mostGroups+1 || s.Others != nil ||
		remembered(s) != 0 {
		t.Errorf("at the end it told %v, and remembers %+v", told, s)
	}
}

func TestAnAlertNamesFiveClustersAndCountsAll(t *testing.T) {
	t.Parallel()
	names := []string{"c1", "c2", "c3", "c4", "c5", "c6", "c7"}
	for n, want := range map[int]string{
		1: "name : c holds at 1 of 9 clusters: c1.", 5: "at 5 of 9 clusters: c1, c2, c3, c4, c5.",
		6: "at 6 of 9 clusters: c1, c2, c3, c4, c5 and 1 more.",
		7: "at 7 of 9 clusters: c1, c2, c3, c4, c5 and 2 more.",
	} {
		if got := (Turn{Fires: true, Names: names[:n], Clusters: n, Of: 9}).words("found", Spec{When: "name : c"}); !strings.Contains(got, want) {
			t.Errorf("of %d it says %q, want %q", n, got, want)
		}
	}
}

// A round over a large fleet, of which one cluster in a hundred is not well.
func BenchmarkLook(b *testing.B) {
	const clusters = 10_000
	all := make([]Seen, clusters)
	for i := range all {
		all[i] = Seen{Cluster: fmt.Sprintf("edge-%05d", i), Group: fmt.Sprintf("site-%02d", i%50), Holds: i%100 == 7}
	}
	var s State
	now := time.Now()
	for b.Loop() {
		now = now.Add(5 * time.Second)
		s.Look(Rule{For: time.Minute, Recover: time.Minute}, all, now)
	}
}
