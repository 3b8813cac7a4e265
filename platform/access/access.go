// Package access decides who may do what, by the catalog's grants and roles, from memory. The console asks about
// resources of the catalog, a tunnel about the Kubernetes APIs of clusters.
//
// A grant gives a role to subjects at clusters. With projects it is about the resources of these projects at these
// clusters and nothing else; without, about all resources at its clusters and about their Kubernetes APIs. A resource
// of no cluster (a configuration set, a global service, a secret) needs a grant at all clusters, for it is felt at all.
// A request that no grant allows is refused, reading, too. Members of fairlead:admins may all. A token's limits are the
// most that it may, whoever has it. A grant whose time is over allows nothing, from that moment on.
package access

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/kind"
	"fairlead.dev/platform/mux/kubehttp"
)

// Verb is what somebody wants to do with a resource.
type Verb string

// The verbs.
const (
	View   Verb = "view"
	Deploy Verb = "deploy" // sync, hold, resume, pin, roll back
	Edit   Verb = "edit"   // create and change
	Delete Verb = "delete"
)

// Verbs are those of the catalog.
func Verbs() []Verb { return []Verb{View, Deploy, Edit, Delete} }

// Kinds of resources as they stand in YAML.
const (
	Source         = "Source"
	Project        = "Project"
	Cluster        = "Cluster"
	Service        = "Service"
	GlobalService  = "GlobalService"
	ConfigSet      = "ConfigSet"
	Secret         = "Secret"
	Backend        = "Backend"
	Sink           = "Sink"
	AgentConfig    = "AgentConfig"
	ViewSet        = "ViewSet"
	Alert          = "Alert"
	Grant          = "Grant"
	Role           = "Role"
	ServiceAccount = "ServiceAccount"
	// Recording is of a shell at a cluster. A recording is no resource of the catalog: nobody writes one.
	Recording = "Recording"
)

// Kinds are all of them.
func Kinds() []string {
	var out []string
	for _, k := range kind.All() {
		out = append(out, k.Name())
	}
	return append(out, Recording)
}

// Target is a resource, as far as rights depend on it.
type Target struct {
	Kind, Name string
	// Project and Cluster that it belongs to; empty: none.
	Project, Cluster string
	// ClusterLabels are those of Cluster.
	ClusterLabels map[string]string
}

// String is for refusals: `service "web" (project "shop", cluster "edge-1")`.
func (t Target) String() string {
	text := words(t.Kind)
	if t.Name != "" {
		text += fmt.Sprintf(" %q", t.Name)
	}
	var where []string
	if t.Project != "" {
		where = append(where, fmt.Sprintf("project %q", t.Project))
	}
	if t.Cluster != "" && t.Kind != Cluster {
		where = append(where, fmt.Sprintf("cluster %q", t.Cluster))
	}
	if len(where) > 0 {
		text += " (" + strings.Join(where, ", ") + ")"
	}
	return text
}

// words are those of a kind: GlobalService is a global service.
func words(name string) string {
	var b strings.Builder
	for i, c := range name {
		if i > 0 && c >= 'A' && c <= 'Z' {
			b.WriteByte(' ')
		}
		b.WriteRune(c)
	}
	return strings.ToLower(b.String())
}

// Rules are the grants and roles of the catalog. Never change what is in them.
type Rules struct {
	Grants []*consolev1.Grant
	Roles  []*consolev1.Role
	// Now is the clock by which grants end; nil: time.Now.
	Now func() time.Time
}

// Decision is an answer and the rule behind it.
type Decision struct {
	Allowed bool
	// Rule is what allows it, such as `grant "web-team" (role deployer)`; empty if nothing does.
	Rule string
	// Reason says, of a refusal, who may not do what, what is missing, and who can help.
	Reason string
}

const adminsRule = "group " + identity.AdminsGroup

// Help ends refusals: who lacks a grant reads how to get one.
const Help = "An administrator can add one with `fairlead apply`: see `fairlead get grants`"

// needsGrant stands in a refusal before the role that is missing, and andHeld before what is held instead.
const needsGrant, andHeld = "that needs a grant with ", ", and "

