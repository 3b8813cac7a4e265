package attack

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // packs end with it
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"fairlead.dev/e2e/attack/githost"
	"fairlead.dev/e2e/process"
)

// tree is a Git repository whose only commit has a tree that no honest client makes.
type tree struct {
	name, cve string
	entries   []entry
	words     []string
	spec      string // of the source, besides
}

type entry struct{ mode, name, content string }

func trees() []tree {
	plain := entry{"100644", "a.yaml", "a: b\n"}
	return []tree{
		{name: "git folder in capitals", cve: "CVE-2024-32002", entries: []entry{{"100644", ".GIT", "x"}, plain}, words: []string{".GIT"}},
		{name: "git folder by its short name", entries: []entry{{"100644", "git~1", "x"}, plain}, words: []string{"git~1"}},
		{name: "git folder with invisible letters", cve: "CVE-2023-49569", entries: []entry{{"100644", ".g\u200cit", "x"}, plain}, words: []string{"git"}},
		{name: "two dots", cve: "CVE-2023-49569", entries: []entry{{"100644", "..", "x"}, plain}, words: []string{".."}},
		{name: "slash in a name", cve: "CVE-2023-49569", entries: []entry{{"100644", "../../x", "x"}, plain}, words: []string{"x"}},
		{name: "same name twice", entries: []entry{plain, {"100644", "a.yaml", "c: d\n"}}, words: []string{"a.yaml"}},
		{name: "submodule inside", cve: "CVE-2024-32002", entries: []entry{{"100644", ".gitmodules", "[submodule \"x\"]\n\tpath = sub\n\turl = https://169.254.169.254/x.git\n"}, {"160000", "sub", ""}}, spec: ", submodules: true", words: []string{"submodule"}},
		{name: "submodule that runs a program", cve: "CVE-2024-32002", entries: []entry{{"100644", ".gitmodules", "[submodule \"x\"]\n\tpath = sub\n\turl = ext::sh -c id\n\tupdate = !id\n"}, {"160000", "sub", ""}}, spec: ", submodules: true", words: []string{"submodule"}},
		{name: "submodule that is an option", cve: "CVE-2018-17456", entries: []entry{{"100644", ".gitmodules", "[submodule \"x\"]\n\tpath = sub\n\turl = --upload-pack=id\n"}, {"160000", "sub", ""}}, spec: ", submodules: true", words: []string{"submodule"}},
		{name: "submodule with a path out", cve: "CVE-2018-11235", entries: []entry{{"100644", ".gitmodules", "[submodule \"../../x\"]\n\tpath = ../../x\n\turl = https://git.example.com/x.git\n"}, {"160000", "sub", ""}}, spec: ", submodules: true", words: []string{"sub"}},
		{name: "commit that nobody signed", cve: "CVE-2022-35929", entries: []entry{plain}, spec: ", verification: {keys: [KEY]}", words: []string{"sign"}},
	}
}

