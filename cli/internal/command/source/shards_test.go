package source_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/hubtest"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
)

const (
	listReplicas = gitcachev1connect.ShardServiceListReplicasProcedure
	listShards   = gitcachev1connect.ShardServiceListShardsProcedure
	setDraining  = gitcachev1connect.ShardServiceSetDrainingProcedure
	moveSource   = gitcachev1connect.ShardServiceMoveSourceProcedure
	getHub       = consolev1connect.AdminServiceGetHubProcedure
)

// gitcaches answers with two gitcaches and the replicas of other services.
func gitcaches(missing string, others ...*gitcachev1.HubReplica) hubtest.Answer {
	return hubtest.Returns[gitcachev1.ListReplicasRequest](listReplicas, &gitcachev1.ListReplicasResponse{
		Replicas: []*gitcachev1.Replica{
			{
				Name: "gitcache-0", Url: "https://10.0.0.1:7401", Owned: 2, Copies: 1, Preferred: 1, Version: "v1.2.0",
				StartTime: clitest.Before(3 * time.Hour),
			},
			{Name: "gitcache-1", Url: "https://10.0.0.2:7401", Draining: true, Preferred: 1},
		},
		Others: others, OthersMissing: missing,
	})
}

// consoles answers with the consoles of the hub.
func consoles(missing string, list ...*consolev1.HubConsole) hubtest.Answer {
	return hubtest.Returns[consolev1.GetHubRequest](getHub, &consolev1.GetHubResponse{Consoles: list, ConsolesMissing: missing})
}

// shards answers with a source at its place, one that is not, and one that nobody fetches, on two pages.
func shards() hubtest.Answer {
	return hubtest.On(listShards, func(req *gitcachev1.ListShardsRequest) (*gitcachev1.ListShardsResponse, error) {
		if req.GetPageToken() == "" {
			return &gitcachev1.ListShardsResponse{NextPageToken: "web", Shards: []*gitcachev1.Shard{
				{Source: "base", Owner: "gitcache-0", Epoch: 7, Preferred: []string{"gitcache-0", "gitcache-1"}},
				{
					Source: "shop", Owner: "gitcache-0", Epoch: 12, Preferred: []string{"gitcache-1"},
					Note: "gitcache-1 drains",
				},
			}}, nil
		}
		return &gitcachev1.ListShardsResponse{Shards: []*gitcachev1.Shard{{Source: "web"}}}, nil
	})
}

