package acceptance

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/durable"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/console"
)

func fromBackend(backend, path, key string) *consolev1.ConfigSetting {
	return &consolev1.ConfigSetting{
		Value: &consolev1.ConfigSetting_Ref{Ref: &consolev1.ConfigRef{Backend: backend, Path: path, Key: key}},
	}
}

func newBackend(name string) *consolev1.Backend {
	return &consolev1.Backend{Metadata: meta(name), Spec: &consolev1.BackendSpec{
		At: &consolev1.BackendSpec_Files{Files: &consolev1.FilesBackend{}}, Interval: durationpb.New(5 * time.Second),
	}}
}

// withFiles starts a console with a folder of files.
func (h *hub) withFiles(t *testing.T, dir string) *running {
	t.Helper()
	return h.startWith(t, func(c *console.Config) { c.ConfigDir = dir })
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := durable.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (a api) service(t testing.TB, name string) *consolev1.Service {
	t.Helper()
	got, err := a.services.GetService(t.Context(), &consolev1.GetServiceRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return got.GetService()
}

// current are the values that the cluster of a service gets by now.
func (a api) current(t testing.TB, distributor api, service string) map[string]string {
	t.Helper()
	s := a.service(t, service)
	return distributor.values(t, s.GetMetadata().GetUid(), s.GetStatus().GetConfigRevision())
}

func (a api) problemOfFiles(t testing.TB) string {
	t.Helper()
	got, err := a.backends.GetBackend(t.Context(), &consolev1.GetBackendRequest{Name: "files"})
	if err != nil {
		t.Fatal(err)
	}
	return got.GetBackend().GetStatus().GetProblem().GetMessage()
}

func TestBackendsGiveValuesToExactlyWhoNamesThem(t *testing.T) {
	t.Parallel()
	for name, db := range eitherDatabase(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			put(t, dir, "shop.yaml", "db: {password: hunter2-first}\nhost: one\n")
			put(t, dir, "other.yaml", "token: hunter2-other\n")
			h := newHub(t, db)
			r := h.withFiles(t, dir)
			admin, distributor := r.admin(t), r.service(t, identity.ServiceDistributor)
			imports := newSet("imports", nil)
			imports.Spec.Imports = []*consolev1.ConfigImport{{Backend: "files", Path: "shop.yaml"}}
			admin.must(t, newSource("shop"), newCluster("edge-1"), newBackend("files"), imports,
				newSet("url", settings{"url": textOf("postgres://${pw}@${host}")}),
				configured(newService("web", "shop", "edge-1"), []string{"url"}, settings{
					"pw": fromBackend("files", "shop.yaml", "db.password"),
					"host": {
						Value: &consolev1.ConfigSetting_Ref{
							Ref: &consolev1.ConfigRef{Backend: "files", Path: "shop.yaml", Key: "host", Plain: true},
						},
					},
				}),
				configured(newService("all", "shop", "edge-1"), []string{"imports"}, nil),
				configured(newService("other", "shop",
					"edge-1"), nil, settings{"token": fromBackend("files", "other.yaml", "token")}),
				configured(newService("none", "shop", "edge-1"), nil, settings{"a": textOf("1")}))
			await.True(t, "values are read", func() bool {
				return admin.current(t, distributor, "web")["url"] == "postgres://hunter2-first@one" &&
					admin.current(t, distributor, "all")["db.password"] == "hunter2-first" &&
					admin.current(t, distributor, "other")["token"] == "hunter2-other"
			})
			want := `host=one of service/web (backend "files", shop.yaml)
pw=*** of service/web (backend "files", shop.yaml)
url=*** of configset/url`
			if got := admin.shown(t, "web"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			before := admin.revisions(t)
			put(t, dir, "shop.yaml", "db: {password: hunter2-second}\nhost: one\n")
			await.True(t, "a change is seen",
				func() bool { return admin.current(t, distributor, "web")["pw"] == "hunter2-second" })
			var moved []string
			for name, revision := range admin.revisions(t) {
				if revision != before[name] {
					moved = append(moved, name)
				}
			}
			if slices.Sort(moved); !slices.Equal(moved, []string{"all", "web"}) {
				t.Errorf("%v have other revisions", moved)
			}

			// Gone is an answer: what was delivered stays, and the service says so.
			if err := os.Remove(filepath.Join(dir, "other.yaml")); err != nil {
				t.Fatal(err)
			}
			await.True(t, "the service says what is missing", func() bool {
				return strings.Contains(admin.service(t, "other").GetStatus().GetConfigProblem().GetMessage(),
					`backend "files", other.yaml does not exist`)
			})
			if got := admin.current(t, distributor, "other")["token"]; got != "hunter2-other" ||
				admin.problemOfFiles(t) != "" {
				t.Errorf("got %q, and of the backend %q", got, admin.problemOfFiles(t))
			}

			// Away is none: also a console that starts meanwhile has the values.
			if err := os.Rename(dir, dir+"-away"); err != nil {
				t.Fatal(err)
			}
			await.True(t, "the backend says that it is away",
				func() bool { return strings.Contains(admin.problemOfFiles(t), "open folder") })
			r.stop()
			r = h.withFiles(t, dir)
			admin, distributor = r.admin(t), r.service(t, identity.ServiceDistributor)
			admin.must(t, configured(newService("late", "shop", "edge-1"), []string{"imports"}, nil))
			if got := admin.current(t, distributor, "late")["db.password"]; got != "hunter2-second" {
				t.Errorf("got %q", got)
			}
			preview, err := admin.configs.PreviewConfig(t.Context(), &consolev1.PreviewConfigRequest{
				Of: &consolev1.PreviewConfigRequest_Service{Service: "web"},
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range preview.GetEntries() {
				if e.GetProblem() != "" || !strings.Contains(e.GetStale(), "open folder") {
					t.Errorf("got %v", e)
				}
			}
			if err := os.Rename(dir+"-away", dir); err != nil {
				t.Fatal(err)
			}
			await.True(t, "the backend is back", func() bool { return admin.problemOfFiles(t) == "" })

			for what, text := range map[string]string{"logs": h.logs.String(), "preview": admin.shown(t, "all")} {
				if strings.Contains(text, "hunter2") {
					t.Errorf("%s have a value: %s", what, text)
				}
			}
			if db == "" {
				r.stop()
				for _, file := range []string{"console.db", "console.db-wal"} {
					if data, err := os.ReadFile(filepath.Join(h.dir, file)); err == nil &&
						bytes.Contains(data, []byte("hunter2")) {
						t.Errorf("%s has a value", file)
					}
				}
			}
		})
	}
}

func TestBackendsAreForThoseProjectsAndPaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"shop", "bank"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, dir, name+"/a.yaml", "pw: hunter2\n")
	}
	h := newHub(t, "")
	r := h.withFiles(t, dir)
	admin, distributor := r.admin(t), r.service(t, identity.ServiceDistributor)
	bound := newBackend("bound")
	bound.Spec.Projects, bound.Spec.Paths = []string{"shop"}, []string{"shop/"}
	ref := settings{"pw": fromBackend("bound", "shop/a.yaml", "pw")}
	admin.must(t, newSource("shop"), newCluster("prod", "env", "prod"), shopProject(),
		&consolev1.Project{Metadata: meta("bank"), Spec: &consolev1.ProjectSpec{}},
		bound, newBackend("free"), inProject("shop", configured(newService("web", "shop", "prod"), nil, ref)))
	await.True(t, "the project gets its value",
		func() bool { return admin.current(t, distributor, "web")["pw"] == "hunter2" })

	// Also who may do everything is told that the project is another one.
	set := newSet("set", ref)
	edge := newCluster("prod", "env", "prod")
	edge.Spec = &consolev1.ClusterSpec{Config: ref}
	for name, m := range map[string]proto.Message{
		"a service of none": configured(newService("stray", "shop", "prod"), nil, ref), "a set of none": set,
		"a cluster":       edge,
		"another project": &consolev1.Project{Metadata: meta("bank"), Spec: &consolev1.ProjectSpec{Config: ref}},
	} {
		if _, err := admin.apply(t, &consolev1.ApplyRequest{Resources: anyOf(m)}); err == nil ||
			!strings.Contains(err.Error(), `backend "bound" is for configuration of projects shop only`) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	bound.Spec.Projects = []string{"bank"}
	if _, err := admin.apply(t, &consolev1.ApplyRequest{Resources: anyOf(bound)}); err == nil ||
		!strings.Contains(err.Error(), `service "web" names it`) {
		t.Errorf("got %v", err)
	}
	bound.Spec.Projects = []string{"shop"}

	// Paths that are not given out are not read.
	admin.must(t, inProject("shop",
		configured(newService("web", "shop", "prod"), nil, settings{"pw": fromBackend("bound", "bank/a.yaml", "pw")})))
	if got := admin.service(t, "web").GetStatus().GetConfigProblem().GetMessage(); !strings.Contains(got,
		"is not among spec.paths") {
		t.Errorf("got %q", got)
	}
	admin.must(t, inProject("shop", configured(newService("web", "shop", "prod"), nil, ref)))
	bound.Spec.Paths = []string{"shop/b.yaml"}
	admin.must(t, bound)
	if got := admin.service(t, "web").GetStatus().GetConfigProblem().GetMessage(); !strings.Contains(got,
		"is not among spec.paths") {
		t.Errorf("got %q", got)
	}

	// Its values are no secret where the backend's own people say so.
	admin.must(t, &consolev1.Grant{Metadata: meta("shops"), Spec: &consolev1.GrantSpec{
		Subjects: []*consolev1.GrantSubject{{Subject: &consolev1.GrantSubject_User{User: "mallory"}}},
		Role:     "deployer", Clusters: &consolev1.GrantClusters{All: true}, Projects: []string{"shop"},
	}})
	bound.Spec.Paths = []string{"shop/"}
	admin.must(t, bound)
	mallory := r.as(t, h.sign(t, identity.Identity{Kind: identity.KindUser, Name: "mallory"}))
	mallory.must(t, inProject("shop", configured(newService("web", "shop", "prod"), nil, ref)))
	shownRef := fromBackend("bound", "shop/a.yaml", "pw")
	shownRef.GetRef().Plain = true
	open := inProject("shop", configured(newService("web", "shop", "prod"), nil, settings{"pw": shownRef}))
	preview, err := mallory.configs.PreviewConfig(t.Context(), &consolev1.PreviewConfigRequest{
		Of: &consolev1.PreviewConfigRequest_Draft{Draft: open},
	})
	wantCode(t, err, connect.CodePermissionDenied, `plain: true would show values of backend "bound"`)
	_, err = mallory.apply(t, &consolev1.ApplyRequest{Resources: anyOf(open)})
	wantCode(t, err, connect.CodePermissionDenied, `plain: true would show values of backend "bound"`)
	if strings.Contains(preview.String(), "hunter2") {
		t.Error("a value is shown")
	}
	admin.must(t, open)
	open.Spec.Config["more"] = textOf("1")
	mallory.must(t, open) // the service keeps the values that are shown

	// A backend of no projects is for configuration of who may change it.
	admin.must(t, &consolev1.Grant{Metadata: meta("team"), Spec: &consolev1.GrantSpec{
		Subjects: []*consolev1.GrantSubject{{Subject: &consolev1.GrantSubject_User{User: "eve"}}}, Role: "deployer",
		Clusters: &consolev1.GrantClusters{All: true},
	}})
	eve := r.as(t, h.sign(t, identity.Identity{Kind: identity.KindUser, Name: "eve"}))
	free := configured(newService("hers", "shop",
		"prod"), nil, settings{"pw": fromBackend("free", "shop/a.yaml", "pw")})
	_, err = eve.apply(t, &consolev1.ApplyRequest{Resources: anyOf(free)})
	wantCode(t, err, connect.CodePermissionDenied, `backend "free"`)
	_, err = eve.backends.UpdateBackend(t.Context(), &consolev1.UpdateBackendRequest{
		Backend: newBackend("hers"), AllowMissing: true,
	})
	wantCode(t, err, connect.CodePermissionDenied, "backend")
	_, err = eve.backends.CheckBackend(t.Context(), &consolev1.CheckBackendRequest{Backend: newBackend("free")})
	wantCode(t, err, connect.CodePermissionDenied)
	// A resource of other projects is not named to a person who may not see them.
	_, err = eve.apply(t, &consolev1.ApplyRequest{
		Resources: anyOf(configured(newService("hers", "shop", "prod"), nil, ref)),
	})
	wantCode(t, err, connect.CodeFailedPrecondition, `backend "bound" is for configuration of other projects`)
	admin.must(t, free)
	free.Spec.Config["more"] = textOf("1")
	eve.must(t, free) // the service keeps what it has
	free.Spec.Config["pw"] = fromBackend("free", "bank/a.yaml", "pw")
	_, err = eve.apply(t, &consolev1.ApplyRequest{Resources: anyOf(free)})
	wantCode(t, err, connect.CodePermissionDenied, `backend "free"`)
	_, err = admin.backends.DeleteBackend(t.Context(), &consolev1.DeleteBackendRequest{Name: "free"})
	wantCode(t, err, connect.CodeFailedPrecondition, `service "hers"`)
}

func TestBackendsAreTried(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, "a.yaml", "b: {c: hunter2}\na: 1\n")
	r := newHub(t, "").withFiles(t, dir)
	admin := r.admin(t)
	admin.must(t, newSecret("bad", "identity", "hunter2"))
	check := func(change func(*consolev1.Backend), path string) *consolev1.CheckBackendResponse {
		t.Helper()
		b := newBackend("draft")
		change(b)
		resp, err := admin.backends.CheckBackend(t.Context(), &consolev1.CheckBackendRequest{Backend: b, Path: path})
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	asIs := func(*consolev1.Backend) {}
	if resp := check(asIs, ""); resp.GetProblem() != "" || len(resp.GetKeys()) > 0 {
		t.Errorf("got %v", resp)
	}
	if resp := check(asIs, "a.yaml"); resp.GetProblem() != "" || !slices.Equal(resp.GetKeys(), []string{"a", "b.c"}) {
		t.Errorf("got %v", resp)
	}
	for want, of := range map[string]func(*consolev1.Backend){
		"nothing is there": asIs,
		"spec.paths":       func(b *consolev1.Backend) { b.Spec.Paths = []string{"x"} },
		"AGE-SECRET-KEY-1": func(b *consolev1.Backend) { b.Spec.GetFiles().Secret = "bad" },
		"files.folder":     func(b *consolev1.Backend) { b.Spec.GetFiles().Folder = "../up" },
		"does not run in a cl": func(b *consolev1.Backend) {
			b.Spec.At = &consolev1.BackendSpec_Kubernetes{Kubernetes: &consolev1.KubernetesBackend{}}
		},
	} {
		if resp := check(of, "none.yaml"); !strings.Contains(resp.GetProblem(), want) ||
			strings.Contains(resp.GetProblem(), "hunter2") {
			t.Errorf("got %v, want %s", resp, want)
		}
	}
	inside := func(b *consolev1.Backend) {
		b.Spec.At = &consolev1.BackendSpec_Vault{
			Vault: &consolev1.VaultBackend{Address: "http://127.0.0.1:1", Secret: "vault"},
		}
	}
	admin.must(t, &consolev1.Secret{Metadata: meta("vault"), Data: map[string]string{"token": "hunter2"}})
	if resp := check(inside,
		""); !strings.Contains(resp.GetProblem(), "127.0.0.1:1: the address 127.0.0.1 is loopback") ||
		!strings.Contains(resp.GetProblem(), "--allow-addresses") {
		t.Errorf("got %v of an address inside", resp)
	}
	for want, b := range map[string]*consolev1.BackendSpec{
		"spec.vault.address: must have no user": {
			At: &consolev1.BackendSpec_Vault{
				Vault: &consolev1.VaultBackend{Address: "https://u:hunter2@x", Secret: "bad"},
			},
		},
		"spec.kubernetes.secret: is missing": {
			At: &consolev1.BackendSpec_Kubernetes{Kubernetes: &consolev1.KubernetesBackend{Server: "https://x"}},
		},
	} {
		_, err := admin.backends.UpdateBackend(t.Context(), &consolev1.UpdateBackendRequest{
			Backend: &consolev1.Backend{Metadata: meta("b"), Spec: b}, AllowMissing: true,
		})
		if wantCode(t, err, connect.CodeInvalidArgument, want); strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v", err)
		}
	}
}
