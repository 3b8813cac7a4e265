package resource

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/Masterminds/semver/v3"

	platform "fairlead.dev/platform/catalog"
	"fairlead.dev/platform/giturl"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// checkSourceSpec accepts what a fetcher can be pointed at.
func checkSourceSpec(s state.SourceSpec) error {
	kinds := 0
	for _, url := range []string{s.Git.URL, s.Helm.URL, s.OCI.URL, s.Bucket.Endpoint} {
		if url != "" {
			kinds++
		}
	}
	switch {
	case kinds > 1:
		return refusal.New(refusal.Invalid, "spec: set exactly one of spec.git, spec.helm, spec.oci and spec.bucket")
	case s.Helm.URL != "":
		return checkHelm(s)
	case s.OCI.URL != "":
		return checkOCI(s)
	case s.Bucket.Endpoint != "":
		return checkBucket(s)
	}
	u, err := giturl.Parse(s.Git.URL)
	if err != nil {
		return refusal.New(refusal.Invalid, "spec.git.url: %s", err)
	}
	if err := checkUpstream(s.Upstream(), "spec.git", u); err != nil {
		return err
	}
	return checkGit(s.Git)
}

func checkHelm(s state.SourceSpec) error {
	if giturl.IsRegistry(s.Helm.URL) {
		u, err := giturl.ParseRegistry(s.Helm.URL)
		if err != nil {
			return refusal.New(refusal.Invalid, "spec.helm.url: %s", err)
		}
		err = checkVerify(s.Helm.Verify, "spec.helm.verify",
			state.VerifyCosign, state.VerifyNotation, state.VerifyProvenance)
		if err != nil {
			return err
		}
		return checkRegistry(s, "spec.helm", u, s.Helm.Registry)
	}
	u, err := giturl.ParseFolder(s.Helm.URL)
	if err != nil {
		return refusal.New(refusal.Invalid, "spec.helm.url: %s", err)
	}
	if !s.Helm.Unset() {
		return refusal.New(refusal.Invalid, "spec.helm: insecure, insecureSkipTLSVerify, tokenHosts, mirrors and auth are for registries. Remove them, or write the url as oci://host/path")
	}
	if err := checkVerify(s.Helm.Verify, "spec.helm.verify", state.VerifyProvenance); err != nil {
		return err
	}
	return checkUpstream(s.Upstream(), "spec.helm", u)
}

func checkOCI(s state.SourceSpec) error {
	u, err := giturl.ParseRegistry(s.OCI.URL)
	switch {
	case err != nil:
		return refusal.New(refusal.Invalid, "spec.oci.url: %s", err)
	case u.Path == "":
		return refusal.New(refusal.Invalid, "spec.oci.url: names no repository. Write it as oci://host/path")
	case s.OCI.LayerType != "" && (len(s.OCI.LayerType) > longestMediaType || !mediaType.MatchString(s.OCI.LayerType)):
		return refusal.New(refusal.Invalid, "spec.oci.layerSelector.mediaType: is no media type; write it like application/vnd.cncf.flux.content.v1.tar+gzip")
	}
	if err := checkVerify(s.OCI.Verify, "spec.oci.verify", state.VerifyCosign, state.VerifyNotation); err != nil {
		return err
	}
	return checkRegistry(s, "spec.oci", u, s.OCI.Registry)
}

// region is the name of one, as it stands in a signature.
var region = regexp.MustCompile(`^[A-Za-z0-9_-]*$`)

