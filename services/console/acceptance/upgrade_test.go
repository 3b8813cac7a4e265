package acceptance

import (
	"bytes"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/kind"
)

// frozenEvent begins a row with an event, up to the time that consoles delete old ones by, in microseconds.
var frozenEvent = regexp.MustCompile(`(INSERT INTO (?:events|audit) .* VALUES \(\d+, '\w+', )(\d+)`)

// newFrozenHub returns a hub with the database and the master key of a console of commit 70da991. Its events happen as
// the test begins: consoles delete those that are a week old.
func newFrozenHub(t *testing.T) *hub {
	t.Helper()
	h := newHub(t, "sqlite:"+filepath.Join(t.TempDir(), "console.db"))
	text, err := os.ReadFile("testdata/console-70da991.sql")
	if err != nil {
		t.Fatal(err)
	}
	now := strconv.FormatInt(time.Now().UnixMicro(), 10)
	text = frozenEvent.ReplaceAll(text, []byte("${1}"+now))
	db, err := sql.Open("sqlite", strings.TrimPrefix(h.db, "sqlite:"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), string(text)); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	key := make([]byte, 32)
	for i := range key {
		key[i] = byte(i)
	}
	encoded := base64.StdEncoding.EncodeToString(key) + "\n"
	if err := os.WriteFile(filepath.Join(h.dir, "master.key"), []byte(encoded), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// written is what a person wrote of a resource, in one line; no status, and no more of the metadata than the name.
func written(t *testing.T, m kind.Message, err error) string {
	t.Helper()
	if err != nil {
		return err.Error()
	}
	name := string(m.ProtoReflect().Descriptor().Name()) + " " + m.GetMetadata().GetName()
	m = proto.CloneOf(m)
	for _, field := range []protoreflect.Name{"metadata", "status"} {
		if fd := m.ProtoReflect().Descriptor().Fields().ByName(field); fd != nil {
			m.ProtoReflect().Clear(fd)
		}
	}
	raw, err := protojson.Marshal(m)
	var line bytes.Buffer
	if err = errors.Join(err, json.Compact(&line, raw)); err != nil {
		t.Fatal(err)
	}
	return name + " " + line.String()
}

// resources are what people wrote, of each kind that there was.
func (a api) resources(t *testing.T) string {
	t.Helper()
	ctx, lines := t.Context(), []string(nil)
	show := func(m kind.Message, err error) {
		t.Helper()
		lines = append(lines, written(t, m, err))
	}
	source, err := a.sources.GetSource(ctx, &consolev1.GetSourceRequest{Name: "shop"})
	show(source.GetSource(), err)
	for _, name := range []string{"edge-1", "edge-2"} {
		cluster, err := a.clusters.GetCluster(ctx, &consolev1.GetClusterRequest{Name: name})
		show(cluster.GetCluster(), err)
	}
	for _, name := range []string{"web", "logs-edge-2"} {
		service, err := a.services.GetService(ctx, &consolev1.GetServiceRequest{Name: name})
		show(service.GetService(), err)
	}
	secret, err := a.secrets.GetSecret(ctx, &consolev1.GetSecretRequest{Name: "db"})
	show(secret.GetSecret(), err)
	grant, err := a.grants.GetGrant(ctx, &consolev1.GetGrantRequest{Name: "watch"})
	show(grant.GetGrant(), err)
	project, err := a.projects.GetProject(ctx, &consolev1.GetProjectRequest{Name: "team"})
	show(project.GetProject(), err)
	global, err := a.globals.GetGlobalService(ctx, &consolev1.GetGlobalServiceRequest{Name: "logs"})
	show(global.GetGlobalService(), err)
	set, err := a.sets.GetConfigSet(ctx, &consolev1.GetConfigSetRequest{Name: "base"})
	show(set.GetConfigSet(), err)
	backend, err := a.backends.GetBackend(ctx, &consolev1.GetBackendRequest{Name: "files"})
	show(backend.GetBackend(), err)
	role, err := a.roles.GetRole(ctx, &consolev1.GetRoleRequest{Name: "watcher"})
	show(role.GetRole(), err)
	account, err := a.accounts.GetServiceAccount(ctx, &consolev1.GetServiceAccountRequest{Name: "ci"})
	show(account.GetServiceAccount(), err)
	sink, err := a.sinks.GetSink(ctx, &consolev1.GetSinkRequest{Name: "chat"})
	show(sink.GetSink(), err)
	return strings.Join(lines, "\n") + "\n"
}

// TestDatabaseOfTheFirstReleaseIsRead opens a database that a console of commit 70da991 left, and goes on with it.
func TestDatabaseOfTheFirstReleaseIsRead(t *testing.T) {
	t.Parallel()
	h := newFrozenHub(t)
	for _, round := range []string{"at once", "after a restart"} {
		r := h.start(t)
		readFrozen(t, r, round)
		r.stop()
	}
	goOnFrozen(t, h.start(t))
}

// frozenCatalog is what people wrote, as today's API has it: secrets are never shown.
const frozenCatalog = `Source shop {"spec":{"git":{"url":"https://git.example.com/shop"}}}
Cluster edge-1 {"spec":{}}
Cluster edge-2 {"spec":{}}
Service web {"spec":{"source":"shop","path":"deploy","cluster":"edge-1",` + frozenHold + `,"configSets":["base"]},` +
	`"levers":{"mode":{"mode":"SYNC_MODE_HOLD","reason":"the shop is degraded"},` +
	`"spec":{"source":"shop","path":"deploy","cluster":"edge-1","configSets":["base"]}}}
Service logs-edge-2 {"spec":{"source":"shop","path":"logs","cluster":"edge-2"}}
Secret db {"data":{"password":""}}
Grant watch {"spec":{"subjects":[{"user":"ada"},{"group":"dev's \u0000 é"}],"role":"watcher","clusters":{"all":true}}}
Project team {"spec":{"namespaces":["shop"]}}
GlobalService logs {"spec":{"clusters":{"labels":{"env":"prod"}},"template":{"source":"shop","path":"logs"}}}
ConfigSet base {"spec":{"entries":{"host":{"text":"${service.name}.example.com"},` +
	`"key":{"ref":{"path":"db","key":"password"}},"own":{"secret":""}}}}
Backend files {"spec":{"files":{},"interval":"5s"}}
Role watcher {"spec":{"rules":[{"verbs":["view"],"kinds":["Service"]}]}}
ServiceAccount ci {"spec":{}}
Sink chat {"spec":{"webhook":{"url":"https://127.0.0.1:9/hook","key":{"secret":""}}}}
`

// frozenHold is how the service is held.
const frozenHold = `"sync":{"mode":"SYNC_MODE_HOLD","reason":"the shop is degraded"}`

// readFrozen compares all that today's console reads of the database with what was written.
func readFrozen(t *testing.T, r *running, round string) {
	t.Helper()
	admin := r.admin(t)
	expect := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s, %s is\n%s\nwant\n%s", round, what, got, want)
		}
	}
	expect("the catalog", admin.resources(t), frozenCatalog)
	service, err := admin.services.GetService(t.Context(), &consolev1.GetServiceRequest{Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	status := service.GetService().GetStatus()
	expect("the state", fmt.Sprintf("%s, revision %d; git %s; hub %s; cluster %s %s",
		status.GetState(), service.GetService().GetMetadata().GetRevision(), status.GetGit().GetRevision().GetCommit(),
		status.GetHub().GetDigest(), status.GetCluster().GetReport().GetPhase(),
		status.GetCluster().GetReport().GetAppliedDigest()),
		"SERVICE_STATE_PENDING, revision 3; git "+strings.Repeat("b", 40)+"; hub "+frozenDigest(2)+
			"; cluster PHASE_DEGRADED "+frozenDigest(2))
	expect("the configuration", admin.shown(t, "web"), `host=web.example.com of configset/base
key=*** of configset/base (secret "db")
own=*** of configset/base`)
	values := r.service(t, identity.ServiceDistributor).values(t, service.GetService().GetMetadata().GetUid(),
		status.GetConfigRevision())
	expect("what the agent gets", fmt.Sprint(values), "map[host:web.example.com key:hunter2 own:hunter3]")
	past := &past{running: r, history: r.histories(t, r.adminToken(t))}
	expect("the deployments", strings.Join(past.list(t), "\n"),
		"2 "+frozenDigest(2)+" commit degraded by Kim <kim@example.com>\n1 "+frozenDigest(1)+" spec healthy by user:ada")
	expect("the events", types(listEvents(t, r.events(t, r.adminToken(t)), "service = web")), "config.changed "+
		"service.delivered service.applied service.healthy service.delivered service.applied service.degraded")
	expect("the events of the cluster", types(listEvents(t, r.events(t, r.adminToken(t)), "type = cluster.joined")),
		"cluster.joined")
	revisions, err := past.history.ListRevisions(t.Context(), &consolev1.ListRevisionsRequest{
		Kind: consolev1.Kind_KIND_SERVICE, Name: "web",
	})
	if err != nil {
		t.Fatal(err)
	}
	var changes []string
	for _, one := range revisions.GetRevisions() {
		changes = append(changes, fmt.Sprintf("%d %s by %s", one.GetRevision(), one.GetAction(), one.GetAuthor()))
	}
	expect("the history", strings.Join(changes, "; "),
		"3 updated by user:ada; 2 updated by user:ada; 1 created by user:ada")
	trail, err := admin.audit.ListAuditEvents(t.Context(), &consolev1.ListAuditEventsRequest{
		PageSize: 100, Filter: &consolev1.AuditFilter{Action: "tunnel.request"},
	})
	if err != nil || len(trail.GetEvents()) != 1 || trail.GetEvents()[0].GetCluster() != "edge-1" {
		t.Errorf("%s, the audit trail is %v, %v", round, trail.GetEvents(), err)
	}
}

// goOnFrozen writes what comes after: a report, a delivery, a release, a rollback.
func goOnFrozen(t *testing.T, r *running) {
	t.Helper()
	p := newPast(t, r)
	p.sequence = 2 // the agent's reports go on
	if p.epoch != 2 {
		t.Errorf("the epoch behind 1 is %d", p.epoch)
	}
	if _, err := p.admin.levers.ResumeService(t.Context(), &consolev1.ResumeServiceRequest{Name: "web"}); err != nil {
		t.Error(err)
	}
	commit := strings.Repeat("c", 40)
	p.push(t, commit)
	p.deliver(t, commit, frozenDigest(3), deliveryv1.Phase_PHASE_HEALTHY)
	if got := p.list(t); len(got) != 3 || !strings.HasPrefix(got[0], "3 sha256:333") {
		t.Errorf("the deployments are %q", got)
	}
	if _, err := p.history.RollbackService(t.Context(), &consolev1.RollbackServiceRequest{
		Service: "web", Deployment: 1,
	}); err != nil {
		t.Error(err)
	}
	if got, want := p.get(t).GetSync(), strings.Repeat("a", 40); !strings.Contains(fmt.Sprint(got), want) {
		t.Errorf("after a rollback to the first deployment %v does not pin %s: %v", got, want, p.get(t))
	}
}

// frozenDigest is that of what the service's nth deployment delivered.
func frozenDigest(n int) string { return "sha256:" + strings.Repeat(strconv.Itoa(n), 64) }
