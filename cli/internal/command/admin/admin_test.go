package admin_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/hubtest"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
)

const (
	createUserToken = consolev1connect.IdentityServiceCreateUserTokenProcedure
	revokeTokens    = consolev1connect.IdentityServiceRevokeTokensProcedure
	rotateKey       = consolev1connect.IdentityServiceRotateSigningKeyProcedure
	createLoginLink = consolev1connect.LoginServiceCreateLoginLinkProcedure
)

func TestAdministratorsHandOutAccess(t *testing.T) {
	t.Parallel()
	until := clitest.Noon().Add(time.Hour)
	token := hubtest.Returns[consolev1.CreateUserTokenRequest](createUserToken, &consolev1.CreateUserTokenResponse{
		Token: &consolev1.Token{Token: "the-token", ExpireTime: timestamppb.New(until)},
	})
	link := hubtest.Returns[consolev1.CreateLoginLinkRequest](createLoginLink,
		&consolev1.CreateLoginLinkResponse{Link: "https://hub.example.com/v1/login/once#fairlead-login-abc"})
	hubtest.Run(t, map[string]hubtest.Case{
		"a token": {
			Line: "admin token bob", Hub: []hubtest.Answer{token},
			Stderr: "good until " + until.Local().Format(time.DateTime) + "\n",
			Asked: `CreateUserToken {"user":"bob","lifetime":"43200s"}
`,
			Stdout: "the-token\n",
		},
		"a token for groups, for an hour": {
			Line: "admin token bob --group dev --group 'on call' --lifetime 1h", Hub: []hubtest.Answer{token},
			Stderr: "good until " + until.Local().Format(time.DateTime) + "\n",
			Asked: `CreateUserToken {"user":"bob","groups":["dev","on call"],"lifetime":"3600s"}
`,
			Stdout: "the-token\n",
		},
		"a token that is good for too long": {
			Line: "admin token bob --lifetime 48h",
			Hub: []hubtest.Answer{hubtest.Refuses[consolev1.CreateUserTokenRequest, consolev1.CreateUserTokenResponse](
				createUserToken, connect.CodeInvalidArgument, "validation error: lifetime: must be at most 12h")},
			Asked: `CreateUserToken {"user":"bob","lifetime":"172800s"}
`,
			Err: "--lifetime: must be at most 12h",
		},
		"a lifetime that is none": {
			Line: "admin token bob --lifetime long",
			Err: "--lifetime: \"long\" is no duration: write it like 90s, 30m or 24h: see `fairlead " +
				"admin token --help`",
		},
		"a token for nobody": {
			Line: "admin token",
			Err:  "use it as `fairlead admin token USER`: see `fairlead admin token --help`",
		},
		"a link": {
			Line: "admin login-link ada --group fairlead:admins", Hub: []hubtest.Answer{link},
			Asked: `CreateLoginLink {"user":"ada","groups":["fairlead:admins"]}
`,
			Stdout: "https://hub.example.com/v1/login/once#fairlead-login-abc\n",
		},
		"a link for nobody": {
			Line: "admin login-link",
			Err:  "use it as `fairlead admin login-link USER`: see `fairlead admin login-link --help`",
		},
		"a link by somebody else": {
			Line: "admin login-link ada",
			Hub: []hubtest.Answer{hubtest.Refuses[consolev1.CreateLoginLinkRequest, consolev1.CreateLoginLinkResponse](
				createLoginLink, connect.CodePermissionDenied, "CreateLoginLink: it is for administrator")},
			Asked: `CreateLoginLink {"user":"ada"}
`,
			Err: "CreateLoginLink: it is for administrators, who are the members of group fairlead:admins: " +
				"ask one of them",
		},
		"an unknown command": {
			Line: "admin tokens",
			Err:  `unknown command "tokens" for "fairlead admin"; did you mean "token"?`,
		},
	})
}

