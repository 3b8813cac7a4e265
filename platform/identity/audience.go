package identity

import (
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"fairlead.dev/platform/hubsecret"
)

// AudienceHeader says for whom a service's token was sent: "<service>[/<replica>] <MAC>", the MAC over token and
// audience by a key that is derived from the hub secret. Without it a service's token opens nothing, so that whoever
// was sent one can show it to nobody else. Services of before this header ignore it.
const AudienceHeader = "Fairlead-Audience"

// ErrAudience is ErrInvalid, too.
var ErrAudience = fmt.Errorf("%w: it was not sent for this service", ErrInvalid)

// A HeaderSource is a TokenSource whose tokens go with another header.
type HeaderSource interface {
	TokenSource
	// SetHeader adds the header for the token that was given for the same context.
	SetHeader(ctx context.Context, token string, header http.Header) error
}

// SendTo returns a source of the service's own tokens for calls of one service of the hub. ForReplica names the
// replica.
func SendTo(service string, tokens TokenSource, secret *hubsecret.File) HeaderSource {
	return &sending{tokens, service, secret}
}

type replicaKey struct{}

// ForReplica returns a context whose calls are for one replica of the service and no other one.
func ForReplica(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, replicaKey{}, id)
}

type sending struct {
	TokenSource

	service string
	secret  *hubsecret.File
}

// SetHeader implements HeaderSource. A MAC costs a microsecond, and a service calls others seldom: none is kept.
func (s *sending) SetHeader(ctx context.Context, token string, header http.Header) error {
	replica, _ := ctx.Value(replicaKey{}).(string)
	audience := audienceOf(s.service, replica)
	mac, err := s.secret.Sign(hubsecret.Audiences, boundTo(audience, token))
	if err != nil {
		return fmt.Errorf("bind token to its audience: %w", err)
	}
	header.Set(AudienceHeader, audience+" "+base64.RawURLEncoding.EncodeToString(mac))
	return nil
}

// audienceOf has no space: a replica's name may.
func audienceOf(service, replica string) string {
	if replica == "" {
		return service
	}
	return service + "/" + url.PathEscape(replica)
}

// boundTo has a form of its own for each pair: neither has a NUL.
func boundTo(audience, token string) []byte { return []byte(audience + "\x00" + token) }

// AudienceVerifier is a Verifier that accepts tokens of the hub's services only with an AudienceHeader.
type AudienceVerifier interface {
	Verifier
	VerifyAudience(token string, header http.Header) error
}

// Audience is what a service asks of the tokens of other services.
type Audience struct {
	Service string
	// Replica is this one's name, for calls that are meant for one; empty: calls name none.
	Replica string
	Secret  *hubsecret.File
	// Unbound accepts tokens without the header, for one upgrade. A wrong one is never accepted.
	Unbound bool
}

// VerifyAudience tells why a service's token is not for this service, or nil.
func (a *Audience) VerifyAudience(token string, header http.Header) error {
	values := header.Values(AudienceHeader)
	if len(values) == 0 && a.Unbound {
		return nil
	}
	if len(values) != 1 {
		return ErrAudience
	}
	audience, text, _ := strings.Cut(values[0], " ")
	if audience != a.Service && (a.Replica == "" || audience != audienceOf(a.Service, a.Replica)) {
		return ErrAudience
	}
	mac, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return ErrAudience
	}
	ok, err := a.Secret.Verify(hubsecret.Audiences, boundTo(audience, token), mac)
	if err != nil || !ok {
		return errors.Join(ErrAudience, err)
	}
	return nil
}

// AcceptsUnsigned is what a service says of itself while it accepts what older versions write and send.
const AcceptsUnsigned = "members that are not signed, tokens that are for no service in particular and agents without a key are accepted (--unsigned-members=accept): " +
	"whoever can write to Redis can have tokens sent to them, and a copy of such an agent's token works. Remove it once all services of the hub and all agents run this version"

// Unsigned is the switch for one upgrade from versions whose services did not sign what they write to Redis, whose
// tokens were for every service, and whose agents had no key. The zero value refuses both.
type Unsigned string

// The positions of the switch.
const (
	UnsignedAccept Unsigned = "accept"
	UnsignedRefuse Unsigned = "refuse"
)

// RegisterFlags adds --unsigned-members.
func (u *Unsigned) RegisterFlags(fs *flag.FlagSet) {
	fs.Func("unsigned-members", "refuse or accept, as `word`: what becomes of members in Redis that are not signed, of services' tokens that are not bound to this service and of agents' tokens that are bound to no key, as older versions write and send them; accept is for the time of one upgrade; default: refuse", func(s string) error {
		switch *u = Unsigned(s); *u {
		case UnsignedAccept, UnsignedRefuse:
			return nil
		}
		return errors.New("must be refuse or accept")
	})
}

// Accepted tells whether the switch is on.
func (u Unsigned) Accepted() bool { return u == UnsignedAccept }
