package pathrules

import "strings"

// rule is one line.
type rule struct {
	text    string
	negated bool // the rule takes back what an earlier one said
	folders bool // the rule is for folders only
	named   bool // the rule has no slash within: it is for the last name of a path, wherever that is
	never   bool // the rule can't match anything
	// The rule matches: exactly literal, or whatever ends with literal (suffix), or steps.
	exact, suffix bool
	literal       string
	steps         []step
}

const special = `*?[\`

// parseRule reads a line that is not blank.
func parseRule(line string) *rule {
	r := &rule{text: line}
	line, r.negated = strings.CutPrefix(line, "!")
	line, r.folders = strings.CutSuffix(line, "/")
	r.named = !strings.Contains(line, "/")
	line, _ = strings.CutPrefix(line, "/")
	if line == "" {
		r.never = true
		return r
	}
	rest, starred := strings.CutPrefix(line, "*")
	switch {
	case r.named && !strings.ContainsAny(line, special):
		r.exact, r.literal = true, line
	case r.named && starred && !strings.ContainsAny(rest, special):
		r.suffix, r.literal = true, rest
	default:
		var ok bool
		r.steps, ok = compile(line)
		r.never = !ok
	}
	return r
}

// kind of a step.
type kind uint8

const (
	one   kind = iota // a byte of the set
	run               // any number of bytes that are no slash
	all               // any number of bytes
	dirs              // nothing, or what ends with a slash: this step is the choice,
	below             // and this one what ends with a slash
)

// step is one place in a rule.
type step struct {
	kind kind
	set  set
}

// set of bytes.
type set [4]uint64

func (s *set) add(b byte)      { s[b>>6] |= 1 << (b & 63) }
func (s *set) has(b byte) bool { return s[b>>6]&(1<<(b&63)) != 0 }

func (s *set) addRange(from, to byte) {
	for b := int(from); b <= int(to); b++ {
		s.add(byte(b))
	}
}

func (s *set) invert() {
	for i := range s {
		s[i] = ^s[i]
	}
}

func (s *set) remove(b byte) { s[b>>6] &^= 1 << (b & 63) }

// compile turns a rule into steps; false: it can't match anything.
func compile(p string) ([]step, bool) {
	var steps []step
	for i := 0; i < len(p); i++ {
		s := step{kind: one}
		switch p[i] {
		case '\\':
			if i++; i == len(p) {
				return nil, false
			}
			s.set.add(p[i])
		case '?':
			s.set.invert()
			s.set.remove('/')
		case '*':
			begin := i
			for i+1 < len(p) && p[i+1] == '*' {
				i++
			}
			stars := starSteps(p, begin, i)
			if len(stars) > 1 {
				i++ // the slash belongs to it
			}
			steps = append(steps, stars...)
			continue
		case '[':
			var ok bool
			if s.set, i, ok = parseClass(p, i); !ok {
				return nil, false
			}
		default:
			s.set.add(p[i])
		}
		steps = append(steps, s)
	}
	return steps, true
}

// starSteps are those of the stars from begin to end. Two or more of them cross folders where they are
// a whole name; else they are as good as one.
func starSteps(p string, begin, end int) []step {
	rest := p[end+1:]
	alone := end > begin && (begin == 0 || p[begin-1] == '/')
	switch {
	case alone && strings.HasPrefix(rest, "/"):
		return []step{{kind: dirs}, {kind: below}}
	case alone && (rest == "" || strings.HasPrefix(rest, `\/`)):
		return []step{{kind: all}}
	default:
		return []step{{kind: run}}
	}
}
