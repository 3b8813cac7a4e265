package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

// Types of what Helm keeps in registries.
const (
	chartConfig  = "application/vnd.cncf.helm.config.v1+json"
	chartContent = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// chart is a chart of deploy/charts with the version of the release.
type chart struct {
	name    string
	about   []byte // Chart.yaml as JSON
	archive []byte
}

// charts packs the charts, as files NAME-VERSION.tgz and for the bundle.
func (r release) charts() ([]chart, error) {
	var charts []chart
	for _, folder := range []string{"hub", "agent"} {
		c, err := r.chart(filepath.Join(r.root, "deploy", "charts", folder))
		if err != nil {
			return nil, fmt.Errorf("pack the chart %s: %w", folder, err)
		}
		charts = append(charts, c)
	}
	return charts, nil
}

func (r release) chart(dir string) (chart, error) {
	text, err := os.ReadFile(filepath.Join(dir, "Chart.yaml"))
	if err != nil {
		return chart{}, err
	}
	about := map[string]any{}
	if err := yaml.UnmarshalStrict(text, &about); err != nil {
		return chart{}, fmt.Errorf("read Chart.yaml: %w", err)
	}
	// The images that the chart asks for by default have the tag appVersion.
	about["version"], about["appVersion"] = r.version, r.version
	name, _ := about["name"].(string)
	c := chart{name: name}
	if c.about, err = json.Marshal(about); err != nil {
		return c, err
	}
	if text, err = yaml.Marshal(about); err != nil {
		return c, err
	}
	files := []file{{path: "/" + name + "/Chart.yaml", mode: 0o644, content: text}}
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == ".helmignore" || d.Name() == "Chart.yaml" {
			return err
		}
		inside, err := filepath.Rel(dir, path)
		files = append(files, file{path: "/" + name + "/" + filepath.ToSlash(inside), mode: 0o644, from: path})
		return err
	}); err != nil {
		return c, err
	}
	base := name + "-" + r.version + ".tgz"
	r.step("%s", base)
	if err := r.packed(base, files); err != nil {
		return c, err
	}
	c.archive, err = os.ReadFile(filepath.Join(r.dir, base))
	return c, err
}

// addTo puts the chart into a layout, as `helm push` puts it into a registry, and returns its digest.
func (c chart) addTo(at layout.Path, reference string) (v1.Hash, error) {
	config, err := addBlob(at, c.about, chartConfig)
	if err != nil {
		return v1.Hash{}, err
	}
	content, err := addBlob(at, c.archive, chartContent)
	if err != nil {
		return v1.Hash{}, err
	}
	manifest, err := json.Marshal(v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: config, Layers: []v1.Descriptor{content}})
	if err != nil {
		return v1.Hash{}, err
	}
	found, err := addBlob(at, manifest, types.OCIManifestSchema1)
	if err != nil {
		return v1.Hash{}, err
	}
	found.Annotations = map[string]string{refName: reference}
	return found.Digest, at.AppendDescriptor(found)
}

func addBlob(at layout.Path, content []byte, mediaType types.MediaType) (v1.Descriptor, error) {
	digest, size, err := v1.SHA256(bytes.NewReader(content))
	if err != nil {
		return v1.Descriptor{}, err
	}
	d := v1.Descriptor{MediaType: mediaType, Size: size, Digest: digest}
	return d, at.WriteBlob(digest, io.NopCloser(bytes.NewReader(content)))
}

// chartFolder is in front of the names of charts in a registry, so that none is an image's.
const chartFolder = "charts/"

// reference names something in the bundle, and below the registry to which it is mirrored.
func (r release) reference(name string) string { return strings.ToLower(name) + ":" + r.version }
