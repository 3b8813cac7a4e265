package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// standIn starts a server that answers as Slack, Teams, PagerDuty, Alertmanager and Grafana do, and puts its address in
// place of STANDIN in a file, and that of a repository in place of REPOSITORY in mended.yaml. The server writes a line
// to a file for each message that it takes: stand-in TAKEN FILE.
func standIn(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: stand-in TAKEN FILE")
	}
	taken := ts.MkAbs(args[0])
	ts.Check(os.WriteFile(taken, nil, 0o600))
	var mu sync.Mutex // guards the file
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var in any
		if err == nil {
			err = json.Unmarshal(body, &in)
		}
		if err != nil || r.Method != http.MethodPost {
			http.Error(w, "not POST with JSON", http.StatusBadRequest)
			return
		}
		status, line, answer := receive(r, in)
		if line != "" {
			mu.Lock()
			defer mu.Unlock()
			was, _ := os.ReadFile(taken) // a file that is gone takes nothing
			err = os.WriteFile(taken, append(was, line+"\n"...), 0o600)
		}
		if err != nil {
			status, answer = http.StatusInternalServerError, err.Error()
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer) // fails if the caller is gone
	}))
	ts.Defer(server.Close)
	for name, with := range map[string]string{args[1]: server.URL, "mended.yaml": server.URL} {
		text := strings.ReplaceAll(ts.ReadFile(name), "STANDIN", with)
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(strings.ReplaceAll(text, "REPOSITORY", ts.Getenv("GIT"))), 0o600))
	}
}

// receive takes a message as the receiver of its path does, and returns the answer, with a line of what came.
func receive(r *http.Request, body any) (status int, line, answer string) {
	at := func(in any, path ...string) any {
		for _, name := range path {
			switch is := in.(type) {
			case map[string]any:
				in = is[name]
			case []any:
				if in = nil; len(is) > 0 {
					in = is[0].(map[string]any)[name]
				}
			default:
				return nil
			}
		}
		return in
	}
	user, password, _ := r.BasicAuth()
	switch path := r.URL.Path; {
	case path == "/services/T/B/planted-slack":
		if text, ok := at(body, "text").(string); ok && text != "" {
			return http.StatusOK, "slack: " + strings.ReplaceAll(text, "\n", " "), "ok"
		}
		return http.StatusBadRequest, "", "no_text"
	case path == "/workflows/1" && r.URL.Query().Get("sig") == "planted-teams":
		if at(body, "attachments", "contentType") == "application/vnd.microsoft.card.adaptive" {
			return http.StatusAccepted, fmt.Sprint("teams: ",
				at(body, "attachments", "content", "body", "inlines", "text")), ""
		}
		return http.StatusBadRequest, "", "no adaptive card"
	case path == "/v2/enqueue" && at(body, "routing_key") == "planted-pager":
		key, _ := at(body, "dedup_key").(string)
		parts := strings.Split(key, "/")
		if len(parts) < 3 {
			return http.StatusBadRequest, "", "no dedup_key"
		}
		return http.StatusAccepted, fmt.Sprint("pagerduty: ", at(body, "event_action"), " ",
			parts[2]), `{"status":"success","message":"Event processed"}`
	case path == "/api/v2/alerts" && user == "hub" && password == "planted-alerts":
		return http.StatusOK, fmt.Sprint("alertmanager: ", at(body, "labels", "alertname")), ""
	case path == "/api/annotations" && r.Header.Get("Authorization") == "Bearer planted-grafana":
		var tags []string
		if list, ok := at(body, "tags").([]any); ok {
			for _, tag := range list {
				tags = append(tags, fmt.Sprint(tag))
			}
		}
		return http.StatusOK, fmt.Sprint("grafana: ", strings.Join(tags, ","), " ",
			at(body, "text")), `{"message":"Annotation added","id":1}`
	}
	return http.StatusUnauthorized, "", "who is there?"
}
