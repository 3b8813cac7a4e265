package resource

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// requirement is one part of a selector of labels: KEY, !KEY, KEY=VALUE, KEY!=VALUE, KEY in (A,B) or KEY notin (A,B).
var requirement = regexp.MustCompile(`^\s*(?:(!?)\s*([^\s=!,()]+)|([^\s=!,()]+)\s*(==|=|!=)\s*([^\s=!,()]*)|([^\s=!,()]+)\s+(in|notin)\s*\(([^()]*)\))\s*$`)

// SelectorFilter turns a selector of labels, as kubectl takes it, into a filter of the hub.
func SelectorFilter(selector string) (string, error) {
	var terms []string
	for _, part := range splitSelector(selector) {
		m := requirement.FindStringSubmatch(part)
		switch {
		case m == nil:
			return "", fmt.Errorf("--selector: %q must be like env=prod, env!=prod, env, !env, env in (prod,test) or env notin (prod)", part)
		case m[2] != "" && m[1] == "":
			terms = append(terms, "labels : "+strconv.Quote(m[2]))
		case m[2] != "":
			terms = append(terms, "NOT labels : "+strconv.Quote(m[2]))
		case m[4] == "!=":
			terms = append(terms, LabelField(m[3])+" != "+strconv.Quote(m[5]))
		case m[3] != "":
			terms = append(terms, LabelField(m[3])+" = "+strconv.Quote(m[5]))
		default:
			terms = append(terms, anyOf(m[6], m[7], m[8]))
		}
	}
	return strings.Join(terms, " AND "), nil
}

// splitSelector returns the parts of a selector: commas in parentheses belong to a part.
func splitSelector(selector string) (parts []string) {
	depth, from := 0, 0
	for i, r := range selector {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				parts, from = append(parts, selector[from:i]), i+1
			}
		}
	}
	return append(parts, selector[from:])
}

// LabelField is a label as filters of the hub name it.
func LabelField(key string) string { return "labels." + key }

// anyOf is "in" and "notin": a resource without the label fits only the second.
func anyOf(key, operator, list string) string {
	compare, joint := " = ", " OR "
	if operator == "notin" {
		compare, joint = " != ", " AND "
	}
	var terms []string
	for value := range strings.SplitSeq(list, ",") {
		terms = append(terms, LabelField(key)+compare+strconv.Quote(strings.TrimSpace(value)))
	}
	return "(" + strings.Join(terms, joint) + ")"
}

// JoinFilters joins filters, either of which may be empty.
func JoinFilters(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "":
		return a
	}
	return "(" + a + ") AND (" + b + ")"
}

// NamedFilter is a filter for resources of these names.
func NamedFilter(names []string) string {
	var terms []string
	for _, name := range names {
		terms = append(terms, "name = "+strconv.Quote(name))
	}
	return strings.Join(terms, " OR ")
}

// FilterGlobal returns the filter of the hub that chooses the services of a global service.
func FilterGlobal(name string) string { return "labels." + GlobalLabel + " = " + strconv.Quote(name) }
