package gitssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// unreadable is an answer that came and can't be read.
type unreadable struct{ error }

func (u unreadable) Unwrap() error { return u.error }

func isContent(err error) bool {
	_, no := errors.AsType[gitwire.Unfit](err)
	_, broken := errors.AsType[unreadable](err)
	return no || broken
}

// clientConfig of a connection for one login.
func (l *login) clientConfig(r upstream.Remote, address string) *ssh.ClientConfig {
	algorithms := l.algorithms
	if len(algorithms) == 0 {
		algorithms = anyAlgorithms()
	}
	return &ssh.ClientConfig{
		User: r.URL.User.Username(), Auth: []ssh.AuthMethod{ssh.PublicKeys(l.signer)}, ClientVersion: "SSH-2.0-Fairlead",
		HostKeyAlgorithms: algorithms,
		HostKeyCallback: func(_ string, remote net.Addr, key ssh.PublicKey) error {
			if err := l.known(address, remote, key); err != nil {
				return l.hostKeyError(r, address, key, err)
			}
			return nil
		},
	}
}

// hostKeyError says why a host is not taken for what it says it is.
func (l *login) hostKeyError(r upstream.Remote, address string, key ssh.PublicKey, err error) *upstream.Error {
	var mismatch *knownhosts.KeyError
	var revoked *knownhosts.RevokedError
	host, shown := r.URL.Host, keyFingerprint(key)
	switch {
	case errors.As(err, &revoked):
		return upstream.Refusal("%s shows host key %s, which known_hosts in secret %q says is revoked. Nothing was sent. Ask the host's operator", host, shown, r.Secret)
	case errors.As(err, &mismatch) && len(mismatch.Want) > 0:
		pinned := make([]string, 0, len(mismatch.Want))
		for _, k := range mismatch.Want {
			pinned = append(pinned, keyFingerprint(k.Key))
		}
		return upstream.Refusal("the host key of %s is not the known one: it shows %s, and known_hosts in secret %q has %s. "+
			"Nothing was sent: somebody may be in between. If the host's operator says that the key was changed, put the new line into known_hosts: %s",
			host, shown, r.Secret, strings.Join(pinned, ", "), knownhosts.Line([]string{address}, key))
	case errors.As(err, &mismatch):
		return upstream.Refusal("known_hosts in secret %q has no key of %s, which shows %s. Nothing was sent. Compare that with what the host's operator publishes, then add the line: %s",
			r.Secret, host, shown, knownhosts.Line([]string{address}, key))
	}
	return upstream.Refusal("%s shows a host key or certificate that can't be trusted: %s. Nothing was sent. Ask the host's operator", host, upstream.CleanLine(err.Error()))
}

// keyFingerprint of a key as ssh-keygen -l shows it.
func keyFingerprint(key ssh.PublicKey) string {
	if c, ok := key.(*ssh.Certificate); ok {
		return keyFingerprint(c.Key) + " (certified by " + ssh.FingerprintSHA256(c.SignatureKey) + ")"
	}
	return key.Type() + " " + ssh.FingerprintSHA256(key)
}

// handshakeError is for a connection that got no further.
func handshakeError(ctx context.Context, r upstream.Remote, l *login, err error) error {
	if known, ok := errors.AsType[*upstream.Error](err); ok {
		return known
	}
	var none *ssh.AlgorithmNegotiationError
	var timeout net.Error
	switch {
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return err
	case errors.As(err, &none) && none.What == "host key" && len(l.algorithms) > 0:
		return upstream.Refusal("the host key of %s is not the known one: known_hosts in secret %q has %s, and it shows only %s. Nothing was sent: somebody may be in between. If the host's operator says that the key was changed, put the output of %q into known_hosts",
			r.URL.Host, r.Secret, strings.Join(l.algorithms, ", "), upstream.CleanLine(strings.Join(none.RequestedAlgorithms, ", ")), keyscanCommand(r))
	case errors.As(err, &none):
		return &upstream.Error{Kind: upstream.KindRefused, Cause: err, Message: fmt.Sprintf(
			"%s and Fairlead have no %s in common: it offers only %s. Update the host's ssh server", r.URL.Host,
			upstream.CleanLine(none.What), upstream.CleanLine(strings.Join(none.RequestedAlgorithms, ", ")))}
	case strings.Contains(err.Error(), "unable to authenticate"):
		return &upstream.Error{Kind: upstream.KindCredentials, Cause: err, Message: fmt.Sprintf(
			"%s lets %s in with no key like the one in secret %q (%s). Add its public key there as a deploy key, or correct the identity",
			r.URL.Host, r.URL.User.Username(), r.Secret, keyFingerprint(l.signer.PublicKey()))}
	}
	why := upstream.CleanLine(strings.TrimPrefix(err.Error(), "ssh: handshake failed: "))
	if errors.Is(err, io.EOF) {
		why = "it ends the connection"
	}
	return &upstream.Error{Kind: upstream.KindUnreachable, Cause: err, Message: fmt.Sprintf(
		"%s does not go through with the ssh handshake: %s. Check the url's port, and that the host lets the hub in", r.URL.Host, why)}
}

// saidError sorts what a host said instead of serving.
func (c *sshCommand) saidError(said string) *upstream.Error {
	e := &upstream.Error{Kind: upstream.KindServer}
	host, low := c.remote.URL.Host, strings.ToLower(said)
	switch {
	case containsAny(low, "not found", "does not exist", "no such", "does not appear to be a git repository", "not a git repository", "could not be found"):
		e.Kind = upstream.KindNotFound
		e.Message = fmt.Sprintf("repository %s not found. %s says: %s. Check the source's url, and that the key in secret %q may read it (%s)",
			upstream.ShowURL(c.remote.URL), host, upstream.TrimStop(said), c.remote.Secret, keyFingerprint(c.signer.PublicKey()))
	case containsAny(low, "denied", "not allowed", "access rights", "unauthorized", "forbidden", "not authorized", "expired"):
		e.Kind = upstream.KindCredentials
		e.Message = fmt.Sprintf("%s does not let the key in secret %q read %s. It says: %s. Add the public key (%s) there as a deploy key",
			host, c.remote.Secret, upstream.ShowURL(c.remote.URL), upstream.TrimStop(said), keyFingerprint(c.signer.PublicKey()))
	case containsAny(low, "too many", "rate limit", "try again later"):
		e.Kind = upstream.KindThrottled
		e.Message = fmt.Sprintf("%s says: %s. Fairlead asks again later; a longer interval helps", host, upstream.TrimStop(said))
	default:
		e.Message = fmt.Sprintf("%s did not serve %s. It says: %s. Fairlead asks again later", host, upstream.ShowURL(c.remote.URL), upstream.TrimStop(said))
	}
	return e
}

func containsAny(s string, parts ...string) bool {
	for _, p := range parts {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}
