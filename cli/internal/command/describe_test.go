package command

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/clitest"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
)

// oneCluster is a console with the cluster edge-1, and its view or an error in place of it.
type oneCluster struct {
	consolev1connect.UnimplementedClusterServiceHandler
	consolev1connect.UnimplementedClusterViewServiceHandler
	consolev1connect.UnimplementedEventServiceHandler

	err error
}

func (oneCluster) GetCluster(_ context.Context,
	req *consolev1.GetClusterRequest,
) (*consolev1.GetClusterResponse, error) {
	return &consolev1.GetClusterResponse{
		Cluster: &consolev1.Cluster{Metadata: &consolev1.Metadata{Name: req.GetName()}},
	}, nil
}

func (c oneCluster) GetClusterView(_ context.Context,
	req *consolev1.GetClusterViewRequest,
) (*consolev1.GetClusterViewResponse, error) {
	if c.err != nil {
		return nil, c.err
	}
	return &consolev1.GetClusterViewResponse{View: &consolev1.ClusterView{
		Cluster: req.GetCluster(), Figures: map[string]int64{"nodes.total": 3, "nodes.ready": 2},
	}}, nil
}

func (oneCluster) ListClusterViews(context.Context,
	*consolev1.ListClusterViewsRequest,
) (*consolev1.ListClusterViewsResponse, error) {
	return nil, connect.NewError(connect.CodeInternal, errors.New("the views of all clusters were asked for"))
}

func (oneCluster) ListEvents(context.Context, *consolev1.ListEventsRequest) (*consolev1.ListEventsResponse, error) {
	return &consolev1.ListEventsResponse{}, nil
}

func TestDescribedClusterNeedsNoViewOfAnother(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err          error
		shown, noted string
	}{
		"its view is known": {nil, "2/3", ""},
		"the console has just begun": {
			connect.NewError(connect.CodeUnavailable, errors.New("the views are being read")), "  STATE ",
			"the figures of cluster edge-1 can't be shown: the views are being read\n",
		},
		"the hub is older than its view": {
			connect.NewError(connect.CodeUnimplemented, errors.New("no")), "  STATE ", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := oneCluster{err: tt.err}
			mux := http.NewServeMux()
			mux.Handle(consolev1connect.NewClusterServiceHandler(c))
			mux.Handle(consolev1connect.NewClusterViewServiceHandler(c))
			mux.Handle(consolev1connect.NewEventServiceHandler(c))
			server := httptest.NewUnstartedServer(mux)
			server.Config.Protocols = new(http.Protocols)
			server.Config.Protocols.SetUnencryptedHTTP2(true)
			server.Start()
			t.Cleanup(server.Close)
			env := map[string]string{
				"FAIRLEAD_TOKEN": "t", "FAIRLEAD_CONFIG": filepath.Join(t.TempDir(), "config.yaml"),
			}
			var stdout, stderr bytes.Buffer
			err := Run(t.Context(), []string{"describe", "cluster", "edge-1", "--server", server.URL}, app.IO{
				Getenv: func(name string) string { return env[name] }, Stdin: strings.NewReader(""), Stdout: &stdout,
				Stderr: &stderr, Now: clitest.Noon,
			})
			if err != nil || !strings.Contains(stdout.String(), tt.shown) || stderr.String() != tt.noted {
				t.Errorf("%v\n%s\n%s", err, &stdout, &stderr)
			}
		})
	}
}
