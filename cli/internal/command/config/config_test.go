package config_test

import (
	"testing"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/hubtest"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
)

const (
	previewConfig   = consolev1connect.ConfigServicePreviewConfigProcedure
	listConfigUsers = consolev1connect.ConfigServiceListConfigUsersProcedure
)

// previews answers with these entries.
func previews(entries ...*consolev1.EffectiveConfig) []hubtest.Answer {
	return []hubtest.Answer{hubtest.Returns[consolev1.PreviewConfigRequest](previewConfig,
		&consolev1.PreviewConfigResponse{Entries: entries, Revision: "r1"})}
}

// draft is a service in a file.
const draft = `apiVersion: fairlead.dev/v1
kind: Service
metadata: {name: draft}
spec: {source: shop, cluster: edge-1}
`

func TestTheConfigurationOfAServiceIsShown(t *testing.T) {
	t.Parallel()
	entries := []*consolev1.EffectiveConfig{
		{
			Name: "host", Type: consolev1.ConfigType_CONFIG_TYPE_TEXT, Value: "web.example.com", Origin: "service/web",
			Overrides: []string{"configset/base", "project/shop"},
		},
		{
			Name: "password", Type: consolev1.ConfigType_CONFIG_TYPE_TEXT, Value: "***", Secret: true,
			Origin: "configset/base",
		},
		{Name: "replicas", Type: consolev1.ConfigType_CONFIG_TYPE_NUMBER, Value: "3", Origin: "cluster/edge-1"},
	}
	stale := &consolev1.EffectiveConfig{
		Name: "key", Type: consolev1.ConfigType_CONFIG_TYPE_TEXT, Value: "***", Secret: true,
		Origin: "configset/base (backend vault, kv/shop)", Stale: "vault: connection refused",
	}
	missing := &consolev1.EffectiveConfig{
		Name: "broken", Type: consolev1.ConfigType_CONFIG_TYPE_TEXT, Origin: "service/web",
		Problem: `"${nope}": there is no entry "nope"`,
	}
	hubtest.Run(t, map[string]hubtest.Case{
		"as a table": {
			Line: "config web", Hub: previews(entries...),
			Asked: `PreviewConfig {"service":"web"}
`,
			Stdout: `NAME      TYPE    VALUE            FROM
host      text    web.example.com  service/web
password  text    ***              configset/base
replicas  number  3                cluster/edge-1
`,
		},
		"with what is overruled": {
			Line: "config web -o wide", Hub: previews(entries...),
			Asked: `PreviewConfig {"service":"web"}
`,
			Stdout: `NAME      TYPE    VALUE            FROM            OVER
host      text    web.example.com  service/web     configset/base, project/shop
password  text    ***              configset/base  -
replicas  number  3                cluster/edge-1  -
`,
		},
		"its names": {
			Line: "config web -o name", Hub: previews(entries...),
			Asked: `PreviewConfig {"service":"web"}
`,
			Stdout: `host
password
replicas
`,
		},
		"as JSON": {
			Line: "config web -o json", Hub: previews(entries[:2]...),
			Asked: `PreviewConfig {"service":"web"}
`,
			Stdout: `{
  "entries": [
    {
      "name": "host",
      "origin": "service/web",
      "overrides": [
        "configset/base",
        "project/shop"
      ],
      "type": "text",
      "value": "web.example.com"
    },
    {
      "name": "password",
      "origin": "configset/base",
      "secret": true,
      "type": "text",
      "value": "***"
    }
  ],
  "revision": "r1"
}
`,
		},
		"as YAML": {
			Line: "config web -o yaml", Hub: previews(entries[0]),
			Asked: `PreviewConfig {"service":"web"}
`,
			Stdout: `entries:
  - name: host
    origin: service/web
    overrides:
      - configset/base
      - project/shop
    type: text
    value: web.example.com
revision: r1
`,
		},
		"by its reference": {
			Line: "config service/web -o name", Hub: previews(entries[0]),
			Asked: `PreviewConfig {"service":"web"}
`,
			Stdout: "host\n",
		},
		"there is none": {
			Line: "config web", Hub: previews(),
			Asked: `PreviewConfig {"service":"web"}
`,
			Stdout: "no configuration\n",
		},
		"a backend that is away": {
			Line: "config web", Hub: previews(entries[2], stale, stale),
			Asked: `PreviewConfig {"service":"web"}
`,
			Stdout: `NAME      TYPE    VALUE  FROM
replicas  number  3      cluster/edge-1
key       text    ***    configset/base (backend vault, kv/shop)
key       text    ***    configset/base (backend vault, kv/shop)
`,
			Stderr: "configset/base (backend vault, kv/shop): as it was read last: vault: connection refused\n",
		},
		"one of several entries has no value": {
			Line: "config web", Hub: previews(missing, entries[2]),
			Asked: `PreviewConfig {"service":"web"}
`,
			Stdout: `NAME      TYPE    VALUE  FROM
broken    text    -      service/web
replicas  number  3      cluster/edge-1
`,
			Stderr: `broken: "${nope}": there is no entry "nope"
`,
			Err: "1 of 2 entries has no value: until it has one, the service keeps the configuration that it " +
				"has, or is held back",
		},
		"the only entry has no value": {
			Line: "config web -o name", Hub: previews(missing),
			Asked: `PreviewConfig {"service":"web"}
`,
			Stdout: "broken\n",
			Stderr: `broken: "${nope}": there is no entry "nope"
`,
			Err: "1 of 1 entry has no value: until it has one, the service keeps the configuration that it " +
				"has, or is held back",
		},
		"of a file": {
			Line: "config -f FOLDER/web.yaml", Files: map[string]string{"web.yaml": draft}, Hub: previews(entries[2]),
			Asked: `PreviewConfig {"draft":{"metadata":{"name":"draft"},"spec":{"source":"shop","cluster":"edge-1"}}}
`,
			Stdout: `NAME      TYPE    VALUE  FROM
replicas  number  3      cluster/edge-1
`,
		},
		"of stdin": {
			Line: "config -f - -o name", Stdin: draft, Hub: previews(entries[2]),
			Asked: `PreviewConfig {"draft":{"metadata":{"name":"draft"},"spec":{"source":"shop","cluster":"edge-1"}}}
`,
			Stdout: "replicas\n",
		},
		"of a file with two services": {
			Line: "config -f -", Stdin: draft + "---\n" + draft,
			Err: `the files have mistakes, and nothing was done:
stdin:6: service "draft": is described twice: also at stdin:1`,
		},
		"of a file without a service": {
			Line: "config -f -", Stdin: "apiVersion: fairlead.dev/v1\nkind: Cluster\nmetadata: {name: edge-1}\n",
			Err: "stdin has 0 services: give a file with one",
		},
		"of a file with a wrong field": {
			Line:  "config -f -",
			Stdin: "apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: a}\nspec: {sourc: shop}\n",
			Err: `the files have mistakes, and nothing was done:
stdin:4: service "a": spec.sourc: unknown field; did you mean "source"?`,
		},
		"of a file that is not there": {
			Line: "config -f FOLDER/nope.yaml",
			Err:  "FOLDER/nope.yaml does not exist",
		},
		"of a service and a file": {
			Line: "config web -f -", Stdin: draft,
			Err: "use it as `fairlead config SERVICE | config -f FILE | config --from KIND/NAME [ENTRY]`: see " +
				"`fairlead config --help`",
		},
		"of nothing": {
			Line: "config",
			Err: "use it as `fairlead config SERVICE | config -f FILE | config --from KIND/NAME [ENTRY]`: see " +
				"`fairlead config --help`",
		},
		"of two services": {
			Line: "config web shop",
			Err: "use it as `fairlead config SERVICE | config -f FILE | config --from KIND/NAME [ENTRY]`: see " +
				"`fairlead config --help`",
		},
		"in an unknown form": {
			Line: "config web -o csv", Hub: previews(entries[0]),
			Err: `unknown form of output "csv": known are table, wide, json, yaml, name`,
		},
		"of a service that is not there": {
			Line: "config wbe",
			Hub: []hubtest.Answer{hubtest.Refuses[consolev1.PreviewConfigRequest, consolev1.PreviewConfigResponse](
				previewConfig, connect.CodeNotFound, `service "wbe" does not exist`)},
			Asked: `PreviewConfig {"service":"wbe"}
`,
			Err: "service \"wbe\" does not exist: see `fairlead get services`",
		},
		"of a file that the person may not write": {
			Line: "config -f -", Stdin: draft,
			Hub: []hubtest.Answer{hubtest.Refuses[consolev1.PreviewConfigRequest, consolev1.PreviewConfigResponse](
				previewConfig, connect.CodePermissionDenied, `user:kim may not edit service "draft"`)},
			Asked: `PreviewConfig {"draft":{"metadata":{"name":"draft"},"spec":{"source":"shop","cluster":"edge-1"}}}
`,
			Err: `user:kim may not edit service "draft"`,
		},
	})
}

