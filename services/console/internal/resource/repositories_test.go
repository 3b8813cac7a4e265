package resource

import (
	"strings"
	"testing"

	"fairlead.dev/services/console/internal/state"
)

func TestSubmoduleRepositoriesArePathsOnTheHost(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		"team/libs": true, "team/*": true, "libs.git": true, "group/sub/libs": true,
		"": false, "*": false, "/*": false, "/team/libs": false, "team/../corp": false, "team//libs": false,
		"team/li*": false, "https://git.example.com/team/libs": false,
		"git@host:team/libs": false, `team\libs`: false, "team/libs/": false, "team/libs\n": false,
	} {
		git := state.GitSource{URL: "https://git.example.com/team/shop", SubmoduleRepositories: []string{text}}
		if err := checkGit(git); (err == nil) != good ||
			err != nil && !strings.Contains(err.Error(), "spec.git.submoduleRepositories") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAllowedHostsAreHosts(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		"charts.example.com": true, "charts.example.com:8443": true, "127.0.0.1:8080": true, "[::1]:8080": true,
		"": false, "https://charts.example.com": false, "charts.example.com/stable": false, "Charts.example.com": false,
		"ada@charts.example.com": false,
		"charts.example.com?a":   false, "*": false, "a b": false,
	} {
		git := state.GitSource{URL: "https://git.example.com/team/shop", Allow: []string{text}}
		if err := checkGit(git); (err == nil) != good ||
			err != nil && !strings.Contains(err.Error(), "spec.git.allow") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestChartSourcesAreNamesOfSources(t *testing.T) {
	t.Parallel()
	for names, good := range map[string]bool{
		"stable": true, "stable,other": true, "": false, "Stable": false,
		"@stable": false, "stable,stable": false, "https://charts.example.com": false,
	} {
		git := state.GitSource{URL: "https://git.example.com/team/shop", ChartSources: strings.Split(names, ",")}
		if err := checkGit(git); (err == nil) != good ||
			err != nil && !strings.Contains(err.Error(), "spec.git.chartSources") {
			t.Errorf("%q: %v", names, err)
		}
	}
}