// gitHosts are attacks by the Git host of a source.
func gitHosts() (attacks []Attack) {
	huge := githost.Pack(1, githost.Object(githost.Commit, 1<<63, nil, []byte("x")))
	lying := []struct {
		name, cve string
		answer    http.HandlerFunc
	}{
		{"pack that is cut off", "", githost.Lies(huge[:16])},
		{"pack with an object of 2^63 bytes", "CVE-2023-49568", githost.Lies(huge)},
		{"pack with bytes behind its end", "", githost.Lies(append(githost.Pack(1, githost.Object(githost.Blob, 1, nil, []byte("x"))), "more"...))},
		{"pack with another sum", "", githost.Lies(append(bytes.Clone(huge[:len(huge)-20]), make([]byte, 20)...))},
		{"pack that promises 2^32-1 objects", "CVE-2023-49568", githost.Lies(githost.Pack(1<<32-1, githost.Object(githost.Blob, 1, nil, []byte("x"))))},
		{"delta that is based on itself", "", githost.Lies(githost.Pack(1, githost.Object(githost.OfsDelta, 4, []byte{0}, []byte{1, 1, 1, 'x'})))},
		{"delta that is based before the pack", "", githost.Lies(githost.Pack(1, githost.Object(githost.OfsDelta, 4, []byte{0x7f}, []byte{1, 1, 1, 'x'})))},
		{"pack without what was advertised", "", githost.Lies(githost.Pack(1, githost.Object(githost.Blob, 1, nil, []byte("x"))))},
		{"no Git at all", "", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>log in</html>") }},
		{"refs with dots, locks and line ends", "", func(w http.ResponseWriter, _ *http.Request) {
			id := strings.Repeat("1", 40)
			var list strings.Builder
			list.WriteString(githost.Advertisement + githost.Line(id+" refs/heads/main\x00 \n"))
			for _, name := range []string{"refs/heads/../../../x", "refs/heads/x.lock", "refs/heads/a\nb", "refs/heads/-x", "refs/heads/" + strings.Repeat("x", 10_000), "refs/heads/@{1}", "../../../../etc/x", "refs/heads/\x1b[2J"} {
				list.WriteString(githost.Line(id + " " + name + "\n"))
			}
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			_, _ = io.WriteString(w, list.String()+"0000") // as above
		}},
		{"list of refs without end", "CVE-2024-29893 CVE-2026-40924", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			id := strings.Repeat("1", 40)
			_, err := io.WriteString(w, githost.Advertisement+githost.Line(id+" refs/heads/a\x00side-band-64k\n"))
			for more := strings.Repeat(githost.Line(id+" refs/heads/a\n"), 1000); err == nil && r.Context().Err() == nil; {
				_, err = io.WriteString(w, more)
			}
		}},
		{"body without end that inflates", "CVE-2023-40584", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			packed := gzip.NewWriter(w)
			_, err := io.WriteString(packed, githost.Advertisement)
			for zeros := make([]byte, 1<<20); err == nil && r.Context().Err() == nil; {
				_, err = packed.Write(zeros)
			}
		}},
		{"redirect to the cloud's metadata", "", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://169.254.169.254"+r.URL.RequestURI(), http.StatusFound) //nolint:gosec // this is the attack
		}},
		{"redirect to another scheme", "CVE-2025-21613", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusMovedPermanently)
		}},
	}
	for _, l := range lying {
		a := Attack{Name: "Git host: " + l.name, Part: gitcache, Run: func(ctx context.Context, t *Try) (string, error) { return t.lyingHost(ctx, l.name, l.answer) }}
		a.CVE = strings.Fields(l.cve)
		attacks = append(attacks, a)
	}
	for _, tr := range trees() {
		a := Attack{Name: "Git tree: " + tr.name, Part: gitcache, Run: func(ctx context.Context, t *Try) (string, error) { return t.tree(ctx, tr) }}
		if tr.cve != "" {
			a.CVE = []string{tr.cve}
		}
		attacks = append(attacks, a)
	}
	return append(
		attacks,
		Attack{Name: "Git host: password follows a redirect", CVE: []string{"CVE-2026-41506"}, Part: gitcache, Run: func(ctx context.Context, t *Try) (string, error) { return t.credentialRedirect(ctx) }},
		Attack{Name: "Git tree: submodule of another owner, which the source's password could read", Part: gitcache, Run: func(ctx context.Context, t *Try) (string, error) { return t.payroll(ctx) }},
		Attack{Name: "Git tree: submodules that the token of a GitHub App could read", Part: gitcache, Run: func(ctx context.Context, t *Try) (string, error) { return t.appToken(ctx) }},
		Attack{Name: "Git tree: both files of the published SHA-1 collision", Part: gitcache, Run: func(ctx context.Context, t *Try) (string, error) { return t.twins(ctx) }},
		Attack{Name: "Git host: commits whose signature is another's, one of two, cut, or on a tag only", Part: gitcache, Run: func(ctx context.Context, t *Try) (string, error) { return t.signatures(ctx) }},
		Attack{Name: "Git host: password is repeated in the error", CVE: []string{"CVE-2023-25163"}, Part: gitcache, Run: func(ctx context.Context, t *Try) (string, error) { return t.echo(ctx) }},
		Attack{Name: "Git host: delta bomb", CVE: []string{"CVE-2023-49568"}, Part: gitcache, Alone: true, Slow: true, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.flat(ctx, gitcache, 192, func() (string, error) { return t.lyingHost(ctx, "delta bomb", githost.Lies(githost.Bomb())) })
		}},
		Attack{Name: "source: addresses inside, in every spelling", Part: gitcache, Run: func(ctx context.Context, t *Try) (string, error) { return t.inward(ctx) }},
		Attack{Name: "source: URLs that are options or programs", CVE: []string{"CVE-2025-21613", "CVE-2017-1000117"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.badURLs(ctx) }},
	)
}

