package pathrules

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Verdict on an entry of a folder.
type Verdict int

const (
	// Out: it is left out, with all that is in it.
	Out Verdict = iota
	// Perhaps is for a folder that is not named by the include rules: what is in it may be.
	Perhaps
	// In: it belongs to the content.
	In
)

// Folder is where a walk is, and the rules that can still say something there. A walk goes from Begin
// by Enter; in each folder it hands in what the folder's FileName holds, and then asks. For one goroutine.
type Folder struct {
	walk    *walk
	path    string // ends with a slash, but for the empty one
	all     bool   // the include rules have nothing more to say: all belongs to the content
	include []follower
	ignore  []follower
	files   [][]follower // of the .fairleadignore files on the way, the nearest last
}

// walk is what all folders of a walk share.
type walk struct {
	rules Rules
	steps int
	files int
}

// follower is a rule and how far it was followed. Rules for names are not followed.
type follower struct {
	rule *rule
	at   places
}

// Begin a walk at the service's folder.
func (r Rules) Begin() *Folder {
	return &Folder{
		walk: &walk{rules: r}, all: len(r.include) == 0, include: followers(r.include), ignore: followers(r.ignore),
	}
}

func followers(rules []*rule) []follower {
	list := make([]follower, 0, len(rules))
	for _, r := range rules {
		f := follower{rule: r}
		if !r.named {
			f.at = r.begin()
		}
		list = append(list, f)
	}
	return list
}

// Read takes the rules that the folder brings along.
func (f *Folder) Read(content []byte) error {
	where := f.path + FileName
	if f.walk.files++; f.walk.files > maxFiles {
		return fmt.Errorf("%w: %q is one file of rules more than the limit of %d", ErrRules, where, maxFiles)
	}
	if len(content) > MaxFileBytes {
		return fmt.Errorf("%w: %q has more than the limit of %d KiB", ErrRules, where, MaxFileBytes>>10)
	}
	rules, err := parseFile(where, content)
	if err == nil && len(rules) > 0 {
		f.files = append(slices.Clip(f.files), followers(rules))
	}
	return err
}

// parseFile reads lines as Git reads those of a .gitignore: blank ones, comments and those that can't
// match anything say nothing.
func parseFile(where string, content []byte) ([]*rule, error) {
	if bytes.IndexByte(content, 0) >= 0 {
		return nil, fmt.Errorf("%w: %q is not a text file", ErrRules, where)
	}
	var rules []*rule
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(string(content), "\ufeff")) {
		number++
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if line == "" || line[0] == '#' {
			continue
		}
		if line = trimSpaces(line); line == "" {
			continue
		}
		if len(line) > maxRuleBytes {
			return nil, fmt.Errorf("%w: line %d of %q has %d bytes, the limit is %d", ErrRules, number, where, len(line), maxRuleBytes)
		}
		if len(rules) == maxFileRules {
			return nil, fmt.Errorf("%w: %q has more than the limit of %d rules", ErrRules, where, maxFileRules)
		}
		if r := parseRule(line); !r.never {
			rules = append(rules, r)
		}
	}
	return rules, nil
}

// Judge says whether an entry belongs to the content. For a file it is In or Out.
func (f *Folder) Judge(name string, folder bool) (Verdict, error) {
	verdict := f.judge(name, folder)
	if f.walk.steps > maxSteps {
		return Out, fmt.Errorf("%w: to match them takes more than the limit of %d steps, at %q. Use fewer rules, or simpler ones", ErrRules, maxSteps, f.path+name)
	}
	return verdict, nil
}

func (f *Folder) judge(name string, folder bool) Verdict {
	switch {
	case f.ignored(name, folder):
		return Out
	case f.all:
		return In
	}
	if said, yes := f.ask(f.include, name, folder); said && yes {
		return In
	}
	if folder && f.leadsOn(name) {
		return Perhaps
	}
	return Out
}

func (f *Folder) ignored(name string, folder bool) bool {
	if said, yes := f.ask(f.ignore, name, folder); said {
		return yes
	}
	for _, rules := range slices.Backward(f.files) {
		if said, yes := f.ask(rules, name, folder); said {
			return yes
		}
	}
	return false
}

// ask gives the word of the last rule that has something to say.
func (f *Folder) ask(rules []follower, name string, folder bool) (said, yes bool) {
	for _, r := range slices.Backward(rules) {
		if r.rule.folders && !folder {
			continue
		}
		if r.matches(name, &f.walk.steps) {
			return true, !r.rule.negated
		}
	}
	return false, false
}

func (r *follower) matches(name string, cost *int) bool {
	if r.rule.named {
		return r.rule.matchName(name, cost)
	}
	p := r.rule.read(r.at, name, cost)
	return r.rule.ended(&p)
}

// leadsOn says whether something in a folder may be named by the include rules.
func (f *Folder) leadsOn(name string) bool {
	for _, r := range f.include {
		if r.rule.negated {
			continue
		}
		if r.rule.named {
			return true
		}
		if at := r.rule.read(r.at, name+"/", &f.walk.steps); !at.none() {
			return true
		}
	}
	return false
}

// Enter goes into a folder that was judged.
func (f *Folder) Enter(name string, verdict Verdict) *Folder {
	to := &Folder{walk: f.walk, path: f.path + name + "/", all: verdict == In}
	if !to.all {
		to.include = f.enter(f.include, name)
	}
	to.ignore = f.enter(f.ignore, name)
	for _, rules := range f.files {
		if rules = f.enter(rules, name); len(rules) > 0 {
			to.files = append(to.files, rules)
		}
	}
	return to
}

// enter follows rules into a folder, and drops those that can't match anything in there.
func (f *Folder) enter(rules []follower, name string) []follower {
	var left []follower
	for _, r := range rules {
		if !r.rule.named {
			if r.at = r.rule.read(r.at, name+"/", &f.walk.steps); r.at.none() {
				continue
			}
		}
		left = append(left, r)
	}
	return left
}

// Nothing returns the error for a walk that has left nothing of a folder.
func (f *Folder) Nothing() error {
	by := f.walk.rules.String()
	if f.walk.files > 0 {
		by = strings.TrimPrefix(by+", and "+FileName, ", and ")
	}
	if by == "" {
		return fmt.Errorf("%w: the folder holds no files. Name a folder that does, or delete the service", ErrRules)
	}
	return fmt.Errorf("%w: nothing is left of the folder by %s. Correct them, or delete the service", ErrRules, by)
}
