package view

import (
	"fmt"
	"net/url"
	"strings"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

func (v View) sinkRow(s *consolev1.Sink) (r row) {
	name, state, status := s.GetMetadata().GetName(), "Ready", s.GetStatus()
	switch problem := status.GetProblem(); {
	case s.GetSpec().GetDisabled():
		state = "Disabled"
	case problem.GetMessage() != "":
		state = "Failing"
		r.notes = []note{{about: name, text: problem.GetMessage(), since: problem.GetSince()}}
	}
	waiting, interval := "", ""
	if status.GetWaiting() > 0 {
		waiting = fmt.Sprint(status.GetWaiting())
	}
	if s.GetSpec().GetInterval() != nil {
		interval = s.GetSpec().GetInterval().AsDuration().String()
	}
	r.cells = []cell{
		{"NAME", name},
		{"STATE", state},
		{"TO", sinkTo(s.GetSpec())},
		{"PROJECT", s.GetSpec().GetProject()},
		{"SENT", v.AgoText(status.GetSendTime())},
		{"WAITING", waiting},
	}
	r.more = []cell{
		{"EVENTS", fmt.Sprint(status.GetSent())}, {"GIVEN-UP", fmt.Sprint(status.GetDropped())}, {"INTERVAL", interval},
	}
	return r
}

// sinkTo is for people: of a URL the host, for what is behind it is long.
func sinkTo(spec *consolev1.SinkSpec) string {
	at := func(kind, address string) string {
		if u, err := url.Parse(address); err == nil && u.Host != "" {
			return kind + " " + u.Host
		}
		return kind
	}
	switch to := spec.GetTo().(type) {
	case *consolev1.SinkSpec_Webhook:
		return at("webhook", to.Webhook.GetUrl())
	case *consolev1.SinkSpec_Teams:
		return "teams"
	case *consolev1.SinkSpec_PagerDuty:
		return at("pagerduty", to.PagerDuty.GetUrl())
	case *consolev1.SinkSpec_Alertmanager:
		return at("alertmanager", to.Alertmanager.GetUrl())
	case *consolev1.SinkSpec_Grafana:
		return at("grafana", to.Grafana.GetUrl())
	case *consolev1.SinkSpec_Github:
		return at("github", to.Github.GetUrl())
	case *consolev1.SinkSpec_Gitlab:
		return at("gitlab", to.Gitlab.GetUrl())
	case *consolev1.SinkSpec_Gitea:
		return at("gitea", to.Gitea.GetUrl())
	case *consolev1.SinkSpec_Bitbucket:
		return at("bitbucket", to.Bitbucket.GetUrl())
	case *consolev1.SinkSpec_Email:
		return "email " + strings.Join(to.Email.GetTo(), ",")
	}
	return "slack"
}
