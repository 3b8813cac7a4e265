package flags

import (
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"fairlead.dev/platform/typo"
)

// Variables returns the environment variables that stand for the flags of fs.
func Variables(fs *flag.FlagSet) (names []string) {
	fs.VisitAll(func(f *flag.Flag) { names = append(names, EnvName(f.Name), EnvName(f.Name)+"_FILE") })
	return names
}

// mostTypos is how many letters of a mistyped name are wrong, at most.
const mostTypos = 2

// serviceLink fits variables that Kubernetes sets for a Service, such as FAIRLEAD_CONSOLE_PORT_7400_TCP_ADDR.
var serviceLink = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_|$)|_PORT$|_PORT_[0-9]+_(TCP|UDP|SCTP)(_|$)`)

// Mistyped names each variable of an environment (NAME=VALUE) that is none of the known ones, and the known one that is
// not set and has nearly the same name. Other variables are of somebody else.
func Mistyped(environ, known []string) (warnings []string) {
	set := map[string]bool{}
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		set[name] = true
	}
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, Prefix) || slices.Contains(known, name) || serviceLink.MatchString(name) {
			continue
		}
		nearest, least := "", mostTypos+1
		for _, k := range known {
			if typos := typo.Distance(name, k); typos < least && !set[k] {
				nearest, least = k, typos
			}
		}
		if nearest != "" {
			warnings = append(warnings,
				fmt.Sprintf("environment variable %s has no meaning: rename it, if %s is meant", name, nearest))
		}
	}
	return warnings
}
