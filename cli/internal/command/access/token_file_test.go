package access_test

import (
	"testing"

	"fairlead.dev/cli/internal/hubtest"
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
