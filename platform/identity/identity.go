// Package identity says who calls, and whether they may.
//
// A token is an Ed25519-signed JWT. The console signs it ([KeySet]); every other service verifies
// it offline from a trust bundle ([Bundle], [BundleVerifier]) that a [ServiceCredential] fetches and keeps on
// disk, so that tokens are verified with the console down. A [Renewer] keeps a caller's own token
// fresh.
//
// Invariants: nothing is allowed that is not listed ([Policy]); a token is worth only what its
// kind allows, whatever groups it names; a revocation is visible everywhere within 30 s, running
// streams included ([PollInterval] + [RecheckInterval] + one call's timeout).
//
// The agent links this package: it must stay free of SQL, Git and Kubernetes.
package identity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Kind says what sort of party an identity is. No kind can act as another.
type Kind string

// The kinds of identities.
const (
	KindUser    Kind = "user"
	KindAgent   Kind = "agent"
	KindService Kind = "service"
)

// Names of the hub's services, as they stand in Identity.Name.
const (
	ServiceConsole     = "console"
	ServiceGitcache    = "gitcache"
	ServiceDistributor = "distributor"
	ServiceTunnel      = "tunnel"
)

// AdminsGroup is the group that makes a user an administrator.
const AdminsGroup = "fairlead:admins"

// Lifetimes of tokens. All of them are renewed at a third of their life.
const (
	UserLifetime    = 12 * time.Hour
	ServiceLifetime = 24 * time.Hour
	AgentLifetime   = 7 * 24 * time.Hour
	// SessionLifetime is that of the token of a session in a browser, and so how long the session lasts when no page
	// renews it.
	SessionLifetime = time.Hour
	// MaxLifetime bounds every token, and with it how long a revocation has to be remembered.
	MaxLifetime = AgentLifetime
)

const (
	// MaxNameBytes bounds names and group names: the longest name that Kubernetes accepts.
	MaxNameBytes = 253
	// MaxGroups bounds the groups of one identity, so that a token fits into a header.
	MaxGroups = 64
)

// Identity is who a verified token speaks for.
type Identity struct {
	Kind Kind
	// Name of the user, the cluster (of an agent) or the service.
	Name string
	// Groups of a user.
	Groups []string

	// The token the identity was read from. Filled in by Sign, Renew and Verify.
	TokenID string
	// BeganAt is when the first token of its line was issued; the others are renewals.
	BeganAt   time.Time
	IssuedAt  time.Time
	ExpiresAt time.Time
	// Final says that the token can't be renewed: it was made to be handed on.
	Final bool
	// Lent says that the token was made of another one, or for somebody else, to be handed on for a while, or that a
	// session was begun with such a token. See MayMake.
	Lent bool
	// Parent is, of a session in a browser, the token that it was begun with; of a token that an API token was
	// exchanged for, the API token; of a renewed token of an agent, the first of its line. A revocation of the parent
	// ends this token, too.
	Parent string
	// Until is when a session in a browser ends for good, however often it is renewed. Zero: this is no such session.
	Until time.Time
	// RequestsUntil is, of a token that was lent to its own owner, when the token that it was lent from ends: requests
	// that begin with the lent token run until then. Zero: they end with their token. See RequestsEnd.
	RequestsUntil time.Time
	// Limits is the most that the token may, whatever its owner may; nil: no bound. Never change what is in it.
	Limits *Limits

	// The fields below are of agents.

	// ClusterUID tells the cluster from others that had its name before or get it later; empty: the token is of before
	// there was this claim.
	ClusterUID string
	// Key is the public key that the token is bound to, in base64; empty: none. See Proofs.
	Key string
}

// Limits bounds what a token may.
type Limits struct {
	// Role is the name of a role; empty: no bound.
	Role string `json:"role,omitempty"`
	// Projects whose resources it is about; none: all.
	Projects []string `json:"projects,omitempty"`
	// Clusters that it is about; nil: all.
	Clusters *Clusters `json:"clusters,omitempty"`
}

