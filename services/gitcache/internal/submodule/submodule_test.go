package submodule_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/platform/giturl"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/pack"
	"fairlead.dev/services/gitcache/internal/submodule"
)

// repo reads a real repository.
type repo struct{ *gittest.Repo }

func (r repo) Read(kind git.Kind, id git.Hash, most int64) ([]byte, error) {
	b := r.Raw(kind.String(), id.String())
	if int64(len(b)) > most {
		return nil, mirror.ErrTooLarge
	}
	return b, nil
}

const commit = "1111111111111111111111111111111111111111"

// list reads a tree with this .gitmodules, and a submodule at libs/x and one at y.
func list(t *testing.T, base, content string) ([]string, error) {
	t.Helper()
	r := repo{gittest.NewServer(t).NewRepo(t, "shop.git")}
	link := func(name string) gittest.TreeEntry { return gittest.TreeEntry{Mode: "160000", Name: name, ID: commit} }
	root := r.Tree(
		gittest.TreeEntry{Mode: "100644", Name: ".gitmodules", ID: r.Object("blob", []byte(content))},
		gittest.TreeEntry{Mode: "40000", Name: "libs", ID: r.Tree(link("x"))}, link("y"),
	)
	return listTree(t, r, root, base)
}

func listTree(t *testing.T, r repo, root, base string) ([]string, error) {
	t.Helper()
	from, err := giturl.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	modules, err := submodule.List(r, git.HashOf(root), from)
	var got []string
	for _, m := range modules {
		if m.Commit.String() != commit {
			t.Errorf("%s is at %s", m.Path, m.Commit)
		}
		user := ""
		if m.URL.User != nil {
			user = m.URL.User.String() + "@"
		}
		got = append(got, fmt.Sprintf("%s %s://%s%s:%s", m.Path, m.URL.Scheme, user, m.URL.Host, m.URL.Path))
	}
	return got, err
}

func section(name, path, url string) string {
	return fmt.Sprintf("[submodule %q]\n\tpath = %s\n\turl = %s\n", name, path, url)
}

func TestSubmodulesAreListedWithWhereTheyAre(t *testing.T) {
	t.Parallel()
	got, err := list(t, "https://git.example.com/a/shop.git", "# libraries\n"+
		section("x", "libs/x", "../b/x.git")+"\tbranch = main\n"+
		section("unused", "gone", "../gone.git")+section("the y", "y", "git@other.example.com:y.git"))
	want := []string{"libs/x https://git.example.com:/a/b/x.git", "y ssh://git@other.example.com:y.git"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestRelativeURLs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ base, raw, want string }{
		{"https://git.example.com/a/shop.git", "../x", "https://git.example.com:/a/x"},
		{"https://git.example.com/a/shop.git", "../../x", "https://git.example.com:/x"},
		{"https://git.example.com/a/shop.git", "./x", "https://git.example.com:/a/shop.git/x"},
		{"https://git.example.com/a/shop.git", ".././../c/x.git", "https://git.example.com:/c/x.git"},
		{"https://git.example.com:8443/a/b c%2fd/shop.git", "../x", ""},
		{"https://git.example.com:8443/a/shop", "../x", "https://git.example.com:8443:/a/x"},
		{"https://git.example.com/a/shop.git", "../../../x", ""},
		{"https://git.example.com/a/shop.git", "../", ""},
		{"https://git.example.com/a/shop.git", "../b/../x", ""},
		{"https://git.example.com/a/shop.git", "../b//x", ""},
		{"ssh://git@git.example.com:2222/srv/shop.git", "../x.git", "ssh://git@git.example.com:2222:/srv/x.git"},
		{"git@git.example.com:a/shop.git", "../x.git", "ssh://git@git.example.com:a/x.git"},
		{"git@git.example.com:shop.git", "../x.git", "ssh://git@git.example.com:x.git"},
		{"git@git.example.com:shop.git", "../../x.git", ""},
	} {
		if strings.Contains(c.base, " ") {
			continue
		}
		got, err := list(t, c.base, section("y", "y", c.raw))
		switch {
		case c.want == "" && (err == nil || !errors.Is(err, submodule.ErrRefused)):
			t.Errorf("%s and %s: got %q, %v", c.base, c.raw, got, err)
		case c.want != "" && !slices.Equal(got, []string{"y " + c.want}):
			t.Errorf("%s and %s: got %q, %v; want %q", c.base, c.raw, got, err, c.want)
		}
	}
}

