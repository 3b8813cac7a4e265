package container_test

import (
	"testing"
	"testing/fstest"

	"fairlead.dev/platform/container"
)

func TestMemoryLimitIsTheNarrowestOfTheGroups(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no container": {nil, 0},
		"no limit":     {map[string]string{"sys/fs/cgroup/memory.max": "max\n"}, 0},
		"a container": {
			map[string]string{"sys/fs/cgroup/memory.max": "536870912\n", "proc/self/cgroup": "0::/\n"}, 512 << 20,
		},
		"a group of the machine's": {
			map[string]string{
				"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max",
				"sys/fs/cgroup/a/memory.max": "4096",
			},
			4096,
		},
		"version 1": {
			map[string]string{
				"proc/self/cgroup":                             "5:cpu:/x\n3:memory:/y\n",
				"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712",
				"sys/fs/cgroup/memory/y/memory.limit_in_bytes": "8192",
			},
			8192,
		},
		"what is no number": {map[string]string{"sys/fs/cgroup/memory.max": "-1"}, 0},
		"a name that leads out": {
			map[string]string{"proc/self/cgroup": "0::/../../x\n", "sys/fs/cgroup/x/memory.max": "4096"}, 4096,
		},
	} {
		files := fstest.MapFS{}
		for file, text := range test.files {
			files[file] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := container.MemoryLimit(files); got != test.want {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
	}
}
