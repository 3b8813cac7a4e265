package access_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/hubtest"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
)

const (
	createToken = consolev1connect.TokenServiceCreateTokenProcedure
	listTokens  = consolev1connect.TokenServiceListTokensProcedure
	revokeToken = consolev1connect.TokenServiceRevokeTokenProcedure
	getCaller   = consolev1connect.AccessServiceGetCallerProcedure
	checkAccess = consolev1connect.AccessServiceCheckAccessProcedure
)

// local is how a moment is written to a person.
func local(at time.Time) string { return at.Local().Format(time.DateTime) }

// Where there is no browser, a person is told how one elsewhere is logged in.
func TestAPageWithoutABrowserIsOpenedElsewhere(t *testing.T) {
	t.Parallel()
	const options = consolev1connect.LoginServiceGetLoginOptionsProcedure
	person := hubtest.Returns[consolev1.GetCallerRequest](getCaller, &consolev1.GetCallerResponse{Subject: "user:kim"})
	const asked = "GetLoginOptions {}\n"
	hubtest.Run(t, map[string]hubtest.Case{
		"by a link": {
			Line: "open", Env: map[string]string{"BROWSER": "false"}, Asked: asked + "GetCaller {}\n",
			Hub: []hubtest.Answer{person, hubtest.Returns[consolev1.GetLoginOptionsRequest](
				options, &consolev1.GetLoginOptionsResponse{})},
			Err: "false opened no browser (exit status 1): open HUB/ yourself. " +
				"A browser is logged in there by a link, which an administrator makes: `fairlead admin login-link USER`",
		},
		"by an identity provider": {
			Line: "open", Env: map[string]string{"BROWSER": "false"}, Asked: asked,
			Hub: []hubtest.Answer{hubtest.Returns[consolev1.GetLoginOptionsRequest](
				options, &consolev1.GetLoginOptionsResponse{Oidc: &consolev1.OIDCOptions{}})},
			Err: "false opened no browser (exit status 1): open HUB/ yourself",
		},
	})
}

