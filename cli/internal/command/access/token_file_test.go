package access_test

import (
	"errors"
	"testing"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/hubtest"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
)

func TestATextThatIsNoTokenIsRefusedBeforeTheHubIsAsked(t *testing.T) {
	t.Parallel()
	hubtest.Run(t, map[string]hubtest.Case{
		"in a file": {
			Line: "login HUB --token-file FOLDER/token", NoHub: true, Files: map[string]string{"token": "one\ntwo\n"},
			Err: "FOLDER/token holds more than a token: leave nothing else in it",
		},
		"in the environment": {
			Line: "whoami", Env: map[string]string{"FAIRLEAD_TOKEN": "one\ntwo"},
			Err: "FAIRLEAD_TOKEN holds more than a token: leave nothing else in it",
		},
	})
}

// A login link works once: where the token can't be kept the hub is not asked.
func TestALoginThatCantBeKeptUsesUpNoLink(t *testing.T) {
	t.Parallel()
	const exchange = consolev1connect.LoginServiceExchangeLoginLinkProcedure
	hubtest.Run(t, map[string]hubtest.Case{
		"with a file of another version": {
			Line: "login 'HUB/v1/login/once#abc'", NoHub: true, Files: map[string]string{"config.yaml": "later: true\n"},
			Env: map[string]string{"FAIRLEAD_CONFIG": "FOLDER/config.yaml"},
			Hub: []hubtest.Answer{hubtest.Returns[consolev1.ExchangeLoginLinkRequest](
				exchange, &consolev1.ExchangeLoginLinkResponse{})},
			Err: "FOLDER/config.yaml is not a configuration of this version of fairlead: " +
				"move it away and run `fairlead login` again",
		},
	})
}

// A person who ends several logins has lost a machine: one that is over already must not keep the others open.
func TestALoginThatIsOverKeepsNoOtherOpen(t *testing.T) {
	t.Parallel()
	end := hubtest.On(consolev1connect.LoginServiceEndLoginProcedure,
		func(req *consolev1.EndLoginRequest) (*consolev1.EndLoginResponse, error) {
			if req.GetId() == "OVER" {
				return nil, connect.NewError(connect.CodeNotFound, errors.New("you have no login OVER"))
			}
			return &consolev1.EndLoginResponse{}, nil
		})
	hubtest.Run(t, map[string]hubtest.Case{
		"the first of two": {
			Line: "logout OVER login/7YCZ", Hub: []hubtest.Answer{end},
			Asked: "EndLogin {\"id\":\"OVER\"}\nEndLogin {\"id\":\"7YCZ\"}\n", Stdout: "login/7YCZ ended\n",
			Stderr: "login/OVER: you have no login OVER\n", Err: "1 of 2 failed, as said above",
		},
	})
}
