// Command reference writes what is made from the table of the kinds and from the commands: docs/reference, and the
// comments in the schema for editors. `make gen` runs it in the root of the checkout; the test beside it says when that
// was forgotten.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/reflect/protoreflect"

	"fairlead.dev/cli/internal/schema"
	"fairlead.dev/platform/flags"
	"fairlead.dev/platform/kind"
)

func main() { flags.Main(run) }

func run(_ context.Context, args []string, _ func(string) string, stdout io.Writer) error {
	if len(args) > 0 {
		return fmt.Errorf("reference takes no arguments: run it in the root of the checkout")
	}
	made, err := makeFiles(".") //nolint:contextcheck // no command runs
	if err != nil {
		return err
	}
	for path, text := range made {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // pages that all may read
			return fmt.Errorf("write %s: %w", path, err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil { //nolint:gosec // pages that all may read
			return fmt.Errorf("write %s: %w", path, err)
		}
		fmt.Fprintln(stdout, path)
	}
	return nil
}

// makeFiles returns the text of each file, by its path below the root of the checkout.
func makeFiles(root string) (map[string][]byte, error) {
	var messages []protoreflect.MessageDescriptor
	seen := map[protoreflect.FullName]bool{}
	for _, k := range kind.All() {
		for _, md := range schema.Messages(k.New()) {
			if !seen[md.FullName()] {
				seen[md.FullName()] = true
				messages = append(messages, md)
			}
		}
	}
	words, err := readComments(filepath.Join(root, "gen"), messages)
	if err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(words, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode comments: %w", err)
	}
	kinds, err := describeKinds(messages, words)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		filepath.Join("cli", "internal", "schema", "comments.json"): append(text, '\n'),
		filepath.Join("docs", "reference", "kinds.md"):              []byte(kinds),
		filepath.Join("docs", "reference", "commands.md"):           []byte(describeCommands()),
	}, nil
}
