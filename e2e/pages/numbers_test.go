package pages

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const numbers = "e2e/pages/testdata/numbers.txt"

// A number in a page is the constant that the code has: see numbers.txt.
func TestNumbersAreThoseOfTheCode(t *testing.T) {
	t.Parallel()
	c := constants{}
	texts, seen := map[string]string{}, 0
	for line := range strings.Lines(read(t, numbers)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, sentence, ok := strings.Cut(line, ": ")
		if !ok || !strings.Contains(sentence, "{") {
			t.Errorf("%s: %s: want PAGE: SENTENCE with a {FOLDER NAME}", numbers, line)
			continue
		}
		if texts[name] == "" {
			texts[name] = strings.Join(strings.Fields(read(t, name)), " ")
		}
		pattern, values, err := c.pattern(sentence)
		if err != nil {
			t.Errorf("%s: %s: %v", numbers, line, err)
		} else if !regexp.MustCompile(pattern).MatchString(texts[name]) {
			t.Errorf("%s does not say: %s\n(%s)", name, sentence, strings.Join(values, ", "))
		}
		seen++
	}
	if seen < 215 {
		t.Errorf("only %d sentences are found", seen)
	}
}

// value is a constant: a number, or a time in nanoseconds.
type value struct {
	constant.Value
	isTime bool
}

// constants are those of packages, by folder or file and name, as far as they were read.
type constants map[string]map[string]value

// pattern is what matches a sentence with its constants as people write them. values are those, for a message.
func (c constants) pattern(sentence string) (pattern string, values []string, err error) {
	ref := regexp.MustCompile(`\{(\S+) (\S+)\}`)
	rest := 0
	for _, at := range ref.FindAllStringSubmatchIndex(sentence, -1) {
		v, err := c.find(sentence[at[2]:at[3]], sentence[at[4]:at[5]])
		if err != nil {
			return "", nil, err
		}
		var ways []string
		for _, way := range v.ways() {
			ways = append(ways, regexp.QuoteMeta(way))
		}
		values = append(values, sentence[at[4]:at[5]]+" is "+v.String())
		pattern += regexp.QuoteMeta(sentence[rest:at[0]]) + `\b(?:` + strings.Join(ways, "|") + `)\b`
		rest = at[1]
	}
	return pattern + regexp.QuoteMeta(sentence[rest:]), values, nil
}

// find returns a constant of a package, or of a file of it.
func (c constants) find(at, name string) (value, error) {
	if c[at] == nil {
		if err := c.load(at); err != nil {
			return value{}, err
		}
	}
	if v, ok := c[at][name]; ok {
		return v, nil
	}
	return value{}, fmt.Errorf("there is no constant %s in %s", name, at)
}

func (c constants) load(at string) error {
	c[at] = map[string]value{}
	names := []string{filepath.Join(root, at)}
	switch filepath.Ext(at) {
	case ".ts":
		return c.loadTypeScript(at)
	case ".proto":
		return c.loadProto(at)
	case "":
		names, _ = filepath.Glob(filepath.Join(root, at, "*.go")) // the pattern is well-formed
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	// A constant may be made of one that comes later, or of another package's.
	for more := true; more; {
		more = false
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				more = c.note(at, file, n) || more
				return true
			})
		}
	}
	return nil
}

// note keeps the constants of a declaration that can be evaluated by now, and the default of a flag, and tells whether
// there is a new one. Of two with one name, as of two functions, the first counts: name its file.
func (c constants) note(at string, file *ast.File, n ast.Node) (found bool) {
	keep := func(name string, e ast.Expr) {
		if _, known := c[at][name]; known {
			return
		}
		if v, ok := c.eval(at, file, e); ok {
			c[at][name], found = v, true
		}
	}
	switch n := n.(type) {
	case *ast.GenDecl:
		for _, spec := range n.Specs {
			spec, ok := spec.(*ast.ValueSpec)
			if !ok || n.Tok != token.CONST {
				continue
			}
			for i := range spec.Values {
				keep(spec.Names[i].Name, spec.Values[i])
			}
		}
	case *ast.CallExpr: // fs.DurationVar(&c.Wait, "wait", time.Second, "...")
		if method, ok := n.Fun.(*ast.SelectorExpr); ok && strings.HasSuffix(method.Sel.Name, "Var") &&
			len(n.Args) == 4 {
			if name, ok := n.Args[1].(*ast.BasicLit); ok && name.Kind == token.STRING {
				keep("--"+strings.Trim(name.Value, `"`), n.Args[2])
			}
		}
	}
	return found
}

// eval evaluates what numbers and times are written with.
func (c constants) eval(at string, file *ast.File, e ast.Expr) (v value, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.INT {
			return value{Value: constant.MakeFromLiteral(e.Value, e.Kind, 0)}, true
		}
	case *ast.ParenExpr:
		return c.eval(at, file, e.X)
	case *ast.Ident:
		v, ok = c[at][e.Name]
		return v, ok
	case *ast.SelectorExpr:
		return c.selected(file, e)
	case *ast.BinaryExpr:
		x, okX := c.eval(at, file, e.X)
		y, okY := c.eval(at, file, e.Y)
		if !okX || !okY {
			return v, false
		}
		v.isTime = x.isTime != y.isTime || x.isTime && e.Op != token.QUO
		switch e.Op {
		case token.SHL:
			n, _ := constant.Uint64Val(y.Value)
			v.Value = constant.Shift(x.Value, e.Op, uint(n))
		case token.QUO:
			v.Value = constant.BinaryOp(x.Value, token.QUO_ASSIGN, y.Value) // of integers
		case token.ADD, token.SUB, token.MUL:
			v.Value = constant.BinaryOp(x.Value, e.Op, y.Value)
		default:
			return v, false
		}
		return v, true
	}
	return v, false
}

