package views

import (
	"strings"
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

func TestAQuestionNamesOnlyFiguresThatViewsHave(t *testing.T) {
	t.Parallel()
	sets := map[string]*consolev1.ViewSet{"certs": {Spec: &consolev1.ViewSetSpec{
		Counts: []*deliveryv1.ViewCount{{Name: "issuer"}}, Conditions: []string{"Ready"},
	}}}
	for text, want := range map[string]string{
		"pods.not_ready > 0 AND labels.env = prod": "", "name = pods.not_redy": "", "pods.state.CrashLoopBackOff > 3": "",
		"warnings.reason.FailedMount > 0": "", "workloads.cronjobs_not_well > 0 OR claims.unknown > 0": "",
		"apis.sampled = 1": "",
		"set-certs.total > 0 OR set-certs.Ready.false > 0 OR set-certs.issuer.acme > 0": "", "set-later.any > 0": "",
		"NOT pods.not_redy > 0": `there is no figure "pods.not_redy"; did you mean "pods.not_ready"?`,
		"requests.disk_bandwidth > 0": `there is no figure "requests.disk_bandwidth"; known are: requests.cpu, ` +
			"requests.memory, requests.pods, requests.waiting_cpu, requests.waiting_memory, requests.waiting_pods, " +
			"requests.sampled",
		"used.gpus > 0":             `there is no figure "used.gpus"; did you mean "used.cpu"?`,
		"used.bandwidth > 0":        `there is no figure "used.bandwidth"; known are: used.nodes, used.cpu, used.memory`,
		"set-certs.Redy.false > 0":  `there is no figure "set-certs.Redy.false"; did you mean "set-certs.Ready.false"?`,
		"set-certs.Ready.maybe > 0": `there is no figure "set-certs.Ready.maybe"; did you mean "set-certs.Ready.false"?`,
		"set-certs.issuer > 0":      `there is no figure "set-certs.issuer"; did you mean "set-certs.issuer.<value>"?`,
	} {
		q, err := ParseQuestion(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Mistake(sets); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	q, err := ParseQuestion("set-later.any > 0")
	if err != nil {
		t.Fatal(err)
	}
	if got := q.Missing(sets); !strings.Contains(got, `there is no ViewSet "later"`) {
		t.Errorf("of a ViewSet that is not there: got %q", got)
	}
}
