// Package remotebase reads the references of kustomizations to folders of other Git repositories, as kustomize reads
// them, and says where such a folder is in an artifact.
//
// The hub fetches the folder and puts it there. The agent's kustomize finds it there and fetches nothing.
package remotebase

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"path"
	"regexp"
	"strings"
	"unicode"

	"fairlead.dev/platform/giturl"
)

// FolderName is the folder at the root of an artifact that holds what is of other repositories.
const FolderName = ".fairlead-bases"

// RefPrefix begins the refs of bases. Git forbids colons in names.
const RefPrefix = "base:"

// Head is the ref of a base that names none.
const Head = "HEAD"

// Base is a folder of another repository. Of equal bases all fields are equal.
type Base struct {
	Repository string // its URL, which giturl.Parse reads
	Revision   string // a branch, a tag, a full name of a ref, or a full commit id; HEAD: none is written
	Path       string // of the folder; clean, "" is the root of the repository
}

// Ref is the name under which the repository's revision is kept in a mirror: base:<url>@<revision>. A URL has no @ but
// the one behind a user of ssh, which it always has.
func (b Base) Ref() string { return RefPrefix + b.Repository + "@" + b.Revision }

// String is a base for people.
func (b Base) String() string {
	text := b.Repository
	if b.Path != "" {
		text += "//" + b.Path
	}
	return text + "?ref=" + b.Revision
}

// maxLegible is the most bytes of a URL and a revision that a folder is named after.
const maxLegible = 80

// Folder is where the root of the repository is in an artifact. Its name says to people what it is of.
func (b Base) Folder() string {
	of := sha256.Sum256([]byte(b.Ref()))
	_, text, _ := strings.Cut(b.Repository, "://")
	text = strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '.') {
			return r
		}
		return '-'
	}, cmp.Or(text, b.Repository)+"-"+b.Revision)
	text = strings.Trim(text[:min(len(text), maxLegible)], "-.")
	return path.Join(FolderName, text+"-"+hex.EncodeToString(of[:8]))
}

// Place is where the folder is in an artifact.
func (b Base) Place() string { return path.Join(b.Folder(), b.Path) }

// Host is the host of the repository as lists of hosts have it: with the port, if it is not the scheme's own.
func (b Base) Host() string {
	u, err := giturl.Parse(b.Repository)
	if err != nil {
		return ""
	}
	host := strings.ToLower(u.Host)
	switch u.Scheme {
	case "https":
		return strings.TrimSuffix(host, ":443")
	case "ssh":
		return strings.TrimSuffix(host, ":22")
	}
	return host
}

// maxText is the most bytes of a reference.
const maxText = giturl.MaxBytes

// Parse reads a text in resources or components. isRemote: kustomize would fetch it. An error says why Fairlead can't;
// it does not repeat the text, which could hold a password.
func Parse(text string) (b Base, isRemote bool, err error) {
	if strings.Contains(text, "\n") || strings.HasPrefix(text, "/") {
		return b, false, nil
	}
	rest, query, hasQuery := strings.Cut(text, "?")
	host, rest, ok := cutHost(rest)
	if !ok {
		return b, false, nil
	}
	isWeb := strings.HasPrefix(host, "https://") || strings.HasPrefix(host, "http://")
	repository, folder, isMarked, ok := cutRepository(rest)
	switch {
	case host == "file://":
		return b, true, errors.New("begins with file://, and the hub reads no files of a disk. Write a path in the repository")
	case !ok && !isWeb:
		return b, false, nil
	case !ok, isWeb && !isMarked && !hasQuery && isFile(rest):
		return b, true, errors.New("is no folder of a Git repository. Write it as https://host/repository.git//folder?ref=REVISION, or copy the file into the repository")
	case len(text) > maxText:
		return b, true, errors.New("is longer than 2048 bytes")
	}
	if b.Repository, err = normal(host + repository); err != nil {
		return b, true, err
	}
	if b.Path, err = clean(folder); err != nil {
		return b, true, err
	}
	b.Revision, err = revision(query)
	return b, true, err
}

