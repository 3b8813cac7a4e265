package cron_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/cron"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestWhenAScheduleIsDue(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ schedule, zone, from, next, last string }{
		{"0 3 * * *", "", "2026-11-21T03:00:00Z", "2026-11-22T03:00:00Z", "2026-11-21T03:00:00Z"},
		{"0 3 * * *", "", "2026-11-21T02:59:59Z", "2026-11-21T03:00:00Z", "2026-11-20T03:00:00Z"},
		{"*/15 * * * *", "", "2026-11-21T10:16:30Z", "2026-11-21T10:30:00Z", "2026-11-21T10:15:00Z"},
		{"5/20 9-10 * * *", "", "2026-11-21T09:30:00Z", "2026-11-21T09:45:00Z", "2026-11-21T09:25:00Z"},
		{"0 0 * * mon-fri", "", "2026-11-21T10:00:00Z", "2026-11-23T00:00:00Z", "2026-11-20T00:00:00Z"},
		{"0 0 * * 7", "", "2026-11-21T10:00:00Z", "2026-11-22T00:00:00Z", "2026-11-15T00:00:00Z"},
		// one of the two days
		{"0 0 1,15 Feb sun", "", "2026-02-01T00:00:00Z", "2026-02-08T00:00:00Z", "2026-02-01T00:00:00Z"},
		{"0 0 29 2 *", "", "2026-03-01T00:00:00Z", "2028-02-29T00:00:00Z", "2024-02-29T00:00:00Z"},
		{"0 3 * * *", "Europe/Berlin", "2026-07-01T00:30:00Z", "2026-07-01T01:00:00Z", "2026-06-30T01:00:00Z"},
		// there is no 2:30 that day
		{"30 2 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-30T00:30:00Z", "2026-03-28T01:30:00Z"},
		// twice, and counted once
		{"30 2 25 10 *", "Europe/Berlin", "2026-10-25T01:30:00Z", "2027-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
		{"0 0 25 10 *", "Atlantic/Azores", "2026-10-25T00:30:00Z", "2027-10-25T00:00:00Z", "2026-10-25T00:00:00Z"},
		{"59 23 31 12 *", "Pacific/Kiritimati", "2026-12-31T09:58:00Z", "2026-12-31T09:59:00Z", "2025-12-31T09:59:00Z"},
	} {
		s, err := cron.Parse(test.schedule, test.zone)
		if err != nil {
			t.Errorf("%s: %v", test.schedule, err)
			continue
		}
		if got := s.Next(at(t, test.from)); !got.Equal(at(t, test.next)) {
			t.Errorf("%s after %s: %s, want %s", test.schedule, test.from, got.UTC(), test.next)
		}
		if got := s.Last(at(t, test.from)); !got.Equal(at(t, test.last)) {
			t.Errorf("%s before %s: %s, want %s", test.schedule, test.from, got.UTC(), test.last)
		}
	}
}

func TestWhatIsNoSchedule(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ schedule, zone, want string }{
		{"", "", "must have five fields"},
		{"@daily", "", "must have five fields"},
		{"60 * * * *", "", `minute "60" must be made of numbers between 0 and 59`},
		{"* * 0 * *", "", "day of the month"},
		{"* * * jam *", "", "month"},
		{"10-5 * * * *", "", "ends before it begins"},
		{"*/0 * * * *", "", "step"},
		{"+5 * * * *", "", "numbers"},
		{"1, * * * *", "", "numbers"},
		{"0 0 31 2 *", "", "is never due"},
		{"0 0 * * *", "Mars/Base", `time zone "Mars/Base" is not known`},
		{"0 0 * * *", "Local", "name it"},
		{"0 0 * * *", "../etc/passwd", "is not known"},
	} {
		if _, err := cron.Parse(test.schedule, test.zone); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q in %q: %v, want %s", test.schedule, test.zone, err, test.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"0 3 * * *", "*/5 1-3,7 1 jan-dec sun", "0 0 31 2 *", "99999999999999999999 * * * *",
	} {
		f.Add(seed, "")
	}
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, schedule, zone string) {
		s, err := cron.Parse(schedule, zone)
		if err != nil {
			return
		}
		next := s.Next(now)
		if !next.IsZero() && (!next.After(now) || next.Second() != 0 || !s.Last(next).Equal(next)) {
			t.Errorf("%q in %q: next is %s, and the last one at that time %s", schedule, zone, next, s.Last(next))
		}
	})
}

