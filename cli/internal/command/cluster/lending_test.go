package cluster_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/hubtest"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
)

const (
	createRequest  = consolev1connect.LendingServiceCreateAccessRequestProcedure
	listRequests   = consolev1connect.LendingServiceListAccessRequestsProcedure
	approveRequest = consolev1connect.LendingServiceApproveAccessRequestProcedure
	denyRequest    = consolev1connect.LendingServiceDenyAccessRequestProcedure
	revokeRequest  = consolev1connect.LendingServiceRevokeAccessRequestProcedure
)

// request is one for an hour at edge-1.
func request(id string, state consolev1.AccessRequestState) *consolev1.AccessRequest {
	return &consolev1.AccessRequest{
		Id: id, State: state, Cluster: "edge-1", Role: "operator", Subject: "user:kim",
		Duration: durationpb.New(time.Hour), CreateTime: clitest.Before(5 * time.Minute), Reason: "incident 7",
	}
}

func TestARoleIsAskedForAndLent(t *testing.T) {
	t.Parallel()
	const pending, denied, revoked = consolev1.AccessRequestState_ACCESS_REQUEST_STATE_WAITING,
		consolev1.AccessRequestState_ACCESS_REQUEST_STATE_DENIED, consolev1.AccessRequestState_ACCESS_REQUEST_STATE_REVOKED
	made := []hubtest.Answer{hubtest.Returns[consolev1.CreateAccessRequestRequest](createRequest,
		&consolev1.CreateAccessRequestResponse{Request: request("019a", pending)})}
	lent := request("019a", consolev1.AccessRequestState_ACCESS_REQUEST_STATE_APPROVED)
	lent.UntilTime, lent.Decider = clitest.Before(-time.Hour), "user:ada"
	until := lent.GetUntilTime().AsTime().Local().Format(time.RFC3339)
	pages := func(req *consolev1.ListAccessRequestsRequest) (*consolev1.ListAccessRequestsResponse, error) {
		if req.GetPageToken() == "" {
			return &consolev1.ListAccessRequestsResponse{
				Requests: []*consolev1.AccessRequest{request("019b", pending)}, NextPageToken: "2",
			}, nil
		}
		return &consolev1.ListAccessRequestsResponse{Requests: []*consolev1.AccessRequest{request("019a", denied)}}, nil
	}
	listed := []hubtest.Answer{hubtest.On(listRequests, pages)}
	none := []hubtest.Answer{hubtest.Returns[consolev1.ListAccessRequestsRequest](listRequests,
		&consolev1.ListAccessRequestsResponse{})}
	hubtest.Run(t, map[string]hubtest.Case{
		"asked for": {
			Line: "cluster access request edge-1 --role operator --for 1h --reason 'incident 7'", Hub: made,
			Asked: `CreateAccessRequest {"cluster":"edge-1","role":"operator","duration":"3600s","reason":"incident 7"}
`,
			Stdout: "access/019a requested: role operator at edge-1 for 1h0m0s\n",
			Stderr: "It waits for somebody who may approve it: fairlead cluster access approve 019a\n",
		},
		"asked for no role": {
			Line: "cluster access request edge-1 --for 1h --reason a",
			Err:  "--role is missing: name the role that you need, such as operator",
		},
		"asked for no time": {
			Line: "cluster access request edge-1 --role operator --reason a",
			Err:  "--for is missing: say for how long, such as --for 1h",
		},
		"asked for no reason": {
			Line: "cluster access request edge-1 --role operator --for 1h",
			Err:  "--reason is missing: say why to those who decide",
		},
		"asked for nowhere": {
			Line: "cluster access request --role operator --for 1h --reason a",
			Err: "use it as `fairlead cluster access request CLUSTER --role ROLE --for DURATION --reason " +
				"TEXT`: see `fairlead cluster access request --help`",
		},
		"listed": {
			Line: "cluster access list", Hub: listed,
			Asked: `ListAccessRequests {"pageSize":200}
ListAccessRequests {"pageSize":199,"pageToken":"2"}
`,
			Stdout: `ID    STATE    CLUSTER  ROLE      SUBJECT   FOR     AGE     REASON
019b  waiting  edge-1   operator  user:kim  1h0m0s  5m ago  incident 7
019a  denied   edge-1   operator  user:kim  1h0m0s  5m ago  incident 7
`,
		},
		"the newest listed": {
			Line: "cluster access list --limit 1 --all -o yaml", Hub: listed,
			Asked: `ListAccessRequests {"pageSize":1,"all":true}
`,
			Stdout: `requests:
  - cluster: edge-1
    createTime: "2026-03-01T11:55:00Z"
    duration: 3600s
    id: 019b
    reason: incident 7
    role: operator
    state: waiting
    subject: user:kim
`,
		},
		"all listed": {
			Line: "cluster access list --limit 0", Hub: listed,
			Asked: `ListAccessRequests {"pageSize":500}
ListAccessRequests {"pageSize":500,"pageToken":"2"}
`,
			Stdout: `ID    STATE    CLUSTER  ROLE      SUBJECT   FOR     AGE     REASON
019b  waiting  edge-1   operator  user:kim  1h0m0s  5m ago  incident 7
019a  denied   edge-1   operator  user:kim  1h0m0s  5m ago  incident 7
`,
		},
		"fewer than none listed": {Line: "cluster access list --limit -5", Err: "--limit -5: must be at least 0"},
		"none listed": {
			Line: "cluster access ls", Hub: none,
			Asked: `ListAccessRequests {"pageSize":200}
`,
			Stderr: "no requests\n",
		},
		"approved": {
			Line: "cluster access approve access/019a --reason ok", Hub: []hubtest.Answer{
				hubtest.Returns[consolev1.ApproveAccessRequestRequest](approveRequest,
					&consolev1.ApproveAccessRequestResponse{Request: lent}),
			},
			Stdout: "access/019a approved: role operator at edge-1 for user:kim until " + until + "\n",
			Asked: `ApproveAccessRequest {"id":"019a","reason":"ok"}
`,
		},
		"denied": {
			Line: "cluster access deny 019a", Hub: []hubtest.Answer{
				hubtest.Returns[consolev1.DenyAccessRequestRequest](denyRequest,
					&consolev1.DenyAccessRequestResponse{Request: request("019a", denied)}),
			},
			Asked: `DenyAccessRequest {"id":"019a"}
`,
			Stdout: "access/019a denied: role operator at edge-1 for user:kim\n",
		},
		"revoked": {
			Line: "cluster access revoke 019a", Hub: []hubtest.Answer{
				hubtest.Returns[consolev1.RevokeAccessRequestRequest](revokeRequest,
					&consolev1.RevokeAccessRequestResponse{Request: request("019a", revoked)}),
			},
			Asked: `RevokeAccessRequest {"id":"019a"}
`,
			Stdout: "access/019a revoked: role operator at edge-1 for user:kim\n",
		},
		"approved by the one who asked": {
			Line: "cluster access approve 019a",
			Hub: []hubtest.Answer{
				hubtest.Refuses[consolev1.ApproveAccessRequestRequest, consolev1.ApproveAccessRequestResponse](
					approveRequest, connect.CodePermissionDenied, "user:kim may not approve a request of their own"),
			},
			Asked: `ApproveAccessRequest {"id":"019a"}
`,
			Err: "user:kim may not approve a request of their own",
		},
	})
}

