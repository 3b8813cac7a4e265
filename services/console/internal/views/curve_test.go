package views

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/store/shown"
)

// noon is when the curves of these tests begin.
func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// counted is a point with so many pods that are not ready; of the rest nothing is known.
func counted(notReady int64) point { return point{{pack(notReady), pack(notReady)}} }

// counts are the last and the highest counts of pods that are not ready, by the number of the step after noon.
func counts(c *curves, uid string, now time.Time) map[int64][2]int64 {
	d := day{end: stepOf(now)}
	c.into(&d, uid)
	out := map[int64][2]int64{}
	for i, p := range d.points {
		if p[0][0] != 0 {
			out[d.end-curveSteps+1+int64(i)-stepOf(noon())] = [2]int64{unpack(p[0][0]), unpack(p[0][1])}
		}
	}
	return out
}

func wantShown(t *testing.T, c *curves, now time.Time, want map[int64][2]int64) {
	t.Helper()
	if got := counts(c, "a", now); !maps.Equal(got, want) {
		t.Errorf("at %s: got %v, want %v", now.Sub(noon()), got, want)
	}
}

func TestACurveHasTheLastAndTheHighestOfEachStep(t *testing.T) {
	t.Parallel()
	c := &curves{of: map[string]*curve{}}
	at := func(minutes int) time.Time { return noon().Add(time.Duration(minutes) * time.Minute) }
	wantShown(t, c, at(0), map[int64][2]int64{})
	c.note("a", at(0), counted(1))
	c.note("a", at(1), counted(7))
	c.note("a", at(4), counted(2))
	wantShown(t, c, at(4), map[int64][2]int64{0: {2, 7}})
	c.note("a", at(5), counted(3))
	// Steps in which nothing was known are gaps: they are no zeros.
	c.note("a", at(10), point{})
	c.note("a", at(20), counted(0))
	want := map[int64][2]int64{0: {2, 7}, 1: {3, 3}, 4: {0, 0}}
	wantShown(t, c, at(22), want)
	// After 24 hours a step is gone, also without news.
	wantShown(t, c, at(24*60-1), want)
	wantShown(t, c, at(24*60+1), map[int64][2]int64{1: {3, 3}, 4: {0, 0}})
	c.note("a", at(24*60+12), counted(5))
	wantShown(t, c, at(24*60+14), map[int64][2]int64{4: {0, 0}, 290: {5, 5}})
}

// A clock that went a day ahead and came back leaves no hole behind it for a day.
func TestACurveGoesOnBehindAClockThatWentBack(t *testing.T) {
	t.Parallel()
	c := &curves{of: map[string]*curve{}}
	c.note("a", noon(), counted(1))
	c.note("a", noon().Add(20*time.Hour), counted(2))
	c.note("a", noon().Add(10*time.Minute), counted(3))
	wantShown(t, c, noon().Add(10*time.Minute), map[int64][2]int64{0: {1, 1}, 2: {3, 3}})
}

// Random histories: a curve has what a list of all that was noted has, over any number of restarts.
func TestCurvesAreWhatWasNoted(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) // a history can be run again
	c, now := &curves{of: map[string]*curve{}}, noon()
	model := map[int64][2]int64{}
	var stored []byte
	for range 4000 {
		now = now.Add(time.Duration(random.IntN(200)) * time.Second)
		step := stepOf(now) - stepOf(noon())
		switch random.IntN(40) {
		case 0:
			now = now.Add(time.Duration(random.IntN(4)) * time.Hour) // away
			continue
		case 1: // another console, which reads what this one wrote
			list, steps, err := c.join([]string{"a"}, map[string][]byte{"a": stored}, now)
			if err != nil {
				t.Fatal(err)
			}
			c.wrote(steps)
			for _, is := range list {
				stored = is.Data
			}
			c = &curves{of: map[string]*curve{}}
			if err := c.load([]shown.ClusterCurve{{Cluster: "a", Data: stored}}, now); err != nil {
				t.Fatal(err)
			}
		}
		n := []int64{0, 3, 4095, random.Int64N(1 << 20)}[random.IntN(4)]
		c.note("a", now, counted(n))
		n = unpack(pack(n))
		model[step] = [2]int64{n, max(n, model[step][1])}
		want := maps.Clone(model)
		maps.DeleteFunc(want, func(s int64, _ [2]int64) bool { return s <= step-curveSteps })
		if random.IntN(20) == 0 {
			wantShown(t, c, now, want)
		}
	}
	if len(stored) == 0 || len(stored) > curveHead+int(curveSteps)*26 {
		t.Errorf("%d bytes are kept", len(stored))
	}
}

