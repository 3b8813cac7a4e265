package webhook

import (
	"encoding/json"
	"mime"
	"net/http"
)

// eventsType is the body of a notification of distribution, and of registries that are built of it.
const eventsType = "application/vnd.docker.distribution.events.v2+json"

// events is the body of a notification of a registry. Registries tell of pulls, too, and a poll is one: it would cause
// the next.
type events struct {
	is   bool // by its type
	body []byte
	long bool
}

func eventsOf(header http.Header) *events {
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type")) // another one is no event
	return &events{is: kind == eventsType}
}

// Write keeps what may be read.
func (e *events) Write(p []byte) (int, error) {
	switch {
	case !e.is || e.long:
	case len(e.body)+len(p) > maxEventsBytes:
		e.body, e.long = nil, true
	default:
		e.body = append(e.body, p...)
	}
	return len(p), nil
}

// onlyPulls tells whether nothing was pushed. A body that can't be read may tell of a push.
func (e *events) onlyPulls() bool {
	var envelope struct {
		Events []struct {
			Action string `json:"action"`
		} `json:"events"`
	}
	if e.long || json.Unmarshal(e.body, &envelope) != nil {
		return false
	}
	for _, one := range envelope.Events {
		if one.Action != "pull" {
			return false
		}
	}
	return len(envelope.Events) > 0
}