// want makes a source and a service that wants it, in the attacker's cluster, and waits until something is wrong.
func (t *Try) want(ctx context.Context, name, spec, before string) (string, error) {
	if err := t.world.apply(ctx, before+wanting(name, "main", spec)); err != nil {
		return "", err
	}
	return t.refused(ctx, name)
}

// wanting are a source and a service of it, in the attacker's cluster.
func wanting(name, ref, spec string) string {
	return fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: %[1]s}\nspec: {git: {interval: 5s, %[3]s}}\n---\napiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: %[1]s}\nspec: {source: %[1]s, ref: %[2]s, path: '.', cluster: evil, namespace: x}\n", name, ref, spec)
}

// refused waits until something is wrong with a source or its service, of which nothing may be delivered.
func (t *Try) refused(ctx context.Context, name string) (told string, err error) {
	err = process.Await(ctx, "something is wrong with "+name, func(ctx context.Context) error {
		text, err := t.service(ctx, name)
		if err != nil {
			return err
		}
		var s status
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return err
		}
		a, err := t.call(ctx, console, sourceService+"GetSource", t.world.callers.admin, map[string]any{"name": name})
		if err != nil {
			return err
		}
		var source struct {
			Source struct {
				Status struct{ Problem struct{ Message string } }
			}
		}
		if err := json.Unmarshal([]byte(a.Body), &source); err != nil {
			return err
		}
		if s.Service.Status.Hub.Artifact.Digest != "" {
			return fmt.Errorf("it is delivered as %s", s.Service.Status.Hub.Artifact.Digest)
		}
		if told = strings.TrimSpace(source.Source.Status.Problem.Message + " " + s.trouble()); told == "" {
			return errors.New("nothing is wrong with it")
		}
		return nil
	})
	return told, err
}

func gitName(name string) string {
	return "git-" + folder{name: name}.slug()[:min(len(folder{name: name}.slug()), 50)]
}

func (t *Try) lyingHost(ctx context.Context, name string, answer http.HandlerFunc) (string, error) {
	name = gitName(name)
	t.world.git.At(name+".git", answer)
	told, err := t.want(ctx, name, "url: '"+t.world.git.URL+"/"+name+".git'", "")
	return told, errors.Join(err, silentOf(told, "\x1b", t.world.Dir))
}

// tree makes a bare repository and waits until it is refused.
func (t *Try) tree(ctx context.Context, tr tree) (string, error) {
	name := gitName(tr.name)
	if err := t.bare(ctx, name, tr.entries); err != nil {
		return "", err
	}
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		return "", err
	}
	wire := func(b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...) }
	key := "'ssh-ed25519 " + base64.StdEncoding.EncodeToString(append(wire([]byte("ssh-ed25519")), wire(public)...)) + "'"
	told, err := t.want(ctx, name, "url: '"+strings.Replace(t.world.GitURL, "sample", name, 1)+"'"+strings.ReplaceAll(tr.spec, "KEY", key), "")
	return told, errors.Join(err, says(strings.ReplaceAll(told, name, ""), tr.words...))
}

