package sink

import (
	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
)

func decode(in *consolev1.Sink) resource.Sink {
	spec := in.GetSpec()
	out := resource.Sink{Meta: descriptor.Meta(in.GetMetadata()), Spec: resource.SinkSpec{
		Project: spec.GetProject(), Types: spec.GetTypes(), Projects: spec.GetProjects(), Clusters: spec.GetClusters(), Services: spec.GetServices(),
		Filter: spec.GetFilter(), Template: spec.GetTemplate(), Disabled: spec.GetDisabled(),
		Interval: spec.GetInterval().AsDuration(), RetryFor: spec.GetRetryFor().AsDuration(), Credentials: state.Settings{},
	}}
	if spec.GetSeverity() != consolev1.Severity_SEVERITY_UNSPECIFIED {
		out.Spec.Severity = event.SeverityName(spec.GetSeverity())
	}
	credential := func(name string, secret *consolev1.SinkSecret) {
		switch v := secret.GetValue().(type) {
		case *consolev1.SinkSecret_Secret:
			out.Spec.Credentials[name] = state.SecretSetting(v.Secret)
		case *consolev1.SinkSecret_Ref:
			out.Spec.Credentials[name] = state.Setting{Ref: &state.SettingRef{Path: v.Ref.GetPath(), Key: v.Ref.GetKey()}}
		}
	}
	switch to := spec.GetTo().(type) {
	case *consolev1.SinkSpec_Webhook:
		out.Spec.Webhook = &resource.WebhookSink{URL: to.Webhook.GetUrl(), CA: to.Webhook.GetCa()}
		credential(resource.SinkKey, to.Webhook.GetKey())
	case *consolev1.SinkSpec_Slack:
		out.Spec.Slack = &resource.SlackSink{CA: to.Slack.GetCa()}
		credential(resource.SinkURL, to.Slack.GetUrl())
	case *consolev1.SinkSpec_Email:
		out.Spec.Email = &resource.EmailSink{
			Server: to.Email.GetServer(), ImplicitTLS: to.Email.GetImplicitTls(), From: to.Email.GetFrom(), To: to.Email.GetTo(),
			Username: to.Email.GetUsername(), Subject: to.Email.GetSubject(), CA: to.Email.GetCa(),
		}
		credential(resource.SinkPassword, to.Email.GetPassword())
	case *consolev1.SinkSpec_Teams:
		out.Spec.Teams = &resource.TeamsSink{CA: to.Teams.GetCa()}
		credential(resource.SinkURL, to.Teams.GetUrl())
	case *consolev1.SinkSpec_PagerDuty:
		out.Spec.PagerDuty = &resource.PagerDutySink{URL: to.PagerDuty.GetUrl(), CA: to.PagerDuty.GetCa()}
		credential(resource.SinkKey, to.PagerDuty.GetKey())
	case *consolev1.SinkSpec_Alertmanager:
		out.Spec.Alertmanager = &resource.AlertmanagerSink{URL: to.Alertmanager.GetUrl(), Username: to.Alertmanager.GetUsername(), CA: to.Alertmanager.GetCa()}
		credential(resource.SinkPassword, to.Alertmanager.GetPassword())
	case *consolev1.SinkSpec_Grafana:
		out.Spec.Grafana = &resource.GrafanaSink{URL: to.Grafana.GetUrl(), Dashboard: to.Grafana.GetDashboard(), CA: to.Grafana.GetCa()}
		credential(resource.SinkToken, to.Grafana.GetToken())
	case *consolev1.SinkSpec_Github:
		out.Spec.GitHub = decodeCommitStatus(to.Github)
		credential(resource.SinkToken, to.Github.GetToken())
	case *consolev1.SinkSpec_Gitlab:
		out.Spec.GitLab = decodeCommitStatus(to.Gitlab)
		credential(resource.SinkToken, to.Gitlab.GetToken())
	case *consolev1.SinkSpec_Gitea:
		out.Spec.Gitea = decodeCommitStatus(to.Gitea)
		credential(resource.SinkToken, to.Gitea.GetToken())
	case *consolev1.SinkSpec_Bitbucket:
		out.Spec.Bitbucket = decodeCommitStatus(to.Bitbucket)
		credential(resource.SinkToken, to.Bitbucket.GetToken())
	}
	return out
}

func decodeCommitStatus(in *consolev1.CommitStatusSink) *resource.CommitStatusSink {
	return &resource.CommitStatusSink{
		URL: in.GetUrl(), Repositories: in.GetRepositories(), Context: in.GetContext(),
		Brief: in.Details != nil && !in.GetDetails(), CA: in.GetCa(),
	}
}

