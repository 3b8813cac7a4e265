package main

import (
	"crypto/sha1" //nolint:gosec // SPDX wants it besides
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// The part of SPDX 2.3 that tells which modules a program was built from.
type spdx struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      spdxCreation   `json:"creationInfo"`
	Packages      []spdxPackage  `json:"packages"`
	Relationships []spdxRelation `json:"relationships"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID        string         `json:"SPDXID"`
	Name      string         `json:"name"`
	Version   string         `json:"versionInfo,omitempty"`
	Location  string         `json:"downloadLocation"`
	Analyzed  bool           `json:"filesAnalyzed"`
	Concluded string         `json:"licenseConcluded"`
	Declared  string         `json:"licenseDeclared"`
	Copyright string         `json:"copyrightText"`
	Purpose   string         `json:"primaryPackagePurpose,omitempty"`
	Refs      []spdxExternal `json:"externalRefs,omitempty"`
	Checksums []spdxChecksum `json:"checksums,omitempty"`
}

type spdxExternal struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxRelation struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

const unknown = "NOASSERTION"

// webModule is the module whose programs carry the pages, and with them packages of npm.
const webModule = "fairlead.dev/web"

// bill tells what these very binaries were built from: modules as the Go toolchain recorded them in the binary, and packages of npm as
// web/package-lock.json has them where the binary carries the pages.
func (s source) bill(name string, binaries []string) ([]byte, error) {
	doc := spdx{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name,
		Creation: spdxCreation{Created: s.time.Format(time.RFC3339), Creators: []string{"Tool: fairlead-tools-images"}},
	}
	known := map[string]bool{}
	add := func(program string, p spdxPackage) {
		if !known[p.ID] {
			known[p.ID] = true
			doc.Packages = append(doc.Packages, p)
		}
		doc.Relationships = append(doc.Relationships, spdxRelation{program, "DEPENDS_ON", p.ID})
	}
	sum := sha1.New() //nolint:gosec // see above
	for _, binary := range binaries {
		content, err := os.ReadFile(binary)
		if err != nil {
			return nil, fmt.Errorf("list modules: %w", err)
		}
		sum.Write(content)
		info, err := buildinfo.ReadFile(binary)
		if err != nil {
			return nil, fmt.Errorf("list modules: %w", err)
		}
		own := spdxID("program", filepath.Base(binary))
		doc.Packages = append(doc.Packages, spdxPackage{
			ID: own, Name: info.Path, Version: s.version, Location: unknown, Concluded: "Apache-2.0",
			Declared: "Apache-2.0", Copyright: unknown, Purpose: "APPLICATION",
			Checksums: []spdxChecksum{{"SHA1", sha1Hex(content)}},
		})
		doc.Relationships = append(doc.Relationships, spdxRelation{doc.ID, "DESCRIBES", own})
		hasPages := false
		for _, module := range append(slices.Clone(info.Deps), &debug.Module{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}) {
			hasPages = hasPages || module.Path == webModule
			if module.Replace != nil {
				module = module.Replace
			}
			if strings.HasPrefix(module.Path, "fairlead.dev/") || strings.HasPrefix(module.Path, ".") {
				continue // part of this repository
			}
			add(own, library(spdxID("module", module.Path+"-"+module.Version), module.Path, module.Version, "pkg:golang/"+module.Path+"@"+module.Version))
		}
		if !hasPages {
			continue
		}
		packages, err := s.pagePackages()
		if err != nil {
			return nil, fmt.Errorf("list packages of the pages: %w", err)
		}
		for _, p := range packages {
			add(own, p)
		}
	}
	doc.Namespace = "https://fairlead.dev/spdx/" + doc.Name + "-" + hex.EncodeToString(sum.Sum(nil))
	return json.MarshalIndent(doc, "", " ")
}

func library(id, name, version, purl string) spdxPackage {
	return spdxPackage{
		ID: id, Name: name, Version: version, Location: unknown, Concluded: unknown, Declared: unknown, Copyright: unknown, Purpose: "LIBRARY",
		Refs: []spdxExternal{{"PACKAGE-MANAGER", "purl", purl}},
	}
}

// pagePackages are those that the pages carry: what package-lock.json has and does not call a tool.
func (s source) pagePackages() ([]spdxPackage, error) {
	text, err := os.ReadFile(filepath.Join(s.root, "web", "package-lock.json"))
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct {
			Version string
			Dev     bool
		}
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, fmt.Errorf("read package-lock.json: %w", err)
	}
	var packages []spdxPackage
	for _, path := range slices.Sorted(maps.Keys(lock.Packages)) {
		p := lock.Packages[path]
		if path == "" || p.Dev {
			continue
		}
		name := path[strings.LastIndex(path, "node_modules/")+len("node_modules/"):]
		purl := "pkg:npm/" + strings.Replace(name, "@", "%40", 1) + "@" + p.Version
		packages = append(packages, library(spdxID("npm", name+"-"+p.Version), name, p.Version, purl))
	}
	return packages, nil
}

func sha1Hex(content []byte) string {
	sum := sha1.Sum(content) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])
}

// spdxID is an identifier of the letters that SPDX allows.
func spdxID(kind, of string) string {
	return "SPDXRef-" + kind + "-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, of)
}
