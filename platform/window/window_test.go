package window_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/window"
)

func at(text string) time.Time {
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return parsed
}

func deny(schedule, zone string, lasts time.Duration) *deliveryv1.SyncWindow {
	return &deliveryv1.SyncWindow{
		Action: deliveryv1.WindowAction_WINDOW_ACTION_DENY, Schedule: schedule, TimeZone: zone,
		Duration: durationpb.New(lasts),
	}
}

func allow(schedule, zone string, lasts time.Duration) *deliveryv1.SyncWindow {
	w := deny(schedule, zone, lasts)
	w.Action = deliveryv1.WindowAction_WINDOW_ACTION_ALLOW
	return w
}

func of(kind string, windows ...*deliveryv1.SyncWindow) *deliveryv1.WindowSet {
	return &deliveryv1.WindowSet{Kind: kind, Name: "x", Windows: windows}
}

func manual(w *deliveryv1.SyncWindow) *deliveryv1.SyncWindow { w.ManualSync = true; return w }

func leaving(w *deliveryv1.SyncWindow) *deliveryv1.SyncWindow {
	w.Drift = deliveryv1.WindowDrift_WINDOW_DRIFT_LEAVE
	return w
}

func frozen(until string) *deliveryv1.WindowSet {
	f := &deliveryv1.Freeze{Author: "user:ada", Reason: "the sale."}
	if until != "" {
		f.UntilTime = timestamppb.New(at(until))
	}
	return &deliveryv1.WindowSet{Kind: "project", Name: "shop", Freeze: f}
}

const hour, day = time.Hour, 24 * time.Hour