func TestTokensAreMadeListedAndRevoked(t *testing.T) {
	t.Parallel()
	until := clitest.Noon().Add(time.Hour)
	made := []hubtest.Answer{hubtest.Returns[consolev1.CreateTokenRequest](createToken, &consolev1.CreateTokenResponse{
		Token: "fairlead_0a1b_secret", Info: &consolev1.APIToken{Id: "0a1b", ExpireTime: timestamppb.New(until)},
	})}
	pages := func(req *consolev1.ListTokensRequest) (*consolev1.ListTokensResponse, error) {
		if req.GetPageToken() == "" {
			return &consolev1.ListTokensResponse{NextPageToken: "2", Tokens: []*consolev1.APIToken{{
				Id: "0a1b", Subject: "serviceaccount:ci", Description: "the pipeline", ExpireTime: timestamppb.New(until),
				Limits: &consolev1.TokenLimits{
					Role: "deployer", Projects: []string{"shop", "web"},
					Clusters: &consolev1.ClusterSelector{Names: []string{"edge-1"}},
				},
			}}}, nil
		}
		return &consolev1.ListTokensResponse{Tokens: []*consolev1.APIToken{{
			Id: "2c3d", Subject: "user:kim",
			Limits: &consolev1.TokenLimits{Clusters: &consolev1.ClusterSelector{Labels: map[string]string{"env": "prod"}}},
		}}}, nil
	}
	listed := []hubtest.Answer{hubtest.On(listTokens, pages)}
	none := []hubtest.Answer{hubtest.Returns[consolev1.ListTokensRequest](listTokens, &consolev1.ListTokensResponse{})}
	revoked := []hubtest.Answer{hubtest.Returns[consolev1.RevokeTokenRequest](revokeToken,
		&consolev1.RevokeTokenResponse{})}
	hubtest.Run(t, map[string]hubtest.Case{
		"one for the person": {
			Line: "token create", Hub: made, Stderr: "token 0a1b, good until " + local(until) + "\n",
			Asked: `CreateToken {"lifetime":"2592000s","limits":{}}
`,
			Stdout: "fairlead_0a1b_secret\n",
		},
		"one for a program": {
			Line: "token create --service-account ci --role deployer --cluster edge-1 --lifetime 1h", Hub: made,
			Stderr: "token 0a1b, good until " + local(until) + "\n",
			Asked: `CreateToken {"serviceAccount":"ci","lifetime":"3600s","limits":{"role":"deployer","clusters":{"names":["edge-1"]}}}
`,
			Stdout: "fairlead_0a1b_secret\n",
		},
		"one by somebody who may not": {
			Line: "token create --service-account ci",
			Hub: []hubtest.Answer{hubtest.Refuses[consolev1.CreateTokenRequest, consolev1.CreateTokenResponse](
				createToken, connect.CodePermissionDenied, `user:kim may not edit serviceaccount "ci"`)},
			Asked: `CreateToken {"serviceAccount":"ci","lifetime":"2592000s","limits":{}}
`,
			Err: `user:kim may not edit serviceaccount "ci"`,
		},
		"one with an argument": {
			Line: "token create ci",
			Err:  "use it as `fairlead token create`: see `fairlead token create --help`",
		},
		"all": {
			Line: "token list", Hub: listed,
			Stdout: `ID    OWNER              LIMITS                                             ` +
				`EXPIRES              USED   DESCRIPTION
0a1b  serviceaccount:ci  role deployer, projects shop web, clusters edge-1  ` + local(until) + `  never  the pipeline
2c3d  user:kim           some clusters                                      never                never  -
`,
			Asked: `ListTokens {"pageSize":1000}
ListTokens {"pageSize":1000,"pageToken":"2"}
`,
		},
		"none of a subject": {
			Line: "tokens list --subject user:bob", Hub: none,
			Asked: `ListTokens {"subject":"user:bob","pageSize":1000}
`,
			Stderr: "no tokens yet: make one with `fairlead token create`\n",
		},
		"one is revoked": {
			Line: "token revoke 0a1b", Hub: revoked,
			Asked: `RevokeToken {"id":"0a1b"}
`,
			Stdout: "token/0a1b revoked\n",
		},
		"none is revoked": {
			Line: "token revoke",
			Err:  "use it as `fairlead token revoke ID`: see `fairlead token revoke --help`",
		},
		"an unknown command": {
			Line: "token delete 0a1b",
			Err:  `unknown command "delete" for "fairlead token"; known are: create, list, revoke`,
		},
		"revoked what is not there": {
			Line: "token revoke 9z",
			Hub: []hubtest.Answer{hubtest.Refuses[consolev1.RevokeTokenRequest, consolev1.RevokeTokenResponse](
				revokeToken, connect.CodeNotFound, `token "9z" does not exist`)},
			Asked: `RevokeToken {"id":"9z"}
`,
			Err: `token "9z" does not exist`,
		},
	})
}

