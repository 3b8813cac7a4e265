package artifact

import (
	"errors"
	"fmt"
)

// Defaults of Limits: far above what a folder of manifests or a chart holds, far below what hurts a
// small agent.
const (
	DefaultBytes     = 256 << 20
	DefaultFileBytes = 64 << 20
	DefaultFiles     = 50_000
	DefaultDepth     = 64
	DefaultPathBytes = 1024
	// PreviewBytes bounds a folder that a person sends to an agent to have it compared: it goes through the tunnel as
	// it is.
	PreviewBytes = 32 << 20
	// DefaultRatio is high because YAML packs well (20 to 60 is usual); a bomb has thousands.
	DefaultRatio = 1000
	// ratioSlack is free of the ratio: a small artifact of zeros is no bomb, nor is a ConfigMap of one letter, which a
	// cluster takes up to 1 MiB of.
	ratioSlack = 4 << 20
)

// ErrRefused: the content breaks a limit or holds what is never accepted. The message names the
// offender and the limit.
var ErrRefused = errors.New("refused")

// Limits bound what one artifact may hold. Zero fields mean the defaults.
type Limits struct {
	Bytes     int64 // of the uncompressed tar
	FileBytes int64 // of one file
	Files     int   // files and symlinks
	Depth     int   // folders above a file
	PathBytes int   // of a path, and of a link's target
	Ratio     int64 // uncompressed bytes per compressed byte
}

func (l Limits) withDefaults() Limits {
	if l.Bytes == 0 {
		l.Bytes = DefaultBytes
	}
	if l.FileBytes == 0 {
		l.FileBytes = DefaultFileBytes
	}
	if l.Files == 0 {
		l.Files = DefaultFiles
	}
	if l.Depth == 0 {
		l.Depth = DefaultDepth
	}
	if l.PathBytes == 0 {
		l.PathBytes = DefaultPathBytes
	}
	if l.Ratio == 0 {
		l.Ratio = DefaultRatio
	}
	return l
}

func refusalError(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrRefused}, args...)...)
}
