package upstream

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// MisfitError is for a secret that is not what the source needs.
func (r Remote) MisfitError(format string, args ...any) *Error {
	return &Error{Kind: KindCredentials, Message: fmt.Sprintf("secret %q does not fit: ", r.Secret) + fmt.Sprintf(format, args...)}
}

// CheckHTTP says what of a source does not go together, before anybody is asked.
func (r Remote) CheckHTTP() error {
	c, app := r.Credentials, r.Credentials.GitHubApp
	switch {
	case r.Proxy != nil && r.URL.Scheme == "http":
		return Refusal("the source has a proxy, and http:// is for this machine only. Remove the proxy or use https://")
	case app != GitHubApp{} && (app.ID == "" || app.InstallationID == "" || app.PrivateKey == ""):
		return r.MisfitError("of githubAppID, githubAppInstallationID and githubAppPrivateKey one is missing. Add it")
	case app != GitHubApp{} && c.Password != "":
		return r.MisfitError("it has a GitHub App and also a password or token. Remove one of them")
	case c.DockerConfig != "" && c.Password == "" && !r.Registry.Is:
		return r.MisfitError("it has a .dockerconfigjson, which is for registries. Add a username and password, or a token")
	case c.Password != "" && c.Username == "":
		return r.MisfitError("it has a password without a username. Add the username, or call it token")
	case c.Password == "" && c.Username != "":
		return r.MisfitError("it has a username without a password. Add the password, or a token")
	case c.Identity != "" && c.Password == "" && app == GitHubApp{}:
		return r.MisfitError("it has an identity, which is for ssh, and the url begins with %s://. Add a username and password, or a token, or write the url as ssh://git@host/path", r.URL.Scheme)
	case r.Proxy != nil && (c.ProxyUsername == "") != (c.ProxyPassword == ""):
		return r.MisfitError("of proxyUsername and proxyPassword one is missing. Add it")
	}
	return nil
}

// RedactText takes out of what others wrote whatever of the credentials they repeat.
func (r Remote) RedactText(text string) string {
	c := r.Credentials
	for _, secret := range []string{
		BasicAuth(c.Username, c.Password), BasicAuth(c.ProxyUsername, c.ProxyPassword), c.Password, c.Passphrase, c.ProxyPassword, c.SecretKey, c.SessionToken, c.Token,
	} {
		if secret != "" {
			text = withoutEnd(strings.ReplaceAll(text, secret, "redacted"), secret)
		}
	}
	return text
}

// withoutEnd takes out the part of a secret at which a text was cut. A few letters give nothing away.
func withoutEnd(text, secret string) string {
	cut := strings.TrimSuffix(text, "...")
	for n := len(secret) - 1; n > 3; n-- {
		if whole, ok := strings.CutSuffix(cut, secret[:n]); ok {
			return whole + "redacted"
		}
	}
	return text
}

// BasicAuth is how a username and password stand in a header.
func BasicAuth(username, password string) string {
	if password == "" {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(username + ":" + password))
}

// CloudHint says what to do where the gitcache's own identity may not read something.
func (r Remote) CloudHint(what string) string {
	return fmt.Sprintf("The gitcache's own identity (auth: %s) may not read %s. Give it the right at the cloud, or name a secret instead of auth", r.Cloud, what)
}
