package main

import (
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/command"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalogyaml"
)

// pages are the texts for people, by their path from the root of the repository.
func pages(t *testing.T) map[string]string {
	t.Helper()
	root := filepath.Join("..", "..", "..")
	names := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".md") {
			name, _ := filepath.Rel(root, path)
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(text)
	}
	return out
}

// fenced takes the blocks of code out of a page: it returns the page without them, and them by their language.
func fenced(text string) (prose string, blocks map[string][]string) {
	blocks = map[string][]string{}
	var outside, block strings.Builder
	language, inside := "", false
	for line := range strings.Lines(text) {
		fence, ok := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case ok && inside:
			blocks[language] = append(blocks[language], block.String())
			block.Reset()
			inside = false
		case ok:
			language, inside = fence, true
		case inside:
			block.WriteString(line)
		default:
			outside.WriteString(line)
		}
	}
	return outside.String(), blocks
}

var (
	code     = regexp.MustCompile("`([^`]+)`")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	noAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// A link within the repository leads to a page that is there, and to a heading of it.
func TestLinksOfPagesLeadSomewhere(t *testing.T) {
	t.Parallel()
	all := pages(t)
	anchors := map[string]map[string]bool{}
	for name, text := range all {
		prose, _ := fenced(text)
		anchors[name] = map[string]bool{}
		for _, h := range heading.FindAllStringSubmatch(prose, -1) {
			title := link.ReplaceAllString(strings.ReplaceAll(h[1], "`", ""), "]")
			anchors[name][strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(title), ""), " ", "-")] = true
		}
	}
	for name, text := range all {
		prose, _ := fenced(text)
		for _, l := range link.FindAllStringSubmatch(code.ReplaceAllString(prose, ""), -1) {
			u, err := url.Parse(l[1])
			if err != nil || u.Scheme != "" || u.Host != "" {
				continue
			}
			to := name
			if u.Path != "" {
				to = filepath.Join(filepath.Dir(name), u.Path)
			}
			if _, err := os.Stat(filepath.Join("..", "..", "..", to)); err != nil {
				t.Errorf("%s links to %s, which is not there", name, l[1])
			} else if known, page := anchors[to]; page && u.Fragment != "" && !known[u.Fragment] {
				t.Errorf("%s links to %s, and there is no such heading", name, l[1])
			}
		}
	}
}

// A command that a page shows is there, with its flags.
func TestCommandsOfPagesExist(t *testing.T) {
	t.Parallel()
	seen := 0
	for name, text := range pages(t) {
		if strings.HasPrefix(name, filepath.Join("docs", "adr")) {
			continue // of the time in which they were decided
		}
		prose, blocks := fenced(text)
		var shown []string
		for _, c := range code.FindAllStringSubmatch(prose, -1) {
			shown = append(shown, strings.ReplaceAll(c[1], "\n", " "))
		}
		for language, list := range blocks {
			if slices.Contains([]string{"", "sh", "bash", "text"}, language) {
				for _, block := range list {
					shown = append(shown, strings.Split(strings.ReplaceAll(block, "\\\n", " "), "\n")...)
				}
			}
		}
		for _, line := range shown {
			for _, words := range fairleadCommands(line) {
				seen++
				if err := exists(words); err != nil {
					t.Errorf("%s: fairlead %s: %v", name, strings.Join(words, " "), err)
				}
			}
		}
	}
	if seen < 200 {
		t.Errorf("only %d commands were found", seen)
	}
}

// fairleadCommands are the words behind `fairlead` of each call in a line of a shell.
func fairleadCommands(line string) (list [][]string) {
	for _, part := range regexp.MustCompile(`\|\||&&|[|;]|\$\(`).Split(line, -1) {
		words := words(part)
		for len(words) > 0 && (strings.Contains(words[0], "=") || words[0] == "sudo" || words[0] == "exec") {
			words = words[1:]
		}
		if len(words) > 1 && (words[0] == "fairlead" || words[0] == "bin/fairlead") {
			list = append(list, words[1:])
		}
	}
	return list
}

// words are those of a command, up to a comment or to where its output goes.
func words(line string) (list []string) {
	var word strings.Builder
	quote := rune(0)
	end := func() {
		if word.Len() > 0 {
			list = append(list, word.String())
		}
		word.Reset()
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote = r
		case r == ' ' || r == '\t':
			end()
		case r == '#' && word.Len() == 0, r == '>', r == '<', r == ')':
			end()
			return list
		default:
			word.WriteRune(r)
		}
	}
	end()
	return list
}

// placeholder is a word that stands for others, such as COMMAND or get|describe.
var placeholder = regexp.MustCompile(`^[^a-z]|[|…]`)

