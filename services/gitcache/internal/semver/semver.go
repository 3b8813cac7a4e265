// Package semver chooses a tag by a range of versions.
package semver

import (
	"fmt"
	"iter"
	"strings"

	"github.com/Masterminds/semver/v3"
)

const tagPrefix = "refs/tags/"

// Range of versions, as in npm and Helm: "1.x", "~1.4", ">=2.0.0 <3". Pre-releases are in it only if it
// names one.
type Range struct{ constraints *semver.Constraints }

// Parse reads a range.
func Parse(text string) (Range, error) {
	c, err := semver.NewConstraint(text)
	if err != nil {
		return Range{}, fmt.Errorf("%q is not a range of versions. Write it like 1.x, ~1.4 or >=2.0.0 <3", text)
	}
	return Range{c}, nil
}

// Prefixes are how the names of all refs begin that can be chosen: tags whose names begin like a version.
func Prefixes() []string {
	prefixes := make([]string, 0, 2*10)
	for digit := '0'; digit <= '9'; digit++ {
		prefixes = append(prefixes, tagPrefix+string(digit), tagPrefix+"v"+string(digit))
	}
	return prefixes
}

// Choice is what a range finds among tags.
type Choice struct {
	Tag     string // refs/tags/<name>; empty: no tag is in the range
	Highest string // of all versions, in the range or not; empty: no tag is a version
	Newest  string // as Highest, of those that are no pre-releases
}

// Newer is the name of the newest tag that there is, if it is above the chosen one; empty: it is not.
func (c Choice) Newer() string {
	if !Lower(c.Tag, c.Newest) {
		return ""
	}
	return strings.TrimPrefix(c.Newest, tagPrefix)
}

// Choose finds the highest version among refs: tags that are named X.Y.Z or vX.Y.Z. Of two that are the
// same version the one whose name is greater is taken, so that every replica takes the same.
func (r Range) Choose(refs iter.Seq[string]) Choice {
	var choice Choice
	var best, highest, newest *semver.Version
	for ref := range refs {
		v := version(ref)
		if v == nil {
			continue
		}
		if higher(v, ref, highest, choice.Highest) {
			highest, choice.Highest = v, ref
		}
		if v.Prerelease() == "" && higher(v, ref, newest, choice.Newest) {
			newest, choice.Newest = v, ref
		}
		if r.constraints.Check(v) && higher(v, ref, best, choice.Tag) {
			best, choice.Tag = v, ref
		}
	}
	return choice
}

// Lower tells whether a tag is a lower version than another.
func Lower(tag, than string) bool {
	a, b := version(tag), version(than)
	return a != nil && b != nil && a.LessThan(b)
}

func higher(v *semver.Version, ref string, than *semver.Version, thanRef string) bool {
	if than == nil {
		return true
	}
	c := v.Compare(than)
	return c > 0 || c == 0 && ref > thanRef
}

// maxName of a tag that is looked at.
const maxName = 128

func version(ref string) *semver.Version {
	name, ok := strings.CutPrefix(ref, tagPrefix)
	if !ok || len(name) > maxName {
		return nil
	}
	v, err := semver.StrictNewVersion(strings.TrimPrefix(name, "v"))
	if err != nil {
		return nil
	}
	return v
}