func TestWhatWindowsSay(t *testing.T) {
	t.Parallel()
	type sets = []*deliveryv1.WindowSet
	nights := func() *deliveryv1.SyncWindow { return deny("0 22 * * *", "Europe/Berlin", 8*hour) }
	office := func() *deliveryv1.SyncWindow { return allow("0 9 * * mon-fri", "Europe/Berlin", 8*hour) }
	for _, test := range []struct {
		name   string
		sets   sets
		now    string
		closed bool
		change string
	}{
		{"nothing is said", nil, "2026-11-21T12:00:00Z", false, ""},
		{"an empty set says nothing", sets{of("project")}, "2026-11-21T12:00:00Z", false, ""},
		{
			"a deny window that is not open",
			sets{of("project", nights())},
			"2026-11-21T12:00:00Z", false,
			"2026-11-21T21:00:00Z",
		},
		{"its first second", sets{of("project", nights())}, "2026-11-21T21:00:00Z", true, "2026-11-22T05:00:00Z"},
		{"its last second", sets{of("project", nights())}, "2026-11-22T04:59:59Z", true, "2026-11-22T05:00:00Z"},
		{"when it has closed", sets{of("project", nights())}, "2026-11-22T05:00:00Z", false, "2026-11-22T21:00:00Z"},
		{
			"an allow window that is open",
			sets{of("cluster", office())},
			"2026-11-20T09:00:00Z", false,
			"2026-11-20T16:00:00Z",
		},
		{
			"an allow window over the weekend",
			sets{of("cluster", office())},
			"2026-11-21T12:00:00Z", true,
			"2026-11-23T08:00:00Z",
		},
		{
			"one of two allow windows is enough",
			sets{of("cluster", office(), allow("0 0 * * sat", "", day))},
			"2026-11-21T12:00:00Z", false, "2026-11-22T00:00:00Z",
		},
		{
			"a deny window wins over an open allow window",
			sets{of("cluster", office(), deny("0 9 20 11 *", "", hour))},
			"2026-11-20T09:30:00Z", true,
			"2026-11-20T10:00:00Z",
		},
		{
			"each resource has to let it pass",
			sets{of("project", office()), of("service", allow("0 0 * * *", "", day))},
			"2026-11-21T12:00:00Z", true,
			"2026-11-23T08:00:00Z",
		},
		{
			"a service narrows its project",
			sets{of("project", office()), of("service", allow("0 14 * * *", "", hour))},
			"2026-11-20T09:00:00Z", true,
			"2026-11-20T14:00:00Z",
		},
		{
			"windows that touch are one",
			sets{of("project", deny("0 * * * *", "", hour))},
			"2026-11-20T09:00:00Z",
			true, "",
		},
		{
			"windows that overlap end with the last",
			sets{of("project", deny("0 8,9 * * *", "", 90*time.Minute))},
			"2026-11-20T08:10:00Z", true, "2026-11-20T10:30:00Z",
		},
		{
			"two deny windows in a row",
			sets{of("project", deny("0 8 * * *", "", hour)), of("cluster", deny("0 9 * * *", "", hour))},
			"2026-11-20T08:10:00Z", true, "2026-11-20T10:00:00Z",
		},
		{"a freeze without an end", sets{frozen("")}, "2026-11-20T08:10:00Z", true, ""},
		{
			"a freeze with one",
			sets{frozen("2026-11-30T00:00:00Z")},
			"2026-11-20T08:10:00Z", true,
			"2026-11-30T00:00:00Z",
		},
		{"a freeze that is over", sets{frozen("2026-11-19T00:00:00Z")}, "2026-11-20T08:10:00Z", false, ""},
		{
			"a freeze over an allow window",
			sets{frozen("2026-11-21T12:00:00Z"), of("cluster", office())},
			"2026-11-20T09:00:00Z", true, "2026-11-23T08:00:00Z",
		},
		{
			"an unknown action closes",
			sets{
				of("project", &deliveryv1.SyncWindow{Action: 9, Schedule: "0 0 * * *", Duration: durationpb.New(hour)}),
			},
			"2026-11-20T09:00:00Z", true, "",
		},
		{
			"a schedule that can't be read closes",
			sets{of("project", deny("0 0 L * *", "", hour))},
			"2026-11-20T09:00:00Z", true, "",
		},

		// On 29 March 2026 Berlin's clock goes from 2:00 to 3:00, at 01:00Z; on 25 October from 3:00 to 2:00, at
		// 01:00Z.
		{
			"a deny window of an hour that is left out opens at its end",
			sets{of("project", deny("30 2 * * *", "Europe/Berlin", hour))},
			"2026-03-29T01:30:00Z", true,
			"2026-03-29T02:00:00Z",
		},
		{
			"and is foreseen",
			sets{of("project", deny("30 2 * * *", "Europe/Berlin", hour))},
			"2026-03-29T00:30:00Z",
			false, "2026-03-29T01:00:00Z",
		},
		{
			"an allow window of an hour that is left out does not open",
			sets{of("project", allow("30 2 * * *", "Europe/Berlin", hour))},
			"2026-03-29T01:30:00Z", true,
			"2026-03-30T00:30:00Z",
		},
		{
			"a duration is real time over the change",
			sets{of("project", deny("0 22 28 3 *", "Europe/Berlin", 8*hour))},
			"2026-03-29T04:59:00Z", true,
			"2026-03-29T05:00:00Z",
		},
		{
			"a deny window over the day of 25 hours has no hole",
			sets{of("project", deny("0 0 * * *", "Europe/Berlin", day))},
			"2026-10-25T22:30:00Z", true, "",
		},
		// On 29 March the clock of the Azores goes from midnight to 1:00, at 01:00Z.
		{
			"a deny window of an hour after midnight that is left out opens at its end, too",
			sets{of("project", deny("30 0 * * *", "Atlantic/Azores", hour))},
			"2026-03-29T01:30:00Z", true,
			"2026-03-29T02:00:00Z",
		},
		// On 25 October the clock of the Azores goes from 1:00 to midnight, at 01:00Z: midnight comes twice.
		{
			"nor has one over the day with two midnights",
			sets{of("project", deny("0 0 * * *", "Atlantic/Azores", day))},
			"2026-10-25T00:30:00Z", true, "",
		},
		{
			"and ends by the clock on the wall",
			sets{of("project", deny("0 22 24 10 *", "Europe/Berlin", 8*hour))},
			"2026-10-25T04:30:00Z", true, "2026-10-25T05:00:00Z",
		},
		{
			"an allow window of 24 hours does not get longer",
			sets{of("project", allow("0 0 25 10 *", "Europe/Berlin", day))},
			"2026-10-25T22:30:00Z", true,
			"2027-10-24T22:00:00Z",
		},
		{
			"an hour that comes twice opens once",
			sets{of("project", deny("30 2 25 10 *", "Europe/Berlin", 30*time.Minute))},
			"2026-10-25T00:40:00Z", false,
			"",
		},
		{
			"in winter by winter's clock",
			sets{of("project", allow("0 9 * * *", "Europe/Berlin", hour))},
			"2026-12-01T08:30:00Z", false, "2026-12-01T09:00:00Z",
		},
		{
			"in summer by summer's clock",
			sets{of("project", allow("0 9 * * *", "Europe/Berlin", hour))},
			"2026-07-01T08:30:00Z", true, "2026-07-02T07:00:00Z",
		},
		{
			"the day is the zone's",
			sets{of("project", deny("0 0 1 1 *", "Pacific/Kiritimati", day))},
			"2025-12-31T10:00:00Z", true, "2026-01-01T10:00:00Z",
		},
	} {
		state := window.Judge(test.sets, at(test.now))
		change := time.Time{}
		if test.change != "" {
			change = at(test.change)
		}
		if test.name == "an hour that comes twice opens once" { // at which of the two is the zone's affair
			first, second := state.Closed, window.Judge(test.sets, at("2026-10-25T01:40:00Z")).Closed
			if first == second {
				t.Errorf("%s: closed in the first %t and in the second %t", test.name, first, second)
			}
			continue
		}
		if state.Closed != test.closed || !state.Change.Equal(change) {
			t.Errorf("%s: closed is %t until %s, want %t until %s", test.name, state.Closed, state.Change.UTC(),
				test.closed, change)
		}
		if state.Closed != (state.Words() != "") {
			t.Errorf("%s: words %q", test.name, state.Words())
		}
	}
}

