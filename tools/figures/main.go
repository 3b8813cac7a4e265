// Figures measures how readable the tree is: names, comments, sizes. `make figures` prints a line per figure with its
// target; `make figures ARGS="-list sentences"` prints the places behind one, and ARGS="-list tests -draw 20 -seed 7" some
// of them, for a reader who judges what a figure can't.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// maxColumns is the longest line of a test that is still easy to read, and maxFiles how many files a reader takes in at a glance.
const (
	maxColumns = 120
	maxFiles   = 20
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("figures", flag.ContinueOnError)
	root := flags.String("root", ".", "the checkout")
	list := flags.String("list", "", "print the places behind a figure, names, embedded, sentences, packages or columns, or all functions, comments or tests")
	count := flags.Int("draw", 0, "with -list: print so many of the places, drawn by chance; 0: all")
	seed := flags.Uint64("seed", 1, "with -draw: another seed draws others")
	if err := flags.Parse(args); err != nil {
		return err
	}
	f, err := measure(*root)
	if err != nil {
		return err
	}
	if *list != "" {
		places, ok := f.places[*list]
		if !ok {
			return fmt.Errorf("-list %s: there are places of names, embedded, sentences, packages, columns, functions, comments and tests", *list)
		}
		for _, place := range draw(places, *count, *seed) {
			fmt.Fprintln(out, place)
		}
		return nil
	}
	f.print(out)
	return nil
}

// draw returns as many of the places as asked for, in their order.
func draw(places []string, count int, seed uint64) []string {
	if count <= 0 || count >= len(places) {
		return places
	}
	chosen := rand.New(rand.NewPCG(seed, 0)).Perm(len(places))[:count] //nolint:gosec // a seed draws the same each time
	slices.Sort(chosen)
	drawn := make([]string, 0, count)
	for _, at := range chosen {
		drawn = append(drawn, places[at])
	}
	return drawn
}

// size is how much of something a service has, in lines without blank ones.
type size struct{ code, comment, test int }

// figures is what one walk over the tree counted.
type figures struct {
	functions, oneWord int
	testLines          int
	sentences          int
	sizes              map[string]*size // by part: services/console, cli ...
	places             map[string][]string
}

// measure walks all Go files that a person wrote.
func measure(root string) (*figures, error) {
	f := &figures{sizes: map[string]*size{}, places: map[string][]string{
		"names": nil, "embedded": nil, "sentences": nil, "packages": nil, "columns": nil, "functions": nil, "comments": nil, "tests": nil,
	}}
	files := map[string]int{} // by folder, without tests
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata" || path == filepath.Join(root, "gen")) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		short, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if !strings.HasSuffix(name, "_test.go") {
			files[filepath.Dir(short)]++
		}
		return f.file(path, short)
	})
	if err != nil {
		return nil, fmt.Errorf("measure %s: %w", root, err)
	}
	for folder, n := range files {
		if n > maxFiles {
			f.places["packages"] = append(f.places["packages"], fmt.Sprintf("%s: %d files", folder, n))
		}
	}
	slices.Sort(f.places["packages"])
	return f, nil
}

// part is the deployable or library that a file belongs to.
func part(short string) string {
	names := strings.Split(filepath.ToSlash(short), "/")
	if names[0] == "services" && len(names) > 2 {
		return names[0] + "/" + names[1]
	}
	return names[0]
}

func (f *figures) file(path, short string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if ast.IsGenerated(parsed) {
		return nil
	}
	at := func(pos token.Pos) string { return fmt.Sprintf("%s:%d", short, fset.Position(pos).Line) }
	isTest := strings.HasSuffix(short, "_test.go")
	f.lines(string(text), short, isTest)
	f.comments(parsed, at)
	if isTest {
		for _, decl := range parsed.Decls {
			if test, ok := decl.(*ast.FuncDecl); ok && strings.HasPrefix(test.Name.Name, "Test") {
				f.places["tests"] = append(f.places["tests"], at(test.Pos())+": "+test.Name.Name)
			}
		}
		return nil
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			f.functions++
			f.places["functions"] = append(f.places["functions"], at(n.Pos())+": "+n.Name.Name)
			if oneWord(n.Name.Name) {
				f.oneWord++
				f.places["names"] = append(f.places["names"], at(n.Pos())+": "+n.Name.Name)
			}
		case *ast.StructType:
			for _, field := range n.Fields.List {
				star, ok := field.Type.(*ast.StarExpr)
				if !ok || len(field.Names) > 0 {
					continue
				}
				if own, ok := star.X.(*ast.Ident); ok {
					f.places["embedded"] = append(f.places["embedded"], at(field.Pos())+": *"+own.Name)
				}
			}
		}
		return true
	})
	return nil
}

