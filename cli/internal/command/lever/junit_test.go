package lever

import (
	"encoding/xml"
	"strings"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

func TestRunsOfTestsAreJUnit(t *testing.T) {
	t.Parallel()
	text, err := renderJUnit("shop", shopRun())
	if err != nil {
		t.Fatal(err)
	}
	var got junitReport
	if err := xml.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if got.Name != "shop" || got.Tests != 8 || got.Failures != 1 || got.Errors != 2 || got.Skipped != 2 ||
		got.Time != "60.000" || len(got.Suites) != 4 {
		t.Errorf("got %+v", got)
	}
	api, smoke, crash := got.Suites[0], got.Suites[1], got.Suites[2]
	if c := api.Cases[0]; api.Tests != 4 || c.Class != "cart" || c.Name != "adds <one>" || c.Time != "1.500" ||
		c.Failure == nil || c.Failure.Text != "want 1,\ngot 2\uFFFD" {
		t.Errorf("api: %+v", api)
	}
	if !strings.Contains(api.Log, "two\n") || api.Name != "shop/api" {
		t.Errorf("api: %+v", api)
	}
	if len(smoke.Cases) != 1 || smoke.Cases[0].Name != "shop/smoke" || smoke.Failures+smoke.Errors > 0 {
		t.Errorf("smoke: %+v", smoke)
	}
	if len(crash.Cases) != 2 || crash.Cases[1].Error == nil || crash.Cases[1].Error.Message != "timed out" ||
		crash.Cases[1].Error.Text != "took longer than 1m" {
		t.Errorf("crash: %+v", crash)
	}
	// Tests that did not run at all are not green.
	text, err = renderJUnit("shop", &deliveryv1.TestRun{
		Id: "a", Outcome: deliveryv1.TestOutcome_TEST_OUTCOME_ERROR, Message: "the service waits",
	})
	if err != nil || !strings.Contains(text, `errors="1"`) || !strings.Contains(text, "the service waits") {
		t.Errorf("%v\n%s", err, text)
	}
}