// userName is what kustomize takes for one.
var userName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9-]*@`)

// cutHost takes off what names the host, with its end; false: kustomize takes the text for a path.
func cutHost(text string) (host, rest string, ok bool) {
	_, text = cutFold(text, "git::")
	scheme := ""
	for _, one := range []string{"ssh://", "https://", "http://", "file://"} {
		if has, rest := cutFold(text, one); has {
			scheme, text = one, rest
			break
		}
	}
	if scheme == "file://" {
		return scheme, text, true
	}
	user := userName.FindString(text)
	text = text[len(user):]
	lower := strings.ToLower(text)
	isGitHub := strings.HasPrefix(lower, "github.com/") || strings.HasPrefix(lower, "github.com:")
	isShort := scheme == "" && (user != "" || isGitHub) // user@host:path
	if scheme == "" && !isShort {
		return "", "", false
	}
	end := strings.Index(text, "/")
	if colon := strings.Index(text, ":"); isShort && colon > 0 && (end < 0 || colon < end) {
		end = colon
	}
	switch {
	case end <= 0:
		return scheme, "", strings.HasPrefix(scheme, "http") // which is no repository, and no path
	case isGitHub && (scheme == "ssh://" || user != ""):
		return user + "github.com:", text[end+1:], true
	case isGitHub:
		return "https://github.com/", text[end+1:], true
	case strings.HasPrefix(scheme, "http"):
		user = "" // as Azure writes it: a name without a password opens nothing
	}
	return scheme + user + text[:end+1], text[end+1:], true
}

func cutFold(text, prefix string) (bool, string) {
	if len(prefix) <= len(text) && strings.EqualFold(text[:len(prefix)], prefix) {
		return true, text[len(prefix):]
	}
	return false, text
}

// cutRepository tells the path of a repository from that of the folder in it: by _git/, by // or .git, or else by the
// two names that most hosts have.
func cutRepository(text string) (repository, folder string, isMarked, ok bool) {
	const azure, suffix = "_git/", ".git"
	if i := strings.Index(text, azure); i >= 0 {
		name, folder, _ := strings.Cut(text[i+len(azure):], "/")
		return text[:i+len(azure)] + name, folder, true, true
	}
	if repository, folder, ok := strings.Cut(text, "//"); ok {
		return repository, folder, true, repository != ""
	}
	if i := strings.Index(text, suffix); i >= 0 {
		return text[:i+len(suffix)], text[i+len(suffix):], true, true
	}
	names := strings.SplitN(text, "/", 3)
	if len(names) < 2 {
		return "", "", false, false
	}
	return names[0] + "/" + names[1], strings.Join(names[2:], ""), false, true
}

func isFile(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// normal is the form of a URL in which repositories are compared.
func normal(text string) (string, error) {
	u, err := giturl.Parse(text)
	switch {
	case err != nil:
		return "", errors.New("has a repository whose url " + err.Error())
	case strings.Contains(u.Path, "@"):
		return "", errors.New("has a repository with an @ in its path, which the hub can't tell from a revision")
	case u.Scheme == "ssh" && !strings.Contains(text, "://"): // relative to the home of the user
		return u.User.Username() + "@" + strings.ToLower(u.Host) + ":" + u.Path, nil
	}
	u.Host = strings.ToLower(u.Host)
	return u.String(), nil
}

// clean is the path of the folder.
func clean(folder string) (string, error) {
	folder = path.Clean(strings.Trim(folder, "/"))
	switch {
	case folder == ".":
		return "", nil
	case folder == "..", strings.HasPrefix(folder, "../"):
		return "", errors.New("has a folder that leads out of its repository")
	case strings.ContainsFunc(folder, unicode.IsControl):
		return "", errors.New("has a folder with control characters")
	}
	return folder, nil
}

// maxRevision is the most bytes of a revision.
const maxRevision = 255

// revision is what a query names. Kustomize knows `timeout` and `submodules`, too, which mean nothing here.
func revision(query string) (string, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", errors.New("has a query that can't be read. Write ?ref=REVISION")
	}
	name := cmp.Or(values.Get("ref"), values.Get("version"), Head)
	isOdd := func(r rune) bool {
		return unicode.IsControl(r) || unicode.IsSpace(r) || strings.ContainsRune(`:~^?*[\`, r)
	}
	if len(name) > maxRevision || strings.HasPrefix(name, "-") || strings.HasPrefix(name, "/") ||
		strings.Contains(name, "..") || strings.ContainsFunc(name, isOdd) {
		return "", errors.New("has a ref that Git can't have. Write a tag, a branch or a full commit id")
	}
	return name, nil
}
