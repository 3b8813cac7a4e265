package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is in the tree is what the contract and the commands make of it today.
func TestReferenceIsOfToday(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	made, err := makeFiles(root)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range made {
		got, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not of today: run `make gen`", path)
		}
	}
}

// A page without its comments would still be equal to itself.
func TestReferenceSaysWhatFieldsMean(t *testing.T) {
	t.Parallel()
	made, err := makeFiles(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	kinds := string(made[filepath.Join("docs", "reference", "kinds.md")])
	for _, want := range []string{
		"\n## Sink\n\nSink is where events are sent to",                                         // the comment of a kind
		"| **`url`** | text | https://host/path, ssh://",                                        // of a field that is required
		"| `interval` | duration | How often the index is asked for.",                           // of one that is not
		"`cosign`, `provenance`, `notation` | `cosign`: By cosign, with a key or without: in a", // of a value
		"| [GitSource](#gitsource) |",
		"\n## GitSource\n",
	} {
		if !strings.Contains(kinds, want) {
			t.Errorf("the page on kinds has no %q", want)
		}
	}
	for _, not := range []string{"createTime", "| `status`"} {
		if strings.Contains(kinds, not) {
			t.Errorf("the page on kinds has %q, which the hub fills in", not)
		}
	}
	commands := string(made[filepath.Join("docs", "reference", "commands.md")])
	for _, want := range []string{"\n## fairlead apply\n", "\n## fairlead cluster join\n", "--filename"} {
		if !strings.Contains(commands, want) {
			t.Errorf("the page on commands has no %q", want)
		}
	}
}
