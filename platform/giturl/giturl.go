// Package giturl is the one grammar of repositories' URLs: what the console takes into the catalog a
// gitcache can be pointed at, and nothing else.
//
// An error says what is wrong with "the url", and what to write instead. The error never repeats the URL, which could
// hold a password.
package giturl

import (
	"errors"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"fairlead.dev/platform/loopback"
)

// MaxBytes bounds a URL.
const MaxBytes = 2048

var (
	// user of ssh: what can't be taken for an option or for a part of a URL.
	sshUser = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	// hostName is ASCII.
	hostName = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.-]*$`)
	// likeAddress ends with a number, which no name does.
	likeAddress = regexp.MustCompile(`(?i)(^|\.)([0-9]+|0x[0-9a-f]*)\.?$`)
	// scpForm is user@host:path, without a scheme.
	scpForm = regexp.MustCompile(`^([^@:/]+)@(\[[^\]/@]*\]|[^:/@\[\]]+):(.*)$`)
)

// Parse reads https://host/path, ssh://user@host/path or user@host:path; http:// to this machine only.
//
// For ssh the path is what git-upload-pack is to be given: absolute after ssh://, relative to the home
// of the user in the other form.
func Parse(text string) (*url.URL, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	if m := scpForm.FindStringSubmatch(text); m != nil && !strings.Contains(text, "://") && !strings.HasPrefix(m[3], ":") {
		return checkSSH(&url.URL{Scheme: "ssh", User: url.User(m[1]), Host: m[2], Path: strings.TrimRight(m[3], "/")})
	}
	u, err := url.Parse(text)
	if err != nil {
		// The parser's error quotes the URL.
		return nil, errors.New("can't be parsed. Write it as https://host/path")
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(text, "#") {
		return nil, errors.New("has a query or a fragment. Credentials belong into a secret, a branch into the ref of a service")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	switch u.Scheme {
	case "https", "http":
		return checkHTTP(u)
	case "ssh":
		return checkSSH(u)
	}
	return nil, errors.New("must begin with https:// or ssh://, or be written as user@host:path")
}

func checkText(text string) error {
	switch {
	case len(text) > MaxBytes:
		return errors.New("is longer than 2048 bytes")
	case strings.HasPrefix(text, "-"), strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return errors.New("must not begin with '-' nor hold spaces or control characters")
	}
	return nil
}

// ParseFolder reads https://host/path of a folder that is served over HTTP, such as a chart repository; http:// to this
// machine only. Here the path may be that of the root.
func ParseFolder(text string) (*url.URL, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	u, err := url.Parse(text)
	switch {
	case err != nil: // the parser's error quotes the URL
		return nil, errors.New("can't be parsed. Write it as https://host/path")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("must begin with https://")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(text, "#"):
		return nil, errors.New("has a query or a fragment. Credentials belong into a secret")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return checkHost(u)
}

// repositoryPath is the name of a repository in a registry, or the beginning of one.
var repositoryPath = regexp.MustCompile(`^/[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*)*$`)

// maxRepositoryBytes of a name, as registries have it.
const maxRepositoryBytes = 255

// IsRegistry tells a URL of a registry from others.
func IsRegistry(text string) bool { return strings.HasPrefix(text, "oci://") }

// ParseRegistry reads oci://host/path: a repository in a registry. Of a prefix of repositories the path may be empty.
func ParseRegistry(text string) (*url.URL, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	u, err := url.Parse(text)
	switch {
	case err != nil: // the parser's error quotes the URL
		return nil, errors.New("can't be parsed. Write it as oci://host/path")
	case u.Scheme != "oci":
		return nil, errors.New("must begin with oci://")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(text, "#"):
		return nil, errors.New("has a query or a fragment. Credentials belong into a secret")
	case u.User != nil:
		return nil, errors.New("must not hold a user or password. Put them into a secret and name it in the source")
	case !validHost(u.Hostname()):
		return nil, errors.New("names no host. Write it as oci://host/path")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	if u.Path != "" && (len(u.Path) > maxRepositoryBytes || !repositoryPath.MatchString(u.Path)) {
		return nil, errors.New("names a repository that no registry can have: lower-case letters, digits, '.', '_', '-' and '/'. Tags and digests belong into the ref of a service")
	}
	return u, nil
}

// ParseEndpoint checks host or host:port of a host of buckets.
func ParseEndpoint(text string) error {
	if err := checkText(text); err != nil {
		return err
	}
	u, err := url.Parse("https://" + text)
	if err != nil || u.Host != text || u.User != nil || !validHost(u.Hostname()) {
		return errors.New("must be a host or host:port, such as s3.eu-central-1.amazonaws.com, without https://")
	}
	return nil
}

// bucketName is what hosts allow, old ones included, but for its length: a bound in the expression takes each program
// that has this package milliseconds of its start. A name is a part of a path.
var bucketName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9]$`)