// LackedGrant returns the grant that the reason of a refusal names, such as "a grant with role deployer"; empty: it names
// none. Reports hold reasons as text, with what else is wrong around them.
func LackedGrant(reason string) string {
	_, role, found := strings.Cut(reason, ": "+needsGrant)
	if !found {
		return ""
	}
	role, _, _ = strings.Cut(role, andHeld)
	return "a grant with " + role
}

// May tells whether somebody may do something with a resource. May is for users and service accounts.
func (r *Rules) May(who identity.Identity, verb Verb, at Target) Decision {
	allowed, why := r.judge(who, verb, at)
	if allowed {
		return Decision{Allowed: true, Rule: why()}
	}
	return Decision{Reason: fmt.Sprintf("%s may not %s %s: %s", Who(who), verb, at, why())}
}

// Allows is May without a word of why: a list asks it of each row.
func (r *Rules) Allows(who identity.Identity, verb Verb, at Target) bool {
	allowed, _ := r.judge(who, verb, at)
	return allowed
}

// judge decides. why returns the rule that allows it, or what a refusal says.
func (r *Rules) judge(who identity.Identity, verb Verb, at Target) (allowed bool, why func() string) {
	if who.Kind != identity.KindUser {
		return false, said("only users and service accounts have rights")
	}
	admin := slices.Contains(who.Groups, identity.AdminsGroup)
	if admin && who.Limits == nil {
		return true, said(adminsRule)
	}
	if isSovereign(at.Kind) && verb != View {
		return false, said("only members of " + identity.AdminsGroup +
			" write these, by a token without limits: ask one of them")
	}
	if why := r.beyond(who.Limits, verb, at); why != nil {
		return false, why
	}
	if admin {
		return true, said(adminsRule)
	}
	return r.granted(who, verb, at)
}

func said(text string) func() string { return func() string { return text } }

// granted looks for a grant that allows it, and else for the one that comes nearest.
func (r *Rules) granted(who identity.Identity, verb Verb, at Target) (allowed bool, why func() string) {
	var elsewhere, less *consolev1.Grant
	for _, g := range r.Grants {
		if !r.isFor(g, who) {
			continue
		}
		allows, known := r.allows(g.GetSpec().GetRole(), verb, at.Kind)
		switch {
		case !known:
			less = cmp.Or(less, g)
		case verb == View && isCommon(at.Kind):
			return true, func() string { return fmt.Sprintf("grant %q", g.GetMetadata().GetName()) }
		case !covers(g, verb, at):
			elsewhere = cmp.Or(elsewhere, g)
		case allows:
			return true, func() string {
				return fmt.Sprintf("grant %q (role %s)", g.GetMetadata().GetName(), g.GetSpec().GetRole())
			}
		default:
			less = cmp.Or(less, g)
		}
	}
	return false, func() string {
		return needsGrant + needed(verb, at.Kind) + at.scope(verb) + andHeld + r.held(less, elsewhere) + ". " + Help
	}
}

// held is what somebody has instead: a grant that gives less, or one for elsewhere.
func (r *Rules) held(less, elsewhere *consolev1.Grant) string {
	role := less.GetSpec().GetRole()
	switch {
	case less != nil && rankOf(role) < 0 && r.role(role) == nil:
		return fmt.Sprintf("grant %q gives role %q, which does not exist", less.GetMetadata().GetName(), role)
	case less != nil:
		return fmt.Sprintf("grant %q gives role %s, which does not include it", less.GetMetadata().GetName(), role)
	case elsewhere != nil:
		return fmt.Sprintf("grant %q is for other projects or clusters", elsewhere.GetMetadata().GetName())
	}
	return "no grant is for this user or one of its groups"
}

// scope says what a grant has to be for, where String does not.
func (t Target) scope(verb Verb) string {
	switch {
	case t.Cluster != "" || verb == View && t.Project != "":
		return ""
	case t.Kind == Service: // one that is not there, or that nobody is told of
		return " for its project or cluster"
	}
	return " at all clusters"
}

// needed is the least of the roles that are always there which allows it.
func needed(verb Verb, kind string) string {
	for rank, role := range builtin {
		if builtinAllows(rank, verb, kind) {
			return "role " + role.name
		}
	}
	return "a role that names " + kind
}

// Any tells whether somebody has rights at all.
func (r *Rules) Any(who identity.Identity) bool {
	return who.Kind == identity.KindUser && slices.Contains(who.Groups, identity.AdminsGroup) ||
		slices.ContainsFunc(r.Grants, func(g *consolev1.Grant) bool { return r.isFor(g, who) })
}

