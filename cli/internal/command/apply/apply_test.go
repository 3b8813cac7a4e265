package apply_test

import (
	"testing"

	"fairlead.dev/cli/internal/hubtest"
)

// What "get -o json" prints of nothing can be applied.
func TestAnEmptyListIsNothingToApply(t *testing.T) {
	t.Parallel()
	const list = `{"apiVersion":"fairlead.dev/v1","kind":"List","items":[]}`
	hubtest.Run(t, map[string]hubtest.Case{
		"a list": {Line: "apply -f -", Stdin: list, Stderr: "nothing to apply\n"},
		"of a set that is pruned": {
			Line: "apply -f - --set a --prune", Stdin: list, Err: "the list is empty: no resources in -",
		},
		"nothing": {Line: "apply -f -", Stdin: "# nothing\n", Err: "no resources in -"},
	})
}

func TestAnEditWithoutATerminalIsRefused(t *testing.T) {
	t.Parallel()
	hubtest.Run(t, map[string]hubtest.Case{
		"no editor": {
			Line: "edit service shop",
			Err: "there is no terminal here, and none of FAIRLEAD_EDITOR, KUBE_EDITOR, VISUAL and EDITOR names an editor: " +
				"change what `fairlead get service shop -o yaml` prints, and give it to `fairlead apply -f FILE`",
		},
	})
}