// gitIn runs a command of Git in a repository of the Git server.
func (t *Try) gitIn(ctx context.Context, name string, stdin []byte, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--git-dir=" + filepath.Join(t.world.Dir, "git", name+".git")}, args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x@example.com", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@example.com")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %v: %w", args, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// bare writes a repository object by object, past the checks of Git's own commands.
func (t *Try) bare(ctx context.Context, name string, entries []entry) error {
	git := func(stdin []byte, args ...string) (string, error) { return t.gitIn(ctx, name, stdin, args...) }
	if _, err := git(nil, "init", "--quiet", "--bare", "--template=", "--initial-branch=main"); err != nil {
		return err
	}
	var raw bytes.Buffer
	for _, e := range entries {
		id := strings.Repeat("3", 40)
		if e.mode != "160000" {
			var err error
			if id, err = git([]byte(e.content), "hash-object", "-w", "--stdin"); err != nil {
				return err
			}
		}
		bytesOf, err := hex.DecodeString(id)
		if err != nil {
			return err
		}
		raw.WriteString(e.mode + " " + e.name + "\x00" + string(bytesOf))
	}
	id, err := git(raw.Bytes(), "hash-object", "-w", "-t", "tree", "--literally", "--stdin")
	if err != nil {
		return err
	}
	commit, err := git(nil, "commit-tree", "-m", "x", id)
	if err != nil {
		return err
	}
	_, err = git(nil, "update-ref", "refs/heads/main", commit)
	return err
}

// payroll has a repository name one of another owner at its host as a submodule, whose password could read it, too.
func (t *Try) payroll(ctx context.Context) (string, error) {
	const name = "git-payroll"
	modules := "[submodule \"x\"]\n\tpath = sub\n\turl = " + t.world.git.URL + "/corp/payroll.git\n"
	if err := t.bare(ctx, name, []entry{{"100644", ".gitmodules", modules}, {"160000", "sub", ""}}); err != nil {
		return "", err
	}
	target, err := url.Parse(t.world.GitURL)
	if err != nil {
		return "", err
	}
	real := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host})
		r.Out.URL.Path = "/" + name + ".git" + strings.TrimPrefix(r.In.URL.Path, "/acme/app.git")
		r.Out.Header.Del("Authorization")
	}}
	locked := func(next http.Handler) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "" {
				w.Header().Set("Www-Authenticate", "Basic")
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		}
	}
	t.world.git.At("acme", locked(real))
	t.world.git.At("corp", locked(http.NotFoundHandler()))
	told, err := t.want(ctx, name, "url: '"+t.world.git.URL+"/acme/app.git', secret: "+name+", submodules: true", "apiVersion: fairlead.dev/v1\nkind: Secret\nmetadata: {name: "+name+"}\ndata: {username: app, password: leaked-password}\n---\n")
	if err != nil {
		return told, err
	}
	if !slices.ContainsFunc(t.world.git.Asked("acme"), func(authorization string) bool { return authorization != "" }) {
		return told, errors.New("the source was sent no password, so that this tries nothing")
	}
	if slices.ContainsFunc(t.world.git.Asked("corp"), func(authorization string) bool { return authorization != "" }) {
		return told, errors.New("the other owner's repository was asked for with the password")
	}
	return told, errors.Join(says(told, "submodule"), silentOf(told, "leaked-password"))
}

