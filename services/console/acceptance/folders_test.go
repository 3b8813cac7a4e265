package acceptance

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalogyaml"
)

const declaredBy = "fairlead.dev/declared-by"

// files are those of a folder, by path.
type files map[string]string

// declare writes a service whose folder declares resources, with the rights of an account.
func declare(name, account string) *consolev1.Service {
	return &consolev1.Service{
		Metadata: meta(name),
		Spec:     &consolev1.ServiceSpec{Source: "shop", Path: name, Catalog: true, ServiceAccount: account},
	}
}

// yaml is a service of a folder.
func yaml(name, more string) string {
	return fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: %s}\nspec:\n  source: shop\n  cluster: edge-1\n%s---\n", name, more)
}

// empower makes a service account with a role.
func (p *past) empower(t *testing.T, account, role string, clusters *consolev1.GrantClusters, projects ...string) {
	t.Helper()
	p.admin.must(t, &consolev1.ServiceAccount{
		Metadata: meta(account),
	}, &consolev1.Grant{Metadata: meta(account), Spec: &consolev1.GrantSpec{
		Subjects: []*consolev1.GrantSubject{
			{Subject: &consolev1.GrantSubject_ServiceAccount{ServiceAccount: account}},
		}, Role: role, Clusters: clusters, Projects: projects,
	}})
}

func everywhere() *consolev1.GrantClusters { return &consolev1.GrantClusters{All: true} }

// told has a distributor tell what it hands out of a service, and returns what it asks with.
func (p *past) told(t *testing.T, service, digest string) *consolev1.ApplyFolderRequest {
	t.Helper()
	is := p.admin.service(t, service).GetMetadata()
	revision := &artifactv1.Revision{
		Commit: p.head, Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	p.record(t, &consolev1.RecordHubRequest{
		Services: []*consolev1.ServiceHub{
			{Service: service, Uid: is.GetUid(), Hub: &consolev1.HubTruth{Digest: digest, Revision: revision}},
		},
	})
	return &consolev1.ApplyFolderRequest{
		Service: service, Uid: is.GetUid(), ServiceRevision: is.GetRevision(), Digest: digest, Revision: revision,
	}
}

func (p *past) ask(t *testing.T, req *consolev1.ApplyFolderRequest) *consolev1.ApplyFolderResponse {
	t.Helper()
	res, err := p.distributor.status.ApplyFolder(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// bring brings a folder at a new digest, and returns how the service is then.
func (p *past) bring(t *testing.T, service, digest string, of files) (state, message string) {
	t.Helper()
	req := p.told(t, service, digest)
	if res := p.ask(t, req); !res.GetWanted() {
		t.Fatalf("%s at %s is not wanted: %v", service, digest, res)
	}
	req.Content = &consolev1.FolderContent{}
	for _, path := range slices.Sorted(maps.Keys(of)) {
		req.Content.Files = append(req.Content.Files, &consolev1.FolderFile{Path: path, Data: []byte(of[path])})
	}
	res := p.ask(t, req)
	is := p.admin.service(t, service).GetStatus()
	if failed := is.GetState() == consolev1.ServiceState_SERVICE_STATE_FAILED; res.GetWanted() ||
		!failed && !res.GetSettled() {
		t.Errorf("%s at %s: %v, and it is %v", service, digest, res, is)
	}
	return strings.TrimPrefix(is.GetState().String(), "SERVICE_STATE_"), is.GetStateMessage()
}

// healthy brings a folder that nothing is wrong with.
func (p *past) healthy(t *testing.T, service, digest string, of files) {
	t.Helper()
	if state, message := p.bring(t, service, digest, of); state != "HEALTHY" {
		t.Fatalf("%s at %s is %s: %s", service, digest, state, message)
	}
}

// there are the services that folders declare, with who does and how they are synced.
func (p *past) there(t *testing.T) string {
	t.Helper()
	resp, err := p.admin.services.ListServices(t.Context(), &consolev1.ListServicesRequest{PageSize: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range resp.GetServices() {
		if by := s.GetMetadata().GetLabels()[declaredBy]; by != "" {
			text := by + "/" + s.GetMetadata().GetName() + ":" + s.GetSpec().GetPath()
			if mode := s.GetSpec().GetSync().GetMode(); mode != 0 {
				text += "," + strings.TrimPrefix(mode.String(), "SYNC_MODE_")
			}
			out = append(out, text)
		}
	}
	return strings.Join(out, " ")
}

func (p *past) expect(t *testing.T, want string) {
	t.Helper()
	if got := p.there(t); got != want {
		t.Errorf("declared are %q, want %q", got, want)
	}
}

// A folder that a caller may not see is none to the caller, whatever it has declared.
func TestAFolderThatMayNotBeSeenLooksLikeNone(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	p := newPast(t, r)
	p.empower(t, "fleet", "operator", everywhere())
	p.admin.must(t, declare("fleet", "fleet"))
	p.push(t, commitA)
	p.healthy(t, "fleet", "d1", files{"fleet/a.yaml": yaml("a", "  path: a\n")})
	bob := r.user(t, "bob", "nobody")
	var said [2]string
	for i, name := range []string{"fleet", "nowhere"} {
		_, err := bob.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: name})
		wantCode(t, err, connect.CodeNotFound)
		said[i] = strings.ReplaceAll(err.Error(), name, "NAME")
	}
	if said[0] != said[1] {
		t.Errorf("a folder that is hidden: %s\none that is not there: %s", said[0], said[1])
	}
}

// A folder goes to the catalog as a whole, so no part of it can be synced.
func TestNoPartOfAFolderIsSynced(t *testing.T) {
	t.Parallel()
	p := newPast(t, newHub(t, "").start(t))
	p.empower(t, "fleet", "operator", everywhere())
	p.admin.must(t, declare("fleet", "fleet"))
	_, err := p.admin.levers.RequestSync(t.Context(), &consolev1.RequestSyncRequest{
		Name: "fleet", Only: []string{"Deployment/web"},
	})
	refusedWith(t, err, connect.CodeFailedPrecondition, `service "fleet" has no objects in a cluster`)
}

func TestFolderBecomesWhatTheCatalogHas(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.empower(t, "fleet", "operator", everywhere())
		p.admin.must(t, declare("fleet", "fleet"))
		p.push(t, commitA)
		p.healthy(t, "fleet", "d1", files{
			"fleet/a.yaml":     yaml("a", "  path: a\n") + yaml("b", "  path: b\n"),
			"fleet/sub/c.json": `{"apiVersion":"fairlead.dev/v1","kind":"Service","metadata":{"name":"c"},"spec":{"source":"shop","cluster":"edge-1"}}`,
		})
		p.expect(t, "fleet/a:a fleet/b:b fleet/c:")
		if is := p.admin.service(t,
			"fleet"); is.GetStatus().GetStateMessage() != commitA[:8]+
			" is applied; its 3 resources are in the catalog." {
			t.Error(is.GetStatus())
		}
		if got := p.admin.names(t, "state = healthy", ""); got != "fleet" {
			t.Errorf("healthy are %q", got)
		}
		// The write is the account's work, for the service at the commit.
		if e := p.admin.trail(t, "catalog.create",
			"a"); len(e) != 1 || e[0].GetActor().GetName() != "serviceaccount:fleet" &&
			!strings.Contains(e[0].GetActor().GetName(), "fleet") ||
			e[0].GetReason() != `for service "fleet" at `+commitA[:8] ||
			e[0].GetTraceId() != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("trail: %v", e)
		}
		// A known folder costs nothing, whoever asks.
		if res := p.ask(t, p.told(t, "fleet", "d1")); !res.GetSettled() {
			t.Errorf("again: %v", res)
		}
		before := p.admin.service(t, "a").GetMetadata().GetEtag()
		p.push(t, commitB)
		p.healthy(t, "fleet", "d2", files{"fleet/a.yaml": yaml("a", "  path: a\n") + yaml("b", "  path: b2\n")})
		p.expect(t, "fleet/a:a fleet/b:b2")
		if after := p.admin.service(t, "a").GetMetadata().GetEtag(); after != before {
			t.Errorf("what did not change was written: %s, %s", before, after)
		}
		// People hold what is declared, and change nothing else of it.
		if _, err := p.admin.levers.HoldService(t.Context(), &consolev1.HoldServiceRequest{
			Name: "a", Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD, Reason: "night",
		}); err != nil {
			t.Fatal(err)
		}
		a := p.admin.service(t, "a")
		a.Spec.Path = "elsewhere"
		_, err := p.admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{Service: a})
		wantCode(t, err, connect.CodeFailedPrecondition,
			`service "a" comes of the folder of service "fleet": change it there`)
		_, err = p.admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: "a"})
		wantCode(t, err, connect.CodeFailedPrecondition, "take it out of there")
		mine := newService("mine", "shop", "edge-1")
		mine.Metadata.Labels = map[string]string{declaredBy: "fleet"}
		wantCode(t, p.admin.tryService(t, mine), connect.CodeInvalidArgument, "the console's own")
		p.healthy(t, "fleet", "d3", files{"fleet/a.yaml": yaml("a", "  path: a3\n") + yaml("b", "  path: b2\n")})
		p.expect(t, "fleet/a:a3,HOLD fleet/b:b2")
		p.healthy(t, "fleet", "d4", files{
			"fleet/a.yaml": yaml("a", "  path: a3\n  sync: {mode: SYNC_MODE_SUSPEND}\n") + yaml("b", "  path: b2\n"),
		})
		p.expect(t, "fleet/a:a3,SUSPEND fleet/b:b2")
		p.healthy(t, "fleet", "d5", files{"fleet/a.yaml": yaml("a", "  path: a3\n") + yaml("b", "  path: b2\n")})
		p.expect(t, "fleet/a:a3 fleet/b:b2")
	})
}

