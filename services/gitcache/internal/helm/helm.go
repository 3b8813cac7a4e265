// Package helm reads what a repository of Helm charts serves: its index.yaml, from which it chooses versions, and the
// packages of charts, which become objects of Git, so that mirrors, artifacts, copies and everything after them treat a
// chart as they treat a commit.
//
// Invariants: memory is bounded, however large an index or a package is; an index is read to its end before a version
// is chosen; the same content of a chart is the same commit on every replica, however it was packed and whenever.
//
// Nothing here trusts its input. Errors are in words for the owner of the source, without a URL.
package helm

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
)

const (
	// MaxIndexBytes of an index, unpacked. The largest public ones have about 30 MiB.
	MaxIndexBytes = 256 << 20
	// maxItemBytes of one version in an index, of a line, and of Chart.yaml: with annotations and an icon written into
	// it.
	maxItemBytes = 1 << 20
	// maxLevels of JSON that is read over.
	maxLevels = 100
	// MaxPackageBytes of a package as it is received, and maxUnpackedBytes of its files: Helm's own limit.
	MaxPackageBytes  = 100 << 20
	maxUnpackedBytes = 100 << 20
	// maxFileBytes of one file: Helm's own limit. A file is held in memory.
	maxFileBytes = 5 << 20
	maxFiles     = 20_000 // with the folders that they are in
	// maxVersionBytes of a version; a longer one is none.
	maxVersionBytes = 128
)

// Want is a chart that a service names, and its version: exact, or a range; empty: any that is no pre-release.
type Want struct{ Chart, Version string }

// Version of a chart, as an index lists it.
type Version struct {
	Chart, Version string
	URL            string // of the package, maybe relative to that of the repository
	Digest         string // SHA-256 of the package in hex; empty: the index has none
	Size           int64  // of the package; 0: the index does not say it
	Created        time.Time
	// In a registry: the digest of the manifest, and that of the provenance file (empty: it has none) with its size.
	Manifest       string
	Provenance     string
	ProvenanceSize int64
}

// Choice is what an index has for a want.
type Choice struct {
	Version Version // of no chart: there is none
	Highest string  // of all versions, in the range or not; empty: the chart is not listed, or with no good version
	Newest  string  // as Highest, of those that are no pre-releases
	Bad     string  // the defect of the first entry of the chart that can't be read; empty: all can
	Err     error   // why it is not known what there is
}

// Found tells whether there is a version.
func (c Choice) Found() bool { return c.Version.Chart != "" }

// chooser finds the version for one want among those of the chart, one by one, in the order of the index.
type chooser struct {
	want       Want
	constraint *semver.Constraints
	choice     Choice
	best       *semver.Version // of choice.Version
	highest    *semver.Version
	newest     *semver.Version // of choice.Newest
	exact      bool            // the version is the wanted one, letter for letter
}

func newChooser(w Want) (*chooser, error) {
	text := w.Version
	if text == "" {
		text = "*"
	}
	c, err := semver.NewConstraint(text)
	if err != nil {
		return nil, fmt.Errorf("%q is neither a version nor a range of versions. Write it like 1.4.2, ^1.4 or >=2.0.0 <3", w.Version)
	}
	return &chooser{want: w, constraint: c}, nil
}

// CheckVersion says what is wrong with the version of a service.
func CheckVersion(text string) error {
	_, err := newChooser(Want{Version: text})
	return err
}

// Higher tells whether a version is higher than another. Of two that are equal in order the greater text is: every
// replica has to choose the same.
func Higher(version, than string) bool {
	a, b := parse(version), parse(than)
	return a != nil && b != nil && higher(a, version, b, than)
}

// Newer is the newest version that there is, if it is above the chosen one; empty: it is not.
func (c Choice) Newer() string {
	newest, chosen := parse(c.Newest), parse(c.Version.Version)
	if newest == nil || chosen == nil || !newest.GreaterThan(chosen) {
		return ""
	}
	return c.Newest
}

func higher(v *semver.Version, text string, than *semver.Version, thanText string) bool {
	if than == nil {
		return true
	}
	c := v.Compare(than)
	return c > 0 || c == 0 && text > thanText
}

// parse reads a version as Helm does: v1.2 is 1.2.0. nil: it is none.
func parse(text string) *semver.Version {
	if len(text) > maxVersionBytes {
		return nil
	}
	v, err := semver.NewVersion(text)
	if err != nil {
		return nil
	}
	return v
}

// take looks at one more version. entry is asked only for one that would be chosen.
func (c *chooser) take(text string, entry func() (Version, error)) {
	v := parse(text)
	if v == nil {
		c.bad(fmt.Errorf("%q is not a version", shorten(text)))
		return
	}
	if higher(v, text, c.highest, c.choice.Highest) {
		c.highest, c.choice.Highest = v, text
	}
	if v.Prerelease() == "" && higher(v, text, c.newest, c.choice.Newest) {
		c.newest, c.choice.Newest = v, text
	}
	exact := text == c.want.Version
	better := exact || c.constraint.Check(v) && higher(v, text, c.best, c.choice.Version.Version)
	if c.exact || !better {
		return
	}
	is, err := entry()
	if err != nil {
		c.bad(fmt.Errorf("version %s: %w", text, err))
		return
	}
	c.choice.Version, c.best, c.exact = is, v, exact
}

func (c *chooser) bad(err error) {
	if c.choice.Bad == "" {
		c.choice.Bad = err.Error()
	}
}

// entry is a version as it stands in an index. Other keys are not for us.
type entry struct {
	Name    string   `json:"name" yaml:"name"`
	Version string   `json:"version" yaml:"version"`
	URLs    []string `json:"urls" yaml:"urls"`
	Digest  string   `json:"digest" yaml:"digest"`
	Created string   `json:"created" yaml:"created"`
}

// version checks an entry of a chart.
func (e *entry) version(chart string) (Version, error) {
	digest := strings.ToLower(strings.TrimPrefix(strings.TrimSpace(e.Digest), "sha256:"))
	switch {
	case e.Name != chart:
		return Version{}, fmt.Errorf("its name is %q", shorten(e.Name))
	case len(e.URLs) == 0 || e.URLs[0] == "":
		return Version{}, errors.New("it has no url")
	case digest != "" && (len(digest) != 64 || strings.Trim(digest, "0123456789abcdef") != ""):
		return Version{}, errors.New("its digest is not a SHA-256 in hex")
	}
	created, err := time.Parse(time.RFC3339Nano, e.Created)
	if err != nil || created.Year() < 1970 || created.Year() > 9999 {
		created = time.Time{} // the time is for people only
	}
	return Version{Chart: chart, Version: e.Version, URL: e.URLs[0], Digest: digest, Created: created.UTC()}, nil
}

// TagOf is the tag of a version in a registry: a tag has no plus sign.
func TagOf(version string) string { return strings.ReplaceAll(version, "+", "_") }

// ChooseTag finds the version for a want among the tags of a chart's repository. Other tags than those of versions are
// left out.
func ChooseTag(tags []string, w Want) (Choice, error) {
	c, err := newChooser(w)
	if err != nil {
		return Choice{}, err
	}
	for _, tag := range tags {
		version := strings.ReplaceAll(tag, "_", "+")
		if parse(version) != nil {
			c.take(version, func() (Version, error) { return Version{Chart: w.Chart, Version: version}, nil })
		}
	}
	return c.choice, nil
}

// shorten keeps what others wrote from flooding a message.
func shorten(s string) string {
	const most = 80
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return strings.ToValidUTF8(s, "")
}