// Beginnings of the two files of the collision that was published in 2017 (shattered.io): they have the same SHA-1.
const (
	twinsBefore = "%PDF-1.3\n%\xe2\xe3\xcf\xd3\n\n\n1 0 obj\n<</Width 2 0 R/Height 3 0 R/Type 4 0 R/Subtype 5 0 R/Filter 6 0 R/ColorSpace 7 0 R/Length 8 0 R/BitsPerComponent 8>>\nstream\n\xff\xd8\xff\xfe\x00$SHA-1 is dead!!!!!\x85/\xec\t#9u\x9c9\xb1\xa1\xc6<L\x97\xe1\xff\xfe\x01"
	twinOne     = "7346dc9166b67e118f029ab621b2560ff9ca67cca8c7f85ba84c79030c2b3de218f86db3a90901d5df45c14f26fedfb3dc38e96ac22fe7bd728f0e45bce046d23c570feb141398bb552ef5a0a82be331fea48037b8b5d71f0e332edf93ac3500eb4ddc0decc1a864790c782c76215660dd309791d06bd0af3f98cda4bc4629b1"
	twinOther   = "7f46dc93a6b67e013b029aaa1db2560b45ca67d688c7f84b8c4c791fe02b3df614f86db1690901c56b45c1530afedfb76038e972722fe7ad728f0e4904e046c230570fe9d41398abe12ef5bc942be33542a4802d98b5d70f2a332ec37fac3514e74ddc0f2cc1a874cd0c78305a21566461309789606bd0bf3f98cda8044629a1"
)

// twins pushes both files of a collision: neither may be taken for the other. (A forged object of Git has not been
// published: its kind and size would have to be in the collision.)
func (t *Try) twins(ctx context.Context) (string, error) {
	const name = "git-twins"
	contents := map[string]string{}
	var entries []entry
	for file, blocks := range map[string]string{"one": twinOne, "other": twinOther} {
		text, err := hex.DecodeString(blocks)
		if err != nil {
			return "", err
		}
		contents[file] = twinsBefore + string(text)
	}
	if sha1.Sum([]byte(contents["one"])) != sha1.Sum([]byte(contents["other"])) { //nolint:gosec // this is the attack
		return "", errors.New("these are no twins, so that this tries nothing")
	}
	for _, file := range []string{"one", "other"} {
		entries = append(entries, entry{"100644", file, contents[file]})
	}
	if err := t.bare(ctx, name, entries); err != nil {
		return "", err
	}
	if err := t.world.apply(ctx, "apiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: "+name+"}\nspec: {git: {url: '"+strings.Replace(t.world.GitURL, "sample", name, 1)+"', interval: 5s}}\n"); err != nil {
		return "", err
	}
	for file, content := range contents {
		var read struct{ Content []byte }
		err := process.Await(ctx, "the file is read", func(ctx context.Context) error {
			return t.must(ctx, gitcache, gitcacheSources+"ReadFile", t.world.callers.admin, map[string]any{"source": name, "path": file}, &read)
		})
		if err != nil {
			return "", err
		}
		if string(read.Content) != content {
			return fmt.Sprintf("%x", read.Content), fmt.Errorf("%s is not what was pushed", file)
		}
	}
	return "each is read as what was pushed", nil
}

// credentialRedirect has a host send the gitcache, which has a password for it, to another port.
func (t *Try) credentialRedirect(ctx context.Context) (string, error) {
	const name = "git-redirect"
	other := githost.New()
	defer other.Close()
	t.world.git.At(name+".git", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			w.Header().Set("Www-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, other.URL+r.URL.RequestURI(), http.StatusFound) //nolint:gosec // this is the attack
	})
	told, err := t.want(ctx, name, "url: '"+t.world.git.URL+"/"+name+".git', secret: "+name, "apiVersion: fairlead.dev/v1\nkind: Secret\nmetadata: {name: "+name+"}\ndata: {username: app, password: leaked-password}\n---\n")
	if err != nil {
		return told, err
	}
	sent := false
	for _, authorization := range t.world.git.Asked(name + ".git") {
		sent = sent || authorization != ""
	}
	if !sent {
		return told, errors.New("the right host was sent no password, so that this tries nothing")
	}
	for _, authorization := range other.Asked(name + ".git") {
		if authorization != "" {
			return told, errors.New("the other host got the password")
		}
	}
	return told, silentOf(told, "leaked-password")
}