// No file says a freeze, so people freeze what a folder declares, and change nothing else of it.
func TestWhatAFolderDeclaresIsFrozenByPeople(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.admin.must(t, &consolev1.Role{Metadata: meta("fleets"), Spec: &consolev1.RoleSpec{Rules: []*consolev1.RoleRule{
			{Verbs: []string{"view", "edit"}, Kinds: []string{"Cluster", "Project", "Source"}},
		}}})
		p.empower(t, "fleet", "fleets", everywhere())
		p.admin.must(t, declare("fleet", "fleet"))
		p.push(t, commitA)
		of := func(description string) files {
			return files{
				"cluster.yaml": "apiVersion: fairlead.dev/v1\nkind: Cluster\nmetadata: {name: edge-9}\nspec: {description: " +
					description + ", config: {A: {text: x}}, windows: [{action: deny, schedule: \"0 3 * * *\", duration: 1h}]}\n",
				"project.yaml": "apiVersion: fairlead.dev/v1\nkind: Project\nmetadata: {name: shop}\nspec: {description: " +
					description + ", sources: [shop], clusters: {all: true}}\n",
			}
		}
		frozen := func() [2]bool {
			t.Helper()
			project, err := p.admin.projects.GetProject(t.Context(), &consolev1.GetProjectRequest{Name: "shop"})
			if err != nil {
				t.Fatal(err)
			}
			cluster, err := p.admin.clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{Name: "edge-9"})
			if err != nil {
				t.Fatal(err)
			}
			return [2]bool{project.GetProject().GetFreeze() != nil, cluster.GetCluster().GetFreeze() != nil}
		}
		p.healthy(t, "fleet", "d1", of("one"))
		for kind, name := range map[string]string{"project": "shop", "cluster": "edge-9"} {
			if _, err := p.admin.levers.Freeze(t.Context(), &consolev1.FreezeRequest{
				Kind: kind, Name: name, Reason: "the sale",
			}); err != nil {
				t.Errorf("freeze %s: %v", kind, err)
			}
		}
		cluster, err := p.admin.clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{Name: "edge-9"})
		if err != nil {
			t.Fatal(err)
		}
		cluster.Cluster.Spec.Description = "mine"
		_, err = p.admin.clusters.UpdateCluster(t.Context(), &consolev1.UpdateClusterRequest{Cluster: cluster.GetCluster()})
		wantCode(t, err, connect.CodeFailedPrecondition,
			`cluster "edge-9" comes of the folder of service "fleet": change it there`)
		p.push(t, commitB)
		p.healthy(t, "fleet", "d2", of("two"))
		if got := frozen(); got != [2]bool{true, true} {
			t.Errorf("frozen after the next commit: %v", got)
		}
		for kind, name := range map[string]string{"project": "shop", "cluster": "edge-9"} {
			if _, err := p.admin.levers.Unfreeze(t.Context(), &consolev1.UnfreezeRequest{
				Kind: kind, Name: name,
			}); err != nil {
				t.Errorf("unfreeze %s: %v", kind, err)
			}
		}
		if got := frozen(); got != [2]bool{} {
			t.Errorf("still frozen: %v", got)
		}
	})
}

