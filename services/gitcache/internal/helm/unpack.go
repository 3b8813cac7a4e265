package helm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"fairlead.dev/services/gitcache/internal/archive"
)

// author of the commits: a package tells neither its author nor a time that lasts.
const author = "Helm chart"

const chartYAML = "Chart.yaml"

// Unpack reads a package to its end and makes a commit of it, in a pack. The package must be of the wanted version. dir
// is for a temporary file.
//
// The top folder of the package is dropped, whatever its name. The commit says the chart's name and versions and
// nothing of the package or of the time: a chart that is packed again, or listed anew, stays what it was.
func Unpack(ctx context.Context, body io.Reader, dir string, want Version) (*archive.Objects, error) {
	b, err := archive.New(dir, archive.Limits{FileBytes: maxFileBytes, Bytes: maxUnpackedBytes, Files: maxFiles, Whose: "Helm's "})
	if err != nil {
		return nil, err
	}
	b.Keep[chartYAML] = maxItemBytes
	if err := b.AddTarGzip(ctx, body, place); err != nil {
		b.Close()
		return nil, err
	}
	message, err := identify(b.Kept[chartYAML], want)
	if err != nil {
		b.Close()
		return nil, err
	}
	c, err := b.Commit(author, message)
	if err != nil {
		b.Close()
	}
	return c, err
}

// place is where a file of an archive is within the chart.
func place(name string) (string, error) {
	name, err := archive.Place(name)
	if err != nil {
		return "", err
	}
	_, within, ok := strings.Cut(name, "/")
	if !ok {
		return "", errors.New("is outside of the chart's folder")
	}
	return within, nil
}

// identify reads Chart.yaml and checks that it is what the index says. identify returns the text of the commit.
func identify(about []byte, want Version) (string, error) {
	if about == nil {
		return "", errors.New("it has no Chart.yaml")
	}
	var is struct {
		Name       string `yaml:"name"`
		Version    string `yaml:"version"`
		AppVersion string `yaml:"appVersion"`
	}
	if err := yaml.Unmarshal(about, &is); err != nil {
		return "", errors.New("its Chart.yaml can't be read")
	}
	switch v, w := parse(is.Version), parse(want.Version); {
	case is.Name != want.Chart:
		return "", fmt.Errorf("its Chart.yaml has the name %q", shorten(is.Name))
	case is.Version != want.Version && (v == nil || w == nil || !v.Equal(w) || v.Metadata() != w.Metadata()):
		return "", fmt.Errorf("its Chart.yaml has the version %q", shorten(is.Version))
	}
	text := is.Name + " " + want.Version
	if app := oneLine(is.AppVersion); app != "" {
		text += " (app " + app + ")"
	}
	return text, nil
}

// oneLine makes what others wrote fit for a commit's first line.
func oneLine(s string) string {
	return shorten(strings.TrimSpace(strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return -1
	}, strings.ToValidUTF8(s, ""))))
}
