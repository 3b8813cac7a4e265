package kubehttp

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"unicode"
)

// status is metav1.Status, so that kubectl prints the message.
type status struct {
	Kind       string         `json:"kind"`
	APIVersion string         `json:"apiVersion"`
	Metadata   struct{}       `json:"metadata"`
	Status     string         `json:"status"`
	Message    string         `json:"message"`
	Reason     string         `json:"reason,omitempty"`
	Details    *statusDetails `json:"details,omitempty"`
	Code       int            `json:"code"`
}

type statusDetails struct {
	RetryAfterSeconds int `json:"retryAfterSeconds,omitempty"`
}

// Error is what a person or a Kubernetes client gets to read instead of the API server's answer.
type Error struct {
	Code    int // HTTP status
	Message string
	// RetryAfterSeconds asks the client to try again by itself; 0: it should tell its user.
	RetryAfterSeconds int
}

func (e *Error) Error() string { return e.Message }

// WriteError answers a request with a Kubernetes Status. kubectl asks for the API's groups first and
// has words of its own for most errors there; a warning it prints as it is.
func WriteError(w http.ResponseWriter, e *Error) {
	s := status{Kind: "Status", APIVersion: "v1", Status: "Failure", Message: e.Message, Reason: reason(e.Code), Code: e.Code}
	if e.RetryAfterSeconds > 0 {
		s.Details = &statusDetails{RetryAfterSeconds: e.RetryAfterSeconds}
		w.Header().Set("Retry-After", strconv.Itoa(e.RetryAfterSeconds))
	}
	body, err := json.Marshal(s)
	if err != nil {
		body = nil // strings and numbers always marshal
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Warning", `299 - "`+quoted(e.Message)+`"`)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(e.Code)
	_, _ = w.Write(body) // the reader may be gone
}

// quoted is what may stand in a quoted string of a header.
func quoted(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text)
}

func reason(code int) string {
	switch code {
	case http.StatusBadRequest:
		return "BadRequest"
	case http.StatusUnauthorized:
		return "Unauthorized"
	case http.StatusForbidden:
		return "Forbidden"
	case http.StatusNotFound:
		return "NotFound"
	case http.StatusRequestURITooLong:
		return "RequestURITooLong"
	case http.StatusTooManyRequests:
		return "TooManyRequests"
	case http.StatusServiceUnavailable:
		return "ServiceUnavailable"
	case http.StatusGatewayTimeout:
		return "Timeout"
	case http.StatusInternalServerError, http.StatusBadGateway:
		return "InternalError"
	default:
		return ""
	}
}