// echo has a host repeat the password in all that it says.
func (t *Try) echo(ctx context.Context) (string, error) {
	const name = "git-echo"
	t.world.git.At(name+".git", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			w.Header().Set("Www-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, password, _ := r.BasicAuth()
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		_, _ = io.WriteString(w, githost.Advertisement+githost.Line("ERR \x1b[2J\x1b]0;x\x07 your password "+password+" and "+r.Header.Get("Authorization")+"\n")+"0000") //nolint:gosec // this is the attack
	})
	told, err := t.want(ctx, name, "url: '"+t.world.git.URL+"/"+name+".git', secret: "+name, "apiVersion: fairlead.dev/v1\nkind: Secret\nmetadata: {name: "+name+"}\ndata: {username: app, password: leaked-password}\n---\n")
	if err != nil {
		return told, err
	}
	log, err := t.world.Process(gitcache).Log()
	basic := base64.StdEncoding.EncodeToString([]byte("app:leaked-password"))
	return told, errors.Join(err, says(told, "your password"), silentOf(told, "leaked-password", basic, "\x1b", "\x07"), silentOf(log, "leaked-password", basic))
}

// inward makes sources at addresses inside. Each address has to be refused before it is dialled.
func (t *Try) inward(ctx context.Context) (string, error) {
	hosts := []string{"169.254.169.254", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::1]", "172.16.0.1", "100.100.100.200", "168.63.129.16", "[fd00:ec2::254]", "[fe80::1]", "0.0.0.0", "[::]", "0251.0376.0251.0376", "2852039166", "0xa9fea9fe", "192.168.0.1.", "255.255.255.255"}
	var last string
	for i, host := range hosts {
		name := fmt.Sprintf("git-inward-%d", i)
		source := fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: %s}\nspec: {git: {url: 'https://%s/x.git'}}\n", name, host)
		if err := t.world.apply(ctx, source); err != nil {
			last = err.Error() // refused when it was written
			continue
		}
		within, cancel := context.WithTimeout(ctx, time.Minute)
		told, err := t.want(within, name, "url: 'https://"+host+"/x.git'", "")
		cancel()
		if err != nil {
			return told, fmt.Errorf("%s: %w", host, err)
		}
		if net.ParseIP(strings.Trim(host, "[]")) != nil {
			if err := says(told, "address"); err != nil || strings.Contains(told, "timeout") || strings.Contains(told, "refused the connection") || strings.Contains(told, "connection refused") {
				return told, fmt.Errorf("%s is dialled: %w", host, err)
			}
		}
		last = told
	}
	return fmt.Sprintf("%d spellings; the last: %s", len(hosts), last), nil
}

// badURLs are refused when they are written.
func (t *Try) badURLs(ctx context.Context) (string, error) {
	urls := []string{
		"ext::sh -c id", "file:///etc", "/etc", "../../etc", "-u", "--upload-pack=id", "ssh://-oProxyCommand=id/x", "ssh://git@-oProxyCommand=id/x.git", "-oProxyCommand=id:x", "git://example.com/x.git",
		"fd::17/x", "transport::address", "https://user:password@example.com/x.git", "https://example.com/x.git\nhttps://evil", "http://example.com/x.git", "ftp://example.com/x", "git@example.com:-x", "https://", "javascript:alert(1)", "https://exa mple.com/x",
	}
	var last Answer
	for _, url := range urls {
		var err error
		last, err = t.call(ctx, console, sourceService+"UpdateSource", t.world.callers.admin, map[string]any{"allowMissing": true, "source": map[string]any{
			"metadata": map[string]any{"name": "bad-url"}, "spec": map[string]any{"git": map[string]any{"url": url}},
		}})
		if err != nil {
			return "", err
		}
		if last.Code != http.StatusBadRequest {
			return last.String(), fmt.Errorf("%q is taken", url)
		}
		if err := silentOf(last.Body, "user:password"); err != nil {
			return last.String(), err
		}
	}
	return fmt.Sprintf("%d URLs are refused; the last: %s", len(urls), last), nil
}