func TestTheUsersOfAValueAreListed(t *testing.T) {
	t.Parallel()
	// users are a service that gets an entry, and behind a page one that has it of its own.
	users := hubtest.On(listConfigUsers,
		func(req *consolev1.ListConfigUsersRequest) (*consolev1.ListConfigUsersResponse, error) {
			if req.GetPageToken() == "" {
				return &consolev1.ListConfigUsersResponse{NextPageToken: "2", Users: []*consolev1.ConfigUser{{
					Service: "shop", Cluster: "edge-1", Entries: []*consolev1.UsedConfig{
						{Name: "LOG_LEVEL", Origin: "configset/base"}, {Name: "HOST", Origin: "configset/base"},
					},
				}}}, nil
			}
			return &consolev1.ListConfigUsersResponse{Users: []*consolev1.ConfigUser{{
				Service: "web", Cluster: "edge-2", Entries: []*consolev1.UsedConfig{
					{Name: "LOG_LEVEL", Origin: "configset/base", OverriddenBy: "service/web"},
				},
			}}}, nil
		})
	nobody := hubtest.Returns[consolev1.ListConfigUsersRequest](listConfigUsers, &consolev1.ListConfigUsersResponse{})
	hubtest.Run(t, map[string]hubtest.Case{
		"of all entries": {
			Line: "config --from configset/base", Hub: []hubtest.Answer{users},
			Asked: `ListConfigUsers {"kind":"KIND_CONFIG_SET","name":"base","pageSize":500}
ListConfigUsers {"kind":"KIND_CONFIG_SET","name":"base","pageSize":500,"pageToken":"2"}
`,
			Stdout: `SERVICE  CLUSTER  ENTRY      FROM            OVER
shop     edge-1   LOG_LEVEL  configset/base  -
shop     edge-1   HOST       configset/base  -
web      edge-2   LOG_LEVEL  configset/base  service/web
`,
		},
		"of one entry": {
			Line: "config --from configset/base LOG_LEVEL -o name", Hub: []hubtest.Answer{users},
			Asked: `ListConfigUsers {"kind":"KIND_CONFIG_SET","name":"base","entry":"LOG_LEVEL","pageSize":500}
ListConfigUsers {"kind":"KIND_CONFIG_SET","name":"base","entry":"LOG_LEVEL","pageSize":500,"pageToken":"2"}
`,
			Stdout: `service/shop
service/web
`,
		},
		"as JSON": {
			Line: "config --from configset/base -o json", Hub: []hubtest.Answer{users},
			Asked: `ListConfigUsers {"kind":"KIND_CONFIG_SET","name":"base","pageSize":500}
ListConfigUsers {"kind":"KIND_CONFIG_SET","name":"base","pageSize":500,"pageToken":"2"}
`,
			Stdout: `{
  "users": [
    {
      "cluster": "edge-1",
      "entries": [
        {
          "name": "LOG_LEVEL",
          "origin": "configset/base"
        },
        {
          "name": "HOST",
          "origin": "configset/base"
        }
      ],
      "service": "shop"
    },
    {
      "cluster": "edge-2",
      "entries": [
        {
          "name": "LOG_LEVEL",
          "origin": "configset/base",
          "overriddenBy": "service/web"
        }
      ],
      "service": "web"
    }
  ]
}
`,
		},
		"as YAML": {
			Line: "config --from configset/base -o yaml", Hub: []hubtest.Answer{users},
			Asked: `ListConfigUsers {"kind":"KIND_CONFIG_SET","name":"base","pageSize":500}
ListConfigUsers {"kind":"KIND_CONFIG_SET","name":"base","pageSize":500,"pageToken":"2"}
`,
			Stdout: `users:
  - cluster: edge-1
    entries:
      - name: LOG_LEVEL
        origin: configset/base
      - name: HOST
        origin: configset/base
    service: shop
  - cluster: edge-2
    entries:
      - name: LOG_LEVEL
        origin: configset/base
        overriddenBy: service/web
    service: web
`,
		},
		"there are none": {
			Line: "config --from secrets/shop-db", Hub: []hubtest.Answer{nobody},
			Asked: `ListConfigUsers {"kind":"KIND_SECRET","name":"shop-db","pageSize":500}
`,
			Stdout: "no service that you may see gets a value from it\n",
		},
		"in an unknown form": {
			Line: "config --from secret/shop-db -o csv",
			Err:  `unknown form of output "csv": known are table, wide, json, yaml, name`,
		},
		"of a bare name": {
			Line: "config --from base",
			Err:  `--from "base": write KIND/NAME, such as configset/base`,
		},
		"of an unknown kind": {
			Line: "config --from configmap/base",
			Err: `unknown kind "configmap": known are sources, clusters, services, secrets, grants, projects, ` +
				"globalservices, configsets, backends, roles, serviceaccounts, sinks, agentconfigs, alerts, " +
				"viewsets, sessions, logins; ConfigMaps of clusters are in `fairlead get objects --kind " +
				"ConfigMap`, `fairlead tree service NAME --live` and `fairlead kubectl CLUSTER -- get " +
				"configmap`",
		},
		"of no name": {
			Line: "config --from configset/",
			Err:  `--from "configset/": write KIND/NAME, such as configset/base`,
		},
		"of a file, too": {
			Line: "config --from configset/base -f -", Stdin: draft,
			Err: "--filename and --from can't be given together: see `fairlead config --help`",
		},
		"of a kind that has no users": {
			Line: "config --from sink/chat",
			Hub: []hubtest.Answer{hubtest.Refuses[consolev1.ListConfigUsersRequest, consolev1.ListConfigUsersResponse](
				listConfigUsers, connect.CodeInvalidArgument, "kind: a sink has no values")},
			Asked: `ListConfigUsers {"kind":"KIND_SINK","name":"chat","pageSize":500}
`,
			Err: "kind: a sink has no values",
		},
		"the console is away": {
			Line: "config --from configset/base --server AWAY",
			Err:  "AWAY can't be reached: connection refused. Is the hub running there (`fairlead up`)?",
		},
	})
}