func TestAdministratorsEndAccess(t *testing.T) {
	t.Parallel()
	revoked := hubtest.Returns[consolev1.RevokeTokensRequest](revokeTokens, &consolev1.RevokeTokensResponse{})
	rotated := hubtest.Returns[consolev1.RotateSigningKeyRequest](rotateKey,
		&consolev1.RotateSigningKeyResponse{KeyId: "k2"})
	hubtest.Run(t, map[string]hubtest.Case{
		"of a person": {
			Line: "admin revoke user:ada", Hub: []hubtest.Answer{revoked},
			Asked: `RevokeTokens {"subject":"user:ada"}
`,
			Stdout: "tokens of user:ada revoked\n",
		},
		"of an agent": {
			Line: "admin revoke agent:edge-1", Hub: []hubtest.Answer{revoked},
			Asked: `RevokeTokens {"subject":"agent:edge-1"}
`,
			Stdout: "tokens of agent:edge-1 revoked\n",
		},
		"of a service": {
			Line: "admin revoke service:gitcache-0", Hub: []hubtest.Answer{revoked},
			Asked: `RevokeTokens {"subject":"service:gitcache-0"}
`,
			Stdout: "tokens of service:gitcache-0 revoked\n",
		},
		"of one token": {
			Line: "admin revoke token:0a1b", Hub: []hubtest.Answer{revoked},
			Asked: `RevokeTokens {"tokenId":"0a1b"}
`,
			Stdout: "tokens of token:0a1b revoked\n",
		},
		"of a name without kind": {
			Line: "admin revoke ada",
			Err:  `subject "ada": must be user:NAME, agent:CLUSTER, service:NAME or token:ID`,
		},
		"of a kind without name": {
			Line: "admin revoke user:",
			Err:  `subject "user:": must be user:NAME, agent:CLUSTER, service:NAME or token:ID`,
		},
		"of an unknown kind": {
			Line: "admin revoke group:dev",
			Err:  `subject "group:dev": must be user:NAME, agent:CLUSTER, service:NAME or token:ID`,
		},
		"of nobody": {
			Line: "admin revoke",
			Err:  "use it as `fairlead admin revoke SUBJECT`: see `fairlead admin revoke --help`",
		},
		"of what is unknown": {
			Line: "admin revoke agent:edge-9",
			Hub: []hubtest.Answer{hubtest.Returns[consolev1.RevokeTokensRequest](
				revokeTokens, &consolev1.RevokeTokensResponse{Unknown: true})},
			Asked: `RevokeTokens {"subject":"agent:edge-9"}
`,
			Stdout: "the hub knows no token of agent:edge-9: is the name right? " +
				"Tokens that it does not know are revoked, too\n",
		},
		"by a new key": {
			Line: "admin rotate-key", Hub: []hubtest.Answer{rotated},
			Asked:  "RotateSigningKey {}\n",
			Stdout: "key k2 signs in 30 s\n",
		},
		"by a new key with argument": {
			Line: "admin rotate-key now",
			Err:  "use it as `fairlead admin rotate-key`: see `fairlead admin rotate-key --help`",
		},
		"by a new key, console away": {
			Line: "admin rotate-key --server AWAY",
			Err:  "AWAY can't be reached: connection refused. Is the hub running there (`fairlead up`)?",
		},
	})
}