// Of returns the grants that are for somebody.
func (r *Rules) Of(who identity.Identity) []*consolev1.Grant {
	var out []*consolev1.Grant
	for _, g := range r.Grants {
		if r.isFor(g, who) {
			out = append(out, g)
		}
	}
	return out
}

// beyond says why a token's limits refuse something; nil: they don't.
func (r *Rules) beyond(limits *identity.Limits, verb Verb, at Target) (why func() string) {
	if limits == nil {
		return nil
	}
	if limits.Role != "" {
		if allows, _ := r.allows(limits.Role, verb, at.Kind); !allows && (verb != View || !isCommon(at.Kind)) {
			return func() string { return fmt.Sprintf("the token is limited to role %q", limits.Role) }
		}
	}
	if verb == View && isCommon(at.Kind) {
		return nil
	}
	if len(limits.Projects) > 0 && (!slices.Contains(limits.Projects, at.Project) || at.isBound(verb)) && (verb != View || at.Kind != Cluster) {
		return func() string { return "the token is limited to projects " + strings.Join(limits.Projects, ", ") }
	}
	if limits.Clusters != nil && !inSelector(limits.Clusters, verb, at) {
		return said("the token is limited to other clusters")
	}
	return nil
}

func inSelector(s *identity.Clusters, verb Verb, at Target) bool {
	if at.Cluster == "" {
		return s.All || verb == View && at.Project != ""
	}
	return s.All || matches(s.Names, s.Labels, at.Cluster, at.ClusterLabels)
}

// isBound holds for changes of a project: it bounds what is in it, so rights within it are none over it.
func (t Target) isBound(verb Verb) bool { return t.Kind == Project && verb != View }

// covers tells whether a resource is in a grant's scope.
func covers(g *consolev1.Grant, verb Verb, at Target) bool {
	clusters, projects := g.GetSpec().GetClusters(), g.GetSpec().GetProjects()
	inProject := slices.Contains(projects, at.Project) && !at.isBound(verb)
	// A subject that may see something in a cluster sees the cluster.
	if len(projects) > 0 && !inProject && (at.Kind != Cluster || verb != View) {
		return false
	}
	switch {
	case clusters.GetAll():
		return true
	case at.Cluster != "":
		return matches(clusters.GetNames(), clusters.GetLabels(), at.Cluster, at.ClusterLabels)
	default:
		return verb == View && inProject
	}
}

func matches(names []string, labels map[string]string, cluster string, has map[string]string) bool {
	if slices.Contains(names, cluster) {
		return true
	}
	for key, value := range labels {
		if is, ok := has[key]; !ok || is != value {
			return false
		}
	}
	return len(labels) > 0
}

// isFor tells whether a grant is for somebody now.
func (r *Rules) isFor(g *consolev1.Grant, who identity.Identity) bool {
	return isFor(g, who) && (g.GetSpec().GetUntilTime() == nil || g.GetSpec().GetUntilTime().AsTime().After(r.now()))
}

func (r *Rules) now() time.Time {
	if r.Now == nil {
		return time.Now()
	}
	return r.Now()
}

func isFor(g *consolev1.Grant, who identity.Identity) bool {
	if who.Kind != identity.KindUser { // a cluster or a service may have a person's name
		return false
	}
	account, isAccount := who.ServiceAccount()
	for _, s := range g.GetSpec().GetSubjects() {
		switch subject := s.GetSubject().(type) {
		case *consolev1.GrantSubject_User:
			if !isAccount && subject.User == who.Name {
				return true
			}
		case *consolev1.GrantSubject_Group:
			if slices.Contains(who.Groups, subject.Group) {
				return true
			}
		case *consolev1.GrantSubject_ServiceAccount:
			if isAccount && subject.ServiceAccount == account {
				return true
			}
		}
	}
	return false
}

// Who is how a refusal calls somebody.
func Who(who identity.Identity) string {
	if account, ok := who.ServiceAccount(); ok {
		return fmt.Sprintf("service account %q", account)
	}
	return fmt.Sprintf("%s %q", who.Kind, who.Name)
}

