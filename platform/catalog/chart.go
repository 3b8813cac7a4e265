package catalog

import (
	"regexp"
	"strings"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// ChartPrefix begins refs that name a chart of a chart repository and a version: chart:<name>@<version>. No branch
// can be meant: Git forbids colons in names.
const ChartPrefix = "chart:"

const longestChartName = 100

var chartName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)

// IsChartName knows the names of charts.
func IsChartName(text string) bool {
	return len(text) <= longestChartName && chartName.MatchString(text)
}

// ChartRef is the ref of a chart. version is exact or a range; empty: the highest one that is no pre-release.
func ChartRef(chart, version string) string { return ChartPrefix + chart + "@" + version }

// ParseChartRef takes the ref of a chart apart; false: it is another ref.
func ParseChartRef(ref string) (chart, version string, ok bool) {
	text, ok := strings.CutPrefix(ref, ChartPrefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(text, "@")
}

// RefOf is the ref that a service follows, as people write it: that of its chart if it names one, and that of its
// combination if it has several sources.
func RefOf(spec *consolev1.ServiceSpec) string {
	if parts := PartsOf(spec); len(parts) > 0 {
		return combinationOf(parts)
	}
	return refOf(spec)
}

// place is what both a service and one of its sources say of where their files are.
type place interface {
	GetRef() string
	GetChart() string
	GetVersion() string
}

func refOf(p place) string {
	if p.GetChart() != "" {
		return ChartRef(p.GetChart(), p.GetVersion())
	}
	return p.GetRef()
}

// SetRef is the opposite of RefOf, of a service with one source.
func SetRef(spec *consolev1.ServiceSpec, ref string) {
	if chart, version, ok := ParseChartRef(ref); ok {
		spec.Chart, spec.Version = chart, version
		return
	}
	spec.Ref = ref
}

// ShowRef is a ref, or what it was resolved to, as messages and lists show it: a chart without the prefix, a tag by its
// name, an artifact by its tag and the beginning of its digest.
func ShowRef(ref string) string {
	if chart, version, ok := ParseChartRef(ref); ok {
		return strings.TrimSpace(chart + " " + version)
	}
	if tag, digest, ok := ParseArtifactRef(ref); ok {
		return showArtifact(tag, digest)
	}
	if IsCombination(ref) {
		return "several sources"
	}
	return strings.TrimPrefix(ref, "refs/tags/")
}