// A folder may have what `fairlead get roles -o yaml` says, and its mistakes are told where they are.
func TestFolderMayHaveTheRolesThatAreAlwaysThere(t *testing.T) {
	t.Parallel()
	p := newPast(t, newHub(t, "").start(t))
	p.empower(t, "fleet", "operator", &consolev1.GrantClusters{All: true})
	p.admin.must(t, declare("fleet", "fleet"))
	p.push(t, commitA)
	listed, err := p.admin.roles.ListRoles(t.Context(), &consolev1.ListRolesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var roles []catalogyaml.Message
	for _, role := range listed.GetRoles() {
		roles = append(roles, role)
	}
	text, err := catalogyaml.YAML(roles...)
	if err != nil {
		t.Fatal(err)
	}
	of := files{"fleet/1.yaml": string(text), "fleet/2.yaml": yaml("a", "")}
	p.healthy(t, "fleet", "d0", of)
	p.expect(t, "fleet/a:")
	of["fleet/2.yaml"] = strings.Replace(yaml("a", ""), "source: shop", "source: nowhere", 1)
	if state, message := p.bring(t, "fleet", "d1", of); state != "FAILED" || !strings.Contains(message, "fleet/2.yaml:") {
		t.Errorf("it is %s: %s", state, message)
	}
}

func TestFolderIsAppliedWholeOrNotAtAll(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.empower(t, "fleet", "operator", &consolev1.GrantClusters{All: true})
		p.admin.must(t, declare("fleet", "fleet"))
		p.push(t, commitA)
		p.healthy(t, "fleet", "d0", files{"fleet/a.yaml": yaml("a", "")})
		good := yaml("a", "  path: changed\n")
		for i, c := range []struct {
			name string
			of   files
			want []string
		}{
			{
				"unknown field",
				files{"fleet/x.yaml": good + yaml("x", "  pth: typo\n")},
				[]string{
					"fleet/x.yaml:15: service \"x\": spec.pth: unknown field", "did you mean \"path\"?",
					commitA[:8] + " stays applied",
				},
			},
			{"several at once", files{
				"fleet/a.yaml": good + yaml("x", "  pth: typo\n") +
					strings.Replace(yaml("y", ""), "edge-1", "edge-9", 1) +
					strings.Replace(yaml("z", ""), "source: shop", "source: nowhere", 1),
				"fleet/b.yaml": strings.Replace(yaml("w", ""), "edge-1", "edge-8", 1), "fleet/c.yaml": "a: [\n",
			}, []string{
				"Nothing of it was applied:\nfleet/a.yaml:15: service \"x\": spec.pth: unknown field",
				"\nfleet/c.yaml:1: not YAML: ", ".\n" + commitA[:8] + " stays applied",
			}},
			{"several files at once", files{
				"fleet/a.yaml": good + yaml("x", "  pth: typo\n") +
					strings.NewReplacer("edge-1", "edge-9", "source: shop", "source: nowhere").Replace(yaml("y", "")),
				"fleet/b.yaml": strings.Replace(yaml("w", ""), "edge-1", "edge-8", 1),
			}, []string{
				"fleet/a.yaml:15: service \"x\": spec.pth: unknown field",
				`service "y": spec.cluster: cluster "edge-9" does not exist`,
				`service "y": spec.source: source "nowhere" does not exist`,
				`fleet/b.yaml:6: service "w": spec.cluster: cluster "edge-8" does not exist`,
				".\n" + commitA[:8] + " stays applied",
			}},
			{"what is named is itself wrong", files{
				"fleet/x.yaml": good + "apiVersion: fairlead.dev/v1\nkind: GlobalService\nmetadata: {name: g}\nspec: {clusters: {all: true}, template: {source: s}}\n---\napiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: s}\nspec: {git: {url: \"https://git.example.com/s\", intervall: 1m}}\n",
			}, []string{`applied: fleet/x.yaml:17: source "s": spec.git.intervall: unknown field`}},
			{"no YAML", files{"fleet/x.yaml": "a: [\n"}, []string{"fleet/x.yaml:", "not YAML"}},
			{
				"unknown cluster",
				files{"fleet/x.yaml": good + strings.Replace(yaml("x", ""), "edge-1", "edge-9", 1)},
				[]string{`fleet/x.yaml:14: service "x": spec.cluster: cluster "edge-9" does not exist`},
			},
			{
				"Kubernetes",
				files{"fleet/x.yaml": good + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"},
				[]string{"fleet/x.yaml:10", `kind "ConfigMap"`},
			},
			{
				"twice",
				files{"fleet/x.yaml": good, "fleet/y.yaml": good},
				[]string{"fleet/y.yaml:1", "described twice", "fleet/x.yaml:1"},
			},
			{"empty", files{}, []string{"holds no resources of Fairlead: nothing is deleted"}},
			{
				"secret",
				files{
					"fleet/x.yaml": good + "apiVersion: fairlead.dev/v1\nkind: Secret\nmetadata: {name: x}\ndata: {password: planted}\n",
				},
				[]string{`secret "x"`, "no place for secrets"},
			},
			{
				"secret entry",
				files{"fleet/x.yaml": good + yaml("x", "  config: {TOKEN: {secret: planted}}\n")},
				[]string{`service "x"`, "no place for secrets"},
			},
			{
				"rights",
				files{"fleet/x.yaml": good + "apiVersion: fairlead.dev/v1\nkind: Cluster\nmetadata: {name: x}\n"},
				[]string{
					`cluster "x"`, `service account "fleet" may not edit cluster "x"`,
					`grant "fleet" gives role operator`,
				},
			},
			{
				"sovereign",
				files{
					"fleet/x.yaml": good + "apiVersion: fairlead.dev/v1\nkind: ServiceAccount\nmetadata: {name: x}\n",
				},
				[]string{"only members of fairlead:admins"},
			},
			{
				"itself",
				files{
					"fleet/x.yaml": good + strings.Replace(yaml("fleet", "  catalog: true\n  serviceAccount: fleet\n"),
						"  cluster: edge-1\n", "", 1),
				},
				[]string{`service "fleet": declares itself: take it out of its own folder. `},
			},
		} {
			state, message := p.bring(t, "fleet", fmt.Sprint("d", i+1), c.of)
			if state != "FAILED" {
				t.Errorf("%s: it is %s: %s", c.name, state, message)
			}
			for _, want := range c.want {
				if !strings.Contains(message, want) {
					t.Errorf("%s: %q does not say %q", c.name, message, want)
				}
			}
			p.expect(t, "fleet/a:")
		}
		if strings.Contains(r.logs.String(), "planted") {
			t.Error("the log has a secret")
		}
		// The missing part is there now, and the next try gets it.
		p.healthy(t, "fleet", "d99", files{"fleet/x.yaml": good})
		p.expect(t, "fleet/a:changed")
	})
}

