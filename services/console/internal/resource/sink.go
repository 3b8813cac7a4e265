package resource

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// SinkSpec is where events are sent to. One of Webhook to Bitbucket is set.
type SinkSpec struct {
	Webhook      *WebhookSink      `json:"webhook,omitempty"`
	Slack        *SlackSink        `json:"slack,omitempty"`
	Email        *EmailSink        `json:"email,omitempty"`
	Teams        *TeamsSink        `json:"teams,omitempty"`
	PagerDuty    *PagerDutySink    `json:"pagerDuty,omitempty"`
	Alertmanager *AlertmanagerSink `json:"alertmanager,omitempty"`
	Grafana      *GrafanaSink      `json:"grafana,omitempty"`
	GitHub       *CommitStatusSink `json:"github,omitempty"`
	GitLab       *CommitStatusSink `json:"gitlab,omitempty"`
	Gitea        *CommitStatusSink `json:"gitea,omitempty"`
	Bitbucket    *CommitStatusSink `json:"bitbucket,omitempty"`
	// Project whose events they are; empty: all of the hub.
	Project string `json:"project,omitempty"`
	// Types, Projects, Clusters and Services are patterns; none: any.
	Types    []string `json:"types,omitempty"`
	Projects []string `json:"projects,omitempty"`
	Clusters []string `json:"clusters,omitempty"`
	Services []string `json:"services,omitempty"`
	// Severity is the least one, as filters write it; empty: it depends.
	Severity string `json:"severity,omitempty"`
	Filter   string `json:"filter,omitempty"`
	Template string `json:"template,omitempty"`
	Disabled bool   `json:"disabled,omitempty"`
	// Interval between messages, and RetryFor how long an event is tried; 0: the default.
	Interval time.Duration `json:"intervalNanos,omitzero"`
	RetryFor time.Duration `json:"retryForNanos,omitzero"`
	// Credentials are secrets and references, by the names below.
	Credentials state.Settings `json:"credentials,omitempty"`
}

// The names of credentials: of webhooks and PagerDuty; of Slack and Teams; of email and Alertmanager; of Grafana and
// Git hosts.
const (
	SinkKey      = "key"
	SinkURL      = "url"
	SinkPassword = "password"
	SinkToken    = "token"
)

// WebhookSink is an HTTP POST.
type WebhookSink struct {
	URL string `json:"url"`
	// CA is in PEM; empty: the authorities of the system. So are the other ones.
	CA string `json:"ca,omitempty"`
}

// SlackSink is an incoming webhook of Slack, of which the URL is a credential.
type SlackSink struct {
	CA string `json:"ca,omitempty"`
}

// TeamsSink is a webhook of a workflow of Teams, of which the URL is a credential.
type TeamsSink struct {
	CA string `json:"ca,omitempty"`
}

// PagerDutySink is PagerDuty's Events API v2.
type PagerDutySink struct {
	URL string `json:"url,omitempty"` // Empty: PagerDuty's own.
	CA  string `json:"ca,omitempty"`
}

// AlertmanagerSink is the API of an Alertmanager.
type AlertmanagerSink struct {
	URL      string `json:"url"`
	Username string `json:"username,omitempty"`
	CA       string `json:"ca,omitempty"`
}

// GrafanaSink is the annotations of a Grafana.
type GrafanaSink struct {
	URL       string `json:"url"`
	Dashboard string `json:"dashboard,omitempty"`
	CA        string `json:"ca,omitempty"`
}

// CommitStatusSink is the statuses of commits at a Git host.
type CommitStatusSink struct {
	URL string `json:"url,omitempty"` // Empty: the public one of its kind.
	// Repositories are patterns of owner/name; none: any.
	Repositories []string `json:"repositories,omitempty"`
	// Context is the first part of the names of statuses; empty: fairlead.
	Context string `json:"context,omitempty"`
	// Brief leaves clusters and problems out of descriptions.
	Brief bool   `json:"brief,omitempty"`
	CA    string `json:"ca,omitempty"`
}

// EmailSink is mail.
type EmailSink struct {
	Server      string   `json:"server"`
	ImplicitTLS bool     `json:"implicitTLS,omitempty"`
	From        string   `json:"from"`
	To          []string `json:"to"`
	Username    string   `json:"username,omitempty"`
	Subject     string   `json:"subject,omitempty"`
	CA          string   `json:"ca,omitempty"`
}

