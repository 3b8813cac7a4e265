package configs

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
)

// asked is a console that says what a test makes of each call.
type asked struct {
	consolev1connect.UnimplementedConfigServiceHandler
	calls chan func() error
}

func (a asked) AccessConfigs(ctx context.Context, _ *consolev1.AccessConfigsRequest) (*consolev1.AccessConfigsResponse, error) {
	select {
	case answer := <-a.calls:
		return &consolev1.AccessConfigsResponse{}, answer()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Agents that wait for a console take the turns of all others.
func TestOnlyOneWaitsForAConsoleThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	console := asked{calls: make(chan func() error)}
	c := New(console, slog.New(slog.DiscardHandler))
	get := func() { c.Get(t.Context(), []Key{{Service: "s", Revision: "r"}}) }
	done := make(chan struct{})
	first := func(answer func() error) {
		go func() { get(); done <- struct{}{} }()
		console.calls <- answer
		<-done
	}
	first(func() error { return errors.New("away") })
	first(func() error {
		get() // does not wait for this one, which waits for it
		return nil
	})
	// The console answers again: all callers may ask at once.
	first(func() error {
		first(func() error { return nil })
		return nil
	})
}

// says is a console that answers with what it holds, or with an error.
type says struct {
	consolev1connect.UnimplementedConfigServiceHandler
	services []*consolev1.AccessedConfig
	err      error
	asked    int
}

func (s *says) AccessConfigs(context.Context, *consolev1.AccessConfigsRequest) (*consolev1.AccessConfigsResponse, error) {
	s.asked++
	return &consolev1.AccessConfigsResponse{Services: s.services}, s.err
}

func config(service string, kind consolev1.ConfigType, value string) *consolev1.AccessedConfig {
	return &consolev1.AccessedConfig{
		ServiceUid: service, Revision: "r", Values: []*consolev1.ConfigValue{{Name: "a", Type: kind, Value: value}},
	}
}

func TestABadConfigurationKeepsNoOtherFromItsAgent(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	console := &says{services: []*consolev1.AccessedConfig{
		config("bad", consolev1.ConfigType_CONFIG_TYPE_NUMBER, "many"),
		config("good", consolev1.ConfigType_CONFIG_TYPE_TEXT, "1"),
	}}
	c := New(console, slog.New(slog.NewTextHandler(&log, nil)))
	for range 3 { // an agent asks again soon
		got, _ := c.Get(t.Context(), []Key{{Service: "bad", Revision: "r"}, {Service: "good", Revision: "r"}})
		if len(got) != 1 || got["good"] == nil {
			t.Errorf("got %v", got)
		}
	}
	text := log.String()
	if strings.Count(text, "of service bad") != 1 || strings.Contains(text, "many") || console.asked != 1 {
		t.Errorf("asked %d times, logged %q", console.asked, text)
	}
	console.services = []*consolev1.AccessedConfig{config("bad", consolev1.ConfigType_CONFIG_TYPE_NUMBER, "1")}
	console.services[0].Revision = "next"
	if got, _ := c.Get(t.Context(), []Key{{Service: "bad", Revision: "next"}}); got["bad"] == nil {
		t.Errorf("got %v", got)
	}
}

func TestAnOutageOfTheConsoleIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	console := &says{err: errors.New("away")}
	c := New(console, slog.New(slog.NewTextHandler(&log, nil)))
	for range 3 {
		c.Get(t.Context(), []Key{{Service: "s", Revision: "r"}})
	}
	console.err = nil
	for range 3 {
		c.Get(t.Context(), []Key{{Service: "s", Revision: "r"}})
	}
	if lines := strings.Split(strings.TrimSpace(log.String()), "\n"); len(lines) != 2 ||
		!strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[1], "level=INFO") {
		t.Errorf("logged %q", lines)
	}
}