func TestAClusterJoinsAndLeaves(t *testing.T) {
	t.Parallel()
	const getCluster = consolev1connect.ClusterServiceGetClusterProcedure
	const leave = consolev1connect.LoginServiceLeaveClusterProcedure
	const joinToken = consolev1connect.IdentityServiceCreateJoinTokenProcedure
	cluster := func(status *consolev1.ClusterStatus) hubtest.Answer {
		return hubtest.Returns[consolev1.GetClusterRequest](getCluster, &consolev1.GetClusterResponse{
			Cluster: &consolev1.Cluster{Metadata: clitest.Meta("edge-1"), Status: status},
		})
	}
	joined := cluster(&consolev1.ClusterStatus{
		JoinTime: clitest.Before(time.Hour), LastSeenTime: clitest.Before(20 * time.Second),
	})
	services := hubtest.Returns[consolev1.ListServicesRequest](consolev1connect.ServiceServiceListServicesProcedure,
		&consolev1.ListServicesResponse{Services: []*consolev1.Service{clitest.WellService()}})
	left := hubtest.Returns[consolev1.LeaveClusterRequest](leave, &consolev1.LeaveClusterResponse{})
	token := hubtest.Returns[consolev1.CreateJoinTokenRequest](joinToken, &consolev1.CreateJoinTokenResponse{
		JoinToken: "the-token", ExpireTime: clitest.Before(-15 * time.Minute),
	})
	hubtest.Run(t, map[string]hubtest.Case{
		"a token": {
			Line: "cluster join-token edge-1", Hub: []hubtest.Answer{token},
			Asked: `CreateJoinToken {"cluster":"edge-1"}
`,
			Stdout: "the-token\n",
			Stderr: `
Good for one agent, for 15 minutes. Put it into a file that only you can read, and where cluster "edge-1" can be reached:

  agent --hub-url HUB --join-token-file FILE --data-dir DIR
`,
		},
		"a token in a file": {
			Line: "cluster join-token cluster/edge-1 --output-file FOLDER/token", Hub: []hubtest.Answer{token},
			Left: map[string]string{"token": "the-token\n"},
			Asked: `CreateJoinToken {"cluster":"edge-1"}
`,
		},
		"a token for no cluster": {
			Line: "cluster join-token edge-9",
			Hub: []hubtest.Answer{hubtest.Refuses[consolev1.CreateJoinTokenRequest, consolev1.CreateJoinTokenResponse](
				joinToken, connect.CodeNotFound, `cluster "edge-9" does not exist`)},
			Asked: `CreateJoinToken {"cluster":"edge-9"}
`,
			Err: `no cluster "edge-9": see "fairlead get clusters". "fairlead cluster join edge-9" makes it, and brings an agent into it; this, given to "fairlead apply", only makes it:

apiVersion: fairlead.dev/v1
kind: Cluster
metadata: {name: edge-9}`,
		},
		"left": {
			Line: "cluster leave edge-1 --yes", Hub: []hubtest.Answer{joined, services, left},
			Asked: `GetCluster {"name":"edge-1"}
ListServices {"pageSize":500,"filter":"cluster = edge-1"}
LeaveCluster {"cluster":"edge-1"}
`,
			Stdout: "cluster/edge-1 has left\n",
		},
		"left, unasked": {
			Line: "cluster leave edge-1", Hub: []hubtest.Answer{joined, services},
			Asked: `GetCluster {"name":"edge-1"}
ListServices {"pageSize":500,"filter":"cluster = edge-1"}
`,
			Stderr: `the agent of cluster "edge-1", heard of 20s ago, loses its access for good, and nobody reaches the cluster through the tunnel any more
what is applied there of its 1 service stays, and nothing new is delivered until an agent joins with a new join token
`,
			Err: "nothing was done: say --yes to go on",
		},
		"left, only shown": {
			Line: "cluster leave edge-1 --dry-run", Hub: []hubtest.Answer{joined, services},
			Asked: `GetCluster {"name":"edge-1"}
ListServices {"pageSize":500,"filter":"cluster = edge-1"}
`,
			Stdout: `the agent of cluster "edge-1", heard of 20s ago, loses its access for good, and nobody reaches the cluster through the tunnel any more
what is applied there of its 1 service stays, and nothing new is delivered until an agent joins with a new join token
`,
		},
		"left, never there": {
			Line: "cluster leave edge-1", Hub: []hubtest.Answer{cluster(&consolev1.ClusterStatus{}), left},
			Asked: `GetCluster {"name":"edge-1"}
LeaveCluster {"cluster":"edge-1"}
`,
			Stdout: "cluster/edge-1 has left\n",
		},
		"never there, only shown": {
			Line: "cluster leave edge-1 --dry-run", Hub: []hubtest.Answer{cluster(&consolev1.ClusterStatus{})},
			Asked: `GetCluster {"name":"edge-1"}
`,
			Stdout: `no agent has joined as cluster "edge-1"
`,
		},
		"left without a name": {
			Line: "cluster leave",
			Err:  "use it as `fairlead cluster leave CLUSTER`: see `fairlead cluster leave --help`",
		},
		"not there": {
			Line: "cluster leave edge-9",
			Hub: []hubtest.Answer{hubtest.Refuses[consolev1.GetClusterRequest, consolev1.GetClusterResponse](
				getCluster, connect.CodeNotFound, `cluster "edge-9" does not exist`)},
			Asked: `GetCluster {"name":"edge-9"}
`,
			Err: "no cluster \"edge-9\": see `fairlead get clusters`",
		},
	})
}