func TestFolderOfAnOlderCommitIsNotTakenIn(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.empower(t, "fleet", "operator", everywhere())
		p.admin.must(t, declare("fleet", "fleet"))
		p.push(t, commitA)
		old := p.told(t, "fleet", "d1")
		p.push(t, commitB)
		p.healthy(t, "fleet", "d2", files{"a.yaml": yaml("a", "")})
		old.Content = &consolev1.FolderContent{
			Files: []*consolev1.FolderFile{{Path: "a.yaml", Data: []byte(yaml("old", ""))}},
		}
		if res := p.ask(t, old); res.GetSettled() || res.GetWanted() || res.GetRetryAfter().AsDuration() <= 0 {
			t.Errorf("of an older commit: %v", res)
		}
		p.expect(t, "fleet/a:")
		stale := p.told(t, "fleet", "d3")
		stale.ServiceRevision--
		stale.Content = old.GetContent()
		if res := p.ask(t, stale); res.GetSettled() {
			t.Errorf("of an older service: %v", res)
		}
		// Held, it waits for its time.
		fleet := p.admin.service(t, "fleet")
		fleet.Spec.Sync = &deliveryv1.SyncSpec{Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD, Reason: "frozen"}
		p.admin.must(t, fleet)
		if state, message := p.bring(t, "fleet", "d4", files{"a.yaml": yaml("b", "")}); state != "HELD" ||
			message != "frozen" {
			t.Errorf("held: %s, %s", state, message)
		}
		fleet.Spec.Sync.Mode = deliveryv1.SyncMode_SYNC_MODE_DRY_RUN
		fleet.Metadata.Etag = ""
		p.admin.must(t, fleet)
		if state, message := p.bring(t, "fleet", "d5", files{"a.yaml": yaml("b", "")}); state != "DIFFERS" ||
			!strings.Contains(message, "1 would be created, 1 would be deleted") {
			t.Errorf("in dry run: %s, %s", state, message)
		}
		p.expect(t, "fleet/a:")
	})
}

func TestFolderThatLosesMuchWaitsForAPerson(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.empower(t, "fleet", "operator", everywhere())
		p.admin.must(t, declare("fleet", "fleet"))
		p.push(t, commitA)
		p.healthy(t, "fleet", "d1", files{"a.yaml": yaml("a", "") + yaml("b", "") + yaml("c", "")})
		less := files{"a.yaml": yaml("a", "  path: new\n")}
		state, message := p.bring(t, "fleet", "d2", less)
		guard := p.admin.service(t, "fleet").GetStatus().GetCluster().GetReport().GetGuard()
		if state != "WAITING" || !strings.Contains(message, "2 of 3 resources would be deleted") ||
			!strings.Contains(message, guard.GetId()) || len(guard.GetSample()) != 2 {
			t.Fatalf("it is %s: %s; guard %v", state, message, guard)
		}
		p.expect(t, "fleet/a: fleet/b: fleet/c:")
		if _, err := p.admin.levers.ConfirmPrune(t.Context(), &consolev1.ConfirmPruneRequest{
			Name: "fleet", Guard: guard.GetId(),
		}); err != nil {
			t.Fatal(err)
		}
		p.healthy(t, "fleet", "d3", less)
		p.expect(t, "fleet/a:new")
		// Deleting the service takes along what it declared, once somebody has seen that.
		_, err := p.admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: "fleet"})
		wantCode(t, err, connect.CodeFailedPrecondition, `service "fleet" has declared 1 resource`)
		confirmation := detail[*consolev1.ConfirmationWanted](t, err).GetConfirmation()
		if _, err := p.admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{
			Name: "fleet", Confirmation: confirmation,
		}); err != nil {
			t.Fatal(err)
		}
		p.expect(t, "")
		if got := p.admin.names(t, "", ""); got != "web" {
			t.Errorf("left are %q", got)
		}
		// Or leaves it.
		fleet := declare("fleet", "fleet")
		fleet.Spec.Sync = &deliveryv1.SyncSpec{OnDelete: deliveryv1.DeletePolicy_DELETE_POLICY_ORPHAN}
		p.admin.must(t, fleet)
		p.healthy(t, "fleet", "d4", less)
		_, err = p.admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: "fleet"})
		if _, err = p.admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{
			Name: "fleet", Confirmation: detail[*consolev1.ConfirmationWanted](t, err).GetConfirmation(),
		}); err != nil {
			t.Fatal(err)
		}
		if a := p.admin.service(t, "a"); a.GetMetadata().GetLabels()[declaredBy] != "" ||
			a.GetSpec().GetPath() != "new" {
			t.Errorf("what stays: %v", a)
		}
		_, err = p.admin.sources.DeleteSource(t.Context(), &consolev1.DeleteSourceRequest{Name: "shop"})
		wantCode(t, err, connect.CodeFailedPrecondition, `still named by service "a"`)
	})
}

