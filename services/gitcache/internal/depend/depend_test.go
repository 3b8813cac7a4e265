package depend_test

import (
	"strings"
	"testing"

	"fairlead.dev/services/gitcache/internal/depend"
)

const repository = "https://charts.example.com/stable"

func TestVersionsAreThoseOfTheLock(t *testing.T) {
	t.Parallel()
	content := []byte("dependencies:\n- {name: db, version: ^1, repository: " + repository +
		"/}\n- {name: db, version: ^2, repository: " + repository +
		", alias: next}\n- {name: lib, version: '*', repository: 'file://../lib'}\n- {name: own, version: '*'}\n- {name: etc, version: v1.2.3, repository: " + repository + "}\n")
	lock := []byte("dependencies:\n- {name: db, repository: " + repository +
		"//, version: 1.4.2}\n- {name: db, repository: " + repository +
		", version: 2.0.1}\n- {name: lib, repository: 'file://../lib', version: 0.1.0}\n- {name: etc, repository: " +
		repository + ", version: v1.2.3}\ndigest: sha256:x\n")
	var got []string
	for _, w := range depend.Read("web/Chart.yaml", content, "Chart.lock", lock) {
		got = append(got, strings.TrimSpace(w.Where()+" "+w.Ref()+" "+w.Problem))
	}
	want := "web/Chart.yaml line 2 dependency:db@1.4.2@" + repository + "\nweb/Chart.yaml line 3 dependency:db@2.0.1@" +
		repository + "\nweb/Chart.yaml line 6 dependency:etc@v1.2.3@" + repository
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

// Git holds names of any bytes. A message that is no UTF-8 can't be published, and with it no head of the source.
func TestAFolderOfAnyBytesIsToldInUTF8(t *testing.T) {
	t.Parallel()
	content := "dependencies:\n- {name: db, version: 1.2.3, repository: " + repository + "}\n"
	wanted := depend.Read("caf\xe9/Chart.yaml", []byte(content), "Chart.lock", nil)
	if want := `caf\xe9/Chart.yaml line 2`; len(wanted) != 1 || wanted[0].Where() != want {
		t.Errorf("got %+v, want one at %q", wanted, want)
	}
}

func TestWhatMeansNoChartHasAProblem(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ item, lock, says string }{
		"a range":            {"{name: db, version: ^1, repository: REPO}", "", "no exact version"},
		"no version":         {"{name: db, repository: REPO}", "", "no exact version"},
		"two numbers":        {"{name: db, version: '1.2', repository: REPO}", "", "no exact version"},
		"out of the lock":    {"{name: db, version: 1.0.0, repository: REPO}", "dependencies: []", "not in Chart.lock"},
		"another version":    {"{name: db, version: ^1, repository: REPO}", "dependencies: [{name: db, version: 2.0.0, repository: REPO}]", "helm dependency update"},
		"another place":      {"{name: db, version: 1.0.0, repository: REPO}", "dependencies: [{name: db, version: 1.0.0, repository: 'https://ada:hush@elsewhere.example.com'}]", "line 2 names another repository than Chart.lock line 1"},
		"a path for a name":  {"{name: ../db, version: 1.0.0, repository: REPO}", "", "no name"},
		"a point for a name": {"{name: .., version: 1.0.0, repository: REPO}", "", "no name"},
		"a tag":              {"{name: db, version: 1.0.0, repository: 'oci://example.com/db:1.0.0'}", "", "no registry can have"},
		"no host":            {"{name: db, version: 1.0.0, repository: 'oci:///db'}", "", "names no host"},
		"no name":            {"{name: db, version: 1.0.0, repository: 'alias:../stable'}", "", "no source can have"},
		"only an @":          {"{name: db, version: 1.0.0, repository: '@'}", "", "no source can have"},
		"another name":       {"{name: db, version: 1.0.0, repository: '@a'}", "dependencies: [{name: db, version: 1.0.0, repository: '@b'}]", "another repository"},
		"a password":         {"{name: db, version: 1.0.0, repository: 'https://ada:hush@example.com'}", "", "user or password"},
		"plain http":         {"{name: db, version: 1.0.0, repository: 'http://example.com'}", "", "http://"},
	} {
		var lock []byte
		if tc.lock != "" {
			lock = []byte(strings.ReplaceAll(tc.lock, "REPO", repository))
		}
		found := depend.Read("Chart.yaml", []byte("dependencies:\n- "+strings.ReplaceAll(tc.item, "REPO", repository)+
			"\n"), "Chart.lock", lock)
		if len(found) != 1 || !strings.Contains(found[0].Problem, tc.says) ||
			strings.Contains(found[0].Problem, "hush") {
			t.Errorf("%s: got %+v, want a problem with %q", name, found, tc.says)
		}
	}
}

func TestNamesAreThoseOfSources(t *testing.T) {
	t.Parallel()
	content := []byte("dependencies:\n- {name: db, version: ^1, repository: 'alias:stable'}\n- {name: db, version: 2.0.0, repository: '@stable'}\n")
	lock := []byte("dependencies:\n- {name: db, version: 1.4.2, repository: '" + repository +
		"/'}\n- {name: db, version: 2.0.0, repository: '@stable'}\n")
	for i, want := range []struct{ ref, locked string }{
		{"dependency:db@1.4.2@@stable", repository}, {"dependency:db@2.0.0@@stable", ""},
	} {
		w := depend.Read("Chart.yaml", content, "Chart.lock", lock)[i]
		name, ok := w.Source()
		if w.Problem != "" || w.Ref() != want.ref || w.Locked != want.locked || !ok || name != "stable" {
			t.Errorf("%+v, want %+v", w, want)
		}
	}
}

func TestHostsAreAsListsHaveThem(t *testing.T) {
	t.Parallel()
	for repository, want := range map[string]string{
		"https://Charts.example.com/stable": "charts.example.com",
		"https://charts.example.com:443":    "charts.example.com",
		"https://charts.example.com:8443/x": "charts.example.com:8443",
		"http://127.0.0.1:8080":             "127.0.0.1:8080", "oci://Example.com/charts": "example.com",
		"oci://example.com:443/charts": "example.com", "oci://127.0.0.1:5000": "127.0.0.1:5000",
	} {
		if got := (depend.Chart{Repository: repository}).Host(); got != want {
			t.Errorf("%s: %s, want %s", repository, got, want)
		}
	}
}

// FuzzRead: whatever is written, a dependency means a chart of an exact version or has a problem.
func FuzzRead(f *testing.F) {
	f.Add([]byte("dependencies:\n- {name: db, version: ^1, repository: 'https://a.b'}\n"),
		[]byte("dependencies:\n- {name: db, version: 1.0.0, repository: 'https://a.b'}\n"))
	f.Add([]byte("x: &a {name: a, repository: https://a.b}\ndependencies: [*a, {<<: *a, version: 1.0.0}]\n"),
		[]byte("{"))
	f.Add([]byte("dependencies:\n- {name: db, version: ^1, repository: '@a'}\n"),
		[]byte("dependencies:\n- {name: db, version: 1.0.0, repository: 'https://a.b'}\n"))
	f.Fuzz(func(t *testing.T, content, lock []byte) {
		for _, w := range depend.Read("Chart.yaml", content, "Chart.lock", lock) {
			if w.Problem == "" && (strings.ContainsAny(w.Name, "/\\ @") || strings.ContainsAny(w.Version, " @^~<>*") || w.Host() == "" && !strings.HasPrefix(w.Repository, "@")) {
				t.Errorf("%+v", w)
			}
		}
	})
}
