// Package pages reads the project's pages as people do who type what they say: the commands, flags, variables, targets,
// tests and pages that they name are there.
package pages

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
)

const root = "../.."

// page is a text in Markdown.
type page struct {
	name string // path below root
	text string
}

func pages(t *testing.T) (all []page) {
	t.Helper()
	for _, name := range files(t, "*.md") {
		all = append(all, page{name, read(t, name)})
	}
	if len(all) < 50 {
		t.Fatalf("only %d pages are found", len(all))
	}
	return all
}

// files are those of the repository.
func files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := process.Run(t.Context(), nil, "", "git", "-C", root, "ls-files", "--cached", "--others",
		"--exclude-standard", pattern)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(found)
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// code are the lines that mean what they say: those of blocks, and what stands between backticks.
func (p page) code() (lines []string) {
	block, inline := "", regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(strings.ReplaceAll(p.text, "\\\n", " ")) {
		line = strings.TrimRight(line, "\n")
		switch fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```"); {
		case isFence && block == "":
			block = "```" + fence
		case isFence:
			block = ""
		case block == "```mermaid":
		case block != "" || strings.HasPrefix(line, "    "):
			lines = append(lines, line)
		default:
			for _, found := range inline.FindAllStringSubmatch(line, -1) {
				lines = append(lines, found[1])
			}
		}
	}
	return lines
}

// commands are what a line of code runs, each with its words.
func commands(line string) (all [][]string) {
	line = strings.ReplaceAll(line, "docker compose run --rm cli ", "fairlead ")
	line = regexp.MustCompile(`make up ARGS="?([^"]*)"?`).ReplaceAllString(line, "fairlead up $1")
	line = regexp.MustCompile(`\s#\s.*`).ReplaceAllString(line, "")
	word, assignment := regexp.MustCompile(`(?:[^\s'"]|'[^']*'|"[^"]*")+`), regexp.MustCompile(`^[A-Z_]+=`)
	for _, part := range regexp.MustCompile(` (?:\||&&|\|\|) |; |\$\(`).Split(line, -1) {
		words := word.FindAllString(part, -1)
		for len(words) > 0 && assignment.MatchString(words[0]) {
			words = words[1:]
		}
		if len(words) > 0 {
			all = append(all, words)
		}
	}
	return all
}

// programs tell of themselves what they know.
type programs struct {
	bins  stack.Binaries
	helps map[string]string
}

func services() []string { return []string{"console", "gitcache", "distributor", "tunnel", "agent"} }

// foreign are flags that stand alone in a text and are not ours.
func foreign() string {
	return `
  --profile, of docker compose
  --enable-feature, of Prometheus
  --cacert, of curl
  --as, of kubectl
  --as-group, of kubectl
  --as-uid, of kubectl
  --append-server-path, of kubectl
  --audit-log, of kubelocal
  --unsafe-no-fsync, of kubelocal
`
}

// help is what a command says of itself: nothing, if it is not there.
func (p programs) help(t *testing.T, words ...string) string {
	t.Helper()
	key := strings.Join(words, " ")
	if _, asked := p.helps[key]; !asked {
		p.helps[key], _ = process.Run(t.Context(), nil, "", filepath.Join(p.bins.Dir, words[0]),
			append(slices.Clone(words[1:]), "--help")...)
	}
	return p.helps[key]
}

// check says what of a command is not there. Commands of others are theirs.
func (p programs) check(t *testing.T, words []string) error {
	t.Helper()
	switch {
	case words[0] == "fairlead":
		help, rest, err := p.verb(t, []string{"fairlead"}, words[1:])
		if err != nil {
			return err
		}
		if strings.Contains(help, "[FLAGS OF KUBECTL]") {
			return nil
		}
		return knows(help, rest)
	case slices.Contains(services(), words[0]):
		if len(words) > 1 && words[1] == "healthcheck" {
			return knows(p.help(t, words[0], words[1]), words[2:])
		}
		return knows(p.help(t, words[0]), words[1:])
	case strings.HasPrefix(words[0], "--"):
		return knows(p.all(t)+foreign(), words)
	}
	return nil
}

// verb goes down to the command that is meant, and returns its help and the words after it.
func (p programs) verb(t *testing.T, at, words []string) (help string, rest []string, err error) {
	t.Helper()
	help = p.help(t, at...)
	if len(subcommands(help)) == 0 || len(words) == 0 || !regexp.MustCompile(`^[a-z|-]+$`).MatchString(words[0]) ||
		strings.HasPrefix(words[0], "-") {
		return help, words, nil
	}
	_, usage, _ := strings.Cut(help, "\nUsage:\n")
	usage, _, _ = strings.Cut(usage, "\n\n")
	var known string
	for one := range strings.SplitSeq(words[0], "|") {
		below := append(slices.Clone(at), one)
		if strings.Contains(usage, strings.Join(below, " ")+" ") {
			return help, words, nil // a word that it takes
		}
		if deeper := p.help(t, below...); deeper == help || deeper == "" {
			return "", nil, fmt.Errorf("there is no %q", strings.Join(below, " "))
		}
		if known, rest, err = p.verb(t, below, words[1:]); err != nil {
			return "", nil, err
		}
	}
	return known, rest, nil
}

