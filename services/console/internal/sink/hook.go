package sink

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/platform/typo"
	"fairlead.dev/platform/wildcard"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/query"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/store"
)

// Hook sees to it that sinks can be sent to, and has those tried at once that a write is about.
type Hook struct {
	Catalog *catalog.Catalog
}

// Wrote implements catalog.Hook.
func (h Hook) Wrote(ctx context.Context, w *catalog.Write, before, after *store.Resource) error {
	if after == nil {
		return nil
	}
	switch after.Kind {
	case store.KindSink:
		if err := h.check(ctx, w.Tx, *after); err != nil {
			return err
		}
		if err := w.Tx.BeginSending(ctx, after.UID); err != nil || before == nil {
			return err
		}
		return h.keepFilter(ctx, w.Tx, *before, *after)
	case store.KindSecret:
		return h.again(ctx, w.Tx, *after)
	}
	return nil
}

// keepFilter has a changed filter begin with what happens from now on: what happened before has to fit that which was
// there then, too.
func (h Hook) keepFilter(ctx context.Context, tx *store.Tx, before, after store.Resource) error {
	is, err := resource.Sinks().Decode(after)
	if err != nil {
		return err
	}
	was, err := resource.Sinks().Decode(before)
	if err != nil || reflect.DeepEqual(was.Spec.Filters(), is.Spec.Filters()) {
		return nil //nolint:nilerr // what can't be read matched nothing
	}
	sending, err := tx.Sending(ctx, after.UID)
	if err != nil {
		return err
	}
	end, err := tx.EventsEnd(ctx)
	if err != nil {
		return err
	}
	list := earlierOf(after.Name, sending)
	if len(list) >= maxEarlier {
		return refusal.New(refusal.Precondition, "sink %q: its filter was changed %d times while events wait that came before: change it when they are sent, "+
			"or set disabled: true without another filter, which gives them up, and change it then", after.Name, len(list))
	}
	text, err := json.Marshal(append(list, earlier{UpTo: end, Spec: was.Spec.Filters()}))
	if err != nil {
		return fmt.Errorf("encode filters of sink %q: %w", after.Name, err)
	}
	return tx.KeepFilters(ctx, after.UID, string(text))
}

// maxReferrers is more resources than can name one.
const maxReferrers = 1_000_000

// again is for the sinks that send a secret.
func (h Hook) again(ctx context.Context, tx *store.Tx, secret store.Resource) error {
	refs, err := tx.Referrers(ctx, store.Ref{Kind: secret.Kind, Name: secret.Name}, maxReferrers)
	if err != nil {
		return err
	}
	var names []string
	for _, ref := range refs {
		if ref.Kind == store.KindSink {
			names = append(names, ref.Name)
		}
	}
	rows, err := tx.Named(ctx, store.KindSink, names)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := tx.BeginSending(ctx, rows[name].UID); err != nil {
			return err
		}
	}
	return nil
}

var (
	typePattern = regexp.MustCompile(`^[a-z_.*]+$`)
	namePattern = regexp.MustCompile(`^[-a-z0-9*]+$`)
)

func (h Hook) check(ctx context.Context, tx *store.Tx, row store.Resource) error {
	refuse := func(format string, args ...any) error {
		return refusal.New(refusal.Invalid, "sink %q: "+format, append([]any{row.Name}, args...)...)
	}
	if m := matcherOf(row); m.broken != nil {
		return refuse("%s", m.broken)
	}
	is, err := resource.Sinks().Decode(row)
	if err != nil {
		return err
	}
	spec := is.Spec
	for i, p := range spec.Types {
		if !typePattern.MatchString(p) {
			return refuse("spec.types[%d]: %q is no type of an event, in which * stands for any text: docs/events.md lists them", i, p)
		}
		if !slices.ContainsFunc(event.Types(), func(known string) bool { return wildcard.Match(p, known) }) {
			return refuse("spec.types[%d]: no event has a type like %q%s", i, p, cmp.Or(typo.Suggest(p, event.Types()), ": docs/events.md lists them"))
		}
	}
	if err := noEvents(spec); err != nil {
		return refuse("%s", err)
	}
	if _, err := query.Parse(spec.Filter, event.Asked()); err != nil {
		return refuse("spec.filter: %s", err)
	}
	for _, f := range []struct {
		field    string
		patterns []string
	}{{"projects", spec.Projects}, {"clusters", spec.Clusters}, {"services", spec.Services}} {
		for i, p := range f.patterns {
			if !namePattern.MatchString(p) {
				return refuse("spec.%s[%d]: %q is no name, in which * stands for any text", f.field, i, p)
			}
		}
	}
	t := target{uid: row.UID, name: row.Name, spec: spec}
	t.credentials, err = h.Catalog.CredentialsOf(row, func(secret string) (store.Resource, error) { return tx.Get(ctx, store.KindSecret, secret) })
	if err != nil {
		return err
	}
	escape := asIs
	if spec.Slack != nil {
		escape = forSlack
	}
	if _, err := render("template", spec.Template, newMessage(t, samples(), escape)); spec.Template != "" && err != nil {
		return refuse("spec.template: %v", err)
	}
	if field, err := t.check(); err != nil {
		return refuse("spec.%s: %v", field, err)
	}
	return nil
}

