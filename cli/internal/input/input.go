// Package input reads resources from files, folders and stdin, as -f and -k name them.
package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/platform/catalogyaml"
)

// input is what stands in a file, or what was built of a folder.
type input struct {
	name string
	data []byte
}

// ReadObjects decodes and checks all files, and what folders are built to. All that is wrong with them is one error.
func ReadObjects(ctx context.Context, a *app.App, names, folders []string) ([]*catalogyaml.Object, error) {
	objects, problems, err := ReadAll(ctx, a, names, folders)
	if err == nil && len(problems) > 0 {
		problems.Sort()
		err = fmt.Errorf("the files have mistakes, and nothing was done:\n%w", problems)
	}
	if err != nil {
		return nil, err
	}
	return objects, nil
}

// ReadAll returns what could be read besides what is wrong with the rest.
func ReadAll(
	ctx context.Context, a *app.App, names, folders []string,
) ([]*catalogyaml.Object, catalogyaml.Problems, error) {
	inputs, err := openInputs(ctx, a, names, folders)
	if err != nil {
		return nil, nil, err
	}
	var objects []*catalogyaml.Object
	var problems catalogyaml.Problems
	collect := func(err error) error {
		var some catalogyaml.Problems
		if err != nil && !errors.As(err, &some) {
			return err
		}
		problems = append(problems, some...)
		return nil
	}
	for _, in := range inputs {
		decoded, err := catalogyaml.Decode(in.name, in.data)
		if err := collect(err); err != nil {
			return nil, nil, err
		}
		objects = append(objects, decoded...)
	}
	if err := collect(catalogyaml.Validate(objects)); err != nil {
		return nil, nil, err
	}
	if len(objects)+len(problems) == 0 {
		if slices.ContainsFunc(inputs, isList) {
			return nil, nil, fmt.Errorf("%w in %s", ErrEmptyList, strings.Join(append(names, folders...), ", "))
		}
		return nil, nil, fmt.Errorf("no resources in %s", strings.Join(append(names, folders...), ", "))
	}
	catalogyaml.Sort(objects)
	return objects, problems, nil
}

// ErrEmptyList is of files without a resource, one of which is a List that says so: "fairlead get ... -o json" prints
// it where there is nothing.
var ErrEmptyList = errors.New("the list is empty: no resources")

// isList distinguishes a List from a file that has nothing, of files in which no resource was found.
func isList(in input) bool {
	var head struct {
		Kind string `json:"kind"`
	}
	return yaml.Unmarshal(in.data, &head) == nil && head.Kind == "List"
}

// NothingApplied is the error of files that have problems.
func NothingApplied(problems catalogyaml.Problems) error {
	problems.Sort()
	return fmt.Errorf("nothing was applied:\n%w", problems)
}

func openInputs(ctx context.Context, a *app.App, names, folders []string) ([]input, error) {
	var all []input
	for _, name := range names {
		files, err := filesOf(name)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			data, err := readFile(ctx, a, file)
			if err != nil {
				return nil, err
			}
			all = append(all, input{DisplayName(file), data})
		}
	}
	for _, folder := range folders {
		data, err := buildKustomization(ctx, folder)
		if err != nil {
			return nil, err
		}
		all = append(all, input{folder + " (built)", data})
	}
	return all, nil
}

// DisplayName is a file as messages name it.
func DisplayName(file string) string {
	if file == "-" {
		return "stdin"
	}
	return file
}

// filesOf returns the files that a name stands for.
func filesOf(name string) ([]string, error) {
	if name == "-" {
		return []string{name}, nil
	}
	if strings.Contains(name, "://") { // which may hold a password: it is not repeated
		return nil, errors.New("-f takes no URL: have another program read it, as in `curl -fsSL URL | fairlead apply -f -`")
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(name, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("folder %s has no files *.yaml, *.yml or *.json; subfolders are not looked into", name)
	}
	return files, nil
}

func readFile(ctx context.Context, a *app.App, name string) ([]byte, error) {
	in := a.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	data, err := app.Await(ctx, func() ([]byte, error) { // a person who has begun to type may think better of it
		return io.ReadAll(io.LimitReader(in, catalogyaml.MaxFileBytes+1)) // One more, for Decode to see that it is too large.
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", DisplayName(name), err)
	}
	return data, nil
}