// appToken has a repository of a GitHub App's installation name two more as submodules: one of the same owner, and one
// of another owner that the installation covers, too.
func (t *Try) appToken(ctx context.Context) (string, error) {
	const name = "git-app"
	var modules strings.Builder
	entries := []entry{}
	for _, module := range []string{"bank/payroll", "studio/lib"} {
		path := strings.ReplaceAll(module, "/", "-")
		fmt.Fprintf(&modules, "[submodule %q]\n\tpath = %s\n\turl = %s/%s.git\n", path, path, t.world.git.URL, module)
		entries = append(entries, entry{"160000", path, ""})
	}
	if err := t.bare(ctx, name, append([]entry{{"100644", ".gitmodules", modules.String()}}, entries...)); err != nil {
		return "", err
	}
	target, err := url.Parse(t.world.GitURL)
	if err != nil {
		return "", err
	}
	real := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host})
		r.Out.URL.Path = "/" + name + ".git" + strings.TrimPrefix(r.In.URL.Path, "/studio/app.git")
		r.Out.Header.Del("Authorization")
	}}
	var mu sync.Mutex
	sent := map[string][]string{} // the tokens that repositories got
	answer := func(w http.ResponseWriter, r *http.Request) {
		repository, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), ".git")
		_, password, ok := r.BasicAuth()
		mu.Lock()
		sent[repository] = append(sent[repository], password)
		mu.Unlock()
		switch {
		case !ok:
			w.Header().Set("Www-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
		case repository == "studio/app":
			real.ServeHTTP(w, r)
		default:
			http.NotFound(w, r)
		}
	}
	api := &githost.Installation{}
	t.world.git.At("studio", answer)
	t.world.git.At("bank", answer)
	t.world.git.At("api", api.ServeHTTP)
	const bits = 2048
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return "", err
	}
	private := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	secret := "apiVersion: fairlead.dev/v1\nkind: Secret\nmetadata: {name: " + name + "}\ndata:\n  githubAppID: \"7\"\n  githubAppInstallationID: \"42\"\n  githubAppPrivateKey: |\n    " +
		strings.ReplaceAll(strings.TrimSpace(private), "\n", "\n    ") + "\n---\n"
	told, err := t.want(ctx, name, "url: '"+t.world.git.URL+"/studio/app.git', secret: "+name+", submodules: true", secret)
	if err != nil {
		return told, err
	}
	// The submodules are asked for one by one; each may be what is said to be wrong first.
	err = process.Await(ctx, "the repository is read by the App's token", func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(sent["studio/app"], "token-for-app") {
			return fmt.Errorf("it was sent %q, so that this tries nothing", sent["studio/app"])
		}
		return nil
	})
	mu.Lock()
	defer mu.Unlock()
	for repository, tokens := range sent {
		for _, token := range tokens {
			if own := "token-for-" + repository[strings.Index(repository, "/")+1:]; token != "" && (token != own || strings.HasPrefix(repository, "bank/")) {
				err = errors.Join(err, fmt.Errorf("%s was sent %q", repository, token))
			}
		}
	}
	for _, asked := range api.Asked() {
		if asked != "app map[contents:read]" && asked != "lib map[contents:read]" {
			err = errors.Join(err, fmt.Errorf("a token was asked for %q", asked))
		}
	}
	return fmt.Sprintf("tokens asked for %q; %s", slices.Compact(slices.Sorted(slices.Values(api.Asked()))), told), errors.Join(err, silentOf(told, "token-for", "PRIVATE"))
}
