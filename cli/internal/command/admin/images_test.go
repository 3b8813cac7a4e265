package admin_test

import (
	"testing"

	"fairlead.dev/cli/internal/hubtest"
)

// What needs a registry is tested in the package command.
func TestMirrorRefusesWhatItCantUse(t *testing.T) {
	t.Parallel()
	hubtest.Run(t, map[string]hubtest.Case{
		"no registry": {
			Line: "images mirror bundle.tar",
			Err:  "use it as `fairlead images mirror BUNDLE REGISTRY`: see `fairlead images mirror --help`",
		},
		"no bundle": {
			Line: "images mirror FOLDER/nope.tar registry.example.com/fairlead --server HUB",
			Err:  "read the bundle: FOLDER/nope.tar does not exist",
		},
		"a bundle that is none": {
			Line: "images mirror FOLDER/text.tar registry.example.com/fairlead", Files: map[string]string{"text.tar": "text"},
			Err: "read FOLDER/text.tar: it is no bundle of a release: unexpected EOF",
		},
		"an address that is none": {
			Line: "images mirror bundle.tar registry.example.com/Fairlead",
			Err: `registry "registry.example.com/Fairlead": must be a host and a path in lower case, such as ` +
				"registry.example.com/fairlead",
		},
		"an authority that is not there": {
			Line: "images mirror bundle.tar registry.example.com --ca-file FOLDER/nope.pem",
			Err:  "--ca-file: FOLDER/nope.pem does not exist",
		},
		"an authority that is none": {
			Line:  "images mirror bundle.tar registry.example.com --ca-file FOLDER/ca.pem",
			Files: map[string]string{"ca.pem": "text"},
			Err:   "the file with the registry's authority has no certificate in PEM",
		},
		"an empty password": {
			Line: "images mirror bundle.tar registry.example.com --username ci --password-stdin", Stdin: "\n",
			Err: "--password-stdin: stdin has no password",
		},
		"an unknown command": {
			Line: "images push bundle.tar",
			Err:  `unknown command "push" for "fairlead images"; known are: mirror`,
		},
	})
}
