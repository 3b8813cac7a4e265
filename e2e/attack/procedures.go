package attack

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"fairlead.dev/e2e/attack/messages"
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

// procedures walks the descriptors of the whole API: a new procedure is in the corpus from the day on which it is in
// the protos.
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
	about, err := protojson.Marshal(messages.Victims(p.Input()))
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

// badFields has an attack for each procedure of the API: an administrator sends what no field is meant for. The part
// says what is wrong with each value and does not fail.
func badFields() (attacks []Attack) {
	for _, p := range procedures() {
		if leftAlone(p) {
			continue
		}
		attacks = append(attacks, Attack{
			Name: "bad fields for " + strings.TrimPrefix(p.path(), "/fairlead."), Part: p.part,
			Run: func(ctx context.Context, t *Try) (string, error) { return t.badFields(ctx, p) },
		})
	}
	return attacks
}

// leftAlone are procedures that do the same to the whole hub, or to the caller, whatever is in their fields.
func leftAlone(p procedure) bool {
	return p.Input().Fields().Len() == 0 || p.Parent().Name() == "AdminService" || slices.Contains([]protoreflect.Name{"Logout", "RotateSigningKey", "DrainReplica"}, p.Name())
}

func (t *Try) badFields(ctx context.Context, p procedure) (string, error) {
	token := t.world.callers.admin
	codes := map[int]int{}
	for _, f := range []messages.Filling{
		{Text: "\x00", Number: math.MaxInt64, Many: 1},
		{Text: strings.Repeat("x", 70_000), Number: math.MinInt64, Many: 1},
		{Text: "\u202e'\"\\;--%s${x}{{.}}<img>\U0010ffff\ufffe", Number: -1, Many: 2},
		{Many: 20_000},
	} {
		whole, err := proto.Marshal(f.Message(p.Input()))
		if err != nil {
			return "", err
		}
		for _, body := range [][]byte{whole, whole[:len(whole)/2], messages.NoText(p.Input())} {
			a, err := t.binary(ctx, p, token, body)
			if err != nil {
				return "", err
			}
			if codes[a.Code]++; a.Code >= http.StatusInternalServerError && a.Code != http.StatusServiceUnavailable && a.Code != http.StatusNotImplemented {
				return a.String(), fmt.Errorf("with %d items of %.20q and %d", f.Many, f.Text, f.Number)
			}
			if err := silentOf(strings.ToLower(a.Body), "sqlstate", "goroutine ", "panic:", "runtime error"); err != nil {
				return a.String(), err
			}
		}
	}
	return fmt.Sprintf("answered with %v", codes), t.untouched(ctx)
}

// binary calls a procedure of any kind with the bytes of a message.
func (t *Try) binary(ctx context.Context, p procedure, token string, body []byte) (Answer, error) {
	if p.IsStreamingServer() || p.IsStreamingClient() {
		return t.streamAs(ctx, p.part, p.path(), token, "application/connect+proto", string(body))
	}
	a, err := t.send(ctx, http.MethodPost, t.world.Hub[p.part]+p.path(), token, strings.NewReader(string(body)), "Content-Type", "application/proto")
	if errors.Is(err, context.DeadlineExceeded) {
		return Answer{Code: http.StatusGatewayTimeout}, nil
	}
	return a, err
}
