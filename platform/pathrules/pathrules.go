// Package pathrules decides which files of a folder belong to a service, by rules with the grammar of
// .gitignore: the include and ignore rules of the service, and the .fairleadignore files in its folder
// and below. Files above the folder are not read, so that a commit outside of it changes nothing.
//
// A file is left out if the ignore rules say so for it or for a folder above it; where none of them
// says anything, the nearest .fairleadignore that does. With include rules it must be named by them
// besides, itself or a folder above it.
//
// Paths are judged byte by byte, as Git does, and at a bounded cost: a rule is matched by following the set of all
// places in it that what was read so far can have led to.
package pathrules

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// FileName of the rules that a repository brings along.
	FileName = ".fairleadignore"
	// MaxFileBytes of one such file.
	MaxFileBytes = 64 << 10

	maxRules      = 100 // of a service, of each kind; what the API takes, too
	maxRuleBytes  = 512
	maxFileRules  = 2_000       // in one file
	maxFiles      = 1_000       // with rules, below one folder
	maxSteps      = 200_000_000 // in one walk; about a second
	includePrefix = "+"
	ignorePrefix  = "-"
)

// ErrRules says that the rules themselves are wrong, or too much, in words for who wrote them.
var ErrRules = errors.New("rules")

// Rules are those of a service. The zero value leaves nothing out but what a .fairleadignore does.
type Rules struct {
	include, ignore []*rule
	canonical       string
}

// Parse reads the rules of a service. A rule is a line as in .gitignore.
func Parse(include, ignore []string) (Rules, error) {
	var r Rules
	var err error
	var text strings.Builder
	if r.include, err = parseList("include", includePrefix, include, &text); err != nil {
		return Rules{}, err
	}
	if r.ignore, err = parseList("ignore", ignorePrefix, ignore, &text); err != nil {
		return Rules{}, err
	}
	r.canonical = text.String()
	return r, nil
}

func parseList(kind, prefix string, lines []string, text *strings.Builder) ([]*rule, error) {
	if len(lines) > maxRules {
		return nil, fmt.Errorf("%w: %d %s rules, the limit is %d", ErrRules, len(lines), kind, maxRules)
	}
	rules := make([]*rule, 0, len(lines))
	for _, line := range lines {
		trimmed := trimSpaces(line)
		p := parseRule(trimmed)
		switch {
		case len(line) > maxRuleBytes:
			return nil, fmt.Errorf("%w: %s rule %.40q... has %d bytes, the limit is %d", ErrRules, kind, line, len(line), maxRuleBytes)
		case !utf8.ValidString(line) || strings.ContainsAny(line, "\x00\r\n"):
			return nil, fmt.Errorf("%w: %s rule %q is not one line of text", ErrRules, kind, line)
		case trimmed == "" || trimmed[0] == '#':
			return nil, fmt.Errorf("%w: %s rule %q is blank or a comment and does nothing. Remove it, or write \\# for a name that begins with #", ErrRules, kind, line)
		case p.never:
			return nil, fmt.Errorf("%w: %s rule %q matches nothing: a [ is not closed, or it ends with a \\, or it names nothing", ErrRules, kind, line)
		}
		rules = append(rules, p)
		text.WriteString(prefix + trimmed + "\n")
	}
	return rules, nil
}

// Canonical is the rules as one text, equal for equal rules; empty without any. ParseCanonical reads it.
func (r Rules) Canonical() string { return r.canonical }

// ParseCanonical reads what Canonical wrote.
func ParseCanonical(s string) (Rules, error) {
	var include, ignore []string
	for line := range strings.Lines(s) {
		line, whole := strings.CutSuffix(line, "\n")
		in, isInclude := strings.CutPrefix(line, includePrefix)
		out, isIgnore := strings.CutPrefix(line, ignorePrefix)
		switch {
		case whole && isInclude:
			include = append(include, in)
		case whole && isIgnore:
			ignore = append(ignore, out)
		default:
			return Rules{}, fmt.Errorf("%w: %.40q is not in the canonical form", ErrRules, line)
		}
	}
	r, err := Parse(include, ignore)
	if err == nil && r.canonical != s {
		err = fmt.Errorf("%w: not in the canonical form", ErrRules)
	}
	return r, err
}

// String is the rules as people write them.
func (r Rules) String() string {
	var parts []string
	for _, list := range []struct {
		kind  string
		rules []*rule
	}{{"include", r.include}, {"ignore", r.ignore}} {
		if len(list.rules) > 0 {
			parts = append(parts, list.kind+" "+quoted(list.rules))
		}
	}
	return strings.Join(parts, ", ")
}

// maxShown rules are named in a message.
const maxShown = 5

func quoted(rules []*rule) string {
	var names []string
	for i, r := range rules {
		if i == maxShown {
			names = append(names, fmt.Sprintf("and %d more", len(rules)-maxShown))
			break
		}
		names = append(names, fmt.Sprintf("%q", r.text))
	}
	return strings.Join(names, " ")
}

// trimSpaces cuts trailing spaces, but for one that a backslash keeps.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			i++
		}
		end = min(i+1, len(line))
	}
	return line[:end]
}
