package helm_test

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"fairlead.dev/services/gitcache/internal/helm"
)

// FuzzChoose compares the reader with a decoder of all YAML: what both read they read the same, so a version is never
// chosen that is not in the index.
func FuzzChoose(f *testing.F) {
	f.Add(usual, "podinfo", "^6")
	f.Add("entries:\n  a:\n    -\n      name: a\n      version: 1.1.0\n      urls: [y]\n", "a", "")
	f.Add(`{"entries":{"a":[{"name":"a","version":"1.0.0","urls":["x"]}]}}`, "a", "1.0.0")
	f.Add("entries:\n  a:\n  - name: a\n    version: >-\n      1.0.0\n    urls: [y]\n", "a", "1")
	f.Fuzz(func(t *testing.T, text, chart, version string) {
		w := helm.Want{Chart: chart, Version: version}
		found, err := helm.Choose(strings.NewReader(text), []helm.Want{w})
		if err != nil || !found[w].Found() {
			return
		}
		var whole struct {
			Entries map[string][]struct {
				Version string   `yaml:"version"`
				URLs    []string `yaml:"urls"`
			} `yaml:"entries"`
		}
		if yaml.Unmarshal([]byte(text), &whole) != nil {
			return // the index can't be read as a whole, and here it is cut into pieces that can
		}
		for _, e := range whole.Entries[chart] {
			if e.Version == found[w].Version.Version && len(e.URLs) > 0 && e.URLs[0] == found[w].Version.URL {
				return
			}
		}
		t.Errorf("%+v is chosen, and the index has %+v", found[w].Version, whole.Entries[chart])
	})
}

// FuzzUnpack: whatever a package is, there is an error or a chart whose pack is read.
func FuzzUnpack(f *testing.F) {
	f.Add(pack(f, gzip.BestSpeed, chartFiles("web", "1.2.3")...))
	f.Add(pack(f, gzip.BestSpeed, chartFiles("web", "1.2.3", file{name: "web/../x"})...))
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, tgz []byte) {
		c, err := unpack(t, tgz, helm.Version{Chart: "web", Version: "1.2.3"})
		if err != nil {
			return
		}
		r, err := c.Pack()
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := b.ReadFrom(r); err != nil || !strings.HasPrefix(b.String(), "PACK") {
			t.Errorf("the pack can't be read: %v", err)
		}
	})
}
