package pathrules_test

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"fairlead.dev/platform/pathrules"
)

// The proof of the grammar: random rules and paths, judged here and by Git itself.

var (
	names = rapid.SampledFrom([]string{
		"a", "b", "ab", "aab", "a.b", "b.yaml", "A", "a b", "a ", "é", "[a]", "!a", "#a", "a*", `a\b`, "-", "ba-b",
		"a]", "x", "^",
	})
	pieces = rapid.SampledFrom([]string{
		"a", "b", "ab", ".yaml", "A", "x", "é", "*", "*", "**", "?", "/", "/", "/", "**/", "/**", "/**/", "***",
		"[ab]", "[!a]", "[^b]", "[a-c]", "[]a]", "[a-]", "[!]-]", `[\]a]`, "[[:alpha:]]", "[[:upper:][:space:]]",
		"[[:no:]]", "[[:alpha]", "[a/b]", "[b-a]", `[a-\c]`,
		`\a`, `\*`, `\!`, `\#`, `\ `, `\/`, `\`, "!", "#", " ", "[", "]", "-", "^",
	})
)

// midName are two stars after plain text within a name. Git before 2.52 forgets the text when it judges
// whether they stand alone, and lets a**/b match ab; here it is as documented: they are one star.
var midName = regexp.MustCompile(`^!?/?[^*?\[\\]*[^*?\[\\/]\*\*`)

// rule draws a line.
func rule() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"", "", "", "!"}).Draw(t, "not") +
			strings.Join(rapid.SliceOfN(pieces, 1, 6).Draw(t, "pieces"), "")
	}).Filter(func(line string) bool { return !midName.MatchString(line) })
}

// forest draws paths of files that can be in one folder together.
func forest() *rapid.Generator[[]string] {
	return rapid.Custom(func(t *rapid.T) []string {
		files, folders := map[string]bool{}, map[string]bool{}
	next:
		for _, parts := range rapid.SliceOfN(rapid.SliceOfN(names, 1, 4), 1, 25).Draw(t, "paths") {
			for i := 1; i < len(parts); i++ {
				if files[strings.Join(parts[:i], "/")] {
					continue next
				}
			}
			path := strings.Join(parts, "/")
			if folders[path] {
				continue
			}
			for i := 1; i < len(parts); i++ {
				folders[strings.Join(parts[:i], "/")] = true
			}
			files[path] = true
		}
		return slices.Sorted(maps.Keys(files))
	})
}

// worktree is a folder of files beside an empty repository.
type worktree struct {
	t        *rapid.T
	git, dir string
}

func newWorktree(t *rapid.T, git string, files map[string]string) worktree {
	dir, err := os.MkdirTemp(filepath.Dir(git), "tree-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for path, content := range files {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return worktree{t, git, dir}
}

// run returns the paths that Git prints.
func (w worktree) run(stdin string, args ...string) []string {
	cmd := exec.CommandContext(w.t.Context(), "git",
		append([]string{"--git-dir", w.git, "--work-tree", "."}, args...)...)
	cmd.Dir, cmd.Stdin = w.dir, strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState.ExitCode() != 1 { // 1: no path
		w.t.Fatalf("git %q: %v: %s", args, err, &stderr)
	}
	if len(out) == 0 {
		return nil
	}
	paths := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	slices.Sort(paths)
	return paths
}

func newGit(t *testing.T) string {
	t.Helper()
	git := filepath.Join(t.TempDir(), "repo.git")
	if out, err := exec.CommandContext(t.Context(), "git", "init", "--quiet", "--bare", "--template=",
		git).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	return git
}

func TestIncludeNamesWhatGitWouldIgnore(t *testing.T) {
	t.Parallel()
	git := newGit(t)
	rapid.Check(t, func(t *rapid.T) {
		paths := forest().Draw(t, "forest")
		var lines []string
		for _, l := range rapid.SliceOfN(rule(), 1, 5).Draw(t, "include") {
			if _, err := pathrules.Parse([]string{l}, nil); err == nil {
				lines = append(lines, l)
			}
		}
		rules, err := pathrules.Parse(lines, nil)
		if err != nil || len(lines) == 0 {
			t.Skip("no rules")
		}
		files := map[string]string{}
		for _, p := range paths {
			files[p] = ""
		}
		w := newWorktree(t, git, files)
		excludes := w.dir + ".rules"
		if err := os.WriteFile(excludes, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(excludes) })
		want := w.run(strings.Join(paths, "\x00")+"\x00", "-c", "core.excludesFile="+excludes, "check-ignore",
			"--no-index", "-z", "--stdin")
		if got := left(t, rules, files); !slices.Equal(got, want) {
			t.Fatalf("include %q of %q\n here: %q\n Git:  %q", lines, paths, got, want)
		}
	})
}

func TestIgnoreLeavesOutWhatGitIgnores(t *testing.T) {
	t.Parallel()
	git := newGit(t)
	rapid.Check(t, func(t *rapid.T) {
		files := map[string]string{}
		for _, p := range forest().Draw(t, "forest") {
			files[p] = ""
		}
		folders := []string{"."}
		for p := range files {
			for dir := filepath.Dir(p); dir != "."; dir = filepath.Dir(dir) {
				folders = append(folders, dir)
			}
		}
		slices.Sort(folders)
		folders = slices.Compact(folders)
		for _, dir := range rapid.SliceOfNDistinct(rapid.SampledFrom(folders), 0, 3, rapid.ID).Draw(t,
			"folders with rules") {
			end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end")
			files[filepath.Join(dir,
				pathrules.FileName)] = strings.Join(rapid.SliceOfN(rule(), 0, 4).Draw(t, "file"), end) +
				rapid.SampledFrom([]string{"", end}).Draw(t, "last")
		}
		var lines []string
		args := []string{"ls-files", "--others", "-z", "--exclude-per-directory=" + pathrules.FileName}
		for _, l := range rapid.SliceOfN(rule(), 0, 3).Draw(t, "ignore") {
			if r, err := pathrules.Parse(nil, []string{l}); err == nil {
				lines = append(lines, l)
				args = append(args, "--exclude="+strings.TrimSuffix(strings.TrimPrefix(r.Canonical(), "-"), "\n"))
			}
		}
		rules, err := pathrules.Parse(nil, lines)
		if err != nil {
			t.Fatal(err)
		}
		want := slices.DeleteFunc(newWorktree(t, git, files).run("", args...),
			func(p string) bool { return filepath.Base(p) == pathrules.FileName })
		if got := left(t, rules, files); !slices.Equal(got, want) {
			t.Fatalf("ignore %q of %q\n here: %q\n Git:  %q", lines, files, got, want)
		}
	})
}

// left walks files as a tree is walked, and returns those that the rules let through.
func left(t interface{ Fatal(...any) }, rules pathrules.Rules, files map[string]string) []string {
	var found []string
	var walk func(f *pathrules.Folder, prefix string)
	walk = func(f *pathrules.Folder, prefix string) {
		entries := map[string]bool{} // true: a folder
		for p := range files {
			if rest, ok := strings.CutPrefix(p, prefix); ok {
				name, _, folder := strings.Cut(rest, "/")
				entries[name] = folder
			}
		}
		if content, ok := files[prefix+pathrules.FileName]; ok {
			if err := f.Read([]byte(content)); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(entries)) {
			if name == pathrules.FileName {
				continue
			}
			verdict, err := f.Judge(name, entries[name])
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case verdict == pathrules.Out:
			case entries[name]:
				walk(f.Enter(name, verdict), prefix+name+"/")
			default:
				found = append(found, prefix+name)
			}
		}
	}
	walk(rules.Begin(), "")
	slices.Sort(found)
	return found
}