// Each of these was a way to attack people who clone (CVE-2018-11235, -17456, -11233, CVE-2019-1387,
// CVE-2020-5260) or would be a way to ask hosts that a source can't name.
func TestHostileSubmodulesAreRefused(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ content, words string }{
		"name leaves":        {section("../../x", "y", "https://git.example.com/y"), "leave its folder"},
		"name with ..":       {section("a/../b", "y", "https://git.example.com/y"), "leave its folder"},
		"name backslash":     {"[submodule \"a\\\\..\\\\b\"]\n\tpath = y\n\turl = https://git.example.com/y\n", "leave its folder"},
		"path leaves":        {section("y", "../y", "https://git.example.com/y"), "leave its folder"},
		"path into .git":     {section("y", "a/.GIT/hooks", "https://git.example.com/y"), "leave its folder"},
		"path short name":    {section("y", "GIT~1/hooks", "https://git.example.com/y"), "leave its folder"},
		"path absolute":      {section("y", "/etc", "https://git.example.com/y"), "slash"},
		"path option":        {section("y", "-y", "https://git.example.com/y"), "begins with '-'"},
		"url option":         {section("y", "y", "--upload-pack=id"), "begins with '-'"},
		"url newline":        {"[submodule \"y\"]\n\tpath = y\n\turl = \"https://git.example.com/y\\nhost=evil\"\n", "control characters"},
		"url file":           {section("y", "y", "file:///etc"), "must begin with https"},
		"url local":          {section("y", "y", "/etc"), "must begin with https"},
		"url ext":            {section("y", "y", "ext::sh"), "must begin with https"},
		"url git":            {section("y", "y", "git://git.example.com/y"), "must begin with https"},
		"url http":           {section("y", "y", "http://git.example.com/y"), "Use https"},
		"url password":       {section("y", "y", "https://ada:hunter2@git.example.com/y"), "must not hold a user or password"},
		"ssh option as host": {section("y", "y", "ssh://git@-oProxyCommand=id/y"), "names no host"},
		"no url":             {"[submodule \"y\"]\n\tpath = y\n", "without a url"},
		"no path":            {"[submodule \"y\"]\n\turl = https://git.example.com/y\n", "without a path"},
		"garbage":            {"[submodule \"y\n", "can't be read"},
		"too large":          {strings.Repeat("#", 300<<10), "limit of 256 KiB"},
		"too many":           {manySections(101), "limit of 100"},
		"many sections":      {strings.Repeat("[x]\n", 60_000), "limit of 1000 sections"},
		"the hub itself":     {section("y", "y", "http://127.0.0.1:8080/y"), "the hub itself"},
		"the hub by name":    {section("y", "y", "git@localhost:y"), "the hub itself"},
	} {
		_, err := list(t, "https://git.example.com/a/shop.git", c.content)
		if !errors.Is(err, submodule.ErrRefused) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: got %v, want %q", what, err, c.words)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %q gives the password away", what, err)
		}
	}
}

func manySections(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(section(fmt.Sprint(i), fmt.Sprintf("m/%d", i), "../x"))
	}
	return b.String()
}

func TestGitmodulesThatIsALinkIsRefused(t *testing.T) {
	t.Parallel()
	r := repo{gittest.NewServer(t).NewRepo(t, "shop.git")}
	root := r.Tree(gittest.TreeEntry{Mode: "120000", Name: ".gitmodules", ID: r.Object("blob", []byte("elsewhere"))})
	if _, err := listTree(t, r, root, "https://git.example.com/shop"); !errors.Is(err, submodule.ErrRefused) {
		t.Errorf("got %v", err)
	}
	none := r.Tree(gittest.TreeEntry{Mode: "160000", Name: "y", ID: commit})
	if got, err := listTree(t, r, none, "https://git.example.com/shop"); err != nil || got != nil {
		t.Errorf("without .gitmodules: %q, %v", got, err)
	}
}

// memory is for the fuzzer, which needs no repository.
type memory map[git.Hash][]byte

func (m memory) Read(_ git.Kind, id git.Hash, most int64) ([]byte, error) {
	b, ok := m[id]
	if !ok || int64(len(b)) > most {
		return nil, mirror.ErrMissing
	}
	return b, nil
}

// To look for each of many submodules in folders as large as they may be would take hours.
func TestWhatIsReadToFindSubmodulesIsBounded(t *testing.T) {
	t.Parallel()
	content := []byte(manySections(100))
	blob := pack.Name(git.Blob, content)
	root := "100644 .gitmodules\x00" + string(blob[:])
	for i := range 40 {
		root += fmt.Sprintf("100644 %0100000d\x00%s", i, blob[:])
	}
	id := git.HashOf(commit)
	base, err := giturl.Parse("https://git.example.com/a/shop.git")
	if err != nil {
		t.Fatal(err)
	}
	_, err = submodule.List(memory{blob: content, id: []byte(root)}, id, base)
	if !errors.Is(err, submodule.ErrRefused) || !strings.Contains(err.Error(), "128 MiB of folders") {
		t.Errorf("got %v", err)
	}
}

func FuzzGitmodules(f *testing.F) {
	f.Add(section("y", "y", "../y.git"))
	f.Add("[submodule \"a\\\"b\"]\n\tpath = y\n\turl = \"https://git.example.com/y\" ; c\n")
	f.Add("[submodule.y]\npath=y\nurl=git@h:y")
	base, err := giturl.Parse("https://git.example.com/a/shop.git")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, content string) {
		blob, root := pack.Name(git.Blob, []byte(content)), git.HashOf(commit)
		entry := func(mode, name string, id git.Hash) string { return mode + " " + name + "\x00" + string(id[:]) }
		m := memory{blob: []byte(content), root: []byte(entry("100644", ".gitmodules", blob) + entry("160000",
			"y", root))}
		modules, err := submodule.List(m, root, base)
		if err != nil && !errors.Is(err, submodule.ErrRefused) {
			t.Errorf("%v", err)
		}
		for _, one := range modules {
			if one.Path != "y" || one.URL.Scheme != "https" && one.URL.Scheme != "ssh" && one.URL.Scheme != "http" ||
				one.URL.Host == "" {
				t.Errorf("%q gives %+v", content, one)
			}
		}
	})
}
