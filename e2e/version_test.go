package e2e

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
)

// All programs of a build say the version that the linker was given, and so do the services, by the API that pages and
// `fairlead check` ask, and the agents, which report it. What a release's images and charts say is tested in
// tools/images and e2e/charts.
func TestEveryPartSaysTheVersionOfTheBuild(t *testing.T) {
	t.Parallel()
	s := shared(t)
	bins, err := stack.FindBinaries(t.Context(), "..")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for _, program := range []string{
		"fairlead", "console", "gitcache", "distributor", "tunnel", "agent", "agent-render",
	} {
		out, err := process.Run(t.Context(), nil, "", filepath.Join(bins.Dir, program), "--version")
		if err != nil {
			t.Fatal(err)
		}
		said["bin/"+program], _ = strings.CutPrefix(strings.TrimSpace(out), program+" ")
	}
	version := said["bin/fairlead"]
	if version == "" || strings.HasPrefix(version, "dev") {
		t.Errorf("bin/fairlead says %q: the linker was given no version", version)
	}

	token, err := s.Token()
	if err != nil {
		t.Fatal(err)
	}
	for name, url := range s.Hub {
		var answer struct{ Service, Version string }
		status, body := get(t, hubClient(t, s), url+"/version", token)
		if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK ||
			answer.Service != name {
			t.Errorf("%s/version answers %d: %s", name, status, body)
		}
		said[name+"/version"] = answer.Version
	}
	for _, c := range s.Clusters {
		out, err := s.Fairlead(t.Context(), "get", "cluster", c.Name, "-o", "jsonpath={.status.agentVersion}")
		if err != nil {
			t.Fatal(err)
		}
		said["the agent of "+c.Name] = strings.TrimSpace(out)
	}
	for what, got := range said {
		if got != version {
			t.Errorf("%s says %q, and bin/fairlead %q: run `make build`", what, got, version)
		}
	}
}