func TestWhatGoesWithGlobalServicesAndClustersIsGuarded(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.empower(t, "fleet", "admin", everywhere())
		p.admin.must(t, declare("fleet", "fleet"), newCluster("p1", "env", "prod"), newCluster("p2", "env", "prod"))
		p.admin.putGlobal(t, newGlobal("probe", prod()))
		p.push(t, commitA)
		const cluster = "apiVersion: fairlead.dev/v1\nkind: Cluster\nmetadata: {name: p3, labels: {env: prod}}\n---\n"
		logs := func(more string) string {
			return "apiVersion: fairlead.dev/v1\nkind: GlobalService\nmetadata: {name: logs}\nspec: {clusters: {labels: {env: prod}}, template: {source: shop}" + more + "}\n---\n"
		}
		all := yaml("a", "") + yaml("b", "")
		p.healthy(t, "fleet", "d1", files{"x.yaml": all + cluster + logs("")})
		// One for each cluster goes with the global service, those of two global services with the cluster, and none is
		// counted twice.
		for digest, c := range map[string]struct{ of, want string }{
			"d2": {all + cluster, "4 of 7 resources would be deleted"},
			"d3": {all + logs(""), "3 of 6 resources would be deleted"},
			"d4": {all, "6 of 8 resources would be deleted"},
		} {
			if state, message := p.bring(t, "fleet", digest, files{"x.yaml": c.of}); state != "WAITING" ||
				!strings.Contains(message, c.want) {
				t.Errorf("%s is %s: %s", digest, state, message)
			}
		}
		p.healthy(t, "fleet", "d5", files{"x.yaml": all + cluster + logs(", onLeave: ON_LEAVE_DETACH")})
		p.healthy(t, "fleet", "d6", files{"x.yaml": all + cluster})
		if got := p.admin.names(t, "", ""); got != "a b fleet logs-p1 logs-p2 logs-p3 probe-p1 probe-p2 probe-p3 web" {
			t.Errorf("left are %s", got)
		}
	})
}

func TestWhatIsNotPrunedIsOnItsOwn(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.empower(t, "fleet", "operator", everywhere())
		careful := declare("careful", "fleet")
		careful.Spec.Sync = &deliveryv1.SyncSpec{Prune: &deliveryv1.PruneSpec{Disabled: true}}
		p.admin.must(t, careful, declare("other", "fleet"))
		p.push(t, commitA)
		p.healthy(t, "careful", "d1", files{
			"x.yaml": yaml("a", "  sync: {mode: SYNC_MODE_HOLD}\n") + yaml("b", "") + yaml("c", ""),
		})
		if state, message := p.bring(t, "careful", "d2", files{"x.yaml": yaml("c", "")}); state != "HEALTHY" ||
			!strings.HasSuffix(message,
				"2 resources that left the folder stay, on their own, for spec.sync.prune.disabled is set.") {
			t.Errorf("it is %s: %s", state, message)
		}
		p.expect(t, "careful/c:")
		// People change it, and another folder takes it over.
		b := newService("b", "shop", "edge-1")
		b.Spec.Path = "mine"
		p.admin.must(t, b)
		p.healthy(t, "other", "d1", files{"x.yaml": yaml("a", "")})
		p.expect(t, "other/a: careful/c:") // the hold was the other file's, and this one has none
		if p.healthy(t, "careful", "d3", files{
			"x.yaml": yaml("c", "  path: x\n"),
		}); strings.Contains(p.admin.service(t, "careful").GetStatus().GetStateMessage(), "stay") {
			t.Errorf("it still says that something stays: %v", p.admin.service(t, "careful").GetStatus())
		}
	})
}

// TestDeclaringIsAsItIsWritten does what docs/declaring.md says, word for word.
func TestDeclaringIsAsItIsWritten(t *testing.T) {
	t.Parallel()
	p := newPast(t, newHub(t, "").start(t))
	text, err := os.ReadFile("../../../docs/declaring.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```yaml\n")
	block, _, _ = strings.Cut(block, "```")
	objects, err := catalogyaml.Decode("declaring.md", []byte(block))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.Kind() == catalogyaml.Source {
			continue // that of the test, which has commits
		}
		p.admin.must(t, o.Message)
	}
	p.admin.must(t, newCluster("edge-2", "env", "prod"))
	p.push(t, commitA)
	folder := files{}
	for _, name := range []string{"web.yaml", "logs.yaml"} {
		text, err := os.ReadFile("../../../docs/examples/fleet/" + name)
		if err != nil {
			t.Fatal(err)
		}
		folder["fleet/"+name] = string(text)
	}
	p.healthy(t, "shop-fleet", "d1", folder)
	if got := p.admin.names(t, "", ""); got != "shop-fleet shop-logs-edge-2 shop-web web" {
		t.Errorf("services are %s", got)
	}
	p.healthy(t, "shop-fleet", "d2", files{
		"fleet/web.yaml": folder["fleet/web.yaml"] + "---\n" +
			strings.Replace(folder["fleet/logs.yaml"], "spec:", "spec:\n  onLeave: ON_LEAVE_DETACH", 1),
	})
	p.healthy(t, "shop-fleet", "d3", files{"fleet/web.yaml": folder["fleet/web.yaml"]})
}