func TestAPersonIsToldWhoTheyAre(t *testing.T) {
	t.Parallel()
	is := func(res *consolev1.GetCallerResponse) []hubtest.Answer {
		return []hubtest.Answer{hubtest.Returns[consolev1.GetCallerRequest](getCaller, res)}
	}
	until := clitest.Noon().Add(time.Hour)
	hubtest.Run(t, map[string]hubtest.Case{
		"an administrator": {
			Line: "whoami", Hub: is(&consolev1.GetCallerResponse{
				Subject: "user:ada", Administrator: true, Groups: []string{"dev", "fairlead:admins"},
			}),
			Asked: "GetCaller {}\n",
			Stdout: `user:ada at HUB
groups: dev, fairlead:admins
administrator: everything
`,
		},
		"a person with grants": {
			Line: "whoami", Hub: is(&consolev1.GetCallerResponse{
				Subject: "user:kim", ExpireTime: timestamppb.New(until),
				Grants: []*consolev1.Grant{{Metadata: clitest.Meta("shop-dev")}, {Metadata: clitest.Meta("view")}},
			}), Stdout: "user:kim at HUB\ngrants: shop-dev, view\nuntil " + local(until) + "\n",
			Asked: "GetCaller {}\n",
		},
		"a person without": {
			Line: "whoami", Hub: is(&consolev1.GetCallerResponse{Subject: "user:bob"}),
			Asked: "GetCaller {}\n",
			Stdout: `user:bob at HUB
no grants: ask an administrator for one
`,
		},
		"an argument": {
			Line: "whoami bob",
			Err:  "use it as `fairlead whoami`: see `fairlead whoami --help`",
		},
		"a token that is over": {
			Line: "whoami",
			Hub: []hubtest.Answer{hubtest.Refuses[consolev1.GetCallerRequest, consolev1.GetCallerResponse](
				getCaller, connect.CodeUnauthenticated, "the token has expired: run `fairlead login`")},
			Asked: "GetCaller {}\n",
			Err: "HUB does not accept the token in FAIRLEAD_TOKEN (the token has expired). Make a new one: " +
				"fairlead token create",
		},
		"not logged in": {
			Line: "whoami", NoHub: true,
			Err: "not logged in to any hub: run `fairlead login URL`, or `fairlead up` to try one here " +
				"(looked in CONFIG)",
		},
		"logged in by a token": {
			Line: "logout",
			Err:  "the token is in FAIRLEAD_TOKEN, and not of a login: `fairlead token revoke ID` revokes it",
		},
		"logins and others of theirs": {
			Line: "logout 7YCZ --others",
			Err:  "use it as `fairlead logout [ID... | --others]`: see `fairlead logout --help`",
		},
	})
}

func TestAPersonAsksWhatTheyMay(t *testing.T) {
	t.Parallel()
	answers := func(allowed bool, reason string) []hubtest.Answer {
		return []hubtest.Answer{hubtest.Returns[consolev1.CheckAccessRequest](checkAccess,
			&consolev1.CheckAccessResponse{Allowed: allowed, Reason: reason})}
	}
	hubtest.Run(t, map[string]hubtest.Case{
		"yes": {
			Line: "can-i edit service/web", Hub: answers(true, `grant "shop-dev"`),
			Asked: `CheckAccess {"verb":"edit","kind":"Service","name":"web"}
`,
			Stdout: `yes, by grant "shop-dev"
`,
		},
		"no": {
			Line: "can-i delete services --project shop --cluster edge-1", Hub: answers(false, "no grant gives it"),
			Asked: `CheckAccess {"verb":"delete","kind":"Service","project":"shop","cluster":"edge-1"}
`,
			Stdout: "no: no grant gives it\n",
			Err:    "exit code 1",
		},
		"somebody else": {
			Line: "can-i exec --cluster edge-1 --as user:bob --group dev", Hub: answers(true, `grant "ops"`),
			Asked: `CheckAccess {"verb":"exec","cluster":"edge-1","subject":"user:bob","groups":["dev"]}
`,
			Stdout: `yes, by grant "ops"
`,
		},
		"a kind that the hub may know": {
			Line: "can-i view Widget", Hub: answers(false, "there is no kind Widget"),
			Asked: `CheckAccess {"verb":"view","kind":"Widget"}
`,
			Stdout: "no: there is no kind Widget\n",
			Err:    "exit code 1",
		},
		"nothing": {
			Line: "can-i",
			Err:  "use it as `fairlead can-i VERB [KIND[/NAME]]`: see `fairlead can-i --help`",
		},
		"too much": {
			Line: "can-i edit service web",
			Err:  "use it as `fairlead can-i VERB [KIND[/NAME]]`: see `fairlead can-i --help`",
		},
	})
}
