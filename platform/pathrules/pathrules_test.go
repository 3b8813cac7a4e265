package pathrules_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/platform/pathrules"
)

func parse(t *testing.T, include, ignore []string) pathrules.Rules {
	t.Helper()
	r, err := pathrules.Parse(include, ignore)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWhichFilesAreLeft(t *testing.T) {
	t.Parallel()
	const rulesFile = pathrules.FileName
	files := []string{
		"a.yaml", "b.md", "charts/x/Chart.yaml", "charts/x/templates/a.yaml", "charts/x/templates/tests/t.yaml",
		"prod/a.yaml", "prod/deep/b.yaml", "test/a.yaml",
	}
	for name, tt := range map[string]struct {
		include, ignore []string
		files           map[string]string
		want            []string
	}{
		"no rules": {want: files},
		"by ending": {
			ignore: []string{"*.md", "charts/"},
			want:   []string{"a.yaml", "prod/a.yaml", "prod/deep/b.yaml", "test/a.yaml"},
		},
		"anchored": {include: []string{"/a.yaml", "prod/*.yaml"}, want: []string{"a.yaml", "prod/a.yaml"}},
		"any depth": {
			include: []string{"**/deep/*", "**/tests/**"},
			want:    []string{"charts/x/templates/tests/t.yaml", "prod/deep/b.yaml"},
		},
		"a whole folder": {include: []string{"prod/"}, want: []string{"prod/a.yaml", "prod/deep/b.yaml"}},
		"both": {
			include: []string{"prod", "test"}, ignore: []string{"deep"}, want: []string{"prod/a.yaml", "test/a.yaml"},
		},
		"the last rule wins": {
			ignore: []string{"*.yaml", "!b.yaml"}, want: []string{"b.md", "prod/deep/b.yaml"},
		},
		"nothing comes back into what is left out": {
			ignore: []string{"prod/", "!prod/a.yaml", "*.md", "charts", "test"}, want: []string{"a.yaml"},
		},
		"a rule for folders is none for files": {
			ignore: []string{"a.yaml/", "charts", "prod", "test"}, want: []string{"a.yaml", "b.md"},
		},
		"classes and escapes": {
			include: []string{`[[:alpha:]].m[!x]`, `\a.yam?`},
			want:    []string{"a.yaml", "b.md", "charts/x/templates/a.yaml", "prod/a.yaml", "test/a.yaml"},
		},
		"a file of rules, and one below": {
			files: map[string]string{
				rulesFile: "# not for clusters\n*.md\ntest\ncharts\r\n", "prod/" + rulesFile: "a.yaml\n/b.yaml",
			},
			want: []string{"a.yaml", "prod/deep/b.yaml"},
		},
		"the nearer file wins": {
			files: map[string]string{rulesFile: "*.yaml\n", "prod/" + rulesFile: "!*.yaml\n"},
			want:  []string{"b.md", "prod/a.yaml", "prod/deep/b.yaml"},
		},
		"the service's rules win over files": {
			ignore: []string{"!a.yaml"}, files: map[string]string{rulesFile: "*.yaml\n*.md\n"},
			want: []string{"a.yaml", "charts/x/templates/a.yaml", "prod/a.yaml", "test/a.yaml"},
		},
	} {
		all := map[string]string{}
		for _, f := range files {
			all[f] = ""
		}
		maps.Copy(all, tt.files)
		if got := left(t, parse(t, tt.include, tt.ignore), all); !slices.Equal(got, tt.want) {
			t.Errorf("%s:\n got  %q\n want %q", name, got, tt.want)
		}
	}
}

func TestTwoStarsWithinANameAreOne(t *testing.T) {
	t.Parallel()
	all := map[string]string{"ab": "", "a/b": "", "ax/b": "", "ax/y/b": ""}
	if got := left(t, parse(t, []string{"a**/b"}, nil), all); !slices.Equal(got, []string{"a/b", "ax/b"}) {
		t.Errorf("got %q", got)
	}
}

func TestAFolderThatMayHoldSomethingIsWalked(t *testing.T) {
	t.Parallel()
	f := parse(t, []string{"deploy/*/prod.yaml", "/docs/**/x", "!other/"}, nil).Begin()
	judge := func(f *pathrules.Folder, name string, want pathrules.Verdict) {
		t.Helper()
		if got, err := f.Judge(name, true); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, want)
		}
	}
	judge(f, "deploy", pathrules.Perhaps)
	judge(f, "docs", pathrules.Perhaps)
	judge(f, "src", pathrules.Out)
	judge(f, "other", pathrules.Out)
	deploy := f.Enter("deploy", pathrules.Perhaps)
	judge(deploy, "eu", pathrules.Perhaps)
	judge(deploy.Enter("eu", pathrules.Perhaps), "prod", pathrules.Out)
	judge(deploy.Enter("eu", pathrules.Perhaps), "prod.yaml", pathrules.In)
	judge(parse(t, []string{"*.yaml"}, nil).Begin(), "src", pathrules.Perhaps)
}

