package catalog

import (
	"regexp"
	"strings"
)

const (
	// TagPrefix begins refs that name a tag of a registry, and DigestPrefix those that name an artifact by the digest
	// of its manifest. No branch can be meant: Git forbids colons in names.
	TagPrefix    = "tag:"
	DigestPrefix = "sha256:"

	longestTag = 128
)

var (
	registryTag    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	registryDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// IsRegistryTag knows the names of tags of registries.
func IsRegistryTag(text string) bool { return len(text) <= longestTag && registryTag.MatchString(text) }

// IsRegistryDigest knows digests of registries: sha256:<hex>.
func IsRegistryDigest(text string) bool { return registryDigest.MatchString(text) }

// ArtifactRef is what the ref of an artifact was resolved to. tag may be empty.
func ArtifactRef(tag, digest string) string {
	if tag == "" {
		return digest
	}
	return TagPrefix + tag + "@" + digest
}

// ParseArtifactRef takes what ArtifactRef made apart; false: it is something else.
func ParseArtifactRef(resolved string) (tag, digest string, ok bool) {
	if IsRegistryDigest(resolved) {
		return "", resolved, true
	}
	text, ok := strings.CutPrefix(resolved, TagPrefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(text, "@")
}

// showArtifact is an artifact as messages and lists show it.
func showArtifact(tag, digest string) string {
	if len(digest) > len(DigestPrefix)+12 {
		digest = digest[:len(DigestPrefix)+12]
	}
	if tag == "" {
		return digest
	}
	return tag + " (" + digest + ")"
}
