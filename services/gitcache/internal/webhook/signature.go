package webhook

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"
)

// signatures are the headers with the HMAC-SHA256 of the body in hex: those of GitHub (which Gitea and
// Forgejo send, too), Bitbucket, Gitea and Forgejo, Gogs.
func signatures() []string {
	return []string{"X-Hub-Signature-256", "X-Hub-Signature", "X-Gitea-Signature", "X-Forgejo-Signature", "X-Gogs-Signature"}
}

// claims tells whether there is any proof. A request without a proof is not read.
func claims(header http.Header) bool {
	for _, name := range append(signatures(), "X-Gitlab-Token", "Authorization") {
		if header.Get(name) != "" {
			return true
		}
	}
	return false
}

// authentic tells whether one of the proofs in the headers fits. All comparisons take the same time
// wherever the difference is.
func authentic(header http.Header, token, sum []byte) bool {
	good := 0
	for _, name := range signatures() {
		claimed, err := hex.DecodeString(strings.TrimPrefix(header.Get(name), "sha256="))
		if err == nil && len(claimed) == sha256.Size {
			good |= subtle.ConstantTimeCompare(claimed, sum)
		}
	}
	// GitLab sends the token itself. Hashed, its length does not show either.
	// Registries send a header of their configuration.
	for _, claimed := range []string{header.Get("X-Gitlab-Token"), strings.TrimPrefix(header.Get("Authorization"), "Bearer ")} {
		if claimed != "" {
			a, b := sha256.Sum256([]byte(claimed)), sha256.Sum256(token)
			good |= subtle.ConstantTimeCompare(a[:], b[:])
		}
	}
	return good == 1
}

// isPing knows the events by which hosts try a webhook out.
func isPing(header http.Header) bool {
	return header.Get("X-Github-Event") == "ping" || header.Get("X-Event-Key") == "diagnostics:ping"
}