func checkBucket(s state.SourceSpec) error {
	b := s.Bucket
	if err := giturl.ParseEndpoint(b.Endpoint); err != nil {
		return refusal.New(refusal.Invalid, "spec.bucket.endpoint: %s", err)
	}
	prefix, err := cleanFolder("bucket.prefix", b.Prefix)
	switch {
	case err != nil:
		return err
	case prefix != b.Prefix:
		return refusal.New(refusal.Invalid,
			"spec.bucket.prefix %q: write the folder as %q, without a slash at its end", b.Prefix, prefix)
	case !giturl.IsBucketName(b.Name):
		return refusal.New(refusal.Invalid, "spec.bucket.bucketName: is not a name of a bucket: letters, digits, '.', '_' and '-'. A folder of it goes into prefix")
	case !region.MatchString(b.Region):
		return refusal.New(refusal.Invalid, "spec.bucket.region: is not a name of a region; write it like eu-central-1")
	case b.Auth == state.AuthAzure:
		return refusal.New(refusal.Invalid, "spec.bucket.auth: is aws or gcp. Hosts of Azure do not speak as S3 does")
	case b.Insecure && b.Proxy != "":
		return refusal.New(refusal.Invalid, "spec.bucket: proxy and insecure do not go together. Remove one of them")
	}
	return checkUpstream(s.Upstream(), "spec.bucket", &url.URL{Scheme: "https"})
}

// checkRegistry checks what is of registries only.
func checkRegistry(s state.SourceSpec, field string, u *url.URL, r state.Registry) error {
	for _, host := range r.TokenHosts {
		if is, err := giturl.ParseRegistry("oci://" + host); err != nil || is.Host != host {
			return refusal.New(refusal.Invalid,
				"%s.tokenHosts: write hosts as host or host:port, such as auth.example.com", field)
		}
	}
	if r.Auth != "" && len(r.TokenHosts) > 0 {
		return refusal.New(refusal.Invalid, "%s.auth: goes to hosts of its cloud only. Remove tokenHosts", field)
	}
	for _, mirror := range r.Mirrors {
		if is, err := giturl.ParseRegistry("oci://" + mirror); err != nil || is.Host+is.Path != mirror {
			return refusal.New(refusal.Invalid, "%s.mirrors: write them as host, host:port or host/path, such as mirror.example.com/docker.io, without https://", field)
		}
	}
	return checkUpstream(s.Upstream(), field, u)
}

// checkUpstream checks what sources of all kinds have, whose url was read. No value is repeated in an error: it could
// hold a password or a private key.
func checkUpstream(s state.Upstream, field string, u *url.URL) error {
	if s.Secret != "" && !IsName(s.Secret) {
		return refusal.New(refusal.Invalid, "%s.secret: %s", field, wantSecretName)
	}
	if r := s.Registry; r.Auth != "" && (r.Insecure || r.SkipTLSVerify) {
		return refusal.New(refusal.Invalid,
			"%s.auth: goes to verified hosts only. Remove insecure and insecureSkipTLSVerify", field)
	}
	if s.WebhookSecret != "" && !IsName(s.WebhookSecret) {
		return refusal.New(refusal.Invalid, "%s.webhookSecret: %s", field, wantSecretName)
	}
	if s.Proxy == "" {
		return nil
	}
	if u.Scheme == "ssh" {
		return refusal.New(refusal.Invalid, "%s.proxy: is not for ssh. Remove it, or use an https:// url", field)
	}
	if _, err := giturl.ParseProxy(s.Proxy); err != nil {
		return refusal.New(refusal.Invalid, "%s.proxy: the url %s", field, err)
	}
	return nil
}

// checkGit accepts what is Git's own.
func checkGit(g state.GitSource) error {
	for _, repository := range g.SubmoduleRepositories {
		if !isRepository(repository) {
			return refusal.New(refusal.Invalid, "spec.git.submoduleRepositories: write paths on the host of spec.git.url, such as team/libs, or team/* for all below team")
		}
	}
	for _, host := range g.Allow {
		if u, err := giturl.ParseFolder("https://" + host); err != nil || u.Host != host || strings.ToLower(host) != host || strings.Contains(host, "*") {
			return refusal.New(refusal.Invalid, "spec.git.allow: write hosts in lower case, such as charts.example.com or charts.example.com:8443")
		}
	}
	for i, name := range g.ChartSources {
		if !IsName(name) {
			return refusal.New(refusal.Invalid, "spec.git.chartSources %q: is not a name of a source", name)
		}
		if slices.Contains(g.ChartSources[:i], name) {
			return refusal.New(refusal.Invalid, "spec.git.chartSources: %q is there twice", name)
		}
	}
	if g.Verification == nil {
		return nil
	}
	return checkVerification(*g.Verification)
}

