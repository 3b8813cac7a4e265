package check_test

import (
	"net/http"
	"testing"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/hubtest"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/version"
)

// A console that hangs is asked once for the caller, and for nothing of its catalog.
func TestAConsoleThatDoesNotAnswerIsNotAskedForTheCatalog(t *testing.T) {
	t.Parallel()
	away := []string{hubtest.Away}
	hubtest.Run(t, map[string]hubtest.Case{"hangs": {
		Line: "check", Gitcaches: away, Distributors: away, Tunnels: away,
		Hub: []hubtest.Answer{
			hubtest.Refuses[consolev1.GetCallerRequest, consolev1.GetCallerResponse](
				consolev1connect.AccessServiceGetCallerProcedure, connect.CodeDeadlineExceeded, "too late"),
			hubtest.Page("/readyz", http.StatusServiceUnavailable, "it hangs"),
		},
		Asked: "GetCaller {}\nGET /readyz\n",
		Stdout: "ok    client: " + version.String() + "\nFAIL  token: too late\n" +
			"FAIL  console HUB: it hangs: look at its log\n" +
			"FAIL  gitcache AWAY: can't be reached: connection refused. Is the hub running there (`fairlead up`)?\n" +
			"FAIL  distributor AWAY: can't be reached: connection refused. Is the hub running there (`fairlead up`)?\n" +
			"FAIL  tunnel AWAY: can't be reached: connection refused. Is the hub running there (`fairlead up`)?\n" +
			"FAIL  catalog: not asked: the console does not answer\n",
		Err: "6 of 7 checks failed",
	}})
}
