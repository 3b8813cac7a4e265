package views

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"strings"
	"time"
)

const (
	// stepLength is how long a step of a curve is. Steps begin at whole multiples of it, so that all consoles have the
	// same ones.
	stepLength = 5 * time.Minute
	// curveSteps of a curve are remembered: 24 hours.
	curveSteps = int64(24 * time.Hour / stepLength)
	// curveFormat is the first byte of an encoded curve, and curveHead how many bytes are before its rows.
	curveFormat, curveHead = 1, 9
	// maxPacked is the greatest number of a point, and maxShare the greatest share, in thousandths: no agent has sums
	// overflow.
	maxPacked, maxShare = 1<<27 - 1<<15, 1 << 16
)

// curveFigure is a figure that has a curve: a count, or with a whole the share that part is of it.
type curveFigure struct{ name, part, whole string }

const figuresWithCurve = 5

// curveFigures are those that people watch. A curve that is kept has them in this order.
func curveFigures() [figuresWithCurve]curveFigure {
	return [...]curveFigure{
		{name: "pods.not_ready", part: "pods.not_ready"},
		{name: "restarts.hour", part: "restarts.hour"},
		{name: "warnings.hour", part: "warnings.hour"},
		{"shares.cpu", "requests.cpu", "nodes.cpu_allocatable"},
		{"shares.memory", "requests.memory", "nodes.memory_allocatable"},
	}
}

// spot is a figure in one step: the last part, the highest of the step, and the last whole, each packed. The highest is
// that of the part, or where there is a whole that of the share in thousandths. Without a last part the figure is
// unknown.
type spot [3]uint16

// point is all figures in one step.
type point [figuresWithCurve]spot

// pointOf is what a view says now. Figures of sections that the agent does not count as a whole are unknown.
func pointOf(v *view) (out point) {
	for i, f := range curveFigures() {
		out[i] = f.spot(v)
	}
	return out
}

func (f curveFigure) spot(v *view) spot {
	part, ok := v.now(f.part)
	if !ok || part < 0 {
		return spot{}
	}
	if f.whole == "" {
		return spot{pack(part), pack(part)}
	}
	whole, ok := v.now(f.whole)
	if strings.HasSuffix(f.part, ".memory") { // MiB are fine enough, and fit
		part, whole = part>>20, whole>>20
	}
	if !ok || whole <= 0 {
		return spot{}
	}
	part = min(part, maxPacked)
	return spot{pack(part), pack(min(part*1000/whole, maxShare)), pack(whole)}
}

// now is a figure if its section is of now.
func (v *view) now(figure string) (int64, bool) {
	section, _, _ := strings.Cut(figure, ".")
	n, ok := v.figures.get(figure)
	return n, ok && strings.Contains(v.whole, " "+section+" ")
}

// then is what a spot becomes by what was seen later in the same step.
func (s spot) then(later spot) spot {
	if later[0] == 0 {
		return s
	}
	later[1] = max(later[1], s[1])
	return later
}

func (p point) then(later point) point {
	for i := range p {
		p[i] = p[i].then(later[i])
	}
	return p
}

// pack makes two bytes of a number: exact up to 4,095, and above that up to a two-thousandth too low. 0 is no number.
// A greater number never has a smaller packed one.
func pack(n int64) uint16 {
	shift := 0
	for n>>shift >= 1<<12 {
		shift++
	}
	if shift > 15 {
		return pack(maxPacked)
	}
	return min(uint16(shift)<<12|uint16(n>>shift), 0xfffe) + 1 // twelve bits are left
}

func unpack(p uint16) int64 { return int64((p-1)&0xfff) << ((p - 1) >> 12) }

// stepOf is the number of the step that a time is in, and endOf when a step ends.
func stepOf(t time.Time) int64 { return t.Unix() / int64(stepLength/time.Second) }

func endOf(step int64) time.Time { return time.Unix((step+1)*int64(stepLength/time.Second), 0) }

// day is the points of the steps up to end.
type day struct {
	end    int64
	points [curveSteps]point
}

// at is the point of a step; nil: the step is not of the day.
func (d *day) at(step int64) *point {
	if step > d.end || step <= d.end-curveSteps {
		return nil
	}
	return &d.points[curveSteps-1-(d.end-step)]
}

// see adds what was seen in a step.
func (d *day) see(step int64, p point) {
	switch was := d.at(step); {
	case was == nil:
	case *was == point{}:
		*was = p
	default:
		*was = was.then(p)
	}
}

// encode returns the points of a day from the first known one on: the format, the number of the first step, and for
// each step which of its columns differ from the step before, and these. nil: nothing is known.
func (d *day) encode() []byte {
	first, last := int64(-1), int64(-1)
	for i, p := range d.points {
		if p == (point{}) {
			continue
		}
		if last = int64(i); first < 0 {
			first = last
		}
	}
	if first < 0 {
		return nil
	}
	out := append(make([]byte, 0, 512), curveFormat)
	out = binary.LittleEndian.AppendUint64(out, uint64(d.end-curveSteps+1+first))
	var before point
	for _, p := range d.points[first : last+1] {
		at, differ := len(out), uint16(0)
		out = append(out, 0, 0)
		for i := range p {
			for k, column := range p[i] {
				if column != before[i][k] {
					differ |= 1 << (i*len(p[i]) + k)
					out = binary.LittleEndian.AppendUint16(out, column)
				}
			}
		}
		binary.LittleEndian.PutUint16(out[at:], differ)
		before = p
	}
	return append([]byte(nil), out...) // as large as it has to be
}

var errCurve = errors.New("the curve makes no sense")

// add takes in encoded points, as seen later than those of the same steps that the day has.
func (d *day) add(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if len(data) < curveHead || data[0] != curveFormat {
		return errCurve
	}
	step := int64(binary.LittleEndian.Uint64(data[1:]))
	var p point
	for data = data[curveHead:]; len(data) > 0; step++ {
		if len(data) < 2 {
			return errCurve
		}
		differ := binary.LittleEndian.Uint16(data)
		data = data[2:]
		for ; differ != 0; differ &= differ - 1 {
			column := bits.TrailingZeros16(differ)
			if len(data) < 2 || column >= len(p)*len(p[0]) {
				return errCurve
			}
			p[column/len(p[0])][column%len(p[0])] = binary.LittleEndian.Uint16(data)
			data = data[2:]
		}
		d.see(step, p)
	}
	return nil
}

// curve is the last 24 hours of a cluster.
type curve struct {
	data []byte // the steps before the open one, encoded; immutable
	step int64  // the open one
	open point
	kept int64 // the database has all steps before this one
}

// into adds what the curve has to a day.
func (c *curve) into(d *day) {
	_ = d.add(c.data) // this console encoded it
	d.see(c.step, c.open)
}

// turn opens a step, and takes in points from elsewhere, as seen earlier. What a clock that went back had said of later
// steps is dropped.
func (c *curve) turn(step int64, earlier []byte) error {
	d := day{end: step}
	err := d.add(earlier)
	c.into(&d)
	last := d.at(step)
	c.step, c.open, *last = step, *last, point{}
	c.data = d.encode()
	return err
}