func TestRulesThatAreWrongAreSaid(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		include, ignore []string
		words           []string
	}{
		"blank":     {include: []string{"  "}, words: []string{"include", "blank"}},
		"comment":   {ignore: []string{"# x"}, words: []string{"ignore", `\#`}},
		"lines":     {ignore: []string{"a\nb"}, words: []string{"one line"}},
		"bytes":     {ignore: []string{"a\xff"}, words: []string{"one line of text"}},
		"bracket":   {ignore: []string{"a[b"}, words: []string{`"a[b"`, "not closed"}},
		"class":     {ignore: []string{"[[:nope:]]"}, words: []string{"matches nothing"}},
		"backslash": {ignore: []string{`a\`}, words: []string{"matches nothing"}},
		"slash":     {include: []string{"/"}, words: []string{"matches nothing"}},
		"long":      {include: []string{strings.Repeat("x", 513)}, words: []string{"513", "512"}},
		"many":      {include: slices.Repeat([]string{"x"}, 101), words: []string{"101", "100"}},
	} {
		_, err := pathrules.Parse(tt.include, tt.ignore)
		if !errors.Is(err, pathrules.ErrRules) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, w := range tt.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q does not say %q", name, err, w)
			}
		}
	}
}

func TestCanonicalFormTellsRulesApart(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	lists := [][]string{nil, {"a"}, {"b"}, {"a", "b"}, {"b", "a"}, {"!a"}, {`a\ `}, {"+a"}, {"-a"}}
	for _, include := range lists {
		for _, ignore := range lists {
			c := parse(t, include, ignore).Canonical()
			if seen[c] {
				t.Errorf("%q is there twice", c)
			}
			seen[c] = true
			if again, err := pathrules.ParseCanonical(c); err != nil || again.Canonical() != c {
				t.Errorf("%q becomes %q, %v", c, again.Canonical(), err)
			}
		}
	}
	if a, b := parse(t, []string{"a  "}, nil), parse(t, []string{"a"}, nil); a.Canonical() != b.Canonical() {
		t.Errorf("%q and %q", a.Canonical(), b.Canonical())
	}
	if c := parse(t, nil, []string{}).Canonical(); c != "" {
		t.Errorf("no rules are %q", c)
	}
}

func TestNothingLeftNamesTheRules(t *testing.T) {
	t.Parallel()
	f := parse(t, []string{"*.jsonnet"}, []string{"a", "b", "c", "d", "e", "f", "g"}).Begin()
	if err := f.Read([]byte("*")); err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{`"*.jsonnet"`, `"a"`, "2 more", pathrules.FileName} {
		if err := f.Nothing(); !errors.Is(err, pathrules.ErrRules) || !strings.Contains(err.Error(), w) {
			t.Errorf("%v does not say %s", err, w)
		}
	}
}

func TestFilesOfRulesHaveLimits(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ content, words string }{
		"size":   {strings.Repeat("a\n", 40_000), "64 KiB"},
		"rules":  {strings.Repeat("a\n", 2001), "2000 rules"},
		"line":   {"a\n" + strings.Repeat("b", 600), "line 2"},
		"binary": {"a\x00b", "not a text file"},
	} {
		if err := (pathrules.Rules{}).Begin().Enter("sub",
			pathrules.In).Read([]byte(tt.content)); !errors.Is(err, pathrules.ErrRules) ||
			!strings.Contains(err.Error(), tt.words) || !strings.Contains(err.Error(), `"sub/.fairleadignore"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f := pathrules.Rules{}.Begin()
	var err error
	for range 1001 {
		err = errors.Join(err, f.Read([]byte("# nothing")))
	}
	if err == nil || !strings.Contains(err.Error(), "limit of 1000") {
		t.Errorf("1001 files: %v", err)
	}
}

// A rule that takes other matchers longer than the universe lasts takes places times bytes here, and
// many such rules over many paths are stopped.
func TestCostIsBounded(t *testing.T) {
	t.Parallel()
	nasty := strings.Repeat("*a", 250) + "b"
	deep := strings.Repeat("**/a/", 90) + "b"
	f := parse(t, nil, []string{nasty, deep}).Begin()
	name := strings.Repeat("a", 255)
	if v, err := f.Judge(name, false); err != nil || v != pathrules.In {
		t.Errorf("one path: %v, %v", v, err)
	}
	f = parse(t, nil, slices.Repeat([]string{nasty}, 100)).Begin()
	f.Spend(195_000_000)
	for i := range 100 {
		_, err := f.Judge(fmt.Sprint(name, i), false)
		if err == nil {
			continue
		}
		if !errors.Is(err, pathrules.ErrRules) || !strings.Contains(err.Error(), "steps") {
			t.Error(err)
		}
		return
	}
	t.Error("nothing stops it")
}

func FuzzRule(f *testing.F) {
	for _, s := range []string{"a", "!a/", "/**/a", "a**", "[a-z]", "[[:alpha:]]", `\`, "[", "a\\ ", "*/"} {
		f.Add(s, "a/b")
	}
	f.Fuzz(func(t *testing.T, line, path string) {
		rules, err := pathrules.Parse([]string{line}, nil)
		if err != nil {
			return
		}
		if again, err := pathrules.ParseCanonical(rules.Canonical()); err != nil ||
			again.Canonical() != rules.Canonical() {
			t.Errorf("%q: %v", rules.Canonical(), err)
		}
		at := rules.Begin()
		for name := range strings.SplitSeq(path, "/") {
			verdict, err := at.Judge(name, true)
			if err != nil {
				t.Skip(err)
			}
			if file, err := at.Judge(name, false); err != nil || file == pathrules.Perhaps ||
				file == pathrules.In && verdict == pathrules.Out {
				t.Errorf("%q is %v as a file and %v as a folder, %v", name, file, verdict, err)
			}
			at = at.Enter(name, verdict)
		}
	})
}

func FuzzFile(f *testing.F) {
	f.Add([]byte("\ufeff# c\na\r\n!b \n\\ \n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		at := pathrules.Rules{}.Begin()
		if err := at.Read(content); err != nil {
			if !errors.Is(err, pathrules.ErrRules) {
				t.Error(err)
			}
			return
		}
		if _, err := at.Enter("a", pathrules.In).Judge("b", false); err != nil {
			t.Error(err)
		}
	})
}

func FuzzParseCanonical(f *testing.F) {
	f.Add("+a\n-b\n")
	f.Fuzz(func(t *testing.T, s string) {
		if r, err := pathrules.ParseCanonical(s); err == nil && r.Canonical() != s {
			t.Errorf("%q became %q", s, r.Canonical())
		}
	})
}