// isRepository accepts a path of a repository, and a folder of some with /* at its end.
func isRepository(text string) bool {
	at := strings.TrimSuffix(text, "/*")
	return at != "" && at == strings.TrimPrefix(path.Clean("/"+at), "/") && !strings.ContainsAny(at, "\\*:?#") && !strings.ContainsFunc(at, unicode.IsControl)
}

// RefsOfSource are the secrets and other sources that a source names.
func RefsOfSource(s state.SourceSpec) (refs []Reference) {
	field, is := "spec.git", s.Upstream()
	switch {
	case s.Helm.URL != "":
		field = "spec.helm"
	case s.OCI.URL != "":
		field = "spec.oci"
	case s.Bucket.Endpoint != "":
		field = "spec.bucket"
	}
	if is.Secret != "" {
		refs = append(refs, RefTo(store.KindSecret, is.Secret, field+".secret"))
	}
	if is.WebhookSecret != "" {
		refs = append(refs, RefTo(store.KindSecret, is.WebhookSecret, field+".webhookSecret"))
	}
	return append(refs, eachTo(store.KindSource, s.Git.ChartSources, "spec.git.chartSources")...)
}

// refForbidden may not be in a ref, by the rules of git check-ref-format.
const refForbidden = " ~^:?*[\\"

func validateRef(ref string) error {
	if ref == "" || ref == "HEAD" {
		return nil
	}
	bad := func(why string) error { return refusal.New(refusal.Invalid, "spec.ref %q: %s", ref, why) }
	if chart, version, ok := platform.ParseChartRef(ref); ok {
		if !platform.IsChartName(chart) {
			return refusal.New(refusal.Invalid,
				"spec.chart %q: is not a name of a chart: letters, digits, '.', '_' and '-'", chart)
		}
		return validateVersion(version)
	}
	if tag, ok := strings.CutPrefix(ref, platform.TagPrefix); ok && !platform.IsRegistryTag(tag) {
		return bad("is not a tag of a registry: letters, digits, '.', '_' and '-', at most 128")
	} else if ok {
		return nil
	}
	if strings.HasPrefix(ref, platform.DigestPrefix) {
		if !platform.IsRegistryDigest(ref) {
			return bad("is not a digest; write it as sha256: and 64 hexadecimal digits in lower case")
		}
		return nil
	}
	if versions, ok := strings.CutPrefix(ref, platform.SemverPrefix); ok {
		if _, err := semver.NewConstraint(versions); err != nil || strings.TrimSpace(versions) == "" || strings.ContainsFunc(versions, unicode.IsControl) {
			return bad("is not a range of versions; write it like semver:^1.4, semver:~2.1 or semver:>=2.0.0 <3")
		}
		return nil
	}
	if strings.HasPrefix(ref, "refs/") && !strings.HasPrefix(ref, "refs/heads/") && !strings.HasPrefix(ref, "refs/tags/") {
		return bad("must be a branch, refs/heads/<branch>, refs/tags/<tag>, a full commit id or semver:<range>")
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

// validateVersion accepts a version of a chart, and a range of versions.
func validateVersion(version string) error {
	if version == "" {
		return nil
	}
	if _, err := semver.NewConstraint(version); err != nil || strings.TrimSpace(version) == "" || strings.ContainsFunc(version, unicode.IsControl) {
		return refusal.New(refusal.Invalid, "spec.version %q: is neither a version nor a range of versions; write it like 1.4.2, ^1.4, ~2.1 or >=2.0.0 <3", version)
	}
	return nil
}

// CheckSource accepts what a fetcher can be pointed at, and whose content can be verified.
func CheckSource(s *state.Source) error {
	if !IsName(s.Meta.Name) {
		return RefuseName(s.Meta.Name)
	}
	if slices.Contains(s.Spec.Git.ChartSources, s.Meta.Name) {
		return refusal.New(refusal.Invalid,
			"spec.git.chartSources: a source with git has no charts of its own. Name one with helm")
	}
	return checkSourceSpec(s.Spec)
}
