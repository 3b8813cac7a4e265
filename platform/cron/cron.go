// Package cron reads schedules of five fields, as cron has them, and says when they are due.
//
// Fields are minute, hour, day of the month, month and day of the week; each is *, a number, a range a-b, a list of
// those with commas, and any of them but a number with a step /n. Months and days of the week have their English names
// of three letters, too; Sunday is 0 and 7. If both days are given, a day has to be one of the two, as with cron. Hours
// that a time zone leaves out are passed over (a schedule of ThroughGaps has them when the clock is put forward), and
// those that it has twice count once.
package cron

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // images have no time zones
)

// Schedule is when something is due.
type Schedule struct {
	minutes, hours, days, months, weekdays uint64 // bits
	// anyDay and anyWeekday: the field begins with *.
	anyDay, anyWeekday bool
	zone               *time.Location
	// throughGaps: what is due in an hour that the zone leaves out is due at the end of that hour.
	throughGaps bool
}

// horizon bounds how far ahead a due time is looked for: 29 February on a certain weekday comes again within 40 years.
const horizon = 41 * 366

// Parse reads a schedule, such as "0 3 * * mon-fri", and the name of its time zone, such as Europe/Berlin; empty: UTC.
func Parse(schedule, zone string) (*Schedule, error) {
	fields := strings.Fields(schedule)
	if len(fields) != 5 {
		return nil, fmt.Errorf("schedule %q must have five fields: minute, hour, day of the month, month and day of the week, such as 0 3 * * *", schedule)
	}
	if zone == "Local" {
		return nil, errors.New(`time zone "Local" is another one in each place; name it, such as Europe/Berlin`)
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("time zone %q is not known; name one as the IANA database does, such as Europe/Berlin", zone)
	}
	s := &Schedule{zone: location, anyDay: strings.HasPrefix(fields[2], "*"), anyWeekday: strings.HasPrefix(fields[4], "*")}
	for i, field := range []struct {
		name     string
		low, top int
		names    []string
		bits     *uint64
	}{
		{"minute", 0, 59, nil, &s.minutes},
		{"hour", 0, 23, nil, &s.hours},
		{"day of the month", 1, 31, nil, &s.days},
		{"month", 1, 12, []string{"", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}, &s.months},
		{"day of the week", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}, &s.weekdays},
	} {
		if *field.bits, err = parseField(fields[i], field.low, field.top, field.names); err != nil {
			return nil, fmt.Errorf("schedule %q: %s %q %w", schedule, field.name, fields[i], err)
		}
	}
	if s.weekdays&(1<<7) != 0 {
		s.weekdays |= 1
	}
	if s.Next(time.Now()).IsZero() {
		return nil, fmt.Errorf("schedule %q is never due: no such day is in any of its months", schedule)
	}
	return s, nil
}

func parseField(text string, low, top int, names []string) (bits uint64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		span, stepText, stepped := strings.Cut(part, "/")
		step := 1
		if stepped {
			if step, err = strconv.Atoi(stepText); err != nil || step < 1 || step > top {
				return 0, fmt.Errorf("has a step that is not between 1 and %d", top)
			}
		}
		from, to := low, top
		if span != "*" {
			first, last, isRange := strings.Cut(span, "-")
			if from, err = parseValue(first, low, top, names); err != nil {
				return 0, err
			}
			switch to = from; {
			case isRange:
				if to, err = parseValue(last, low, top, names); err != nil {
					return 0, err
				}
			case stepped:
				to = top
			}
			if to < from {
				return 0, fmt.Errorf("has a range that ends before it begins: %s", span)
			}
		}
		for value := from; value <= to; value += step {
			bits |= 1 << value
		}
	}
	return bits, nil
}

func parseValue(text string, low, top int, names []string) (int, error) {
	for value, name := range names {
		if name != "" && strings.EqualFold(name, text) {
			return value, nil
		}
	}
	value, err := strconv.Atoi(text)
	if err != nil || value < low || value > top || strings.HasPrefix(text, "+") {
		return 0, fmt.Errorf("must be made of numbers between %d and %d", low, top)
	}
	return value, nil
}

// Next is the first time after another that is due, at a whole minute; zero: there is none.
func (s *Schedule) Next(after time.Time) time.Time { return s.find(after.In(s.zone), 1) }

// Last is the last time that was due, now or before; zero: there is none.
func (s *Schedule) Last(now time.Time) time.Time { return s.find(now.In(s.zone), -1) }

// ThroughGaps is the schedule with the times that its zone leaves out: each is due at the moment at which the clock is
// put forward over it.
func (s *Schedule) ThroughGaps() *Schedule {
	out := *s
	out.throughGaps = true
	return &out
}

