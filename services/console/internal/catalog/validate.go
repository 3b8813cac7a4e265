package catalog

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"fairlead.dev/platform/loopback"
)

var (
	dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	commitID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
)

// validateURL accepts what a fetcher may be pointed at. The URL is not repeated in an error: it
// could hold a password.
func validateURL(text string) error {
	bad := func(why string) error { return refuse(Invalid, "spec.git.url: %s", why) }
	if strings.HasPrefix(text, "-") || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return bad("must not begin with '-' nor hold spaces or control characters")
	}
	u, err := url.Parse(text)
	if err != nil {
		return bad("is not a URL; write https://host/path")
	}
	host := u.Hostname()
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return bad("must begin with https://")
	case host == "" || strings.HasPrefix(host, "-"):
		return bad("names no host; write https://host/path")
	case u.User != nil:
		return bad("must not hold a user or password; put them in a secret and name it in spec.git.secret")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return bad("must not have a query or fragment; credentials belong in a secret, a branch in spec.ref of the service")
	case strings.Trim(u.Path, "/") == "":
		return bad("names no repository; write https://host/path")
	case u.Scheme == "http" && !loopback.Host(host):
		return bad("must begin with https://; http:// is for loopback addresses only")
	}
	return nil
}

// refForbidden may not be in a ref, by the rules of git check-ref-format.
const refForbidden = " ~^:?*[\\"

func validateRef(ref string) error {
	if ref == "" || ref == "HEAD" {
		return nil
	}
	bad := func(why string) error { return refuse(Invalid, "spec.ref %q: %s", ref, why) }
	if strings.HasPrefix(ref, "refs/") && !strings.HasPrefix(ref, "refs/heads/") && !strings.HasPrefix(ref, "refs/tags/") {
		return bad("must be a branch, refs/heads/<branch>, refs/tags/<tag> or a full commit id")
	}
	if strings.HasPrefix(ref, "-") || strings.ContainsAny(ref, refForbidden) || strings.ContainsFunc(ref, unicode.IsControl) ||
		strings.Contains(ref, "..") || strings.Contains(ref, "@{") || ref == "@" || strings.HasSuffix(ref, ".") {
		return bad("is not a name that Git allows")
	}
	for part := range strings.SplitSeq(ref, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return bad("is not a name that Git allows")
		}
	}
	return nil
}

// cleanPath returns a folder in the one form that is stored: no slash at either end, "" for the root.
func cleanPath(path string) (string, error) {
	bad := func(why string) error { return refuse(Invalid, "spec.path %q: %s", path, why) }
	if strings.HasPrefix(path, "/") {
		return "", bad("must be a folder within the repository, without a leading slash")
	}
	if strings.Contains(path, "\\") || strings.ContainsFunc(path, unicode.IsControl) {
		return "", bad("must not hold backslashes or control characters")
	}
	clean := strings.TrimSuffix(strings.TrimPrefix(path, "./"), "/")
	if clean == "" || clean == "." {
		return "", nil
	}
	for part := range strings.SplitSeq(clean, "/") {
		switch {
		case part == "", part == ".", part == "..":
			return "", bad("must not hold empty parts, '.' or '..'")
		case strings.EqualFold(part, ".git"):
			return "", bad("must not lead into .git")
		}
	}
	return clean, nil
}

func (s *Source) validate() error {
	if !dnsLabel.MatchString(s.Meta.Name) {
		return badName(s.Meta.Name)
	}
	if secret := s.Spec.Git.Secret; secret != "" && !dnsLabel.MatchString(secret) {
		return refuse(Invalid, "spec.git.secret %q: is not a name of a secret", secret)
	}
	return validateURL(s.Spec.Git.URL)
}

func (c *Cluster) validate() error {
	if !dnsLabel.MatchString(c.Meta.Name) {
		return badName(c.Meta.Name)
	}
	return nil
}

// validate also brings the path into its stored form.
func (s *Service) validate() (err error) {
	switch {
	case !dnsLabel.MatchString(s.Meta.Name):
		return badName(s.Meta.Name)
	case !dnsLabel.MatchString(s.Spec.Source):
		return refuse(Invalid, "spec.source %q: is not a name of a source", s.Spec.Source)
	case !dnsLabel.MatchString(s.Spec.Cluster):
		return refuse(Invalid, "spec.cluster %q: is not a name of a cluster", s.Spec.Cluster)
	case s.Spec.Namespace != "" && !dnsLabel.MatchString(s.Spec.Namespace):
		return refuse(Invalid, "spec.namespace %q: is not a name of a namespace", s.Spec.Namespace)
	}
	if s.Spec.Path, err = cleanPath(s.Spec.Path); err != nil {
		return err
	}
	return validateRef(s.Spec.Ref)
}

func badName(name string) error {
	return refuse(Invalid, "metadata.name %q: must be 1 to 63 lower-case letters, digits or '-', beginning and ending with a letter or digit", name)
}

// validateHeads checks what a fetcher publishes.
func validateHeads(heads []Head) error {
	refs := make([]string, 0, len(heads))
	for _, h := range heads {
		if h.Ref == "" || strings.ContainsFunc(h.Ref, unicode.IsControl) {
			return refuse(Invalid, "heads: %q is not a ref", h.Ref)
		}
		if !commitID.MatchString(h.Revision.Commit) {
			return refuse(Invalid, "heads: %s: %q is not a full commit id", h.Ref, h.Revision.Commit)
		}
		refs = append(refs, h.Ref)
	}
	slices.Sort(refs)
	if len(slices.Compact(slices.Clone(refs))) != len(refs) {
		return refuse(Invalid, "heads: a ref is listed twice")
	}
	return nil
}
