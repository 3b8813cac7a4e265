package cluster

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/hubclient"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
)

// clusters is a hub that has no cluster until one is made.
type clusters struct {
	consolev1connect.ClusterServiceClient
	look     func() (*consolev1.ClusterStatus, error) // what it says of the cluster then
	rendered func()                                   // runs with the manifest on its way

	made, deleted bool
}

func (c *clusters) GetCluster(ctx context.Context, _ *consolev1.GetClusterRequest) (*consolev1.GetClusterResponse, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if !c.made {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("there is no such cluster"))
	}
	status, err := c.look()
	return &consolev1.GetClusterResponse{Cluster: &consolev1.Cluster{Metadata: clitest.Meta("edge"), Status: status}}, err
}

func (c *clusters) UpdateCluster(
	_ context.Context, req *consolev1.UpdateClusterRequest,
) (*consolev1.UpdateClusterResponse, error) {
	c.made = true
	return &consolev1.UpdateClusterResponse{Cluster: req.GetCluster(), Outcome: consolev1.Outcome_OUTCOME_CREATED}, nil
}

func (c *clusters) RenderAgentManifest(
	ctx context.Context, _ *consolev1.RenderAgentManifestRequest,
) (*consolev1.RenderAgentManifestResponse, error) {
	c.rendered()
	return &consolev1.RenderAgentManifestResponse{Manifest: "kind: Namespace"}, ctx.Err()
}

func (c *clusters) DeleteCluster(ctx context.Context, _ *consolev1.DeleteClusterRequest) (*consolev1.DeleteClusterResponse, error) {
	c.deleted = ctx.Err() == nil
	return &consolev1.DeleteClusterResponse{}, ctx.Err()
}

// A join deletes the cluster that it made where no agent can have joined, and nothing else.
func TestJoinUndoesWhatNoAgentHasJoined(t *testing.T) {
	t.Parallel()
	late := errors.New("the console does not answer")
	for name, c := range map[string]struct {
		look        func() (*consolev1.ClusterStatus, error)
		interrupted bool
		deleted     bool
		says        string
	}{
		"no agent has joined": {
			look:    func() (*consolev1.ClusterStatus, error) { return nil, nil },
			deleted: true, says: `no "reached the hub"`,
		},
		"an agent has joined, and no look at the hub showed it": {
			look: func() (*consolev1.ClusterStatus, error) {
				return &consolev1.ClusterStatus{JoinTime: clitest.Before(time.Second)}, nil
			},
			says: "nothing is undone: the agent has reached the hub meanwhile, and goes on by itself",
		},
		"the hub does not say": {
			look: func() (*consolev1.ClusterStatus, error) { return nil, late },
			says: "nothing is undone: whether the agent has reached the hub is not known",
		},
		"interrupted before the wait": {
			look:        func() (*consolev1.ClusterStatus, error) { return nil, nil },
			interrupted: true, deleted: true, says: "context canceled",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			hub := &clusters{look: c.look, rendered: func() {
				if c.interrupted {
					interrupt()
				}
			}}
			file := filepath.Join(t.TempDir(), "agent.yaml")
			j := joining{
				app:     &app.App{IO: app.IO{Stdout: io.Discard, Stderr: io.Discard, Now: clitest.Noon}},
				cluster: "edge", id: "this", write: file, timeout: -time.Second, // the wait is over when it begins
			}
			err := j.run(ctx, &hubclient.Hub{Clusters: hub})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the join says %v, not %q", err, c.says)
			}
			if hub.deleted != c.deleted {
				t.Errorf("the cluster is deleted: %v", hub.deleted)
			}
			if _, err := os.Stat(file); !c.interrupted && os.IsNotExist(err) != c.deleted {
				t.Errorf("the manifest's file: %v", err)
			}
		})
	}
}