// IsBucketName knows the names of buckets.
func IsBucketName(text string) bool {
	const shortest, longest = 3, 255
	return len(text) >= shortest && len(text) <= longest && bucketName.MatchString(text)
}

// OfBucket is the URL of a bucket, with its prefix.
func OfBucket(endpoint, name, prefix string, insecure bool) string {
	u := url.URL{Scheme: "https", Host: endpoint, Path: strings.TrimRight("/"+name+"/"+prefix, "/")}
	if insecure {
		u.Scheme = "http"
	}
	return u.String()
}

// ParseBucket reads what OfBucket made.
func ParseBucket(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("can't be read")
	}
	return u, ParseEndpoint(u.Host)
}

func checkHTTP(u *url.URL) (*url.URL, error) {
	if u, err := checkHost(u); err != nil || u.Path != "" {
		return u, err
	}
	return nil, errors.New("names no repository. Write it as https://host/path")
}

// checkHost accepts hosts over HTTP.
func checkHost(u *url.URL) (*url.URL, error) {
	switch {
	case u.User != nil:
		return nil, errors.New("must not hold a user or password. Put them into a secret and name it in the source")
	case !validHost(u.Hostname()):
		return nil, errors.New("names no host. Write it as https://host/path")
	case u.Scheme == "http" && !loopback.Host(u.Hostname()):
		return nil, errors.New("begins with http://, which is for loopback addresses (this machine only). Use https://")
	}
	return u, nil
}

func checkSSH(u *url.URL) (*url.URL, error) {
	_, password := u.User.Password()
	switch {
	case password:
		return nil, errors.New("must not hold a password. Put a private key into a secret and name it in the source")
	case !sshUser.MatchString(u.User.Username()):
		return nil, errors.New("names no user. Write it as ssh://git@host/path")
	case !validHost(u.Hostname()):
		return nil, errors.New("names no host. Write it as ssh://git@host/path")
	case strings.Trim(u.Path, "/") == "" || strings.HasPrefix(u.Path, "-"):
		return nil, errors.New("names no repository. Write it as ssh://git@host/path")
	case strings.ContainsFunc(u.Path, unicode.IsControl):
		return nil, errors.New("must not hold control characters")
	}
	return u, nil
}

// validHost keeps out what other programs would take for an option, for more than a host, or for another
// one: HTTP clients turn letters of other alphabets into ASCII (names with them are written as xn--...), and many
// resolvers, such as those of proxies, take 127.1 and 0x7f.1 for addresses. Whether it exists is for the
// resolver to say.
func validHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return !strings.Contains(host, "%")
	}
	return hostName.MatchString(host) && !likeAddress.MatchString(host)
}

// ParseProxy reads the URL of a proxy: http://host:port or https://host:port.
func ParseProxy(text string) (*url.URL, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	const form = "Write it as http://host:port"
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("can't be parsed. " + form)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("must begin with http:// or https://")
	case u.User != nil:
		return nil, errors.New("must not hold a user or password. Put them into the source's secret as proxyUsername and proxyPassword")
	case !validHost(u.Hostname()):
		return nil, errors.New("names no host. " + form)
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("has more than a host and a port. " + form)
	}
	u.Path = ""
	return u, nil
}
