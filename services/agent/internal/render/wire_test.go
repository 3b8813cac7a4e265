package render_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/mistakes"
	"fairlead.dev/services/agent/internal/render"
)

// A child's error has the mistakes, and how many more there are, on the agent's side, too.
func TestAFailureCrossesThePipe(t *testing.T) {
	t.Parallel()
	var all mistakes.List
	for i := range 8 {
		all.Add(&kubeyaml.Error{Position: kubeyaml.Position{File: fmt.Sprintf("%d.yaml", i)}, Problem: "is no YAML"})
	}
	one := &kubeyaml.Error{Position: kubeyaml.Position{File: "a.yaml"}, Problem: "is no YAML"}
	for name, err := range map[string]error{
		"many mistakes": all.Err(), "one mistake": one, "several": errors.Join(one, one), "no mistake": errors.New("killed"),
	} {
		sent, failed := json.Marshal(render.FailureOf(err))
		if failed != nil {
			t.Fatal(failed)
		}
		var got render.Failure
		if failed := json.Unmarshal(sent, &got); failed != nil {
			t.Fatal(failed)
		}
		if got.Err().Error() != err.Error() {
			t.Errorf("%s: got\n%v\nwant\n%v", name, got.Err(), err)
		}
		_, isMistake := errors.AsType[*kubeyaml.Error](got.Err())
		if isMistake != (name != "no mistake") {
			t.Errorf("%s: mistakes: %v", name, isMistake)
		}
	}
}
