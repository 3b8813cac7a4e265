package identity

import "strings"

// Role is a set of roles. A rule names the set that may call; an identity has to play one of them.
type Role uint32

// The roles. Roles follow from an identity's kind, name and groups and are never in a token.
const (
	// RoleOpen needs no identity: the request carries a credential of its own, or there is nothing to protect.
	RoleOpen Role = 1 << iota
	// RoleAdmin is a user in AdminsGroup, by a token without limits. Every administrator is a user, too.
	RoleAdmin
	// RoleUser is any person, and any service account.
	RoleUser
	// RoleAgent is an agent of some cluster; which one, Cluster says.
	RoleAgent
	RoleConsole
	RoleGitcache
	RoleDistributor
	RoleTunnel

	// RoleNone is nobody.
	RoleNone Role = 0
	// RoleHub is any service of the hub.
	RoleHub = RoleConsole | RoleGitcache | RoleDistributor | RoleTunnel
	// RoleAny is everybody whose token is valid.
	RoleAny = RoleUser | RoleAgent | RoleHub
)

// String lists the roles for a person: "user or agent".
func (r Role) String() string {
	names := []struct {
		role Role
		name string
	}{
		{RoleOpen, "anybody"},
		{RoleAny, "any valid token"},
		{RoleHub, "hub service"},
		{RoleAdmin, "administrator"},
		{RoleUser, "user"},
		{RoleAgent, "agent"},
		{RoleConsole, "console"},
		{RoleGitcache, "gitcache"},
		{RoleDistributor, "distributor"},
		{RoleTunnel, "tunnel"},
	}
	var parts []string
	for _, n := range names {
		if r&n.role == n.role {
			parts = append(parts, n.name)
			r &^= n.role
		}
	}
	if len(parts) == 0 {
		return "nobody"
	}
	return strings.Join(parts, " or ")
}

// Policy says who may call which Connect procedure ("/fairlead.console.v1.SourceService/GetSource").
// A procedure that is not listed is refused.
type Policy map[string]Role
