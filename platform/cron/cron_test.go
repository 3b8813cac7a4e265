package cron_test

import (
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
		{"0 0 1,15 Feb sun", "", "2026-02-01T00:00:00Z", "2026-02-08T00:00:00Z", "2026-02-01T00:00:00Z"}, // one of the two days
		{"0 0 29 2 *", "", "2026-03-01T00:00:00Z", "2028-02-29T00:00:00Z", "2024-02-29T00:00:00Z"},
		{"0 3 * * *", "Europe/Berlin", "2026-07-01T00:30:00Z", "2026-07-01T01:00:00Z", "2026-06-30T01:00:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-30T00:30:00Z", "2026-03-28T01:30:00Z"},   // there is no 2:30 that day
		{"30 2 25 10 *", "Europe/Berlin", "2026-10-25T01:30:00Z", "2027-10-25T00:30:00Z", "2026-10-25T01:30:00Z"}, // twice, and counted once
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
	for _, seed := range []string{"0 3 * * *", "*/5 1-3,7 1 jan-dec sun", "0 0 31 2 *", "99999999999999999999 * * * *"} {
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
