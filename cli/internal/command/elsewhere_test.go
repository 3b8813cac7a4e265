package command

import (
	"testing"
)

func TestVerbsOfOtherToolsAreAnsweredWithTheNameThatWasTyped(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		verb string
		args []string
		want string
	}{
		{
			"app",
			[]string{"sync", "shop", "--prune"},
			"there is no `fairlead app sync`: `fairlead sync service shop --wait`; what is pushed is applied by itself, unless the service is in manual mode",
		},
		{
			"rollout",
			[]string{"undo", "service/shop"},
			"there is no `fairlead rollout undo`: `fairlead rollback service shop`",
		},
		{
			"rollout",
			[]string{"undo", "deployment/shop"},
			"there is no `fairlead rollout undo`: `fairlead rollback service NAME`",
		},
		{
			"suspend",
			[]string{"kustomization", "shop"},
			"there is no `fairlead suspend`: `fairlead hold service shop --mode suspend --reason TEXT` keeps all hands off; without --mode what others change is still undone",
		},
		{
			"rollout",
			[]string{"undo", "service/no.name"},
			"there is no `fairlead rollout undo`: `fairlead rollback service NAME`",
		},
		{"cp", []string{"a", "b"}, "there is no `fairlead cp`: `fairlead kubectl CLUSTER -- cp ...`"},
	} {
		if err := adviceOn(test.verb, test.args); err.Error() != test.want {
			t.Errorf("got  %v\nwant %s", err, test.want)
		}
	}
}