func TestShardsAreShown(t *testing.T) {
	t.Parallel()
	distributor := &gitcachev1.HubReplica{
		Service: "distributor", Name: "distributor-0", Url: "https://10.0.0.3:7402", Version: "v1.2.0",
		StartTime: clitest.Before(2 * time.Minute),
	}
	old := &gitcachev1.HubReplica{Service: "tunnel", Name: "tunnel-0", Url: "https://10.0.0.4:7403", Draining: true}
	one := &consolev1.HubConsole{Name: "console-a:7400", Version: "v1.2.0", StartTime: clitest.Before(4 * time.Hour)}
	answers := &consolev1.HubConsole{Name: "console-b:7400", Version: "v1.3.0", StartTime: clitest.Before(time.Minute), Answers: true}
	hubtest.Run(t, map[string]hubtest.Case{
		"all": {
			Line: "shards", Hub: []hubtest.Answer{gitcaches(""), shards(), consoles("")},
			Asked: `ListReplicas {}
ListShards {"pageSize":500}
ListShards {"pageSize":500,"pageToken":"web"}
GetHub {"condition":true}
`,
			Stdout: `REPLICA     STATE     OWNED  PREFERRED  COPIES  VERSION  AGE  URL
gitcache-0  Ready     2      1          1       v1.2.0   3h   https://10.0.0.1:7401
gitcache-1  Draining  0      1          0       -        -    https://10.0.0.2:7401

SOURCE  OWNER       EPOCH  PREFERRED   COPY        NOTE
base    gitcache-0  7      gitcache-0  gitcache-1  -
shop    gitcache-0  12     gitcache-1  -           gitcache-1 drains
web     -           0      -           -           -
`,
		},
		"with other replicas": {
			Line: "shards", Hub: []hubtest.Answer{gitcaches("", distributor, old), shards(), consoles("")},
			Asked: `ListReplicas {}
ListShards {"pageSize":500}
ListShards {"pageSize":500,"pageToken":"web"}
GetHub {"condition":true}
`,
			Stdout: `REPLICA     STATE     OWNED  PREFERRED  COPIES  VERSION  AGE  URL
gitcache-0  Ready     2      1          1       v1.2.0   3h   https://10.0.0.1:7401
gitcache-1  Draining  0      1          0       -        -    https://10.0.0.2:7401

SERVICE      REPLICA        STATE     VERSION  AGE  URL
distributor  distributor-0  Ready     v1.2.0   2m   https://10.0.0.3:7402
tunnel       tunnel-0       Draining  -        -    https://10.0.0.4:7403

SOURCE  OWNER       EPOCH  PREFERRED   COPY        NOTE
base    gitcache-0  7      gitcache-0  gitcache-1  -
shop    gitcache-0  12     gitcache-1  -           gitcache-1 drains
web     -           0      -           -           -
`,
		},
		"where others are not known": {
			Line: "shard --replica gitcache-0",
			Hub:  []hubtest.Answer{gitcaches("the store is in the process"), shards(), consoles("")},
			Asked: `ListReplicas {}
ListShards {"pageSize":500,"replica":"gitcache-0"}
ListShards {"pageSize":500,"pageToken":"web","replica":"gitcache-0"}
GetHub {"condition":true}
`,
			Stdout: `REPLICA     STATE     OWNED  PREFERRED  COPIES  VERSION  AGE  URL
gitcache-0  Ready     2      1          1       v1.2.0   3h   https://10.0.0.1:7401
gitcache-1  Draining  0      1          0       -        -    https://10.0.0.2:7401

Distributors and tunnels are not listed: the store is in the process

SOURCE  OWNER       EPOCH  PREFERRED   COPY        NOTE
base    gitcache-0  7      gitcache-0  gitcache-1  -
shop    gitcache-0  12     gitcache-1  -           gitcache-1 drains
web     -           0      -           -           -
`,
		},
		"with two consoles": {
			Line: "shards", Hub: []hubtest.Answer{gitcaches("", distributor), shards(), consoles("", one, answers)},
			Asked: `ListReplicas {}
ListShards {"pageSize":500}
ListShards {"pageSize":500,"pageToken":"web"}
GetHub {"condition":true}
`,
			Stdout: `REPLICA     STATE     OWNED  PREFERRED  COPIES  VERSION  AGE  URL
gitcache-0  Ready     2      1          1       v1.2.0   3h   https://10.0.0.1:7401
gitcache-1  Draining  0      1          0       -        -    https://10.0.0.2:7401

SERVICE      REPLICA         STATE           VERSION  AGE  URL
console      console-a:7400  Ready           v1.2.0   4h   -
console      console-b:7400  Ready, answers  v1.3.0   60s  -
distributor  distributor-0   Ready           v1.2.0   2m   https://10.0.0.3:7402

SOURCE  OWNER       EPOCH  PREFERRED   COPY        NOTE
base    gitcache-0  7      gitcache-0  gitcache-1  -
shop    gitcache-0  12     gitcache-1  -           gitcache-1 drains
web     -           0      -           -           -
`,
		},
		"where other consoles are not known": {
			Line: "shards", Hub: []hubtest.Answer{gitcaches(""), shards(), consoles("the database does not answer", answers)},
			Asked: `ListReplicas {}
ListShards {"pageSize":500}
ListShards {"pageSize":500,"pageToken":"web"}
GetHub {"condition":true}
`,
			Stdout: `REPLICA     STATE     OWNED  PREFERRED  COPIES  VERSION  AGE  URL
gitcache-0  Ready     2      1          1       v1.2.0   3h   https://10.0.0.1:7401
gitcache-1  Draining  0      1          0       -        -    https://10.0.0.2:7401

Other consoles are not listed: the database does not answer

SERVICE  REPLICA         STATE           VERSION  AGE  URL
console  console-b:7400  Ready, answers  v1.3.0   60s  -

SOURCE  OWNER       EPOCH  PREFERRED   COPY        NOTE
base    gitcache-0  7      gitcache-0  gitcache-1  -
shop    gitcache-0  12     gitcache-1  -           gitcache-1 drains
web     -           0      -           -           -
`,
		},
		"where no console is known": {
			Line: "shards",
			Hub: []hubtest.Answer{gitcaches(""), shards(), hubtest.Refuses[consolev1.GetHubRequest, consolev1.GetHubResponse](
				getHub, connect.CodeUnavailable, "the console starts")},
			Asked: `ListReplicas {}
ListShards {"pageSize":500}
ListShards {"pageSize":500,"pageToken":"web"}
GetHub {"condition":true}
`,
			Stdout: `REPLICA     STATE     OWNED  PREFERRED  COPIES  VERSION  AGE  URL
gitcache-0  Ready     2      1          1       v1.2.0   3h   https://10.0.0.1:7401
gitcache-1  Draining  0      1          0       -        -    https://10.0.0.2:7401

Consoles are not listed: the console starts

SOURCE  OWNER       EPOCH  PREFERRED   COPY        NOTE
base    gitcache-0  7      gitcache-0  gitcache-1  -
shop    gitcache-0  12     gitcache-1  -           gitcache-1 drains
web     -           0      -           -           -
`,
		},
		"as JSON": {
			Line: "shards -o json", Hub: []hubtest.Answer{gitcaches("", distributor), shards(), consoles("", answers)},
			Asked: `ListReplicas {}
ListShards {"pageSize":500}
ListShards {"pageSize":500,"pageToken":"web"}
GetHub {"condition":true}
`,
			Stdout: `{
  "consoles": [
    {
      "answers": true,
      "name": "console-b:7400",
      "startTime": "2026-03-01T11:59:00Z",
      "version": "v1.3.0"
    }
  ],
  "others": [
    {
      "name": "distributor-0",
      "service": "distributor",
      "startTime": "2026-03-01T11:58:00Z",
      "url": "https://10.0.0.3:7402",
      "version": "v1.2.0"
    }
  ],
  "replicas": [
    {
      "copies": 1,
      "name": "gitcache-0",
      "owned": 2,
      "preferred": 1,
      "startTime": "2026-03-01T09:00:00Z",
      "url": "https://10.0.0.1:7401",
      "version": "v1.2.0"
    },
    {
      "draining": true,
      "name": "gitcache-1",
      "preferred": 1,
      "url": "https://10.0.0.2:7401"
    }
  ],
  "shards": [
    {
      "epoch": "7",
      "owner": "gitcache-0",
      "preferred": [
        "gitcache-0",
        "gitcache-1"
      ],
      "source": "base"
    },
    {
      "epoch": "12",
      "note": "gitcache-1 drains",
      "owner": "gitcache-0",
      "preferred": [
        "gitcache-1"
      ],
      "source": "shop"
    },
    {
      "source": "web"
    }
  ]
}
`,
		},
		"as YAML": {
			Line: "shards -o yaml", Hub: []hubtest.Answer{gitcaches(""), shards(), consoles("")},
			Asked: `ListReplicas {}
ListShards {"pageSize":500}
ListShards {"pageSize":500,"pageToken":"web"}
GetHub {"condition":true}
`,
			Stdout: `replicas:
  - copies: 1
    name: gitcache-0
    owned: 2
    preferred: 1
    startTime: "2026-03-01T09:00:00Z"
    url: https://10.0.0.1:7401
    version: v1.2.0
  - draining: true
    name: gitcache-1
    preferred: 1
    url: https://10.0.0.2:7401
shards:
  - epoch: "7"
    owner: gitcache-0
    preferred:
      - gitcache-0
      - gitcache-1
    source: base
  - epoch: "12"
    note: gitcache-1 drains
    owner: gitcache-0
    preferred:
      - gitcache-1
    source: shop
  - source: web
`,
		},
		"an unknown form": {
			Line: "shards -o wide",
			Err:  `unknown form of output "wide": known are table, json, yaml, jsonpath, custom-columns`,
		},
		"an argument": {
			Line: "shards gitcache-0",
			Err:  "use it as `fairlead shards`: see `fairlead shards --help`",
		},
		"the person may not": {
			Line: "shards",
			Hub: []hubtest.Answer{hubtest.Refuses[gitcachev1.ListReplicasRequest, gitcachev1.ListReplicasResponse](
				listReplicas, connect.CodePermissionDenied, "ListReplicas: it is for administrator")},
			Asked: "ListReplicas {}\n",
			Err: "ListReplicas: it is for administrators, who are the members of group fairlead:admins: ask " +
				"one of them",
		},
		"the shards can't be read": {
			Line: "shards",
			Hub: []hubtest.Answer{gitcaches(""), hubtest.Refuses[gitcachev1.ListShardsRequest, gitcachev1.ListShardsResponse](
				listShards, connect.CodeUnavailable, "Redis does not answer")},
			Asked: `ListReplicas {}
ListShards {"pageSize":500}
`,
			Err: "Redis does not answer",
		},
		"not logged in": {
			Line: "shards --server HUB", NoHub: true,
			Err: "not logged in to HUB: run `fairlead login HUB`, or set FAIRLEAD_TOKEN",
		},
	})
}

