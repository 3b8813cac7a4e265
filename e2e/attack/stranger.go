package attack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	// The packages whose procedures are walked.
	_ "fairlead.dev/gen/fairlead/artifact/v1"
	_ "fairlead.dev/gen/fairlead/console/v1"
	_ "fairlead.dev/gen/fairlead/delivery/v1"
	_ "fairlead.dev/gen/fairlead/gitcache/v1"
	_ "fairlead.dev/gen/fairlead/tunnel/v1"
)

// procedure is one of the API, as the protos describe it.
type procedure struct {
	protoreflect.MethodDescriptor
	part string // that serves it
}

func (p procedure) path() string {
	return "/" + string(p.Parent().FullName()) + "/" + string(p.Name())
}

// partsOf says which part serves a package of the API. A package that is not in it fails the corpus.
func partsOf(pkg protoreflect.FullName) []string {
	switch pkg {
	case "fairlead.console.v1":
		return []string{console}
	case "fairlead.gitcache.v1":
		return []string{gitcache}
	case "fairlead.artifact.v1":
		return []string{gitcache}
	case "fairlead.delivery.v1":
		return []string{distributor}
	case "fairlead.tunnel.v1":
		return []string{tunnel}
	default:
		return nil
	}
}

// procedures walks the descriptors of the whole API: a new procedure is in the corpus from the day on which it is in the
// protos.
func procedures() (found []procedure) {
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if !strings.HasPrefix(string(file.Package()), "fairlead.") {
			return true
		}
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				parts := partsOf(file.Package())
				if parts == nil {
					parts = []string{"unknown part of " + string(file.Package())}
				}
				for _, part := range parts {
					found = append(found, procedure{methods.Get(j), part})
				}
			}
		}
		return true
	})
	slices.SortFunc(found, func(a, b procedure) int { return strings.Compare(a.path(), b.path()) })
	return found
}

// strangers has an attack for each procedure of the API: everybody calls it who has no business there.
func strangers() (attacks []Attack) {
	for _, p := range procedures() {
		attacks = append(attacks, Attack{
			Name: "strangers call " + strings.TrimPrefix(p.path(), "/fairlead."), Part: p.part,
			Run: func(ctx context.Context, t *Try) (string, error) { return t.strangers(ctx, p) },
		})
	}
	return attacks
}

// open are the procedures that take a credential of their own, or say how to get one.
func open() []string {
	return []string{"ExchangeHubSecret", "JoinCluster", "ExchangeIDToken", "ExchangeLoginLink", "GetLoginOptions", "ExchangeToken"}
}

// aboutOneself are the procedures that answer any person about themselves alone, changing nothing of others.
func aboutOneself() []string {
	return []string{"RenewToken", "GetCaller", "CheckAccess", "CreateToken", "ListTokens", "RevokeToken", "ListLogins", "EndLogin", "EndOtherLogins"}
}