// selected is a unit of time, or a constant of another package of ours.
func (c constants) selected(file *ast.File, e *ast.SelectorExpr) (value, bool) {
	pkg, ok := e.X.(*ast.Ident)
	if !ok {
		return value{}, false
	}
	units := map[string]time.Duration{
		"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
	}
	if unit, ok := units[e.Sel.Name]; ok && pkg.Name == "time" {
		return value{constant.MakeInt64(int64(unit)), true}, true
	}
	for _, i := range file.Imports {
		imported, _ := strconv.Unquote(i.Path.Value)
		folder, ours := strings.CutPrefix(imported, "fairlead.dev/")
		name := filepath.Base(folder)
		if i.Name != nil {
			name = i.Name.Name
		}
		if ours && name == pkg.Name {
			v, err := c.find(folder, e.Sel.Name)
			return v, err == nil
		}
	}
	return value{}, false
}

// loadTypeScript reads the constants of a file of the pages: numbers, and shifted ones.
func (c constants) loadTypeScript(at string) error {
	text, err := os.ReadFile(filepath.Join(root, at))
	if err != nil {
		return err
	}
	declared := regexp.MustCompile(`(?m)^(?:export )?const (\w+) = ([\d_]+(?: << \d+)?)$`)
	for _, found := range declared.FindAllStringSubmatch(string(text), -1) {
		e, err := parser.ParseExpr(found[2])
		if err != nil {
			return err
		}
		if v, ok := c.eval(at, nil, e); ok {
			c[at][found[1]] = v
		}
	}
	return nil
}

// loadProto reads the bounds of fields: "field.lte" is what a rule of a field says, of two fields with one name that of
// the first.
func (c constants) loadProto(at string) error {
	text, err := os.ReadFile(filepath.Join(root, at))
	if err != nil {
		return err
	}
	field := regexp.MustCompile(`^ +(?:repeated )?[\w.]+ (\w+) = \d+ \[`)
	rule := regexp.MustCompile(`\b(gte|lte|max_len|max_items|max_pairs)(?:: | = )(\{seconds: )?(\d+)`)
	name := ""
	for line := range strings.Lines(string(text)) {
		if found := field.FindStringSubmatch(line); found != nil {
			name = found[1]
		}
		for _, found := range rule.FindAllStringSubmatch(line, -1) {
			n, err := strconv.ParseInt(found[3], 10, 64)
			if err != nil {
				return err
			}
			v := value{Value: constant.MakeInt64(n)}
			if found[2] != "" {
				v = value{constant.MakeInt64(n * int64(time.Second)), true}
			}
			if _, known := c[at][name+"."+found[1]]; !known {
				c[at][name+"."+found[1]] = v
			}
		}
	}
	return nil
}

func (v value) String() string {
	if n, ok := constant.Int64Val(v.Value); ok && v.isTime {
		return time.Duration(n).String()
	}
	return v.Value.String()
}

// ways are those in which pages write a number or a time, the longest first.
func (v value) ways() (ways []string) {
	n, _ := constant.Int64Val(v.Value)
	if v.isTime {
		ways = timeWays(time.Duration(n))
	} else {
		ways = numberWays(n)
		for _, unit := range []struct {
			size int64
			name string
		}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
			if n > 0 && n%unit.size == 0 {
				for _, way := range numberWays(n / unit.size) {
					ways = append(ways, way+" "+unit.name)
				}
			}
		}
	}
	slices.SortFunc(ways, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return ways
}

func numberWays(n int64) []string {
	digits := strconv.FormatInt(n, 10)
	grouped := digits
	for at := len(digits) - 3; at > 0; at -= 3 {
		grouped = grouped[:at] + "," + grouped[at:]
	}
	ways := []string{digits, grouped}
	words := strings.Fields("none one two three four five six seven eight nine ten eleven twelve")
	if n >= 0 && n < int64(len(words)) {
		ways = append(ways, words[n], strings.ToUpper(words[n][:1])+words[n][1:])
	}
	return ways
}

func timeWays(d time.Duration) (ways []string) {
	for _, unit := range []struct {
		size  time.Duration
		one   string
		short []string
	}{
		{24 * time.Hour, "day", nil},
		{time.Hour, "hour", []string{"h"}},
		{time.Minute, "minute", []string{"m", "min"}},
		{time.Second, "second", []string{"s"}},
		{time.Millisecond, "millisecond", []string{"ms"}},
	} {
		if d%unit.size != 0 {
			continue
		}
		for _, n := range numberWays(int64(d / unit.size)) {
			ways = append(ways, n+" "+unit.one+"s")
			for _, short := range unit.short {
				ways = append(ways, n+short, n+" "+short)
			}
		}
		if d == unit.size { // a minute, an hour, every day
			ways = append(ways, unit.one)
			if unit.one == "hour" {
				ways = append(ways, "an hour", "1 hour")
				continue
			}
			ways = append(ways, "a "+unit.one, "1 "+unit.one)
		}
	}
	switch d {
	case 0:
		ways = append(ways, "0")
	case time.Second / 2:
		ways = append(ways, "half a second")
	case time.Second / 4:
		ways = append(ways, "a quarter of a second")
	}
	return ways
}
