package main

import (
	"crypto/sha1" //nolint:gosec // SPDX wants it besides
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
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

// bill tells what the very binaries of an image were built from.
func (s source) bill(of image, b built) ([]byte, error) {
	doc := spdx{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: "fairlead-" + of.name + "-" + b.platform.arch,
		Creation: spdxCreation{Created: s.time.Format(time.RFC3339), Creators: []string{"Tool: fairlead-tools-images"}},
	}
	known := map[string]bool{}
	sum := sha1.New() //nolint:gosec // see above
	for _, binary := range b.binaries {
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
			ID: own, Name: info.Path, Version: s.version, Location: unknown, Concluded: "Apache-2.0", Declared: "Apache-2.0", Copyright: unknown, Purpose: "APPLICATION",
			Checksums: []spdxChecksum{{"SHA1", sha1Hex(content)}},
		})
		doc.Relationships = append(doc.Relationships, spdxRelation{doc.ID, "DESCRIBES", own})
		for _, module := range append(slices.Clone(info.Deps), &debug.Module{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}) {
			if module.Replace != nil {
				module = module.Replace
			}
			if strings.HasPrefix(module.Path, "fairlead.dev/") || strings.HasPrefix(module.Path, ".") {
				continue // part of this repository
			}
			id := spdxID("module", module.Path+"-"+module.Version)
			if !known[id] {
				known[id] = true
				doc.Packages = append(doc.Packages, modulePackage(id, module))
			}
			doc.Relationships = append(doc.Relationships, spdxRelation{own, "DEPENDS_ON", id})
		}
	}
	doc.Namespace = "https://fairlead.dev/spdx/" + doc.Name + "-" + hex.EncodeToString(sum.Sum(nil))
	return json.MarshalIndent(doc, "", " ")
}

func modulePackage(id string, module *debug.Module) spdxPackage {
	return spdxPackage{
		ID: id, Name: module.Path, Version: module.Version, Location: unknown, Concluded: unknown, Declared: unknown, Copyright: unknown, Purpose: "LIBRARY",
		Refs: []spdxExternal{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + module.Path + "@" + module.Version}},
	}
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
