package compose

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const root = "../.."

// TestFileHoldsForAllProfiles has the compose plugin read the file, with the services that no registry's images are
// here for.
func TestFileHoldsForAllProfiles(t *testing.T) {
	t.Parallel()
	e := &engine{dir: t.TempDir()}
	var err error
	if e.root, err = filepath.Abs(root); err != nil {
		t.Fatal(err)
	}
	e.usePlugin(t)
	var file struct {
		Services map[string]struct {
			Image       string
			MemLimit    string `json:"mem_limit"`
			Profiles    []string
			HealthCheck *struct {
				Test []string
			}
			Ports []struct {
				HostIP string `json:"host_ip"`
			}
			Environment map[string]*string
			Volumes     []struct{ Type, Source, Target string }
		}
	}
	text := e.must(t, "compose", "--profile", "*", "config", "--format", "json")
	if err := json.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	mounted := map[string]string{} // the files of this repository that Grafana sees
	for name, s := range file.Services {
		for _, v := range s.Volumes {
			if v.Type != "bind" {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil {
				t.Errorf("%s mounts what is not there: %v", name, err)
			}
			if name == "grafana" {
				mounted[v.Target] = v.Source
			}
		}
	}
	home := file.Services["grafana"].Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
	for _, seen := range []string{
		"/etc/grafana/provisioning/datasources/fairlead.yaml", "/etc/grafana/provisioning/dashboards/fairlead.yaml",
		*home,
	} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(mounted)), func(target string) bool {
			below, err := filepath.Rel(target, seen)
			if err != nil || !filepath.IsLocal(below) {
				return false
			}
			_, err = os.Stat(filepath.Join(mounted[target], below))
			return err == nil
		}) {
			t.Errorf("Grafana does not see %s", seen)
		}
	}
	for _, name := range []string{"collector", "jaeger", "prometheus", "grafana"} {
		s := file.Services[name]
		if !slices.Equal(s.Profiles, []string{"observability"}) || s.MemLimit == "" || s.HealthCheck == nil ||
			len(s.HealthCheck.Test) == 0 {
			t.Errorf("%s: %+v", name, s)
		}
		if _, tag, _ := strings.Cut(s.Image, ":"); tag == "" || tag == "latest" {
			t.Errorf("%s: image %q has no version", name, s.Image)
		}
		for _, p := range s.Ports { // the port asks nobody for an identity
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s is published at %q", name, p.HostIP)
			}
		}
	}
}

// TestGrafanaIsGivenWhatDashboardsNeed: the sources of data that dashboards and other sources name are provisioned.
func TestGrafanaIsGivenWhatDashboardsNeed(t *testing.T) {
	t.Parallel()
	var sources struct {
		Datasources []struct {
			UID, Type, URL string
			IsDefault      bool
			JSONData       struct {
				ExemplarTraceIDDestinations []struct{ DatasourceUID string }
			}
		}
	}
	readYAML(t, "deploy/compose/grafana/datasources/fairlead.yaml", &sources)
	byType, uids := map[string]int{}, map[string]bool{}
	for _, s := range sources.Datasources {
		if s.IsDefault {
			byType[s.Type]++
		}
		uids[s.UID] = true
	}
	for _, s := range sources.Datasources {
		for _, to := range s.JSONData.ExemplarTraceIDDestinations {
			if !uids[to.DatasourceUID] {
				t.Errorf("source %s leads to %q, which is not there", s.UID, to.DatasourceUID)
			}
		}
	}
	var boards struct {
		Providers []struct{ Options struct{ Path string } }
	}
	readYAML(t, "deploy/compose/grafana/dashboards/fairlead.yaml", &boards)
	if len(boards.Providers) != 1 || boards.Providers[0].Options.Path != "/etc/fairlead/dashboards" {
		t.Errorf("dashboards are looked for at %+v", boards.Providers)
	}
	files, err := filepath.Glob(filepath.Join(root, "deploy/observability/dashboards/*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d dashboards, %v", len(files), err)
	}
	for _, file := range files {
		var board struct {
			UID        string
			Templating struct {
				List []struct{ Name, Type, Query string }
			}
			Panels []struct {
				Title      string
				Datasource struct{ UID string }
				Targets    []struct{ Datasource struct{ UID string } }
			}
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if board.UID == "" || len(board.Templating.List) != 1 || board.Templating.List[0].Type != "datasource" ||
			byType[board.Templating.List[0].Query] != 1 {
			t.Errorf("%s: uid %q, variables %v, default sources %v", file, board.UID, board.Templating.List, byType)
			continue
		}
		want := "${" + board.Templating.List[0].Name + "}"
		for _, panel := range board.Panels {
			used := []string{panel.Datasource.UID}
			for _, target := range panel.Targets {
				used = append(used, target.Datasource.UID)
			}
			if slices.ContainsFunc(used, func(uid string) bool { return uid != want }) {
				t.Errorf("%s: %s takes data from %v, want %s", file, panel.Title, used, want)
			}
		}
	}
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &map[string]any{}); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// isObserved brings up what watches the stack, as far as there are stand-ins for its images: Prometheus finds and asks
// every service.
func isObserved(t *testing.T, s *composed) {
	s.must(t, "compose", "--profile", "single", "--profile", "cluster", "--profile", "observability", "up", "--detach",
		"--wait", "--pull", "never", "collector", "prometheus")
	client := s.client(t, s.secret(t, "tls", "ca.crt"), "prometheus")
	want := []string{
		"fairlead-agent", "fairlead-console", "fairlead-distributor", "fairlead-gitcache", "fairlead-tunnel",
	}
	s.await(t, "Prometheus has asked every service", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:9090/api/v1/query?query=up",
			http.NoBody)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		var answer struct {
			Data struct {
				Result []struct {
					Metric struct{ Job string }
					Value  [2]any
				}
			}
		}
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			return err
		}
		var up []string
		for _, r := range answer.Data.Result {
			if r.Value[1] == "1" {
				up = append(up, r.Metric.Job)
			}
		}
		if slices.Sort(up); !slices.Equal(up, want) {
			return fmt.Errorf("%v are up", up)
		}
		return nil
	})
}