// reads holds for procedures that show a caller what it may see.
func reads(name string) bool {
	for _, prefix := range []string{"Get", "List", "Watch", "Count", "Preview", "Search"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// roleMay says what a service of the hub has business at, by role: the API's own table is in each service; this one is
// written down a second time, so that a procedure which opens to a role is seen.
func roleMay(role string, p procedure) bool {
	name, service := string(p.Name()), string(p.Parent().Name())
	switch p.part {
	case console:
		switch {
		case name == "GetTrustBundle", name == "RecordAuditEvents", name == "RenewToken", name == "GetCaller", slices.Contains(open(), name):
			return true
		case service == "CatalogService":
			return true
		case service == "HeadService", name == "AccessSecret":
			return role == gitcache
		case name == "RecordTokenUses", name == "BeginRecording", name == "AppendRecording":
			return role == tunnel
		case service == "StatusService", name == "RecordDetails", name == "AccessConfigs":
			return role == distributor
		case strings.HasPrefix(name, "Get"), strings.HasPrefix(name, "List"):
			// Catalog without values of secrets.
			return !slices.Contains([]string{
				"ListTokens", "ListLogins", "GetHub", "ListAuditEvents", "GetRemovals", "ListRevisions", "ListDeployments", "ListEvents",
				"ListAccessRequests", "ListRecordings", "GetClusterView", "ListClusterViews", "ListViewRows", "GetViewCurves", "GetSink", "ListSinks", "GetAgentConfig", "ListAgentConfigs", "GetViewSet", "ListViewSets", "GetAlert", "ListAlerts", "GetBackend", "ListBackends", "GetConfigSet", "ListConfigSets", "ListConfigUsers",
			}, name)
		}
	case gitcache:
		return role == gitcache || role == distributor && service == "ArtifactService"
	case tunnel:
		return role == tunnel && name == "ListSessions"
	}
	return false
}

// agentMay says what the agent of a cluster has business at.
func agentMay(p procedure) bool {
	return p.part == distributor || p.part == tunnel && (p.Name() == "Connect" || p.Name() == "ListReplicas") ||
		p.Name() == "RenewToken" || p.Name() == "GetCaller" || p.Name() == "LeaveCluster" || slices.Contains(open(), string(p.Name()))
}

// caller is somebody without business at a procedure.
type caller struct {
	name, token string
	// may: the procedure answers, with nothing that is not the caller's.
	may bool
	// blind to these texts.
	blind []string
}

// uninvited are the callers of a procedure. The document docs/access.md says what a person with a grant sees of others.
func (t *Try) uninvited(p procedure) []caller {
	name := string(p.Name())
	person := reads(name) || slices.Contains(aboutOneself(), name) || slices.Contains(open(), name)
	// A person who sees a cluster may ask for access to it: that is no right (see askedFor).
	member := person || name == "CreateAccessRequest"
	all := t.world.planted.all()
	list := []caller{
		{"nobody", "", slices.Contains(open(), name), all},
		{"a person without a grant", t.world.callers.stranger, person, all},
		{"a viewer of another project", t.world.callers.viewer, member, []string{t.world.planted.secret, t.world.planted.config, t.world.planted.object}},
		{"a deployer of another project", t.world.callers.deployer, member, []string{t.world.planted.secret, t.world.planted.config, t.world.planted.object}},
		{"the agent of another cluster", t.world.evil.token, agentMay(p), all},
	}
	for role, token := range t.world.callers.services {
		list = append(list, caller{"the service " + role, token, roleMay(role, p), []string{t.world.planted.secret}})
	}
	return list
}

// strangers calls one procedure as everybody, empty and about the victim's things.
func (t *Try) strangers(ctx context.Context, p procedure) (string, error) {
	if _, ok := t.world.Hub[p.part]; !ok {
		return "", fmt.Errorf("say in partsOf which part serves %s", p.path())
	}
	about, err := protojson.Marshal(victims(p.Input(), 0))
	if err != nil {
		return "", err
	}
	var errs []error
	var codes []string
	calls := 0
	for _, c := range t.uninvited(p) {
		if strings.HasPrefix(c.name, "the service") && c.may {
			continue // its own door: what it sends there is tried by attacks of their own
		}
		seen := map[int]bool{}
		for _, message := range []string{"{}", string(about)} {
			if p.Name() == "Logout" && strings.HasPrefix(c.name, "a ") {
				continue // the caller's own login, which other attacks need
			}
			if message == "{}" && (p.Name() == "LeaveCluster" || p.Name() == "Apply") {
				continue // an agent may take its own cluster away, and anybody may apply nothing
			}
			calls++
			a, err := t.any(ctx, p, c.token, message)
			if err != nil {
				return "", fmt.Errorf("%s with %s: %w", c.name, message, err)
			}
			seen[a.Code] = true
			err = c.judge(a)
			if message != "{}" && a.Code == http.StatusBadRequest && strings.HasPrefix(c.name, "a ") && !slices.Contains(open(), string(p.Name())) {
				err = errors.Join(err, errors.New("the request tries nothing: say in textOf what its fields take"))
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s with %s: %w: %s", c.name, message, err, a))
			}
		}
		for code := range seen {
			codes = append(codes, fmt.Sprint(code))
		}
	}
	slices.Sort(codes)
	if err := t.untouched(ctx); err != nil {
		errs = append(errs, err)
	}
	return fmt.Sprintf("%d calls, answered with %s", calls, strings.Join(slices.Compact(codes), ", ")), errors.Join(errs...)
}

// judge fails for an answer that tells too much or did something.
func (c caller) judge(a Answer) error {
	if err := silentOf(a.Body, c.blind...); err != nil {
		return err
	}
	switch {
	case a.Code >= http.StatusInternalServerError && a.Code != http.StatusServiceUnavailable:
		return errors.New("the part failed")
	case a.Code == http.StatusOK && !c.may:
		return errors.New("it was served")
	case c.may:
		return nil
	case c.token == "" && a.Code != http.StatusUnauthorized:
		return errors.New("nobody is asked for a token")
	case a.Code == http.StatusForbidden, a.Code == http.StatusUnauthorized, a.Code == http.StatusNotFound:
		return nil
	case a.Code == http.StatusBadRequest && !strings.HasPrefix(c.name, "a "):
		return errors.New("the message was looked at before the caller")
	}
	return nil
}

// any calls a procedure of any kind.
func (t *Try) any(ctx context.Context, p procedure, token, message string) (Answer, error) {
	if p.IsStreamingServer() || p.IsStreamingClient() {
		return t.stream(ctx, p.part, p.path(), token, message)
	}
	return t.call(ctx, p.part, p.path(), token, message)
}

// untouched fails if something of the victim's has changed.
func (t *Try) untouched(ctx context.Context) error {
	now, err := t.world.victimsRevisions(ctx)
	if err != nil {
		return err
	}
	if now != t.world.before {
		return fmt.Errorf("what is the victim's has changed:\n%s\nwas\n%s", now, t.world.before)
	}
	return nil
}

// victims is a message about the victim's things: names where the fields are names, and something that passes where not.
func victims(d protoreflect.MessageDescriptor, depth int) *dynamicpb.Message {
	const deepest = 4
	m := dynamicpb.NewMessage(d)
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		if one := f.ContainingOneof(); one != nil && one.Fields().Get(0) != f || f.IsMap() || leftOut(f) {
			continue
		}
		var value protoreflect.Value
		switch f.Kind() {
		case protoreflect.StringKind:
			text := textOf(f)
			if text == "" {
				continue
			}
			value = protoreflect.ValueOfString(text)
		case protoreflect.MessageKind:
			if f.Name() == "duration" {
				lasts := dynamicpb.NewMessage(f.Message())
				lasts.Set(f.Message().Fields().ByName("seconds"), protoreflect.ValueOfInt64(3600))
				m.Set(f, protoreflect.ValueOfMessage(lasts))
				continue
			}
			if depth == deepest || strings.HasPrefix(string(f.Message().FullName()), "google.") || f.Name() == "status" {
				continue
			}
			value = protoreflect.ValueOfMessage(victims(f.Message(), depth+1))
		case protoreflect.EnumKind:
			kind := f.Enum().Values().ByName("KIND_SERVICE")
			if kind == nil || f.IsList() {
				continue
			}
			value = protoreflect.ValueOfEnum(kind.Number())
		default:
			continue
		}
		if f.Name() == "template" { // which goes to the clusters of the selector
			spec := value.Message()
			spec.Clear(spec.Descriptor().Fields().ByName("cluster"))
		}
		if !f.IsList() {
			m.Set(f, value)
			continue
		}
		if f.Kind() == protoreflect.MessageKind || f.Name() == "names" {
			m.Mutable(f).List().Append(value)
		}
	}
	return m
}

// leftOut are fields that can't stand beside the others of their message, or take more than names.
func leftOut(f protoreflect.FieldDescriptor) bool {
	if m := f.Message(); m != nil && m.FullName() == "fairlead.delivery.v1.SyncWindow" {
		return true // a schedule, an action and a duration belong together
	}
	switch f.FullName().Parent() {
	case "fairlead.console.v1.SourceSpec":
		return f.Name() != "git"
	case "fairlead.console.v1.RoleSpec":
		return f.Name() == "rules"
	case "fairlead.console.v1.ServiceSpec":
		return slices.Contains([]protoreflect.Name{"chart", "version", "render", "sync", "service_account", "tests", "test_request"}, f.Name())
	case "fairlead.console.v1.GlobalServiceSpec":
		return f.Name() == "overrides"
	case "fairlead.console.v1.GitSource":
		return f.Name() == "verification"
	case "fairlead.console.v1.RenewTokenRequest", "fairlead.console.v1.JoinClusterRequest":
		return f.Name() == "key"
	default:
		return false
	}
}

// textOf is what a field of text says about the victim's things; empty: nothing.
func textOf(f protoreflect.FieldDescriptor) string {
	if parent := f.FullName().Parent().Name(); f.Name() == "kind" && (parent == "FreezeRequest" || parent == "UnfreezeRequest") {
		return "project"
	}
	if f.FullName() == "fairlead.console.v1.SearchRequest.text" {
		return "victim"
	}
	switch f.Name() {
	case "name", "service", "global_service", "secret", "path", "namespace", "service_account":
		return "victim"
	case "cluster", "names":
		return "a"
	case "verb":
		return "view"
	case "section":
		return "pods"
	case "source":
		return "sample"
	case "ref", "revision":
		return "main"
	case "user", "subject":
		return "user:ada"
	case "role":
		return "admin"
	case "reason", "guard", "id", "confirmation":
		return "x"
	case "hub_secret", "join_token", "link", "id_token", "token":
		return "xxxxxxxxxxxxxxxxxxxx"
	case "url":
		return "https://git.example.com/x.git"
	default:
		return ""
	}
}