func TestABackendIsReadNow(t *testing.T) {
	t.Parallel()
	const get = consolev1connect.BackendServiceGetBackendProcedure
	const check = consolev1connect.BackendServiceCheckBackendProcedure
	backend := hubtest.Returns[consolev1.GetBackendRequest](get,
		&consolev1.GetBackendResponse{Backend: &consolev1.Backend{Metadata: clitest.Meta("vault")}})
	checked := func(res *consolev1.CheckBackendResponse) []hubtest.Answer {
		return []hubtest.Answer{backend, hubtest.Returns[consolev1.CheckBackendRequest](check, res)}
	}
	hubtest.Run(t, map[string]hubtest.Case{
		"it lets the hub in": {
			Line: "admin check-backend vault", Hub: checked(&consolev1.CheckBackendResponse{}),
			Asked: `GetBackend {"name":"vault"}
CheckBackend {"backend":{"metadata":{"name":"vault"}}}
`,
			Stdout: `backend "vault" can be read
`,
		},
		"by its reference": {
			Line: "admin check-backend backend/vault shop/db",
			Hub:  checked(&consolev1.CheckBackendResponse{Keys: []string{"password", "user"}}),
			Asked: `GetBackend {"name":"vault"}
CheckBackend {"backend":{"metadata":{"name":"vault"}},"path":"shop/db"}
`,
			Stdout: `password
user
`,
		},
		"it does not let the hub in": {
			Line: "admin check-backend vault", Hub: checked(&consolev1.CheckBackendResponse{Problem: "403 permission denied"}),
			Asked: `GetBackend {"name":"vault"}
CheckBackend {"backend":{"metadata":{"name":"vault"}}}
`,
			Err: `backend "vault": 403 permission denied`,
		},
		"there is nothing at the path": {
			Line: "admin check-backend vault shop/dbb",
			Hub:  checked(&consolev1.CheckBackendResponse{Problem: "there is no such secret"}),
			Asked: `GetBackend {"name":"vault"}
CheckBackend {"backend":{"metadata":{"name":"vault"}},"path":"shop/dbb"}
`,
			Err: `backend "vault": shop/dbb there is no such secret`,
		},
		"it is not there": {
			Line: "admin check-backend valt",
			Hub: []hubtest.Answer{hubtest.Refuses[consolev1.GetBackendRequest, consolev1.GetBackendResponse](
				get, connect.CodeNotFound, `backend "valt" does not exist`)},
			Asked: `GetBackend {"name":"valt"}
`,
			Err: "backend \"valt\" does not exist: see `fairlead get backends`",
		},
		"the person may not": {
			Line: "admin check-backend vault",
			Hub: []hubtest.Answer{backend, hubtest.Refuses[consolev1.CheckBackendRequest, consolev1.CheckBackendResponse](
				check, connect.CodePermissionDenied, `user:kim may not edit backend "vault"`)},
			Asked: `GetBackend {"name":"vault"}
CheckBackend {"backend":{"metadata":{"name":"vault"}}}
`,
			Err: `user:kim may not edit backend "vault"`,
		},
		"another kind": {
			Line: "admin check-backend sink/vault",
			Err:  `"sink/vault": a backend is wanted here`,
		},
		"no name": {
			Line: "admin check-backend",
			Err: "use it as `fairlead admin check-backend BACKEND [PATH]`: see `fairlead admin check-backend " +
				"--help`",
		},
	})
}

func TestASinkIsTried(t *testing.T) {
	t.Parallel()
	const testSink = consolev1connect.SinkServiceTestSinkProcedure
	answered := func(accepted bool, text string) []hubtest.Answer {
		return []hubtest.Answer{hubtest.Returns[consolev1.TestSinkRequest](testSink, &consolev1.TestSinkResponse{
			Accepted: accepted, Answer: text, Duration: durationpb.New(12345678 * time.Nanosecond),
		})}
	}
	hubtest.Run(t, map[string]hubtest.Case{
		"it takes an event": {
			Line: "sink test chat", Hub: answered(true, "200 OK"),
			Asked: `TestSink {"name":"chat"}
`,
			Stdout: `sink "chat" took it within 12ms: 200 OK
`,
		},
		"by its reference": {
			Line: "sink test sink/chat", Hub: answered(true, "200 OK"),
			Asked: `TestSink {"name":"chat"}
`,
			Stdout: `sink "chat" took it within 12ms: 200 OK
`,
		},
		"by the command of before": {
			Line: "admin test-sink chat", Hub: answered(true, "200 OK"),
			Asked: `TestSink {"name":"chat"}
`,
			Stdout: `sink "chat" took it within 12ms: 200 OK
`,
		},
		"it refuses": {
			Line: "sink test chat", Hub: answered(false, "404 Not\n\x1b[31mFound: is the URL right?"),
			Asked: `TestSink {"name":"chat"}
`,
			Err: `sink "chat" does not take it: 404 Not [31mFound: is the URL right?`,
		},
		"it is not there": {
			Line: "sink test chta",
			Hub: []hubtest.Answer{hubtest.Refuses[consolev1.TestSinkRequest, consolev1.TestSinkResponse](
				testSink, connect.CodeNotFound, `sink "chta" does not exist`)},
			Asked: `TestSink {"name":"chta"}
`,
			Err: "no sink \"chta\": see `fairlead get sinks`",
		},
		"the person may not": {
			Line: "sink test chat",
			Hub: []hubtest.Answer{hubtest.Refuses[consolev1.TestSinkRequest, consolev1.TestSinkResponse](
				testSink, connect.CodePermissionDenied, `user:kim may not edit sink "chat"`)},
			Asked: `TestSink {"name":"chat"}
`,
			Err: `user:kim may not edit sink "chat"`,
		},
		"no name": {
			Line: "sink test",
			Err:  "use it as `fairlead sink test SINK`: see `fairlead sink test --help`",
		},
		"an unknown command": {
			Line: "sink try chat",
			Err:  `unknown command "try" for "fairlead sink"; known are: test`,
		},
	})
}