// oneWord says whether a name is a single word: main and the methods that the standard library asks for don't count.
func oneWord(name string) bool {
	if slices.Contains([]string{"main", "run", "Run", "New", "Error", "String", "Close", "Read", "Write", "Unwrap", "Len", "Less", "Swap"}, name) {
		return false
	}
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			return false
		}
	}
	return !strings.Contains(name, "_")
}

func (f *figures) lines(text, short string, isTest bool) {
	of := f.sizes[part(short)]
	if of == nil {
		of = &size{}
		f.sizes[part(short)] = of
	}
	scanner := bufio.NewScanner(strings.NewReader(text))
	scanner.Buffer(nil, 1<<20)
	for n := 1; scanner.Scan(); n++ {
		line := scanner.Text()
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "":
		case isTest:
			of.test++
			f.testLines++
			if columns(line) > maxColumns {
				f.places["columns"] = append(f.places["columns"], fmt.Sprintf("%s:%d", short, n))
			}
		case strings.HasPrefix(trimmed, "//"):
			of.comment++
		default:
			of.code++
		}
	}
}

// columns counts a tab as four.
func columns(line string) int {
	return len([]rune(line)) + 3*strings.Count(line, "\t")
}

var (
	sentenceEnd = regexp.MustCompile(`[.!?][)"]?\s+`)
	// subject matches a sentence whose subject is a pronoun or a relative clause.
	subject = regexp.MustCompile(`^(?i:(what|who|whoever|whatever|whichever|it|they|he|she|one that|one who|those (that|who|which|of)|all that|none|nobody|somebody|` +
		`(this|that|these|those|such|both|others|some|each|all|any|nothing|everything) (is|are|was|were|be|has|have|had|does|do|did|can|could|may|might|must|will|would|should|comes?|goes|go|stays?|says?|needs?|takes?|makes?)))\b`)
)

func (f *figures) comments(parsed *ast.File, at func(token.Pos) string) {
	for _, group := range parsed.Comments {
		text := strings.Join(strings.Fields(group.Text()), " ")
		if text != "" {
			f.places["comments"] = append(f.places["comments"], at(group.Pos())+": "+text)
		}
		for _, sentence := range sentenceEnd.Split(text, -1) {
			if len(strings.Fields(sentence)) < 3 {
				continue
			}
			f.sentences++
			if subject.MatchString(sentence) {
				f.places["sentences"] = append(f.places["sentences"], at(group.Pos())+": "+sentence)
			}
		}
	}
}

func (f *figures) print(out io.Writer) {
	var all size
	for _, s := range f.sizes {
		all.code, all.comment = all.code+s.code, all.comment+s.comment
	}
	line := func(name, value, target string) { fmt.Fprintf(out, "%-46s %10s   target %s\n", name, value, target) }
	percent := func(n, of int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(of, 1))) }
	ratio := func(n, of int) string { return fmt.Sprintf("%.2f", float64(n)/float64(max(of, 1))) }
	count := func(name string) string { return fmt.Sprint(len(f.places[name])) }
	line("functions with a one-word name", percent(f.oneWord, f.functions), "<= 45 %")
	line("embedded pointers of the own package", count("embedded"), "<= 10")
	line("comment lines per line of code", ratio(all.comment, all.code), ">= 0.10")
	line(fmt.Sprintf("packages with more than %d files", maxFiles), count("packages"), "0")
	line(fmt.Sprintf("lines of tests over %d columns", maxColumns), percent(len(f.places["columns"]), f.testLines), "<= 2 %")
	line("sentences of comments without a noun as subject", percent(len(f.places["sentences"]), f.sentences), "<= 4 %")
	for _, part := range []struct{ name, target string }{{"services/console", ">= 0.7"}, {"cli", ">= 0.5"}} {
		if s := f.sizes[part.name]; s != nil {
			line("test per code in "+part.name, ratio(s.test, s.code), part.target)
		}
	}
	for _, name := range []string{"cli", "platform", "services/agent", "services/console", "services/distributor", "services/gitcache", "services/tunnel"} {
		if s := f.sizes[name]; s != nil {
			line("lines of code in "+name, fmt.Sprint(s.code), "-")
		}
	}
}
