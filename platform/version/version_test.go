package version

import (
	"runtime/debug"
	"testing"
)

func TestFromBuildInfo(t *testing.T) {
	t.Parallel()
	info := func(version string, settings ...string) *debug.BuildInfo {
		b := &debug.BuildInfo{Main: debug.Module{Version: version}}
		for i := 0; i < len(settings); i += 2 {
			b.Settings = append(b.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return b
	}
	for name, c := range map[string]struct {
		in   *debug.BuildInfo
		want string
	}{
		"nothing known": {info(""), "dev"},
		"work tree": {
			info("(devel)", "vcs.revision", "0123456789abcdef", "vcs.modified", "false"), "dev-0123456789ab",
		},
		"dirty": {
			info("(devel)", "vcs.revision", "0123456789abcdef", "vcs.modified", "true"), "dev-0123456789ab-dirty",
		},
		"short revision": {info("(devel)", "vcs.revision", "abc"), "dev-abc"},
		"pseudo-version": {
			info("v0.0.0-20260101000000-0123456789ab", "vcs.revision", "0123456789abcdef"), "dev-0123456789ab",
		},
		"release": {info("v1.2.3", "vcs.revision", "0123456789abcdef"), "v1.2.3"},
	} {
		if got := fromBuildInfo(c.in); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	if String() == "" {
		t.Error("String is empty")
	}
}