// What two consoles noted of a cluster adds up: neither takes away what the other wrote.
func TestCurvesOfConsolesAddUp(t *testing.T) {
	t.Parallel()
	first, second := &curves{of: map[string]*curve{}}, &curves{of: map[string]*curve{}}
	at := func(minutes int) time.Time { return noon().Add(time.Duration(minutes) * time.Minute) }
	var stored []byte
	keep := func(c *curves, now time.Time) (wrote bool) {
		t.Helper()
		list, _, err := c.join([]string{"a"}, map[string][]byte{"a": stored}, now)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) > 0 {
			stored = list[0].Data
		}
		return len(list) > 0
	}
	first.note("a", at(0), counted(9))
	first.note("a", at(1), counted(4))
	keep(first, at(6))
	second.note("a", at(7), counted(5))
	first.note("a", at(8), counted(6))
	keep(second, at(11))
	keep(first, at(12))
	want := map[int64][2]int64{0: {4, 9}, 1: {6, 6}}
	wantShown(t, first, at(12), want)
	keep(second, at(13))
	wantShown(t, second, at(13), map[int64][2]int64{0: {4, 9}, 1: {5, 6}}) // what it saw itself counts as the last
	// A console to which the cluster is away takes away nothing that another one notes.
	first.note("a", at(16), counted(8))
	keep(first, at(17))
	if keep(second, at(17)) {
		wantShown(t, second, at(17), map[int64][2]int64{0: {4, 9}, 1: {5, 6}, 3: {8, 8}})
	}
	restarted := &curves{of: map[string]*curve{}}
	if err := restarted.load([]shown.ClusterCurve{{Cluster: "a", Data: stored}}, at(18)); err != nil {
		t.Fatal(err)
	}
	if got := counts(restarted, "a", at(18)); len(got) != 3 || got[3] != [2]int64{8, 8} {
		t.Errorf("after a restart: %v", got)
	}
}

// The curves of which the database lacks the most are written first, and none that it has.
func TestCurvesAreKeptInTurn(t *testing.T) {
	t.Parallel()
	c, now := &curves{of: map[string]*curve{}}, noon()
	for range 10 {
		for i := range 5 {
			c.note(fmt.Sprint(i), now, counted(int64(i)))
		}
		now = now.Add(stepLength)
	}
	seen := map[string]int{}
	for range 3 {
		uids := c.due(2, false)
		_, steps, err := c.join(uids, nil, now)
		if err != nil {
			t.Fatal(err)
		}
		c.wrote(steps)
		for _, uid := range uids {
			seen[uid]++
		}
	}
	if len(seen) != 5 {
		t.Errorf("written: %v", seen)
	}
	if left := c.due(10, false); len(left) > 0 {
		t.Errorf("%v are written again", left)
	}
	if all := c.due(10, true); len(all) != 5 {
		t.Errorf("at the end %v are written", all)
	}
	c.forget(map[string]bool{"3": true})
	if len(c.of) != 1 {
		t.Errorf("%d curves are left of clusters that are gone", len(c.of))
	}
}

func TestPackedNumbers(t *testing.T) {
	t.Parallel()
	before := uint16(0)
	for _, n := range []int64{0, 1, 2, 4095, 4096, 4097, 10_001, 65_536, 1 << 20, 1<<27 - 1, 1 << 27, 1 << 40} {
		p := pack(n)
		if p == 0 || p < before {
			t.Errorf("%d is packed as %d, behind %d", n, p, before)
		}
		before = p
		if got := unpack(p); n < maxPacked && (got > n || n-got > n/2000 || n < 4096 && got != n) {
			t.Errorf("%d comes back as %d", n, got)
		}
	}
}