func TestWhatIsLetThrough(t *testing.T) {
	t.Parallel()
	now := at("2026-11-20T09:30:00Z")
	always := func() *deliveryv1.SyncWindow { return deny("0 9 * * *", "", hour) }
	never := func() *deliveryv1.SyncWindow { return allow("0 20 * * *", "", hour) }
	for _, test := range []struct {
		name           string
		sets           []*deliveryv1.WindowSet
		manual, repair bool
	}{
		{"a person's sync waits, too", []*deliveryv1.WindowSet{of("project", always())}, false, true},
		{"unless the window lets it through", []*deliveryv1.WindowSet{of("project", manual(always()))}, true, true},
		{"every window has to", []*deliveryv1.WindowSet{of("project", manual(always()), always())}, false, true},
		{
			"on every resource",
			[]*deliveryv1.WindowSet{of("project", manual(always())), of("cluster", never())},
			false, true,
		},
		{"of allow windows one", []*deliveryv1.WindowSet{of("project", manual(never()), never())}, true, true},
		{
			"drift stays where one window says so",
			[]*deliveryv1.WindowSet{of("project", leaving(always()), always())},
			false, false,
		},
		{
			"a freeze lets nobody through",
			[]*deliveryv1.WindowSet{frozen(""), of("project", manual(always()))},
			false, true,
		},
		{
			"what is not closed says nothing",
			[]*deliveryv1.WindowSet{of("project", leaving(deny("0 20 * * *", "", hour)))},
			true, true,
		},
	} {
		state := window.Judge(test.sets, now)
		if state.Manual != test.manual || state.Leaves == test.repair {
			t.Errorf("%s: manual %t, leaves %t", test.name, state.Manual, state.Leaves)
		}
	}
}

func TestWordsNameTheWindowAndItsEnd(t *testing.T) {
	t.Parallel()
	w := deny("0 22 * * *", "", 8*hour)
	w.Name, w.Reason = "nights", "nobody is there."
	for _, test := range []struct {
		set  *deliveryv1.WindowSet
		now  string
		want string
	}{
		{
			of("project", w), "2026-11-20T23:00:00Z",
			`Closed until 2026-11-21 06:00:00 UTC: deny window "nights" of project "x" (nobody is there).`,
		},
		{
			of("cluster", allow("0 9 * * *", "", hour)), "2026-11-20T23:00:00Z",
			`Closed until 2026-11-21 09:00:00 UTC: allow window "0 9 * * *" of cluster "x" is not open.`,
		},
		{
			of("cluster", allow("0 9 * * *", "", hour), allow("0 8 * * *", "", hour)), "2026-11-20T23:00:00Z",
			`Closed until 2026-11-21 08:00:00 UTC: none of the allow windows "0 9 * * *", "0 8 * * *" of cluster "x" is open.`,
		},
		{
			of("project", deny("0 14 * * *", "", 72*hour)), "2026-11-20T23:00:00Z",
			`Closed: deny window "0 14 * * *" of project "x", which has no end in sight: ` +
				`it opens again before it ends, each of the next 60 times.`,
		},
		{frozen(""), "2026-11-20T23:00:00Z", `Closed: the freeze of project "shop" by user:ada (the sale).`},
	} {
		if got := window.Judge([]*deliveryv1.WindowSet{test.set}, at(test.now)).Words(); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

func TestWhatIsNoWindow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		window *deliveryv1.SyncWindow
		want   string
	}{
		{deny("0 0 31 2 *", "", hour), "never due"},
		{deny("0 0 * * *", "Mars/Base", hour), "not known"},
		{deny("0 0 * * *", "", time.Second), "between a minute and 31 days"},
		{deny("0 0 * * *", "", 32*day), "between a minute and 31 days"},
		{&deliveryv1.SyncWindow{Schedule: "0 0 * * *", Duration: durationpb.New(hour)}, "neither allow nor deny"},
		{deny("*/2 * * * *", "", time.Minute), "720 times a day"},
	} {
		if err := window.Check(test.window); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %s", test.window, err, test.want)
		}
	}
}

