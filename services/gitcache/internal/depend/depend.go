// Package depend says which charts of repositories a chart depends on: by its Chart.yaml, or requirements.yaml, and the
// lock beside it.
//
// Nothing is fetched or rendered. Versions are exact: a range counts by what the lock says, so that the same files
// always mean the same charts.
package depend

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/Masterminds/semver/v3"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/giturl"
	"fairlead.dev/platform/kubename"
	"fairlead.dev/services/gitcache/internal/kustomization"
)

// RefPrefix begins the refs of charts that others depend on. Git forbids colons in names.
const RefPrefix = "dependency:"

// Chart is a version of a chart in a repository: its URL, or @ and the name of a source of charts.
type Chart struct{ Name, Version, Repository string }

// Source is the name of the source that is the chart's repository.
func (c Chart) Source() (name string, ok bool) { return strings.CutPrefix(c.Repository, "@") }

// Ref is the name under which the chart is kept in a mirror: dependency:<name>@<version>@<repository>.
func (c Chart) Ref() string { return RefPrefix + c.Name + "@" + c.Version + "@" + c.Repository }

// Wanted is a chart that another one depends on, and where that is written.
type Wanted struct {
	Chart
	File string
	Line int
	// Locked is the URL that the lock has of a repository that is a source; empty: it has none. It may hold a password.
	Locked string
	// Problem is why it is not known which chart is meant; empty: it is.
	Problem string
}

// Where is the place at which a dependency is written, as messages show it.
func (w Wanted) Where() string { return fmt.Sprintf("%s line %d", artifact.Printable(w.File), w.Line) }

// Read gives the charts of repositories in the dependencies of a file, in its order. lock is the content of Chart.lock,
// or requirements.lock, which is named lockName; nil: there is none.
func Read(file string, content []byte, lockName string, lock []byte) []Wanted {
	dependencies := kustomization.RemoteDependencies(content)
	if len(dependencies) == 0 {
		return nil
	}
	locked := map[string][]kustomization.RemoteDependency{} // by name, in order: a chart may be there twice
	for _, one := range kustomization.RemoteDependencies(lock) {
		locked[one.Name] = append(locked[one.Name], one)
	}
	wanted := make([]Wanted, 0, len(dependencies))
	for _, one := range dependencies {
		w := Wanted{Chart: Chart{one.Name, one.Version, repository(one.Repository)}, File: file, Line: one.Line}
		var entry *kustomization.RemoteDependency
		if all := locked[one.Name]; len(all) > 0 {
			entry, locked[one.Name] = &all[0], all[1:]
		}
		if problem := w.settle(one, entry, lockName, lock != nil); problem != "" {
			w.Problem = fmt.Sprintf("dependency %.100q: %s", one.Name, problem)
		}
		wanted = append(wanted, w)
	}
	return wanted
}

// settle finds the exact version, and says what is wrong.
func (w *Wanted) settle(one kustomization.RemoteDependency, locked *kustomization.RemoteDependency, lockName string, hasLock bool) string {
	if !catalog.IsChartName(w.Name) { // it becomes a folder
		return "it is no name of a chart"
	}
	if problem := checkRepository(w.Repository); problem != "" {
		return problem
	}
	version := one.Version
	switch {
	case locked != nil:
		at := repository(locked.Repository)
		if _, isSource := w.Source(); isSource && !strings.HasPrefix(at, "@") {
			w.Locked = at // helm writes the URL of what it has under the name
		} else if at != w.Repository { // neither is repeated, as either may hold a password
			return fmt.Sprintf("line %d names another repository than %s line %d. Run `helm dependency update`, and push %s", one.Line, lockName, locked.Line, lockName)
		}
		if !fits(one.Version, locked.Version) {
			return fmt.Sprintf("it wants version %.100q, and %s line %d has %.100q. Run `helm dependency update`, and push %s", one.Version, lockName, locked.Line, locked.Version, lockName)
		}
		version = locked.Version
	case hasLock:
		return fmt.Sprintf("it is not in %s. Run `helm dependency update`, and push %s", lockName, lockName)
	}
	if _, err := semver.StrictNewVersion(strings.TrimPrefix(version, "v")); err != nil || len(version) > 128 {
		return fmt.Sprintf("%.100q is no exact version, and there is no %s which says what it was resolved to. Run `helm dependency update`, and push %s", version, lockName, lockName)
	}
	w.Version = version
	return ""
}

// repository is the form in which repositories are compared.
func repository(text string) string {
	if name, ok := strings.CutPrefix(text, "alias:"); ok {
		return "@" + name
	}
	return strings.TrimRight(text, "/")
}

// fits tells whether a locked version is one that the dependency allows.
func fits(allowed, version string) bool {
	if allowed == version {
		return true
	}
	c, err := semver.NewConstraint(allowed)
	if err != nil {
		return false
	}
	v, err := semver.NewVersion(version)
	return err == nil && c.Check(v)
}

// checkRepository says what is wrong with the URL of a repository. It is not repeated: it may hold a password.
func checkRepository(text string) string {
	switch {
	case giturl.IsRegistry(text):
		if _, err := giturl.ParseRegistry(text); err != nil {
			return "the url of its repository " + err.Error()
		}
		return ""
	case strings.HasPrefix(text, "@"):
		if !kubename.IsLabel(text[1:]) {
			return "its repository is a name that no source can have. Write its https:// or oci:// URL"
		}
		return ""
	}
	if _, err := giturl.ParseFolder(text); err != nil {
		return "the url of its repository " + err.Error()
	}
	return ""
}

// Host is the host of the chart's repository as lists of hosts have it: with the port, if it is not the scheme's own.
// That of a source's name is empty.
func (c Chart) Host() string {
	u, err := url.Parse(c.Repository)
	if err != nil {
		return ""
	}
	host := strings.ToLower(u.Host)
	if u.Scheme != "http" {
		host = strings.TrimSuffix(host, ":443")
	}
	return host
}