func exists(args []string) error {
	root := command.NewRoot(app.IO{
		Getenv: os.Getenv, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Now: time.Now,
	})
	root.InitDefaultCompletionCmd("completion")
	root.InitDefaultHelpCmd()
	if placeholder.MatchString(args[0]) {
		return nil
	}
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if cmd == root {
		return fmt.Errorf("there is no such command")
	}
	if cmd.HasSubCommands() && cmd.RunE == nil && len(rest) > 0 && !placeholder.MatchString(rest[0]) &&
		!strings.HasPrefix(rest[0], "-") {
		return fmt.Errorf("%s has no %s", cmd.CommandPath(), rest[0])
	}
	// With a cluster in place of a service all is kubectl's.
	asKubectl := slices.Contains([]string{"logs", "exec", "port-forward"}, cmd.Name()) && len(rest) > 0 &&
		!strings.Contains(rest[0], "/")
	if cmd.DisableFlagParsing || asKubectl {
		return nil
	}
	cmd.InitDefaultHelpFlag()
	for _, word := range rest {
		if word == "--" {
			break
		}
		if err := hasFlag(cmd, word); err != nil {
			return err
		}
	}
	return nil
}

func hasFlag(cmd *cobra.Command, word string) error {
	name, _, _ := strings.Cut(word, "=")
	long, isLong := strings.CutPrefix(name, "--")
	short, isShort := strings.CutPrefix(name, "-")
	sets := []*pflag.FlagSet{cmd.Flags(), cmd.InheritedFlags(), cmd.PersistentFlags(), cmd.Root().Flags()}
	switch {
	case isLong && !slices.ContainsFunc(sets, func(s *pflag.FlagSet) bool { return s.Lookup(long) != nil }),
		isShort && !isLong && short != "" &&
			!slices.ContainsFunc(sets, func(s *pflag.FlagSet) bool { return s.ShorthandLookup(short[:1]) != nil }):
		return fmt.Errorf("%s has no flag %s", cmd.CommandPath(), name)
	}
	return nil
}

// A resource that a page shows is one that apply takes.
func TestResourcesOfPagesAreValid(t *testing.T) {
	t.Parallel()
	seen := 0
	for name, text := range pages(t) {
		_, blocks := fenced(text)
		for i, block := range blocks["yaml"] {
			if !strings.HasPrefix(block, "apiVersion: fairlead.dev/v1\n") {
				continue
			}
			objects, err := catalogyaml.Decode(fmt.Sprintf("%s (block %d)", name, i+1), []byte(block))
			if err == nil {
				err = catalogyaml.Validate(objects)
			}
			if err != nil {
				t.Errorf("%v", err)
			}
			seen += len(objects)
		}
	}
	if seen < 50 {
		t.Errorf("only %d resources were found", seen)
	}
}

// A field that a page names in code, such as `sync.onDelete` or `spec.tests.path`, is one of a resource's.
func TestFieldsOfPagesExist(t *testing.T) {
	t.Parallel()
	kinds := (&consolev1.Resource{}).ProtoReflect().Descriptor().Oneofs().Get(0).Fields()
	service := (&consolev1.ServiceSpec{}).ProtoReflect().Descriptor()
	seen := 0
	for name, text := range pages(t) {
		if strings.HasPrefix(name, filepath.Join("docs", "adr")) {
			continue // of the time in which they were decided
		}
		prose, _ := fenced(text)
		for _, found := range fieldPath.FindAllStringSubmatch(prose, -1) {
			path := strings.Split(found[1], ".")
			if slices.Contains(objectFields(), found[1]) || path[1] == "go" {
				continue
			}
			seen++
			there := slices.Contains([]string{"render", "sync", "tests"}, path[0]) && hasField(service, path)
			for i := range kinds.Len() {
				there = there || hasField(kinds.Get(i).Message(), path)
			}
			if !there {
				t.Errorf("%s: no resource has the field %s", name, found[1])
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d fields were found", seen)
	}
}

// fieldPath is a path of fields in code, perhaps with a value behind.
var fieldPath = regexp.MustCompile("`((?:levers|metadata|render|spec|status|sync|tests)(?:\\.[a-z][A-Za-z]*)+)(?:: [^`]*)?`")

// objectFields are those of Kubernetes' objects that pages name.
func objectFields() []string {
	return []string{
		"metadata.generateName", "spec.caBundle", "spec.conversion.webhook.clientConfig.caBundle", "spec.replicas",
	}
}

// hasField tells whether a message has a path of fields, as YAML names them.
func hasField(m protoreflect.MessageDescriptor, path []string) bool {
	if len(path) == 0 {
		return true
	}
	if m == nil {
		return false
	}
	fd := m.Fields().ByJSONName(path[0])
	if fd == nil {
		return false
	}
	if fd.IsMap() && len(path) > 1 {
		return hasField(fd.MapValue().Message(), path[2:]) // any key
	}
	return hasField(fd.Message(), path[1:])
}

// Each kind of a resource has a word.
func TestKindsHaveAWord(t *testing.T) {
	t.Parallel()
	text := pages(t)[filepath.Join("docs", "words.md")]
	for _, kind := range catalogyaml.Kinds() {
		if !strings.Contains(text, string(kind)) {
			t.Errorf("docs/words.md does not name kind %s", kind)
		}
	}
}