func TestAnOverrideCoversWhatWasClosedWhenItWasAskedFor(t *testing.T) {
	t.Parallel()
	asked := at("2026-11-20T09:30:00Z")
	since := func(text string) *deliveryv1.WindowSet {
		f := frozen("")
		f.Freeze.SinceTime = timestamppb.New(at(text))
		return f
	}
	early, late := since("2026-11-20T08:00:00Z"), since("2026-11-20T09:40:00Z")
	morning := func() *deliveryv1.SyncWindow { return deny("0 9 * * *", "", hour) }
	often := func() *deliveryv1.SyncWindow { return deny("0,20,40 * * * *", "", 15*time.Minute) }
	office := func() *deliveryv1.SyncWindow { return allow("0 10 * * *", "", 10*time.Minute) }
	type sets = []*deliveryv1.WindowSet
	for _, test := range []struct {
		name      string
		then, now sets
		asked, at string
		covered   bool
	}{
		{
			"what closed the service then",
			sets{early, of("cluster", morning())},
			sets{early, of("cluster", morning())},
			"", "2026-11-20T09:50:00Z", true,
		},
		{
			"a freeze of later",
			sets{of("cluster", morning())},
			sets{late, of("cluster", morning())},
			"",
			"2026-11-20T09:50:00Z", false,
		},
		{"a freeze that was ended and begun again", sets{early}, sets{late}, "", "2026-11-20T09:50:00Z", false},
		{
			"a window that opened later",
			sets{early, of("cluster", deny("45 9 * * *", "", hour))},
			sets{early, of("cluster", deny("45 9 * * *", "", hour))},
			"", "2026-11-20T09:50:00Z", false,
		},
		{
			"a window that was written later",
			sets{early},
			sets{early, of("cluster", morning())},
			"",
			"2026-11-20T09:50:00Z", false,
		},
		{
			"a window that was changed later",
			sets{of("cluster", morning())},
			sets{of("cluster", deny("0 9 * * *", "", 2*hour))},
			"", "2026-11-20T09:50:00Z", false,
		},
		{
			"a window that opened again",
			sets{of("cluster", often())},
			sets{of("cluster", often())},
			"2026-11-20T09:25:00Z", "2026-11-20T09:45:00Z", false,
		},
		{
			"the same opening",
			sets{of("cluster", often())},
			sets{of("cluster", often())},
			"2026-11-20T09:25:00Z",
			"2026-11-20T09:34:00Z", true,
		},
		{
			"an allow window that has not opened since",
			sets{of("cluster", office())},
			sets{of("cluster", office())},
			"", "2026-11-20T09:50:00Z", true,
		},
		{
			"an allow window that was open meanwhile",
			sets{of("cluster", office())},
			sets{of("cluster", office())},
			"", "2026-11-20T10:20:00Z", false,
		},
		{
			"a window of later that lets a person's sync through",
			sets{early},
			sets{early, of("cluster", manual(morning()))},
			"", "2026-11-20T09:50:00Z", true,
		},
		{"nothing closes it any more", sets{early}, nil, "", "2026-11-20T09:50:00Z", true},
	} {
		when := asked
		if test.asked != "" {
			when = at(test.asked)
		}
		var ids []string
		for _, c := range window.Judge(test.then, when).By {
			ids = append(ids, c.ID())
		}
		if got := window.Overridden(test.now, ids, when, at(test.at)); got != test.covered {
			t.Errorf("%s: covered is %t", test.name, got)
		}
	}
}