// PerDay is how often it is due on a day that it has.
func (s *Schedule) PerDay() int { return bits.OnesCount64(s.hours) * bits.OnesCount64(s.minutes) }

// find looks day by day forwards, or backwards with -1, for the time nearest to a border; the border itself counts
// backwards only.
func (s *Schedule) find(border time.Time, direction int) time.Time {
	year, month, day := border.Date()
	for i := range horizon {
		noon := time.Date(year, month, day+i*direction, 12, 0, 0, 0, s.zone)
		if !s.hasDay(noon) {
			continue
		}
		begin, end := noon.Add(-12*time.Hour), noon.Add(12*time.Hour)
		// The new time of a day with two midnights begins at the second one.
		if from, to := noon.ZoneBounds(); !from.IsZero() && !from.Before(begin) || !to.IsZero() && to.Before(end) {
			if best := s.findShifted(noon, border, direction); !best.IsZero() {
				return best
			}
			continue
		}
		minute, found := 0, false
		if direction > 0 {
			after := -1 // the first minute that is asked for is the one after it
			if !border.Before(begin) {
				after = int(border.Sub(begin) / time.Minute)
			}
			minute, found = s.minuteFrom(after + 1)
		} else {
			last := minutesPerDay - 1
			switch {
			case border.Before(begin):
				last = -1
			case border.Before(end):
				last = int(border.Sub(begin) / time.Minute)
			}
			minute, found = s.minuteUpTo(last)
		}
		if found {
			return begin.Add(time.Duration(minute) * time.Minute)
		}
	}
	return time.Time{}
}

const minutesPerDay = 24 * 60

// minuteFrom is the first minute of a day that is due, from one on.
func (s *Schedule) minuteFrom(minute int) (first int, found bool) {
	if minute >= minutesPerDay {
		return 0, false
	}
	hour := minute / 60
	if s.hours&(1<<hour) != 0 {
		if rest := s.minutes >> (minute % 60) << (minute % 60); rest != 0 {
			return hour*60 + bits.TrailingZeros64(rest), true
		}
	}
	rest := s.hours >> (hour + 1) << (hour + 1)
	if rest == 0 {
		return 0, false
	}
	return bits.TrailingZeros64(rest)*60 + bits.TrailingZeros64(s.minutes), true
}

// minuteUpTo is the last minute of a day that is due, up to one.
func (s *Schedule) minuteUpTo(minute int) (last int, found bool) {
	if minute < 0 {
		return 0, false
	}
	hour := minute / 60
	if s.hours&(1<<hour) != 0 {
		if rest := s.minutes & (1<<(minute%60+1) - 1); rest != 0 {
			return hour*60 + bits.Len64(rest) - 1, true
		}
	}
	rest := s.hours & (1<<hour - 1)
	if rest == 0 {
		return 0, false
	}
	return (bits.Len64(rest)-1)*60 + bits.Len64(s.minutes) - 1, true
}

// findShifted looks at each minute of a day on which the clock is set: such a day does not have each of them once.
func (s *Schedule) findShifted(date, border time.Time, direction int) (best time.Time) {
	for hour := range 24 {
		for minute := range 60 {
			if s.hours&(1<<hour) == 0 || s.minutes&(1<<minute) == 0 {
				continue
			}
			at := time.Date(date.Year(), date.Month(), date.Day(), hour, minute, 0, 0, s.zone)
			if at.Hour() != hour || at.Minute() != minute { // the clock is put forward over it
				if !s.throughGaps {
					continue
				}
				at = gapEnd(at, date, hour, minute)
			}
			if direction > 0 && at.After(border) && (best.IsZero() || at.Before(best)) || direction < 0 && !at.After(border) && at.After(best) {
				best = at
			}
		}
	}
	return best
}

// gapEnd is when the clock is put forward over a minute of a day. at is what package time makes of that minute: a time
// before or after it, which may be on the day before or after.
func gapEnd(at, date time.Time, hour, minute int) time.Time {
	wanted := time.Date(date.Year(), date.Month(), date.Day(), hour, minute, 0, 0, time.UTC)
	wall := time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), 0, 0, time.UTC)
	from, to := at.ZoneBounds()
	if wall.After(wanted) {
		return from
	}
	return to
}

func (s *Schedule) hasDay(date time.Time) bool {
	if s.months&(1<<date.Month()) == 0 {
		return false
	}
	day, weekday := s.days&(1<<date.Day()) != 0, s.weekdays&(1<<date.Weekday()) != 0
	if s.anyDay || s.anyWeekday {
		return day && weekday
	}
	return day || weekday
}