func TestSourcesAreMovedAmongGitcaches(t *testing.T) {
	t.Parallel()
	drained := hubtest.Returns[gitcachev1.SetDrainingRequest](setDraining, &gitcachev1.SetDrainingResponse{})
	moved := hubtest.Returns[gitcachev1.MoveSourceRequest](moveSource, &gitcachev1.MoveSourceResponse{})
	hubtest.Run(t, map[string]hubtest.Case{
		"drain": {
			Line: "shards drain gitcache-0", Hub: []hubtest.Answer{drained},
			Asked: `SetDraining {"replica":"gitcache-0","draining":true}
`,
			Stdout: "replica/gitcache-0 drains\n",
			Stderr: "see `fairlead shards --replica gitcache-0` for what it still has\n",
		},
		"undrain": {
			Line: "shards undrain gitcache-0", Hub: []hubtest.Answer{drained},
			Asked: `SetDraining {"replica":"gitcache-0"}
`,
			Stdout: "replica/gitcache-0 is taken back\n",
		},
		"drain nobody": {
			Line: "shards drain nobody",
			Hub: []hubtest.Answer{hubtest.Refuses[gitcachev1.SetDrainingRequest, gitcachev1.SetDrainingResponse](
				setDraining, connect.CodeNotFound,
				"there is no replica \"nobody\". See `fairlead shards` for those that live")},
			Asked: `SetDraining {"replica":"nobody","draining":true}
`,
			Err: "there is no replica \"nobody\". See `fairlead shards` for those that live",
		},
		"drain without a name": {
			Line: "shards drain",
			Err:  "use it as `fairlead shards drain REPLICA`: see `fairlead shards drain --help`",
		},
		"move": {
			Line: "shards move shop gitcache-1", Hub: []hubtest.Answer{moved},
			Asked: `MoveSource {"source":"shop","replica":"gitcache-1"}
`,
			Stdout: "source/shop is fetched by gitcache-1\n",
		},
		"move by reference": {
			Line: "shards move source/shop gitcache-1", Hub: []hubtest.Answer{moved},
			Asked: `MoveSource {"source":"shop","replica":"gitcache-1"}
`,
			Stdout: "source/shop is fetched by gitcache-1\n",
		},
		"move to a gitcache that drains": {
			Line: "shards move shop gitcache-1",
			Hub: []hubtest.Answer{hubtest.Refuses[gitcachev1.MoveSourceRequest, gitcachev1.MoveSourceResponse](
				moveSource, connect.CodeFailedPrecondition, `replica "gitcache-1" drains: undrain it first`)},
			Asked: `MoveSource {"source":"shop","replica":"gitcache-1"}
`,
			Err: `replica "gitcache-1" drains: undrain it first`,
		},
		"move nowhere": {
			Line: "shards move shop",
			Err:  "use it as `fairlead shards move SOURCE REPLICA`: see `fairlead shards move --help`",
		},
	})
}
