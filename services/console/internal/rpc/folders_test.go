package rpc

import (
	"fmt"
	"strings"
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

func TestAFolderDeclaresTenThousandResourcesAtMost(t *testing.T) {
	t.Parallel()
	const most = 10_000
	of := func(from, to int) *consolev1.FolderFile {
		var text strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&text, "---\napiVersion: fairlead.dev/v1\nkind: Project\nmetadata: {name: p%d}\nspec: {}\n", i)
		}
		return &consolev1.FolderFile{Path: fmt.Sprintf("p%d.yaml", from), Data: []byte(text.String())}
	}
	whole := []*consolev1.FolderFile{of(0, most-1), of(most-1, most)}
	if objects, problems, err := declared(whole); err != nil || len(problems) > 0 || len(objects) != most {
		t.Errorf("of %d there are %d, with %d problems: %v", most, len(objects), len(problems), err)
	}
	objects, _, err := declared(append(whole, of(most, most+1)))
	if err == nil || len(objects) > 0 || !strings.Contains(err.Error(), "more than 10000 resources: make several services of it") {
		t.Errorf("of one more there are %d, %v", len(objects), err)
	}
}