func TestACacheSeesWhatOpensAndCloses(t *testing.T) {
	t.Parallel()
	sets := []*deliveryv1.WindowSet{
		of("project", deny("0 9 * * *", "", hour)), of("cluster", deny("30 9 * * *", "", hour)),
		frozen("2026-11-20T09:45:00Z"),
	}
	var cache window.Cache
	from := at("2026-11-20T08:00:00Z")
	for minute := range 4 * 60 {
		now := from.Add(time.Duration(minute) * time.Minute)
		want, got := window.Judge(sets, now), cache.Judge(sets, now)
		if want.Words() != got.Words() || len(want.By) != len(got.By) || !want.Change.Equal(got.Change) {
			t.Fatalf("at %s: %q, want %q", now, got.Words(), want.Words())
		}
	}
	other := []*deliveryv1.WindowSet{of("project", deny("0 9 * * *", "", hour))}
	if cache.Judge(other, from.Add(hour)).Closed != true ||
		cache.Judge(sets, from).Words() != window.Judge(sets, from).Words() {
		t.Error("the cache mistakes sets, or does not see that a clock was put back")
	}
}

// putBack is a time of the same monotonic reading whose wall clock was put back, as time.Now returns it after the clock
// of a machine was set.
func putBack(t *testing.T, now time.Time, by time.Duration) time.Time {
	t.Helper()
	back := now
	*(*uint64)(unsafe.Pointer(&back)) -= uint64(by/time.Second) << 30 // package time has no other way to set one of the two clocks
	if !back.Round(0).Equal(now.Add(-by).Round(0)) || !back.Equal(now) {
		t.Fatalf("package time keeps its readings in another way: got %s of %s", back, now)
	}
	return back
}

// The times that the agent judges at have a monotonic reading, which no clock that is set puts back.
func TestACacheSeesThatTheClockOfItsMachineWasPutBack(t *testing.T) {
	t.Parallel()
	now := time.Now()
	start := now.UTC().Truncate(time.Minute).Add(-time.Minute)
	sets := []*deliveryv1.WindowSet{
		of("project", deny(fmt.Sprintf("%d %d * * *", start.Minute(), start.Hour()), "", hour)),
	}
	var cache window.Cache
	if !cache.Judge(sets, now).Closed {
		t.Fatal("the window is not open")
	}
	if cache.Judge(sets, putBack(t, now, 10*time.Minute)).Closed {
		t.Error("the cache keeps the state of the time before the clock was put back")
	}
}

// BenchmarkJudge is about the worst windows that were ever written: those of every second minute.
func BenchmarkJudge(b *testing.B) {
	set := of("project")
	for i := range 32 {
		set.Windows = append(set.Windows,
			deny("*/2 * * * *", "Europe/Berlin", time.Minute+time.Duration(i)*time.Second))
	}
	now := at("2026-11-20T09:30:00Z")
	for b.Loop() {
		window.Judge([]*deliveryv1.WindowSet{set}, now)
	}
}

// FuzzJudge: a change is really one, and nothing changes before it.
func FuzzJudge(f *testing.F) {
	f.Add("0 22 * * *", "Europe/Berlin", int64(480), "0 9 * * mon-fri", "", int64(480), int64(1795000000))
	f.Add("*/5 1-3,7 1 jan-dec sun", "", int64(3), "* * * * *", "Asia/Kolkata", int64(1), int64(1774746000))
	f.Add("30 2 * * *", "Europe/Berlin", int64(60), "0 0 29 2 *", "America/St_Johns", int64(44640), int64(1774744200))
	f.Fuzz(func(t *testing.T, a, zoneA string, lastsA int64, b, zoneB string, lastsB, now int64) {
		if now < 0 || now > 4e9 || len(a)+len(b) > 200 || lastsA < 0 || lastsB < 0 || lastsA > 1e5 || lastsB > 1e5 {
			return
		}
		sets := []*deliveryv1.WindowSet{
			of("project", deny(a, zoneA, time.Duration(lastsA)*time.Minute)),
			of("service", allow(b, zoneB, time.Duration(lastsB)*time.Minute)),
		}
		from := time.Unix(now, 0)
		state := window.Judge(sets, from)
		if state.Closed != (len(state.By) > 0) || state.Closed != (state.Words() != "") {
			t.Fatalf("closed %t by %v", state.Closed, state.By)
		}
		if state.Change.IsZero() {
			return
		}
		if !state.Change.After(from) || window.Judge(sets, state.Change).Closed == state.Closed {
			t.Errorf("%v %v at %s: nothing changes at %s", sets[0], sets[1], from.UTC(), state.Change.UTC())
		}
		if window.Judge(sets, from.Add(state.Change.Sub(from)/2)).Closed != state.Closed ||
			window.Judge(sets, state.Change.Add(-time.Second)).Closed != state.Closed {
			t.Errorf("%v %v at %s: something changes before %s", sets[0], sets[1], from.UTC(), state.Change.UTC())
		}
	})
}
