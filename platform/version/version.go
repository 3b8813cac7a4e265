// Package version says which build of Fairlead this is.
package version

import (
	"runtime/debug"
	"strings"
)

// Version is set by the linker: -ldflags "-X fairlead.dev/platform/version.Version=v0.1.0".
// Read it through String.
var Version string

// shortCommit is how many digits of a commit id a person compares.
const shortCommit = 12

// String returns the version set by the linker, or else what the Go toolchain recorded of the
// module and commit, or else "dev". The result is never empty.
func String() string {
	if Version != "" {
		return Version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	return fromBuildInfo(info)
}

func fromBuildInfo(info *debug.BuildInfo) string {
	var commit, modified string
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.modified":
			modified = s.Value
		}
	}
	if v := info.Main.Version; v != "" && v != "(devel)" && !strings.HasPrefix(v, "v0.0.0-") {
		return v
	}
	if commit == "" {
		return "dev"
	}
	v := "dev-" + commit[:min(shortCommit, len(commit))]
	if modified == "true" {
		v += "-dirty"
	}
	return v
}