// all is the help of every program and command.
func (p programs) all(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, service := range services() {
		all.WriteString(p.help(t, service))
		all.WriteString(p.help(t, service, "healthcheck"))
	}
	var below func(at ...string)
	below = func(at ...string) {
		help := p.help(t, at...)
		all.WriteString(help)
		for _, name := range subcommands(help) {
			below(append(slices.Clone(at), name)...)
		}
	}
	below("fairlead")
	return all.String()
}

// subcommands are the commands that a help lists: one a line, or by groups at the root.
func subcommands(help string) (names []string) {
	if _, list, ok := strings.Cut(help, "Available Commands:\n"); ok {
		list, _, _ = strings.Cut(list, "\n\n")
		for line := range strings.Lines(list) {
			names = append(names, strings.Fields(line)[0])
		}
		return names
	}
	if !strings.Contains(help, "\nUsage: fairlead COMMAND") {
		return nil
	}
	help = regexp.MustCompile(`,\n +`).ReplaceAllString(help, ", ") // a long group has several lines
	for _, group := range regexp.MustCompile(`(?m)^[A-Z][a-z ]*?  +([a-z-]+(?:, [a-z-]+)+)$`).FindAllStringSubmatch(help, -1) {
		names = append(names, strings.Split(group[1], ", ")...)
	}
	return names
}

// knows says which flags a help does not have.
func knows(help string, words []string) error {
	var unknown []error
	for _, word := range words {
		if word == "--" {
			break // the rest is another program's
		}
		if word == "--help" {
			continue
		}
		found := regexp.MustCompile(`^\[?(--?[a-z][a-z0-9-]*)(\*?)`).FindStringSubmatch(word)
		if found == nil {
			continue
		}
		name := "-?" + strings.TrimPrefix(found[1], "-")
		if !strings.HasPrefix(found[1], "--") {
			name = found[1]
		}
		if found[2] == "" {
			name += `(?:[\s=,]|$)`
		}
		if !regexp.MustCompile(`(?m)^ +(-\w, )?` + name).MatchString(help) {
			unknown = append(unknown, fmt.Errorf("there is no flag %s", found[1]))
		}
	}
	return errors.Join(unknown...)
}

func TestCommandsAndFlagsAreThere(t *testing.T) {
	t.Parallel()
	bins, err := stack.FindBinaries(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	p, checked := programs{bins, map[string]string{}}, 0
	for _, page := range pages(t) {
		for _, line := range page.code() {
			for _, words := range commands(line) {
				checked++
				if err := p.check(t, words); err != nil {
					t.Errorf("%s: %s: %v", page.name, line, err)
				}
			}
		}
	}
	if checked < 500 {
		t.Errorf("only %d commands are found", checked)
	}
}

func TestTestsAreThere(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	for _, name := range files(t, "*_test.go") {
		code.WriteString(read(t, name))
	}
	for _, page := range pages(t) {
		if page.name == "docs/reference/kinds.md" { // is made of messages, some of which are called TestSpec and TestRequest
			continue
		}
		for _, found := range regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+\b(?:…)?`).FindAllString(page.text, -1) {
			begin, isMany := strings.CutSuffix(found, "…")
			if !isMany {
				begin += "("
			}
			if !strings.Contains(code.String(), "\nfunc "+begin) {
				t.Errorf("%s: there is no test %s", page.name, found)
			}
		}
	}
}

func TestTargetsAreThere(t *testing.T) {
	t.Parallel()
	makefile := read(t, "Makefile")
	for _, page := range pages(t) {
		for _, line := range page.code() {
			for _, found := range regexp.MustCompile(`^make ([a-z]+)`).FindAllStringSubmatch(line, -1) {
				if !strings.Contains(makefile, "\n"+found[1]+":") {
					t.Errorf("%s: there is no target %s", page.name, found[0])
				}
			}
		}
	}
}

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		for _, found := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(page.text, -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			to, heading, _ := strings.Cut(found[1], "#")
			name := page.name
			if to != "" {
				name = filepath.Join(filepath.Dir(page.name), to)
			}
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("%s: %s is not there", page.name, found[1])
			} else if heading != "" && !slices.Contains(headings(read(t, name)), heading) {
				t.Errorf("%s: %s has no heading #%s", page.name, name, heading)
			}
		}
	}
}

// headings are what links of a page may lead to.
func headings(text string) (all []string) {
	for _, found := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		slug := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(found[1]), "")
		all = append(all, strings.ReplaceAll(slug, " ", "-"))
	}
	return all
}