// AtCluster tells whether somebody may do something at the Kubernetes API of a cluster. The cluster's own RBAC holds
// besides: this is about who comes through at all.
func (r *Rules) AtCluster(who identity.Identity, class kubehttp.Class, cluster *consolev1.Cluster) Decision {
	at := cluster.GetMetadata().GetName()
	deny := func(why string) Decision {
		return Decision{Reason: fmt.Sprintf("cluster %q: %s may not %s here: %s", at, Who(who), class, why)}
	}
	if who.Kind != identity.KindUser {
		return deny("only users and service accounts have rights")
	}
	if why := r.beyondAt(who.Limits, class, cluster); why != "" {
		return deny(why)
	}
	if slices.Contains(who.Groups, identity.AdminsGroup) {
		return Decision{Allowed: true, Rule: adminsRule}
	}
	has, by := -1, ""
	for _, g := range r.Grants {
		rank := r.rank(g.GetSpec().GetRole())
		here := isAt(g, cluster)
		if rank <= has || !here || len(g.GetSpec().GetProjects()) > 0 || !r.isFor(g, who) {
			continue
		}
		if rank >= int(class) {
			return Decision{Allowed: true, Rule: fmt.Sprintf("grant %q (role %s)", g.GetMetadata().GetName(), g.GetSpec().GetRole())}
		}
		has, by = rank, g.GetMetadata().GetName()
	}
	held := "no grant for this cluster is for this user or one of its groups"
	if has >= 0 {
		held = fmt.Sprintf("grant %q gives no more than role %s", by, builtin[has].name)
	}
	return deny(fmt.Sprintf(needsGrant+"role %s"+andHeld+"%s. %s", builtin[min(int(class), len(builtin)-1)].name, held, Help))
}

func (r *Rules) beyondAt(limits *identity.Limits, class kubehttp.Class, cluster *consolev1.Cluster) string {
	switch {
	case limits == nil:
		return ""
	case limits.Role != "" && r.rank(limits.Role) < int(class):
		return fmt.Sprintf("the token is limited to role %q", limits.Role)
	case len(limits.Projects) > 0:
		return "the token is limited to projects, and these have no Kubernetes API"
	case limits.Clusters != nil && !limits.Clusters.All &&
		!matches(limits.Clusters.Names, limits.Clusters.Labels, cluster.GetMetadata().GetName(), cluster.GetMetadata().GetLabels()):
		return "the token is limited to other clusters"
	}
	return ""
}

// Class is what a verb at a Kubernetes API stands for: read, write, exec or secrets.
func Class(verb string) (class kubehttp.Class, ok bool) {
	i := slices.Index([]string{kubehttp.Read: "read", kubehttp.Write: "write", kubehttp.Exec: "exec", kubehttp.Secrets: "secrets"}, verb)
	return kubehttp.Class(i), i >= 0
}

// Beyond names a grant of one that gives more than any single grant of another; empty: there is none, and whatever the
// one may, the other may, too.
func (r *Rules) Beyond(other, one identity.Identity) string {
	held := lasting(r.Of(other))
	for _, g := range r.Of(one) {
		if !slices.ContainsFunc(held, func(h *consolev1.Grant) bool { return includes(h.GetSpec(), g.GetSpec()) }) {
			return g.GetMetadata().GetName()
		}
	}
	return ""
}

// includes tells whether a grant gives all that another one does.
func includes(all, some *consolev1.GrantSpec) bool {
	if all.GetRole() != some.GetRole() && (rankOf(some.GetRole()) < 0 || rankOf(all.GetRole()) < rankOf(some.GetRole())) {
		return false
	}
	if projects := all.GetProjects(); len(projects) > 0 {
		if len(some.GetProjects()) == 0 || slices.ContainsFunc(some.GetProjects(), func(p string) bool { return !slices.Contains(projects, p) }) {
			return false
		}
	}
	at, of := all.GetClusters(), some.GetClusters()
	switch {
	case at.GetAll():
		return true
	case len(of.GetNames()) > 0:
		return !slices.ContainsFunc(of.GetNames(), func(c string) bool { return !slices.Contains(at.GetNames(), c) })
	case len(of.GetLabels()) > 0:
		return len(at.GetLabels()) > 0 && matches(nil, at.GetLabels(), "", of.GetLabels())
	}
	return false
}