// Kind is what a sink is, as the API names it.
func (s SinkSpec) Kind() string {
	switch {
	case s.Webhook != nil:
		return "webhook"
	case s.Slack != nil:
		return "slack"
	case s.Teams != nil:
		return "teams"
	case s.PagerDuty != nil:
		return "pagerDuty"
	case s.Alertmanager != nil:
		return "alertmanager"
	case s.Grafana != nil:
		return "grafana"
	case s.GitHub != nil:
		return "github"
	case s.GitLab != nil:
		return "gitlab"
	case s.Gitea != nil:
		return "gitea"
	case s.Bitbucket != nil:
		return "bitbucket"
	}
	return "email"
}

// CommitStatus is the sink's Git host; nil: the sink sends events.
func (s SinkSpec) CommitStatus() *CommitStatusSink {
	return cmp.Or(s.GitHub, s.GitLab, s.Gitea, s.Bitbucket)
}

// Alerts tells whether what begins a trouble is open at the receiver until it is told of the end.
func (s SinkSpec) Alerts() bool { return s.PagerDuty != nil || s.Alertmanager != nil }

// Settings implements Configured.
func (s SinkSpec) Settings() state.Settings { return s.Credentials }

// Filters are those fields that say which events there are for.
func (s SinkSpec) Filters() SinkSpec {
	return SinkSpec{
		Project: s.Project, Types: s.Types, Projects: s.Projects, Clusters: s.Clusters, Services: s.Services, Severity: s.Severity, Filter: s.Filter,
	}
}

// Target is the receiver of credentials, or of what is signed with them. The URLs of Slack and Teams are credentials
// themselves.
func (s SinkSpec) Target() string {
	switch {
	case s.Webhook != nil:
		return s.Webhook.URL + "\n" + s.Webhook.CA
	case s.Slack != nil:
		return s.Slack.CA
	case s.Email != nil:
		return s.Email.Server + "\n" + s.Email.CA
	case s.Teams != nil:
		return s.Teams.CA
	case s.PagerDuty != nil:
		return s.PagerDuty.URL + "\n" + s.PagerDuty.CA
	case s.Alertmanager != nil:
		return s.Alertmanager.URL + "\n" + s.Alertmanager.CA
	case s.Grafana != nil:
		return s.Grafana.URL + "\n" + s.Grafana.CA
	case s.CommitStatus() != nil:
		return s.CommitStatus().URL + "\n" + s.CommitStatus().CA
	}
	return ""
}

// Sink is such a resource.
type Sink = Of[SinkSpec]

// Sinks is their kind. The sender sees what else can be wrong with a sink.
func Sinks() Type[SinkSpec] {
	return Type[SinkSpec]{
		Kind: store.KindSink,
		Check: func(s *Sink) error {
			if s.Spec.Project != "" && !IsName(s.Spec.Project) {
				return refusal.New(refusal.Invalid, "spec.project %q: is not a name of a project", s.Spec.Project)
			}
			if s.Spec.Project != "" && len(s.Spec.Projects) > 0 {
				return refusal.New(refusal.Invalid,
					"spec.projects: leave it out: the sink has events of spec.project %q only", s.Spec.Project)
			}
			for name, c := range s.Spec.Credentials {
				if c.Ref != nil && !IsName(c.Ref.Path) {
					return refusal.New(refusal.Invalid, "spec.%s.%s.ref.path: %s", s.Spec.Kind(), name, wantSecretName)
				}
			}
			return nil
		},
		Refs: func(s SinkSpec) (refs []Reference) {
			for _, name := range slices.Sorted(maps.Keys(s.Credentials)) {
				if r := s.Credentials[name].Ref; r != nil {
					refs = append(refs, placeRef(fmt.Sprintf("spec.%s.%s.ref", s.Kind(), name), r.Backend, r.Path))
				}
			}
			if s.Project != "" {
				refs = append(refs, RefTo(store.KindProject, s.Project, "spec.project"))
			}
			return refs
		},
	}
}

// MovesCredentials tells whether a sink names other values than before, or has what it names for another receiver.
func MovesCredentials(before, after store.Resource) (bool, error) {
	was, err := Sinks().Decode(before)
	if err != nil {
		return false, err
	}
	is, err := Sinks().Decode(after)
	return was.Spec.Kind() != is.Spec.Kind() || was.Spec.Target() != is.Spec.Target() ||
		!maps.EqualFunc(was.Spec.Credentials, is.Spec.Credentials, sameValue), err
}

// sameValue tells whether two settings name the same, if they name something.
func sameValue(a, b state.Setting) bool {
	if a.Ref == nil || b.Ref == nil {
		return a.Ref == b.Ref
	}
	return *a.Ref == *b.Ref
}