// noEvents refuses what chooses events and makes texts of them where a sink sends none.
func noEvents(spec resource.SinkSpec) error {
	if spec.CommitStatus() == nil {
		return nil
	}
	for field, there := range map[string]bool{
		"types": len(spec.Types) > 0, "severity": spec.Severity != "",
		"filter": spec.Filter != "", "template": spec.Template != "",
	} {
		if there {
			return fmt.Errorf("spec.%s: leave it out: a status follows the state of its services, not single events: choose services by projects, clusters and services", field)
		}
	}
	return nil
}

// check says what is wrong with where it sends to, and in which field.
func (t target) check() (field string, err error) {
	ca := ""
	switch s := t.spec; {
	case s.Webhook != nil:
		if _, err := checkURL(s.Webhook.URL); err != nil {
			return "webhook.url", err
		}
		if len(t.credentials[resource.SinkKey]) < minKey {
			return "webhook.key", fmt.Errorf("must be at least %d characters: make one with `openssl rand -base64 32`", minKey)
		}
		ca = s.Webhook.CA
	case s.Slack != nil:
		if _, err := checkURL(t.credentials[resource.SinkURL]); err != nil {
			return "slack.url", err
		}
		ca = s.Slack.CA
	case s.Teams != nil:
		if _, err := checkURL(t.credentials[resource.SinkURL]); err != nil {
			return "teams.url", err
		}
		ca = s.Teams.CA
	case s.PagerDuty != nil:
		if _, err := checkURL(t.pagerDutyURL()); err != nil {
			return "pagerDuty.url", err
		}
		if t.credentials[resource.SinkKey] == "" {
			return "pagerDuty.key", errors.New("is empty: it is the integration key of a service of PagerDuty")
		}
		ca = s.PagerDuty.CA
	case s.Alertmanager != nil:
		if _, err := under(s.Alertmanager.URL, alertsPath); err != nil {
			return "alertmanager.url", err
		}
		if (s.Alertmanager.Username == "") != (t.credentials[resource.SinkPassword] == "") {
			return "alertmanager.password", errors.New("goes with alertmanager.username: give both, or none")
		}
		ca = s.Alertmanager.CA
	case s.Grafana != nil:
		if _, err := under(s.Grafana.URL, annotationsPath); err != nil {
			return "grafana.url", err
		}
		if t.credentials[resource.SinkToken] == "" {
			return "grafana.token", errors.New("is empty: it is the token of a service account of Grafana")
		}
		ca = s.Grafana.CA
	case s.CommitStatus() != nil:
		at := s.CommitStatus()
		if t.address() == "" {
			return s.Kind() + ".url", errors.New("is missing: write the address of the host: https://git.example.com")
		}
		if _, err := under(t.address(), ""); err != nil {
			return s.Kind() + ".url", err
		}
		if token := t.credentials[resource.SinkToken]; token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return s.Kind() + ".token", fmt.Errorf("is empty, or has spaces or line ends: it is a token of %s with %s", hostOf(s).name, hostOf(s).needs)
		}
		for i, p := range at.Repositories {
			if strings.Contains(p, ":") || strings.HasPrefix(p, "/") || strings.HasSuffix(p, ".git") {
				return fmt.Sprintf("%s.repositories[%d]", s.Kind(), i),
					fmt.Errorf("%q: write owner/name as the host shows it, in which * stands for any text", p)
			}
		}
		ca = at.CA
	case s.Email != nil:
		if host, port, err := net.SplitHostPort(s.Email.Server); err != nil || host == "" || port == "" {
			return "email.server", fmt.Errorf("%q: must be host:port", s.Email.Server)
		}
		if _, _, err := envelope(s.Email); err != nil {
			return "email", err
		}
		if (s.Email.Username == "") != (t.credentials[resource.SinkPassword] == "") {
			return "email.password", fmt.Errorf("goes with email.username: give both, or none")
		}
		if s.Email.Subject != "" {
			if _, err := render("subject", s.Email.Subject, newMessage(t, samples(), asIs)); err != nil {
				return "email.subject", err
			}
		}
		ca = s.Email.CA
	}
	_, err = trust(ca)
	return t.spec.Kind(), err
}

// samples are as much as there can be in events: a template that takes these takes others.
func samples() []*consolev1.Event {
	e := &consolev1.Event{
		Id: "sample", Time: timestamppb.New(time.Unix(0, 0)), Type: event.ServiceDegraded, Severity: consolev1.Severity_SEVERITY_ERROR,
		Project: "shop", Cluster: "edge-1", Service: "web", Source: "shop", Sink: "chat", Message: "1 of 3 objects is not healthy.",
		Commit: "0123456789abcdef", Digest: "sha256:0123", Actor: "user:ada", Duration: durationpb.New(time.Minute), TraceId: "0123", Count: 1,
	}
	return []*consolev1.Event{e, e}
}