// A schedule is looked up by arithmetic on days without a change of the clock. The reference makes every time of the
// days around.
func TestEveryDueTimeIsFoundInItsOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(21, 1))
	for _, zone := range []string{
		"", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns",
		"Atlantic/Azores", "America/Havana", "America/Santiago", "America/Asuncion",
	} {
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for range 400 {
			minutes, hours := some(random, 60), some(random, 24)
			text := list(minutes) + " " + list(hours) + " * * *"
			s, err := cron.Parse(text, zone)
			if err != nil {
				t.Fatal(err)
			}
			// Days with a change of the clock in one of the zones are among those of spring and autumn.
			from := time.Date(2017, time.Month(1+random.IntN(12)), 1+random.IntN(28), random.IntN(24), random.IntN(60),
				random.IntN(60), 0, location)
			if _, change := from.ZoneBounds(); !change.IsZero() && random.IntN(2) == 0 {
				from = change.In(location).Add(time.Duration(random.IntN(72*3600)-36*3600) * time.Second)
			}
			for _, gaps := range []bool{false, true} {
				is := s
				if gaps {
					is = s.ThroughGaps()
				}
				next, last := reference(minutes, hours, from, gaps)
				if got := is.Next(from); !got.Equal(next) {
					t.Fatalf("%s in %q after %s: %s, want %s", text, zone, from, got, next)
				}
				if got := is.Last(from); !got.Equal(last) {
					t.Fatalf("%s in %q before %s: %s, want %s", text, zone, from, got, last)
				}
			}
		}
	}
}

func some(random *rand.Rand, below int) []int {
	out := random.Perm(below)[:1+random.IntN(4)]
	slices.Sort(out)
	return out
}

func list(values []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(values), "[]"), " ", ",")
}

// reference is the first due time after a time, and the last one up to it.
func reference(minutes, hours []int, from time.Time, gaps bool) (next, last time.Time) {
	for day := -3; day <= 3; day++ {
		for _, hour := range hours {
			for _, minute := range minutes {
				at := time.Date(from.Year(), from.Month(), from.Day()+day, hour, minute, 0, 0, from.Location())
				if at.Hour() != hour || at.Minute() != minute {
					if !gaps {
						continue
					}
					// The gap ends at the first whole minute whose clock is past the minute that it leaves out.
					at = at.Add(-2 * time.Hour)
					for _, before := at.Zone(); ; at = at.Add(time.Minute) {
						if _, now := at.Zone(); now != before {
							break
						}
					}
				}
				if at.After(from) && (next.IsZero() || at.Before(next)) {
					next = at
				}
				if !at.After(from) && at.After(last) {
					last = at
				}
			}
		}
	}
	return next, last
}

func TestAScheduleThroughGapsIsDueWhenTheClockIsPutForward(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schedule, zone, before, due, next string }{
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
		// Midnight is left out: package time makes a time of the day before of it, or one of the same day.
		{"30 0 * * *", "America/Havana", "2026-03-07T12:00:00Z", "2026-03-08T05:00:00Z", "2026-03-09T04:30:00Z"},
		{"30 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z", "2026-09-06T04:00:00Z", "2026-09-07T03:30:00Z"},
		{"30 0 * * *", "Africa/Cairo", "2026-04-23T12:00:00Z", "2026-04-23T22:00:00Z", "2026-04-24T21:30:00Z"},
		// So is the last hour of a day.
		{"30 23 * * *", "America/Nuuk", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
	} {
		s, err := cron.Parse(c.schedule, c.zone)
		if err != nil {
			t.Fatal(err)
		}
		s = s.ThroughGaps()
		for from, want := range map[string]string{c.before: c.due, c.due: c.next} {
			if got := s.Next(at(t, from)); !got.Equal(at(t, want)) {
				t.Errorf("%s in %s after %s: %s, want %s", c.schedule, c.zone, from, got.UTC(), want)
			}
		}
		if got := s.Last(at(t, c.due).Add(20 * time.Hour)); !got.Equal(at(t, c.due)) {
			t.Errorf("%s in %s: last %s, want %s", c.schedule, c.zone, got.UTC(), c.due)
		}
	}
}