func TestOneDigestIsAppliedOnce(t *testing.T) {
	t.Parallel()
	p := newPast(t, newHub(t, "").start(t))
	p.empower(t, "fleet", "operator", everywhere())
	p.admin.must(t, declare("fleet", "fleet"))
	p.push(t, commitA)
	// Two distributors were told that it is wanted, and bring it one after the other.
	twice := func(digest, first, second string) *consolev1.ApplyFolderResponse {
		t.Helper()
		p.bring(t, "fleet", digest, files{"x.yaml": first})
		req := p.told(t, "fleet", digest)
		req.Content = &consolev1.FolderContent{Files: []*consolev1.FolderFile{{Path: "x.yaml", Data: []byte(second)}}}
		return p.ask(t, req)
	}
	if res := twice("d1", yaml("a", ""), yaml("b", "")); !res.GetSettled() {
		t.Errorf("what is applied: %v", res)
	}
	p.expect(t, "fleet/a:")
	if res := twice("d2", strings.Replace(yaml("c", ""), "edge-1", "edge-9", 1), yaml("d", "")); res.GetSettled() ||
		res.GetRetryAfter().AsDuration() <= 0 {
		t.Errorf("what was refused just now: %v", res)
	}
	p.expect(t, "fleet/a:")
}

func TestFoldersDeclareFolders(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.empower(t, "fleet", "operator", everywhere())
		p.admin.must(t, declare("l1", "fleet"))
		p.push(t, commitA)
		below := func(name string) string {
			return strings.Replace(yaml(name,
				"  catalog: true\n  serviceAccount: fleet\n"), "  cluster: edge-1\n", "", 1)
		}
		for i, name := range []string{"l2", "l3", "l4"} {
			p.healthy(t, fmt.Sprint("l", i+1), "d1", files{"x.yaml": below(name)})
		}
		if state, message := p.bring(t, "l4", "d1", files{"x.yaml": below("l5")}); state != "FAILED" ||
			!strings.Contains(message, "nested 5 deep") {
			t.Errorf("l4 is %s: %s", state, message)
		}
		if state, message := p.bring(t, "l3", "d2", files{"x.yaml": below("l4") + below("l1")}); state != "FAILED" ||
			!strings.Contains(message, "in a circle") {
			t.Errorf("l3 is %s: %s", state, message)
		}
		p.admin.must(t, declare("other", "fleet"))
		if state, message := p.bring(t, "other", "d1", files{"x.yaml": below("l2")}); state != "FAILED" ||
			!strings.Contains(message, `is declared by service "l1" already`) {
			t.Errorf("other is %s: %s", state, message)
		}
		p.healthy(t, "l4", "d2", files{"x.yaml": yaml("leaf", "")})
		// One goes with all below it, which is more than one.
		state, message := p.bring(t, "l1", "d2", files{"x.yaml": yaml("else", "")})
		if state != "WAITING" || !strings.Contains(message, "4 of 4 resources") {
			t.Errorf("l1 is %s: %s", state, message)
		}
		guard := p.admin.service(t, "l1").GetStatus().GetCluster().GetReport().GetGuard().GetId()
		if _, err := p.admin.levers.ConfirmPrune(t.Context(), &consolev1.ConfirmPruneRequest{
			Name: "l1", Guard: guard,
		}); err != nil {
			t.Fatal(err)
		}
		p.healthy(t, "l1", "d3", files{"x.yaml": yaml("else", "")})
		p.expect(t, "l1/else:")
	})
}

func TestNobodyGetsRightsByAFolder(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.admin.putProject(t, "shop")
		p.admin.putProject(t, "bank")
		p.empower(t, "narrow", "deployer", everywhere(), "shop")
		p.empower(t, "wide", "admin", everywhere())
		p.admin.let(t, "shoppers", "operator", everywhere(), "shop")
		kim := r.user(t, "kim", "shoppers")
		of := func(name, account string) *consolev1.Service {
			s := declare(name, account)
			s.Spec.Project = "shop"
			return s
		}
		if err := kim.tryService(t, of("mine", "narrow")); err != nil {
			t.Fatal(err)
		}
		wantCode(t, kim.tryService(t, of("mine", "wide")), connect.CodePermissionDenied,
			`spec.serviceAccount: user "kim" may not act as service account "wide"`)
		p.admin.must(t, of("theirs", "wide"))
		theirs := p.admin.service(t, "theirs")
		theirs.Spec.Path, theirs.Metadata.Etag = "evil", ""
		wantCode(t, kim.tryService(t, theirs), connect.CodePermissionDenied, "may not act as")
		p.push(t, commitA)
		inProject := func(name, project string) string { return yaml(name, "  project: "+cmp.Or(project, `""`)+"\n") }
		p.healthy(t, "mine", "d1", files{"x.yaml": inProject("a", "shop")})
		// The maker of an account is free to give it rights later, and does not give them to a person who has named the
		// account before.
		p.admin.must(t, &consolev1.ServiceAccount{Metadata: meta("new")})
		wantCode(t, kim.tryService(t, of("early", "new")), connect.CodePermissionDenied,
			`service account "new" has no grants yet`)
		// A service of another project stays there, though the account may change it.
		p.empower(t, "both", "operator", everywhere(), "shop", "bank")
		p.admin.must(t, of("greedy", "both"))
		vault := newService("vault", "shop", "edge-1")
		vault.Spec.Project = "bank"
		p.admin.must(t, vault)
		state, message := p.bring(t, "greedy", "d1", files{"x.yaml": inProject("vault", "shop")})
		if state != "FAILED" || !strings.Contains(message, `the name is taken by one that you may not see`) ||
			strings.Contains(message, "bank") {
			t.Errorf("another project's: %s: %s", state, message)
		}
		// Global services of the project are declared with rights in it.
		p.healthy(t, "greedy", "d2", files{
			"x.yaml": "apiVersion: fairlead.dev/v1\nkind: GlobalService\nmetadata: {name: logs}\nspec: {clusters: {names: [edge-1]}, template: {project: shop, source: shop}}\n",
		})
		for project, want := range map[string]string{
			"bank": `is of project "bank"`, "": "declares only what is of it",
		} {
			if state, message := p.bring(t, "mine", "d2"+
				project, files{"x.yaml": inProject("a", "shop") + inProject("b", project)}); state != "FAILED" ||
				!strings.Contains(message, want) {
				t.Errorf("project %q: %s: %s", project, state, message)
			}
		}
		// A deployer does not delete.
		if state, message := p.bring(t, "mine", "d3", files{"x.yaml": inProject("c", "shop")}); state != "FAILED" ||
			!strings.Contains(message, `service account "narrow" may not delete service "a"`) {
			t.Errorf("what left: %s: %s", state, message)
		}
		p.admin.must(t, &consolev1.ServiceAccount{
			Metadata: meta("narrow"), Spec: &consolev1.ServiceAccountSpec{Disabled: true},
		})
		if state, message := p.bring(t, "mine", "d4", files{"x.yaml": inProject("a", "shop")}); state != "FAILED" ||
			!strings.Contains(message, `service account "narrow" is disabled`) {
			t.Errorf("disabled: %s: %s", state, message)
		}
		_, err := p.admin.accounts.DeleteServiceAccount(t.Context(), &consolev1.DeleteServiceAccountRequest{
			Name: "narrow",
		})
		wantCode(t, err, connect.CodeFailedPrecondition, `still named by`)
		p.expect(t, "mine/a:")
		// A person who may change sources, but has not all rights of the account.
		p.admin.must(t, &consolev1.Role{
			Metadata: meta("sources"),
			Spec: &consolev1.RoleSpec{
				Rules: []*consolev1.RoleRule{{Verbs: []string{"view", "edit"}, Kinds: []string{"Source"}}},
			},
		})
		p.admin.let(t, "gits", "sources", everywhere())
		lee := r.user(t, "lee", "gits")
		_, err = lee.sources.UpdateSource(t.Context(), &consolev1.UpdateSourceRequest{Source: &consolev1.Source{
			Metadata: meta("shop"), Spec: &consolev1.SourceSpec{
				Git: &consolev1.GitSource{Url: "https://git.example.com/evil"},
			},
		}})
		wantCode(t, err, connect.CodePermissionDenied, `source "shop": folders of it are applied to the catalog`,
			"may not act as service account")
	})
}

