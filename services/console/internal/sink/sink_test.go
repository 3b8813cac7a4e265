package sink

import (
	"strings"
	"testing"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/resource"
)

func TestTemplatesThatAreNotForUs(t *testing.T) {
	t.Parallel()
	m := newMessage(target{name: "chat"}, samples(), asIs)
	for text, want := range map[string]string{
		"{{.Count}}\n{{.Nope}}":                                "line 2: <.Nope>: can't evaluate field Nope in the message",
		"{{range .Events}}\n{{.Nope}}{{end}}":                  "line 2: <.Nope>: can't evaluate field Nope in an event",
		"a\n{{if}}":                                            "line 2: missing value for if",
		"{{nope .}}":                                           `line 1: function "nope" not defined`,
		"\n{{printf \"%999999d\" 1}}":                          `line 2: function "printf" is not for these templates: there are and, cut, default`,
		"{{$x := print .Sink .Sink}}{{$x}}":                    `function "print" is not`,
		"{{call .Count}}":                                      `function "call" is not`,
		"{{len (html .Sink)}}":                                 `function "html" is not`,
		"{{range 1000000000}}{{end}}":                          "range is for .Events only",
		"{{$n := 1000000000}}{{range $n}}{{end}}":              "range is for .Events only",
		"{{range .Count}}{{end}}":                              "range is for .Events only",
		"{{range .Events}}{{range $.Events}}x{{end}}{{end}}":   "a range within a range",
		"{{define \"x\"}}{{template \"x\"}}{{end}}{{.Count}}":  "define or block",
		"{{template \"template\"}}":                            "is not for these templates",
		"{{block \"x\" .}}{{end}}":                             "define or block",
		strings.Repeat("{{json .}}{{json .}}{{json .}}", 100):  "more than 65536 bytes",
		"{{json (json (json (json (json (json (json .))))))}}": "",
	} {
		got, err := render("template", text, m)
		if want == "" {
			if err == nil && len(got) > maxText {
				t.Errorf("%s makes %d bytes", text, len(got))
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestTemplatesThatAre(t *testing.T) {
	t.Parallel()
	m := newMessage(target{name: "chat"}, samples(), asIs)
	for text, want := range map[string]string{
		"":                         "",
		`{{.Count}} {{.Severity}}`: "2 ERROR",
		`{{range $i, $e := .Events}}{{if $i}}, {{end}}{{$e.Service | upper}}{{else}}none{{end}}`:   "WEB, WEB",
		`{{with index .Events 0}}{{short .Commit}} {{cut 5 .Message}} {{default "-" .For}}{{end}}`: "01234567 1 of … 1m0s",
		`{"text": {{json .Sink}}}`: `{"text": "chat"}`,
	} {
		if got, err := render("template", text, m); err != nil || got != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add(defaultText)
	f.Add(defaultMail)
	f.Add(defaultSubject)
	f.Add(`{{with index .Events 0}}{{json $}}{{end}}`)
	m := newMessage(target{name: "chat"}, samples(), asIs)
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := render("template", text, m); err == nil && len(got) > maxText {
			t.Errorf("makes %d bytes", len(got))
		}
	})
}

// As the example of docs/notifications.md computes it.
func TestSignature(t *testing.T) {
	t.Parallel()
	const want = "t=1700000000,v1=067f20c51f311ee44a775815407a5b4413c8a279080cf635afbfc80ff9c4b510"
	got := Sign("sixteen-letters!", time.Unix(1700000000, 0), []byte(`{"sink":"hook"}`))
	if got != want {
		t.Errorf("signed %s", got)
	}
	if other := Sign("sixteen-letters!", time.Unix(1700000001, 0), []byte(`{"sink":"hook"}`)); other[len("t=1700000000"):] == got[len("t=1700000000"):] {
		t.Error("the time is not signed")
	}
}

func TestSlackTakesTextsAsTheyAre(t *testing.T) {
	t.Parallel()
	e := &consolev1.Event{
		Id: "x", Type: "service.failed", Severity: consolev1.Severity_SEVERITY_ERROR, Service: "web",
		Message: "<!channel> & <@U1|you> <https://evil.example.com|click>",
	}
	text, err := render("template", defaultText, newMessage(target{name: "chat"}, []*consolev1.Event{e}, forSlack))
	if want := "ERROR service.failed web: &lt;!channel&gt; &amp; &lt;@U1|you&gt; &lt;https://evil.example.com|click&gt;\n"; err != nil || text != want {
		t.Errorf("%q, %v", text, err)
	}
}

func TestWhatOthersRepeatIsMasked(t *testing.T) {
	t.Parallel()
	for secret, texts := range map[string][]string{
		"https://hooks.slack.com/services/T000000/B000000/abcdefghij": {
			"no /services/T000000/B000000/abcdefghij here", "token abcdefghij",
			"https://hooks.slack.com/services/T000000/B000000/abcdefghij", "cut T000000/B000000/abcdef",
		},
		"https://chat.example.com/hooks/abc%2Fdef%20ghij?token=abcdefghij%3D&thread=abcdef": {
			"no /hooks/abc%2Fdef%20ghij", "no abc/def ghij", "no abc%2Fdef%20ghij", "token=abcdefghij%3D",
			"not abcdefghij=", "not abcdefghij%3D", "thread abcdef", "cut /hooks/abc%2Fd",
		},
	} {
		of := target{
			spec:        resource.SinkSpec{Slack: &resource.SlackSink{}},
			credentials: map[string]string{resource.SinkURL: secret},
		}
		for _, text := range texts {
			if got := of.masked(text); strings.Contains(got, "abc") || !strings.Contains(got, catalog.Masked) {
				t.Errorf("%q became %q", text, got)
			}
		}
	}
	of := target{
		spec:        resource.SinkSpec{Email: &resource.EmailSink{Username: "hub"}},
		credentials: map[string]string{resource.SinkPassword: "pass word"},
	}
	for _, text := range []string{
		"pass word", "cGFzcyB3b3Jk", "AGh1YgBwYXNzIHdvcmQ=", "pass%20word", "pass+word",
		"pass w",
	} {
		if got := of.masked("no, not with " + text); got != "no, not with ***" {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestBackoffIsBounded(t *testing.T) {
	t.Parallel()
	for attempts := range 200 {
		if got := backoff(attempts); got < minBackoff/2 || got > maxBackoff+minBackoff {
			t.Fatalf("after %d attempts %v", attempts, got)
		}
	}
	now := time.Unix(1700000000, 0)
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-1": 0, "999999999999": maxBackoff,
		"Tue, 14 Nov 2023 22:13:30 GMT": 10 * time.Second, "nonsense": 0,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
