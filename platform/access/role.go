package access

import (
	"fmt"
	"slices"
	"strings"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// builtin are the roles that are always there, the least first: each has, besides its own rules, those of all before
// it. At the Kubernetes APIs each has one class more than the one before (see kubehttp.Class).
var builtin = []struct { //nolint:gochecknoglobals // a constant
	name, description string
	rules             []rule
}{
	{"viewer", "Sees everything but secrets.", []rule{{[]Verb{View}, []string{Source, Project, Cluster, Service, GlobalService, ConfigSet, Backend, Sink, AgentConfig, ViewSet, Alert, Role}}}},
	{"deployer", "Besides: creates, changes, syncs, holds, pins and rolls back services.", []rule{{[]Verb{Deploy, Edit}, []string{Service, GlobalService, ConfigSet}}, {[]Verb{Deploy}, []string{Alert}}}},
	{"operator", "Besides: deletes services, says where events are sent to, and gets into pods.", []rule{
		{[]Verb{Delete}, []string{Service, GlobalService, ConfigSet}}, {[]Verb{Edit, Delete}, []string{Sink, Alert}},
	}},
	{"admin", "Besides: clusters, how their agents are configured, what their views have besides, and secrets.", []rule{{Verbs(), []string{Cluster, AgentConfig, ViewSet, Secret}}}},
}

// rule allows verbs on kinds.
type rule struct {
	verbs []Verb
	kinds []string
}

// IsBuiltin tells whether a role is one of those that are always there.
func IsBuiltin(role string) bool { return rankOf(role) >= 0 }

// Builtin describes the roles that are always there as the catalog does its own.
func Builtin() []*consolev1.Role {
	out := make([]*consolev1.Role, len(builtin))
	var rules []*consolev1.RoleRule
	for i, role := range builtin {
		for _, own := range role.rules {
			rule := &consolev1.RoleRule{Kinds: own.kinds}
			for _, v := range own.verbs {
				rule.Verbs = append(rule.Verbs, string(v))
			}
			rules = append(rules, rule)
		}
		out[i] = &consolev1.Role{
			Metadata: &consolev1.Metadata{Name: role.name},
			Spec:     &consolev1.RoleSpec{Description: role.description, Rules: slices.Clone(rules), Kubernetes: role.name},
		}
	}
	return out
}

// isSovereign holds for kinds by which rights are given: only administrators write them, else each of their writers
// were one.
func isSovereign(kind string) bool { return kind == Grant || kind == Role || kind == ServiceAccount }

// isCommon holds for kinds that whoever has any grant may see.
func isCommon(kind string) bool {
	return kind == Source || kind == Project || kind == Role || kind == Backend
}

// CheckRule says what is wrong with a rule of a role of one's own, or nil.
func CheckRule(verbs, kinds []string) error {
	for _, kind := range kinds {
		if kind != "*" && !slices.Contains(Kinds(), kind) {
			return fmt.Errorf("%q is no kind: there are %s, and * for all but Grant, Role, ServiceAccount, Secret and Recording", kind, strings.Join(Kinds(), ", "))
		}
		if isSovereign(kind) && slices.ContainsFunc(verbs, func(v string) bool { return v != string(View) }) {
			return fmt.Errorf("%s can only be viewed by a role: writing it is for members of fairlead:admins", kind)
		}
	}
	return nil
}

// allows tells whether a role has a verb on a kind, and whether there is such a role.
func (r *Rules) allows(role string, verb Verb, kind string) (allowed, known bool) {
	if rank := rankOf(role); rank >= 0 {
		return builtinAllows(rank, verb, kind), true
	}
	own := r.role(role)
	for _, rule := range own.GetSpec().GetRules() {
		if (slices.Contains(rule.GetVerbs(), string(verb)) || slices.Contains(rule.GetVerbs(), "*")) && namesKind(rule.GetKinds(), kind) {
			return true, true
		}
	}
	return false, own != nil
}

func namesKind(kinds []string, kind string) bool {
	return slices.Contains(kinds, kind) || slices.Contains(kinds, "*") && !isSovereign(kind) && kind != Secret && kind != Recording
}

func builtinAllows(rank int, verb Verb, kind string) bool {
	for _, role := range builtin[:rank+1] {
		if slices.ContainsFunc(role.rules, func(r rule) bool { return slices.Contains(r.verbs, verb) && slices.Contains(r.kinds, kind) }) {
			return true
		}
	}
	return false
}

func rankOf(role string) int {
	for i := range builtin {
		if builtin[i].name == role {
			return i
		}
	}
	return -1
}

// rank is what a role is worth at the Kubernetes APIs, as a class; -1: nothing.
func (r *Rules) rank(role string) int {
	if rank := rankOf(role); rank >= 0 {
		return rank
	}
	return rankOf(r.role(role).GetSpec().GetKubernetes())
}

// role is one of the catalog's own, or nil.
func (r *Rules) role(name string) *consolev1.Role {
	for _, own := range r.Roles {
		if own.GetMetadata().GetName() == name {
			return own
		}
	}
	return nil
}