func TestServicesOfTheCatalogHaveNothingOfACluster(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	p := newPast(t, r)
	p.empower(t, "fleet", "operator", everywhere())
	for want, change := range map[string]func(*consolev1.ServiceSpec){
		"leave out spec.cluster": func(s *consolev1.ServiceSpec) { s.Cluster = "edge-1" },
		"spec.serviceAccount":    func(s *consolev1.ServiceSpec) { s.ServiceAccount = "" },
		"spec.namespace":         func(s *consolev1.ServiceSpec) { s.Namespace = "x" },
		"spec.render": func(s *consolev1.ServiceSpec) {
			s.Render = &deliveryv1.RenderSpec{Renderer: deliveryv1.Renderer_RENDERER_RAW}
		},
		"spec.sync.dependsOn": func(s *consolev1.ServiceSpec) {
			s.Sync = &deliveryv1.SyncSpec{DependsOn: []string{"web"}}
		},
		"spec.sync.impersonate": func(s *consolev1.ServiceSpec) {
			s.Sync = &deliveryv1.SyncSpec{Impersonate: "a/b"}
		},
		"goes with spec.catalog":    func(s *consolev1.ServiceSpec) { s.Catalog, s.Cluster = false, "edge-1" },
		"serviceaccount \"nobody\"": func(s *consolev1.ServiceSpec) { s.ServiceAccount = "nobody" },
	} {
		s := declare("fleet", "fleet")
		change(s.GetSpec())
		if err := p.admin.tryService(t, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	_, err := p.admin.globals.UpdateGlobalService(t.Context(), &consolev1.UpdateGlobalServiceRequest{
		AllowMissing: true, GlobalService: &consolev1.GlobalService{
			Metadata: meta("all"), Spec: &consolev1.GlobalServiceSpec{
				Clusters: &consolev1.ClusterSelector{All: true}, Template: declare("x", "fleet").GetSpec(),
			},
		},
	})
	wantCode(t, err, connect.CodeInvalidArgument, "spec.template.catalog")
	p.admin.must(t, declare("fleet", "fleet"))
	moved := newService("fleet", "shop", "edge-1")
	wantCode(t, p.admin.tryService(t, moved), connect.CodeFailedPrecondition, "spec.catalog can't be changed")
}

// What a folder was refused for may be there now: a person who syncs the service does not wait for its next try.
func TestASyncTriesARefusedFolderAtOnce(t *testing.T) {
	t.Parallel()
	p := newPast(t, newHub(t, "").start(t))
	p.empower(t, "fleet", "operator", everywhere())
	p.admin.must(t, declare("fleet", "fleet"))
	p.push(t, commitA)
	folder := files{"x.yaml": strings.Replace(yaml("a", ""), "edge-1", "edge-9", 1)}
	if state, message := p.bring(t, "fleet", "d1", folder); state != "FAILED" ||
		!strings.Contains(message, `cluster "edge-9" does not exist`) {
		t.Fatalf("it is %s: %s", state, message)
	}
	p.admin.must(t, newCluster("edge-9"))
	if res := p.ask(t, p.told(t, "fleet", "d1")); res.GetWanted() || res.GetRetryAfter().AsDuration() <= 0 {
		t.Errorf("just after it was refused: %v", res)
	}
	if _, err := p.admin.levers.RequestSync(t.Context(), &consolev1.RequestSyncRequest{Name: "fleet"}); err != nil {
		t.Fatal(err)
	}
	p.healthy(t, "fleet", "d1", folder)
	p.expect(t, "fleet/a:")
}

func TestAFolderTakesOverWhatExists(t *testing.T) {
	t.Parallel()
	p := newPast(t, newHub(t, "").start(t))
	p.empower(t, "fleet", "operator", everywhere())
	never := declare("never", "fleet")
	never.Spec.Sync = &deliveryv1.SyncSpec{Adoption: deliveryv1.Adoption_ADOPTION_NEVER}
	p.admin.must(t, declare("fleet", "fleet"), never, declare("late", "fleet"), newService("byhand", "shop", "edge-1"))
	uid := p.admin.service(t, "byhand").GetMetadata().GetUid()
	p.push(t, commitA)
	folder := files{"x.yaml": yaml("byhand", "  path: x\n")}
	if state, message := p.bring(t, "never", "d1", folder); state != "FAILED" ||
		!strings.Contains(message, `service "byhand": exists already, and spec.sync.adoption of service "never" is never`) {
		t.Errorf("with adoption never it is %s: %s", state, message)
	}
	p.expect(t, "")
	p.healthy(t, "fleet", "d1", folder)
	p.expect(t, "fleet/byhand:x")
	if is := p.admin.service(t, "byhand").GetMetadata().GetUid(); is != uid {
		t.Errorf("another one is in its place: %s, was %s", is, uid)
	}
	if state, message := p.bring(t, "late", "d1", folder); state != "FAILED" ||
		!strings.Contains(message, `service "byhand": is declared by service "fleet" already`) {
		t.Errorf("of a second folder it is %s: %s", state, message)
	}
	p.expect(t, "fleet/byhand:x")
	p.healthy(t, "never", "d2", files{"x.yaml": yaml("new", "")}) // what is not there yet
}

// A commit that deletes more of a folder than spec.sync.prune.maxPercent waits: with it one resource may be too much,
// and many may be not.
func TestAFolderDeletesAsMuchAsItsPercentage(t *testing.T) {
	t.Parallel()
	p := newPast(t, newHub(t, "").start(t))
	p.empower(t, "fleet", "operator", everywhere())
	p.push(t, commitA)
	four := files{"x.yaml": yaml("a", "") + yaml("b", "") + yaml("c", "") + yaml("d", "")}
	for i, c := range []struct {
		most int32
		left string
		want string
	}{
		{24, yaml("a", "") + yaml("b", "") + yaml("c", ""), "WAITING"},
		{25, yaml("a", "") + yaml("b", "") + yaml("c", ""), "HEALTHY"},
		{74, yaml("a", ""), "WAITING"},
		{75, yaml("a", ""), "HEALTHY"},
	} {
		fleet := declare("fleet", "fleet")
		fleet.Spec.Sync = &deliveryv1.SyncSpec{Prune: &deliveryv1.PruneSpec{MaxPercent: &c.most}}
		p.admin.must(t, fleet)
		p.healthy(t, "fleet", fmt.Sprint("whole", i), four)
		if state, message := p.bring(t, "fleet", fmt.Sprint("less", i), files{"x.yaml": c.left}); state != c.want {
			t.Errorf("%d of 4 left, and %d percent may go: it is %s: %s", strings.Count(c.left, "---"), c.most,
				state, message)
		}
	}
}

// Resources of a folder go with the rights of the person who deletes its service, whatever the folder's account may.
func TestADeletedFolderTakesWhatThePersonMayDelete(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	p := newPast(t, r)
	p.empower(t, "fleet", "admin", everywhere())
	p.admin.must(t, declare("fleet", "fleet"))
	p.push(t, commitA)
	const cluster = "apiVersion: fairlead.dev/v1\nkind: Cluster\nmetadata: {name: own}\n"
	p.healthy(t, "fleet", "d1", files{"x.yaml": yaml("a", "") + cluster})
	p.admin.must(t, &consolev1.Role{Metadata: meta("folders"), Spec: &consolev1.RoleSpec{Rules: []*consolev1.RoleRule{
		{Verbs: []string{"view"}, Kinds: []string{"*"}}, {Verbs: []string{"delete"}, Kinds: []string{"Service"}},
	}}})
	p.admin.let(t, "cleaners", "folders", everywhere())
	kim := r.user(t, "kim", "cleaners")
	_, err := kim.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: "fleet"})
	wantCode(t, err, connect.CodePermissionDenied, `delete cluster "own"`)
	_, err = p.admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: "fleet"})
	confirmed := &consolev1.DeleteServiceRequest{
		Name:         "fleet",
		Confirmation: detail[*consolev1.ConfirmationWanted](t, err).GetConfirmation(),
	}
	_, err = kim.services.DeleteService(t.Context(), confirmed)
	wantCode(t, err, connect.CodePermissionDenied, `delete cluster "own"`)
	p.expect(t, "fleet/a:")
	if _, err = p.admin.services.DeleteService(t.Context(), confirmed); err != nil {
		t.Fatal(err)
	}
	p.expect(t, "")
}