// Clusters chooses clusters by one of these.
type Clusters struct {
	Names  []string          `json:"names,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	All    bool              `json:"all,omitempty"`
}

// serviceAccountPrefix begins the names of users that are programs. People can't have such a name: see Person.
const serviceAccountPrefix = "serviceaccount:"

// ServiceAccount is the identity of a program that the catalog has an account of. The account counts as a user, whose
// name tells it from people everywhere, the Kubernetes APIs included.
func ServiceAccount(account string) Identity {
	return Identity{Kind: KindUser, Name: serviceAccountPrefix + account}
}

// ServiceAccount is the name of the account, if this is the identity of one.
func (id Identity) ServiceAccount() (account string, ok bool) {
	if id.Kind != KindUser {
		return "", false
	}
	return strings.CutPrefix(id.Name, serviceAccountPrefix)
}

// Person is the identity of a person, or why nobody may be called so.
func Person(name string, groups []string) (Identity, error) {
	id := Identity{Kind: KindUser, Name: name, Groups: groups}
	if err := id.Validate(); err != nil {
		return Identity{}, err
	}
	if _, ok := id.ServiceAccount(); ok {
		return Identity{}, fmt.Errorf("user name: %q: names that begin with %q are of service accounts", name, serviceAccountPrefix)
	}
	return id, nil
}

// RequestsEnd is when requests end that began with the token, if it isn't revoked before. A token that was lent to its
// own owner, and the token of a session in a browser, are short so that a copy is soon worth nothing; the requests of
// its owner run on until the login ends.
func (id Identity) RequestsEnd() time.Time {
	end := id.ExpiresAt
	for _, later := range []time.Time{id.Until, id.RequestsUntil} {
		if later.After(end) {
			end = later
		}
	}
	return end
}

// Subject is how revocations and the audit trail name the identity: "agent:edge-1".
func (id Identity) Subject() string { return string(id.Kind) + ":" + id.Name }

// Validate says what keeps the identity from being signed. Names that begin with "system:" belong
// to Kubernetes: the tunnel impersonates users and groups by name, so nobody may carry one.
func (id Identity) Validate() error {
	switch id.Kind {
	case KindUser, KindAgent, KindService:
	default:
		return fmt.Errorf("identity kind %q: must be user, agent or service", id.Kind)
	}
	if err := validateName(id.Name); err != nil {
		return fmt.Errorf("%s name: %w", id.Kind, err)
	}
	if id.Kind != KindUser && (len(id.Groups) > 0 || id.Limits != nil) {
		return fmt.Errorf("%s: only users have groups and limits", id.Subject())
	}
	if id.Kind != KindAgent && (id.Key != "" || id.ClusterUID != "") {
		return fmt.Errorf("%s: only agents have keys and clusters", id.Subject())
	}
	if _, ok := decodeKey(id.Key); !ok && id.Key != "" {
		return fmt.Errorf("%s: its key is no Ed25519 key", id.Subject())
	}
	if len(id.Groups) > MaxGroups {
		return fmt.Errorf("%s: %d groups: at most %d are possible", id.Subject(), len(id.Groups), MaxGroups)
	}
	for _, g := range id.Groups {
		if err := validateName(g); err != nil {
			return fmt.Errorf("%s: group: %w", id.Subject(), err)
		}
	}
	return nil
}

func validateName(name string) error {
	switch {
	case name == "":
		return errors.New("must not be empty")
	case len(name) > MaxNameBytes:
		return fmt.Errorf("%d bytes long: at most %d are possible", len(name), MaxNameBytes)
	case !utf8.ValidString(name), strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("%q holds characters that can't be printed", name)
	case strings.HasPrefix(name, "system:"):
		return fmt.Errorf("%q: names that begin with \"system:\" are reserved by Kubernetes", name)
	}
	return nil
}

// Has tells whether the identity plays at least one of the roles.
func (id Identity) Has(r Role) bool { return id.roles()&r != 0 || r&RoleOpen != 0 }

func (id Identity) roles() Role {
	switch id.Kind {
	case KindUser:
		if slices.Contains(id.Groups, AdminsGroup) && id.Limits == nil {
			return RoleUser | RoleAdmin
		}
		return RoleUser
	case KindAgent:
		return RoleAgent
	case KindService:
		switch id.Name {
		case ServiceConsole:
			return RoleConsole
		case ServiceGitcache:
			return RoleGitcache
		case ServiceDistributor:
			return RoleDistributor
		case ServiceTunnel:
			return RoleTunnel
		}
	}
	return RoleNone
}

type contextKey struct{}

// NewContext returns a context that carries the caller's identity.
func NewContext(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, &id)
}

// FromContext returns the caller's identity, as Interceptor or Middleware put it there.
func FromContext(ctx context.Context) (Identity, bool) {
	id, ok := ctx.Value(contextKey{}).(*Identity) // which nobody changes
	if !ok {
		return Identity{}, false
	}
	return *id, true
}

// Cluster returns the cluster of the agent that calls; false for everybody else. Cluster is the only source of a
// cluster's name in an agent's API: no message names it.
func Cluster(ctx context.Context) (string, bool) {
	id, ok := FromContext(ctx)
	if !ok || id.Kind != KindAgent {
		return "", false
	}
	return id.Name, true
}