// encode leaves the values of secrets empty.
func encode(in resource.Sink) *consolev1.Sink {
	is := in.Spec
	spec := &consolev1.SinkSpec{
		Project: is.Project, Types: is.Types, Projects: is.Projects, Clusters: is.Clusters, Services: is.Services,
		Filter: is.Filter, Template: is.Template, Disabled: is.Disabled,
		Severity: consolev1.Severity(consolev1.Severity_value["SEVERITY_"+is.Severity]),
	}
	if is.Interval > 0 {
		spec.Interval = durationpb.New(is.Interval)
	}
	if is.RetryFor > 0 {
		spec.RetryFor = durationpb.New(is.RetryFor)
	}
	credential := func(name string) *consolev1.SinkSecret {
		switch s := is.Credentials[name]; {
		case s.Ref != nil:
			return &consolev1.SinkSecret{Value: &consolev1.SinkSecret_Ref{Ref: &consolev1.SinkSecretRef{Path: s.Ref.Path, Key: s.Ref.Key}}}
		case s.Secret:
			return &consolev1.SinkSecret{Value: &consolev1.SinkSecret_Secret{}}
		}
		return nil
	}
	switch {
	case is.Webhook != nil:
		spec.To = &consolev1.SinkSpec_Webhook{Webhook: &consolev1.WebhookSink{Url: is.Webhook.URL, Ca: is.Webhook.CA, Key: credential(resource.SinkKey)}}
	case is.Slack != nil:
		spec.To = &consolev1.SinkSpec_Slack{Slack: &consolev1.SlackSink{Ca: is.Slack.CA, Url: credential(resource.SinkURL)}}
	case is.Email != nil:
		at := is.Email
		spec.To = &consolev1.SinkSpec_Email{Email: &consolev1.EmailSink{
			Server: at.Server, ImplicitTls: at.ImplicitTLS, From: at.From, To: at.To, Username: at.Username, Subject: at.Subject, Ca: at.CA,
			Password: credential(resource.SinkPassword),
		}}
	case is.Teams != nil:
		spec.To = &consolev1.SinkSpec_Teams{Teams: &consolev1.TeamsSink{Ca: is.Teams.CA, Url: credential(resource.SinkURL)}}
	case is.PagerDuty != nil:
		spec.To = &consolev1.SinkSpec_PagerDuty{PagerDuty: &consolev1.PagerDutySink{
			Url: is.PagerDuty.URL,
			Ca:  is.PagerDuty.CA, Key: credential(resource.SinkKey),
		}}
	case is.Alertmanager != nil:
		spec.To = &consolev1.SinkSpec_Alertmanager{Alertmanager: &consolev1.AlertmanagerSink{
			Url: is.Alertmanager.URL, Username: is.Alertmanager.Username, Ca: is.Alertmanager.CA, Password: credential(resource.SinkPassword),
		}}
	case is.Grafana != nil:
		spec.To = &consolev1.SinkSpec_Grafana{Grafana: &consolev1.GrafanaSink{
			Url: is.Grafana.URL, Dashboard: is.Grafana.Dashboard, Ca: is.Grafana.CA, Token: credential(resource.SinkToken),
		}}
	case is.CommitStatus() != nil:
		at := is.CommitStatus()
		host := &consolev1.CommitStatusSink{Url: at.URL, Repositories: at.Repositories, Context: at.Context, Ca: at.CA, Token: credential(resource.SinkToken)}
		if at.Brief {
			host.Details = new(bool)
		}
		switch at {
		case is.GitHub:
			spec.To = &consolev1.SinkSpec_Github{Github: host}
		case is.GitLab:
			spec.To = &consolev1.SinkSpec_Gitlab{Gitlab: host}
		case is.Gitea:
			spec.To = &consolev1.SinkSpec_Gitea{Gitea: host}
		case is.Bitbucket:
			spec.To = &consolev1.SinkSpec_Bitbucket{Bitbucket: host}
		}
	}
	return &consolev1.Sink{Metadata: descriptor.Metadata(in.Meta), Spec: spec}
}

// mask writes masks for secrets, and says which have changed.
func mask(spec *consolev1.SinkSpec, changed map[string]bool) {
	one := func(name string, of *consolev1.SinkSecret) {
		if secret, ok := of.GetValue().(*consolev1.SinkSecret_Secret); ok {
			if secret.Secret = catalog.Masked; changed[name] {
				secret.Secret += " (changed)"
			}
		}
	}
	one(resource.SinkKey, spec.GetWebhook().GetKey())
	one(resource.SinkURL, spec.GetSlack().GetUrl())
	one(resource.SinkPassword, spec.GetEmail().GetPassword())
	one(resource.SinkURL, spec.GetTeams().GetUrl())
	one(resource.SinkKey, spec.GetPagerDuty().GetKey())
	one(resource.SinkPassword, spec.GetAlertmanager().GetPassword())
	one(resource.SinkToken, spec.GetGrafana().GetToken())
	for _, host := range []*consolev1.CommitStatusSink{spec.GetGithub(), spec.GetGitlab(), spec.GetGitea(), spec.GetBitbucket()} {
		one(resource.SinkToken, host.GetToken())
	}
}
