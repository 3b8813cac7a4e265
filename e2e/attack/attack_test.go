package attack

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// fewestCases is how many published cases the corpus has to repeat.
const fewestCases = 40

// TestThreatModelListsTheCases holds the list of published cases in docs/threat-model.md and the corpus together, both
// ways.
func TestThreatModelListsTheCases(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string][]string{} // the attacks of a case
	for _, row := range regexp.MustCompile(`(?m)^\| (CVE-\d+-\d+) \| .* \| .* \| (.*) \|$`).FindAllStringSubmatch(string(text), -1) {
		listed[row[1]] = strings.Split(row[2], "; ")
	}
	tried := map[string][]string{}
	for _, a := range Corpus() {
		for _, c := range a.CVE {
			tried[c] = append(tried[c], strings.Replace(a.Name, "at "+a.Part, "at ...", 1))
		}
	}
	for c, names := range tried {
		slices.Sort(names)
		names = slices.Compact(names)
		if listed := slices.Sorted(slices.Values(listed[c])); !slices.Equal(listed, names) {
			t.Errorf("%s is tried by %q, and the threat model lists %q", c, names, listed)
		}
	}
	for c := range listed {
		if tried[c] == nil {
			t.Errorf("the threat model lists %s, which no attack tries", c)
		}
	}
	if len(tried) < fewestCases {
		t.Errorf("%d published cases are tried", len(tried))
	}
}

// TestEveryProcedureIsAttackedByStrangers holds for the protos as they are: a package that nobody serves fails here.
func TestEveryProcedureIsAttackedByStrangers(t *testing.T) {
	t.Parallel()
	if err := check(Corpus()); err != nil {
		t.Fatal(err)
	}
	found := procedures()
	if len(found) < 100 {
		t.Errorf("only %d procedures were found", len(found))
	}
	for _, p := range found {
		if !slices.Contains(hubParts(), p.part) {
			t.Errorf("say in partsOf which part serves %s", p.path())
		}
	}
}

// TestTheTestsOfThreatModelExist holds for each test that docs/threat-model.md names as what shows something.
func TestTheTestsOfThreatModelExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	functions := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		code, err := os.ReadFile(path)
		for _, name := range functions.FindAllSubmatch(code, -1) {
			there[string(name[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, named := range regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(string(text), -1) {
		if !there[named[1]] {
			t.Errorf("the threat model names %s, and there is no such test", named[1])
		}
	}
}