// Figures of a section that is not whole, and shares of which one part is not known, are unknown.
func TestPointsAreOfWholeSections(t *testing.T) {
	t.Parallel()
	figures := map[string]int64{
		"pods.not_ready": 4, "restarts.hour": 7, "requests.cpu": 3000, "requests.memory": 3 << 30,
		"nodes.cpu_allocatable": 4000, "nodes.memory_allocatable": 4 << 30,
	}
	var table nameTable
	v := &view{whole: " pods requests warnings ", figures: table.figures(figures)}
	if got, want := pointOf(v), counted(4); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	v.whole = " pods restarts requests nodes "
	want := point{
		{pack(4), pack(4)},
		{pack(7), pack(7)},
		{},
		{pack(3000), pack(750), pack(4000)},
		{pack(3072), pack(750), pack(4096)},
	}
	if got := pointOf(v); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	figures["requests.cpu"], figures["nodes.cpu_allocatable"] = 1<<62, 1
	v.figures = table.figures(figures)
	if got := pointOf(v); unpack(got[3][0]) > maxPacked || unpack(got[3][1]) > maxShare {
		t.Errorf("of an agent that lies: %v", got[3])
	}
	figures["nodes.cpu_allocatable"] = 0
	v.figures = table.figures(figures)
	if got := pointOf(v); got[3] != (spot{}) {
		t.Errorf("a share of nothing: %v", got[3])
	}
}

// The share of a sum is that of the clusters that know both; its highest is what the clusters' highest come to.
func TestSharesOfClustersWeigh(t *testing.T) {
	t.Parallel()
	var sum total
	sum.add(of(spot{pack(500), pack(900), pack(1000)}))
	sum.add(of(spot{pack(3000), pack(1000), pack(3000)}))
	sum.add(of(spot{}))
	got := sum.point(0)
	if got.GetLast() != 875 || got.GetHighest() != 975 || got.GetClusters() != 2 {
		t.Errorf("got %v", got)
	}
	sum = total{}
	sum.add(of(spot{pack(3), pack(5)}))
	sum.add(of(spot{pack(0), pack(4)}))
	if got := sum.point(0); got.GetLast() != 3 || got.GetHighest() != 9 || got.GetClusters() != 2 {
		t.Errorf("got %v", got)
	}
}

// What a database says of curves never ends a console.
func FuzzCurve(f *testing.F) {
	c := &curves{of: map[string]*curve{}}
	for i := range 5 {
		c.note("a", noon().Add(time.Duration(i*7)*time.Minute), counted(int64(i)))
	}
	list, _, _ := c.join([]string{"a"}, nil, noon().Add(time.Hour))
	f.Add(list[0].Data)
	f.Add([]byte{curveFormat})
	f.Fuzz(func(t *testing.T, data []byte) {
		d := day{end: stepOf(noon())}
		if d.add(data) != nil {
			return
		}
		encoded := d.encode()
		again := day{end: d.end}
		if err := again.add(encoded); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.encode(), encoded) {
			t.Error("a curve becomes another one")
		}
	})
}

// A console that stops before it has read the views keeps nothing, and ends.
func TestRunCurvesEndsBeforeViewsAreRead(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(Deps{}).RunCurves(ctx); err != nil {
		t.Error(err)
	}
}

// Totals made of differences are those of all clusters in each step.
func TestTotalsAreThoseOfEachStep(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // not for secrets
	var got, want totals
	for range 30 {
		d := day{end: curveSteps}
		var p point
		for i := range d.points {
			switch random.IntN(10) {
			case 0:
				p = point{}
			case 1:
				n := pack(random.Int64N(5000))
				p[random.IntN(len(p))] = spot{n, n, uint16(random.IntN(2)) * pack(random.Int64N(1000))}
			}
			d.points[i] = p
			for k := range p {
				want[i][k].add(of(p[k]))
			}
		}
		got.add(&d)
	}
	if got.end(); got != want {
		t.Error("they differ")
	}
}
