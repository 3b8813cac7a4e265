package pathrules

import (
	"math/bits"
	"strings"
)

// words of places: maxRuleBytes steps and the end.
const words = maxRuleBytes/64 + 1

// places are where in a rule's steps what was read so far can have led to, as bits. The one after the
// last step means: all of the rule.
type places [words]uint64

func (p *places) add(at int)      { p[at>>6] |= 1 << (at & 63) }
func (p *places) has(at int) bool { return p[at>>6]&(1<<(at&63)) != 0 }
func (p *places) none() bool      { return *p == places{} }

// begin is where all matching begins.
func (r *rule) begin() (p places) {
	r.reach(&p, 0)
	return p
}

// reach adds a place, and those that need nothing more to be read.
func (r *rule) reach(p *places, at int) {
	for {
		p.add(at)
		if at == len(r.steps) {
			return
		}
		switch r.steps[at].kind {
		case run, all:
			at++
		case dirs:
			p.add(at + 1)
			at += 2
		case one, below:
			return
		}
	}
}

// read follows the rule from the places p by a text, and adds what that costs to cost.
func (r *rule) read(p places, text string, cost *int) places {
	used := len(r.steps)/64 + 1
	for i := 0; i < len(text) && !p.none(); i++ {
		var next places
		for w := range used {
			for left := p[w]; left != 0; left &= left - 1 {
				r.follow(&next, w*64+bits.TrailingZeros64(left), text[i])
				*cost++
			}
		}
		p = next
	}
	return p
}

// follow adds where one byte leads to from one place.
func (r *rule) follow(next *places, at int, b byte) {
	if at == len(r.steps) {
		return
	}
	switch s := &r.steps[at]; s.kind {
	case one:
		if s.set.has(b) {
			r.reach(next, at+1)
		}
	case run:
		if b != '/' {
			r.reach(next, at)
		}
	case all:
		r.reach(next, at)
	case below:
		next.add(at)
		if b == '/' {
			r.reach(next, at+1)
		}
	case dirs: // reads nothing itself
	}
}

// ended says whether all of the rule was followed.
func (r *rule) ended(p *places) bool { return p.has(len(r.steps)) }

// matchName matches a rule that is for the last name of a path.
func (r *rule) matchName(name string, cost *int) bool {
	*cost++
	switch {
	case r.exact:
		return name == r.literal
	case r.suffix:
		return strings.HasSuffix(name, r.literal)
	}
	p := r.read(r.begin(), name, cost)
	return r.ended(&p)
}
