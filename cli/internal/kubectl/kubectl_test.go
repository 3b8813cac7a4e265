package kubectl

import (
	"path/filepath"
	"slices"
	"testing"

	"fairlead.dev/cli/internal/contexts"
	"fairlead.dev/cli/internal/hubclient"
)

func TestProxyGetsTheServersPath(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, want []string }{
		{[]string{"proxy", "--port=0"}, []string{"proxy", "--append-server-path", "--port=0"}},
		{[]string{"proxy", "--append-server-path=false"}, []string{"proxy", "--append-server-path=false"}},
		{[]string{"get", "pods", "proxy"}, []string{"get", "pods", "proxy"}},
		{nil, nil},
	} {
		if got := withServerPath(tt.args); !slices.Equal(got, tt.want) {
			t.Errorf("%q: got %q", tt.args, got)
		}
	}
}

func TestKubeconfigsOfTwoClustersAreTwoFiles(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, of := range [][4]string{
		{"/home/kim/config.yaml", "east/prod", "", "edge-1"},
		{"/home/kim/config.yaml", "west/prod", "", "edge-1"},
		{"/home/kim/config.yaml", "..", "", "edge-1"},
		{"/home/kim/config.yaml", "prod", "https://east.test", "edge-1"},
		{"/home/kim/test.yaml", "prod", "https://east.test", "edge-1"},
		{"/home/kim/config.yaml", hubclient.FromEnvironment, "https://east.test", "edge-1"},
		{"/home/kim/config.yaml", hubclient.FromEnvironment, "https://west.test", "edge-1"},
	} {
		file := keptKubeconfig(of[0], contexts.Context{Name: of[1], URL: of[2]}, of[3])
		if folder := filepath.Dir(file); seen[file] || folder != "/home/kim/kubeconfigs/"+filepath.Base(of[0]) {
			t.Errorf("%v: %s", of, file)
		}
		seen[file] = true
	}
}
