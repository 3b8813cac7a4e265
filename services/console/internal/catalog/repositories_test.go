package catalog

import (
	"strings"
	"testing"
)

func TestSubmoduleRepositoriesArePathsOnTheHost(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		"team/libs": true, "team/*": true, "libs.git": true, "group/sub/libs": true,
		"": false, "*": false, "/*": false, "/team/libs": false, "team/../corp": false, "team//libs": false, "team/li*": false, "https://git.example.com/team/libs": false,
		"git@host:team/libs": false, `team\libs`: false, "team/libs/": false, "team/libs\n": false,
	} {
		git := GitSource{URL: "https://git.example.com/team/shop", SubmoduleRepositories: []string{text}}
		if err := git.validate(); (err == nil) != good || err != nil && !strings.Contains(err.Error(), "spec.git.submoduleRepositories") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
