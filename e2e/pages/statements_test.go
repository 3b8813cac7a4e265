package pages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const statements = "e2e/pages/testdata/statements.txt"

// A page says what statements.txt says of it, and the test that holds it is there: see statements.txt.
func TestStatementsHaveTheirTest(t *testing.T) {
	t.Parallel()
	texts, tests, seen := map[string]string{}, map[string]string{}, 0
	for line := range strings.Lines(read(t, statements)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, isLine := strings.Cut(line, ": ")
		statement, holder, isHeld := strings.Cut(rest, " -> ")
		if !isLine || !isHeld {
			t.Errorf("%s: %s: want PAGE: STATEMENT -> FOLDER TEST", statements, line)
			continue
		}
		if texts[name] == "" {
			texts[name] = strings.Join(strings.Fields(read(t, name)), " ")
		}
		if !strings.Contains(texts[name], statement) {
			t.Errorf("%s does not say: %s (held by %s)", name, statement, holder)
		}
		folder, test, isTest := strings.Cut(holder, " ")
		if isTest && tests[folder] == "" {
			tests[folder] = testsOf(t, folder)
		}
		if isTest && !strings.Contains(tests[folder], "\nfunc "+test+"(") {
			t.Errorf("%s has no %s: which test holds the statement of %s now: %s?", folder, test, name, statement)
		}
		if _, err := os.Stat(filepath.Join(root, folder)); err != nil {
			t.Errorf("%s: %v", statements, err)
		}
		seen++
	}
	if seen < 150 {
		t.Errorf("only %d statements are found", seen)
	}
}

// testsOf is the code of a folder's tests.
func testsOf(t *testing.T, folder string) string {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(root, folder, "*_test.go")) // the pattern is well-formed
	var code strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	return code.String()
}
