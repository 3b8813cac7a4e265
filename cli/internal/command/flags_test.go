package command_test

import (
	"testing"

	"fairlead.dev/cli/internal/hubtest"
)

func TestFlagsThatAreMissingOrTooManyAreNamed(t *testing.T) {
	t.Parallel()
	hubtest.Run(t, map[string]hubtest.Case{
		"one is missing": {
			Line: "create source shop",
			Err:  "--url must be given: see `fairlead create source --help`",
		},
		"two are missing": {
			Line: "create service shop",
			Err:  "--cluster and --source must be given: see `fairlead create service --help`",
		},
		"one of two is missing": {
			Line: "init --dir FOLDER",
			Err:  "--host must be given: see `fairlead init --help`",
		},
		"two exclude each other": {
			Line: "delete --dry-run --detach service/shop",
			Err:  "--detach and --dry-run can't be given together: see `fairlead delete --help`",
		},
		"two of all commands exclude each other": {
			Line: "get services --context a --server HUB",
			Err:  "--context and --server can't be given together: see `fairlead get --help`",
		},
		"one needs another": {
			Line: "images mirror bundle.tar registry.example.com --username ci",
			Err: "--username and --password-stdin must be given together: --password-stdin is missing: " +
				"see `fairlead images mirror --help`",
		},
		"no duration": {
			Line: "hold service shop --reason a --for 1d",
			Err:  "--for: \"1d\" is no duration: write it like 90s, 30m or 24h: see `fairlead hold --help`",
		},
		"one of two is needed": {
			Line: "cluster bind edge-1",
			Err:  "--admins or --bind must be given: see `fairlead cluster bind --help`",
		},
	})
}
