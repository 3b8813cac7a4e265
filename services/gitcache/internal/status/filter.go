package status

import (
	"net/url"
	"strings"

	"fairlead.dev/platform/refusal"
)

// Filter lets some sources through. The zero value lets all.
type Filter struct {
	terms []func(*Source) bool
}

// The word for no owner in a filter.
const nobody = "none"

// ParseFilter reads terms with spaces between: name:<part>, host:<part>, owner:<replica> or owner:none,
// problem:true or problem:false.
func ParseFilter(text string) (Filter, error) {
	var f Filter
	for term := range strings.FieldsSeq(text) {
		key, value, ok := strings.Cut(term, ":")
		if !ok || value == "" {
			return Filter{}, badTerm(term)
		}
		var match func(*Source) bool
		switch {
		case key == "name":
			match = func(s *Source) bool { return strings.Contains(s.Name, value) }
		case key == "host":
			value := strings.ToLower(value)
			match = func(s *Source) bool { return strings.Contains(strings.ToLower(hostOf(s.URL)), value) }
		case key == "owner" && value == nobody:
			match = func(s *Source) bool { return s.Owner == "" }
		case key == "owner":
			match = func(s *Source) bool { return s.Owner == value }
		case key == "problem" && (value == "true" || value == "false"):
			match = func(s *Source) bool { return (s.Problem.Message != "") == (value == "true") }
		default:
			return Filter{}, badTerm(term)
		}
		f.terms = append(f.terms, match)
	}
	return f, nil
}

func badTerm(term string) error {
	return refusal.New(refusal.Invalid, "filter: %q is no term: write name:PART, host:PART, owner:REPLICA, owner:none, problem:true or problem:false, with spaces between", term)
}

// Match tells whether all terms hold.
func (f Filter) Match(s *Source) bool {
	for _, holds := range f.terms {
		if !holds(s) {
			return false
		}
	}
	return true
}

func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}