// A token with limits acts as no account, though its owner may act as it.
func TestATokenWithLimitsActsAsNoAccount(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	p := newPast(t, r)
	p.empower(t, "narrow", "deployer", everywhere())
	lead := grant("lead", "operator", everywhere())
	lead.Spec.Subjects = []*consolev1.GrantSubject{{Subject: &consolev1.GrantSubject_User{User: "kim"}}}
	p.admin.must(t, lead)
	kim := r.user(t, "kim")
	token := func(limits *consolev1.TokenLimits) api {
		t.Helper()
		out, err := kim.tokens.CreateToken(t.Context(), &consolev1.CreateTokenRequest{
			Limits: limits, Description: "pipeline", Lifetime: durationpb.New(time.Hour),
		})
		if err != nil {
			t.Fatal(err)
		}
		return r.as(t, out.GetToken())
	}
	limited := token(&consolev1.TokenLimits{Role: "operator"})
	wantCode(t, limited.tryService(t, declare("fleet", "narrow")), connect.CodePermissionDenied,
		`a token with limits may not act as service account "narrow"`)
	if err := limited.tryService(t, newService("plain", "shop", "edge-1")); err != nil {
		t.Errorf("without an account: %v", err)
	}
	if err := token(nil).tryService(t, declare("fleet", "narrow")); err != nil {
		t.Errorf("without limits: %v", err)
	}
	moved := p.admin.service(t, "fleet")
	moved.Spec.Path, moved.Metadata.Etag = "elsewhere", ""
	wantCode(t, limited.tryService(t, moved), connect.CodePermissionDenied,
		`a token with limits may not act as service account "narrow"`)
}
