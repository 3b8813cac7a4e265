package main

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Nobody compiles for the platforms of others before a release does: what is missing in a file for them is seen here.
func TestCommandFitsEachPlatform(t *testing.T) {
	t.Parallel()
	for _, p := range []platform{{"darwin", "arm64"}, {"windows", "amd64"}, {"linux", "arm64"}} {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			checkTypes(t, p, theCommand().pkg)
		})
	}
}

// The services run on Linux, and are worked on elsewhere.
func TestServicesFitMacs(t *testing.T) {
	t.Parallel()
	var pkgs []string
	for _, i := range released() {
		for _, program := range i.programs {
			pkgs = append(pkgs, program.pkg)
		}
	}
	checkTypes(t, platform{"darwin", "arm64"}, pkgs...)
}

// listed is a package as `go list -json` tells of it.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
}

// checkTypes reads the packages, and all that they import, as the compiler for the platform does. It compiles nothing: bodies of functions are read
// in our own packages only.
func checkTypes(t *testing.T, p platform, pkgs ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap"}, pkgs...)...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=", "GOOS="+p.os, "GOARCH="+p.arch)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list packages for %s: %v", p, err)
	}
	known := map[string]*types.Package{"unsafe": types.Unsafe}
	for all := json.NewDecoder(strings.NewReader(string(out))); ; { // a package comes after those that it imports
		var one listed
		if err := all.Decode(&one); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		if one.ImportPath != "unsafe" {
			known[one.ImportPath] = one.check(t, p, known)
		}
	}
}

func (l listed) check(t *testing.T, p platform, known map[string]*types.Package) *types.Package {
	t.Helper()
	ours := strings.HasPrefix(l.ImportPath, "fairlead.dev/")
	positions := token.NewFileSet()
	var files []*ast.File
	for _, name := range l.GoFiles {
		f, err := parser.ParseFile(positions, filepath.Join(l.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	config := types.Config{
		Importer:         imported{l.ImportMap, known},
		IgnoreFuncBodies: !ours,
		Sizes:            types.SizesFor("gc", p.arch),
		Error: func(err error) {
			if ours {
				t.Errorf("for %s: %v", p, err)
			}
		},
	}
	pkg, err := config.Check(l.ImportPath, positions, files, nil)
	if err != nil && !ours {
		t.Fatalf("for %s: %v", p, err)
	}
	return pkg
}

// imported are the packages that one package imports, by the names that it has for them.
type imported struct {
	names map[string]string
	known map[string]*types.Package
}

func (i imported) Import(path string) (*types.Package, error) {
	if name, ok := i.names[path]; ok {
		path = name
	}
	if pkg := i.known[path]; pkg != nil {
		return pkg, nil
	}
	return nil, errors.New("was not listed")
}
