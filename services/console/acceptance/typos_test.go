package acceptance

import (
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/event"
)

func TestSinkWithATypeThatNoEventHasIsRefused(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	for name, test := range map[string]struct {
		spec func(*consolev1.SinkSpec)
		want string
	}{
		"a type": {
			func(s *consolev1.SinkSpec) { s.Types = []string{"service.*", "service.helthy"} },
			`spec.types[1]: no event has a type like "service.helthy"; did you mean "service.healthy"?`,
		},
		"a pattern": {
			func(s *consolev1.SinkSpec) { s.Types = []string{"servce.*"} },
			`spec.types[0]: no event has a type like "servce.*": docs/events.md lists them`,
		},
		"in a filter": {
			func(s *consolev1.SinkSpec) { s.Filter = "cluster = a AND type = cluster.losst" },
			`spec.filter: character 24: there is no type "cluster.losst"; did you mean "cluster.lost"?`,
		},
		"in two cases": {func(s *consolev1.SinkSpec) { s.Filter = "NOT type : claster" }, `there is no type "claster"`},
	} {
		sink := webhook("hook", "https://example.com/hook")
		test.spec(sink.GetSpec())
		err := admin.putSink(t, sink)
		if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
	sink := webhook("hook", "https://example.com/hook")
	sink.Spec.Types, sink.Spec.Filter = []string{
		"*", "cluster.lost", "service.*",
	}, "type : service. AND type != sink.failing"
	if err := admin.putSink(t, sink); err != nil {
		t.Error(err)
	}
	_, err := r.events(t, r.adminToken(t)).ListEvents(t.Context(), &consolev1.ListEventsRequest{
		Filter: "type = service.helthy",
	})
	wantCode(t, err, connect.CodeInvalidArgument, `there is no type "service.helthy"; did you mean "service.healthy"?`)
}

// docs/events.md is what people choose types from.
func TestDocumentsNameAllTypesOfEvents(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[a-z_.]+`(?:, `[a-z_.]+`)*) \\|").FindAllStringSubmatch(string(text), -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			documented = append(documented, strings.Trim(name, "`"))
		}
	}
	known := event.Types()
	slices.Sort(known)
	slices.Sort(documented)
	if !slices.Equal(documented, known) {
		t.Errorf("documented are %q, and there are %q", documented, known)
	}
}

// docs/events.md lists the fields that filters of events may have.
func TestDocumentsNameAllFieldsOfEvents(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	_, said, _ := strings.Cut(string(text), "Fields: ")
	said, _, _ = strings.Cut(said, ". A `type`")
	said = regexp.MustCompile(`(?s)\(.*?\)`).ReplaceAllString(said, "") // values
	var documented []string
	for _, name := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(said, -1) {
		documented = append(documented, name[1])
	}
	known := slices.Sorted(maps.Keys(event.Fields()))
	if slices.Sort(documented); !slices.Equal(documented, known) {
		t.Errorf("documented are %q, and there are %q", documented, known)
	}
}

func TestJSONRequestWithAnUnknownFieldIsRefused(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	token := r.adminToken(t)
	for body, want := range map[string]string{
		`{"pageSize": 1}`:  "",
		`{"page_size": 1}`: "",
		`{"pageSze": 1}`:   `unknown field \"pageSze\"; did you mean \"pageSize\"?`,
		`{"pageSize": {}}`: `invalid value for int32`,
		``:                 `the body is empty: write {}`,
	} {
		for _, kind := range []string{"application/json", "application/json; charset=utf-8"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
				r.url+"/fairlead.console.v1.ServiceService/ListServices", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", kind)
			req.Header.Set("Authorization", "Bearer "+token)
			resp, err := newHTTPClient(t).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			said, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			status := http.StatusOK
			if want != "" {
				status = http.StatusBadRequest
			}
			if err != nil || resp.StatusCode != status || !strings.Contains(string(said), want) {
				t.Errorf("%s as %s: %s %s, %v, want %s", body, kind, resp.Status, said, err, want)
			}
		}
	}
}
