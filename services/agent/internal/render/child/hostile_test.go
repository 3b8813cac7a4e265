package child_test

import (
	"runtime"
	"testing"
)

// A folder that bursts does so in the child: the agent's own heap does not grow with it. No other test runs beside this
// one.
func TestHostileFoldersLeaveTheAgentsMemoryFlat(t *testing.T) { //nolint:paralleltest // it measures the process
	const most = 64 << 20
	for name, files := range map[string]map[string]string{
		"prints forever": {"a.yaml": `{{ range until 1000000 }}{{ repeat 1000 "x" }}{{ end }}`},
		"one long word":  {"a.yaml": `{{ repeat 100000000 "x" }}`},
		"many documents": {
			"a.yaml": `{{ range until 100000 }}{{ print "---\napiVersion: v1\nkind: A\nmetadata: {name: a}\n" }}{{ end }}`,
		},
		"deep":         {"a.yaml": `a: {{ repeat 9000 "[" }}{{ repeat 9000 "]" }}`},
		"calls itself": {"a.yaml": `{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}`},
		"many objects, large": {
			"a.yaml": `{{ range until 2000 }}{{ printf "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a%d}\ndata: {x: %s}\n" . (repeat 100000 "x") }}{{ end }}`,
		},
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		_, err := run(t, with(templates), files, nil)
		runtime.ReadMemStats(&after)
		if grown := int64(after.HeapSys - before.HeapSys); err == nil || grown > most {
			t.Errorf("%s: the heap grew by %d MiB: %v", name, grown>>20, err)
		}
	}
}
