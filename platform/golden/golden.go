// Package golden makes what programs print the same in every run, for tests that compare it with a file.
package golden

import "regexp"

// rules say what is another in every run, in the order in which it is replaced. The names of what controllers make end
// in letters and digits that spell nothing: see k8s.io/apimachinery/pkg/util/rand. Some of these look like an age
// ("52m5m"), or like an abbreviated hash, so they come before both.
var rules = []struct { //nolint:gochecknoglobals // a constant
	found *regexp.Regexp
	name  string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,27}\b`), "UUID"},
	{regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b`), "-HASH-ID"},
	{regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{8,10}\b`), "-HASH"},
	{regexp.MustCompile(`\b(sha256:)?[0-9a-f]{32,64}\b`), "HASH"},
	{regexp.MustCompile(`\b[0-9a-f]{8}\b`), "HEX"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(µs|ms|s|m|h|d))+( ago)?\b`), "AGE"},
	{regexp.MustCompile(`\b\d+\.\d [KMG]iB\b`), "SIZE"},
	{regexp.MustCompile(`(etag|uid|epoch|sequence|revision|catalogRevision|traceId)("?: ).*`), "$1${2}X"},
	{regexp.MustCompile(`https?://127\.0\.0\.1:\d+`), "URL"},
	{regexp.MustCompile(`(\S) {2,}`), "$1  "},
}

// Text replaces what is another in every run, and the width of columns.
func Text(text string) string {
	for _, r := range rules {
		text = r.found.ReplaceAllString(text, r.name)
	}
	return text
}
