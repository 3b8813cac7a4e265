package tunnelclient

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// wordy is an API server that refuses everything, for a long reason.
type wordy struct{}

func (wordy) RoundTrip(*http.Request) (*http.Response, error) {
	body, err := json.Marshal(accessReview{Status: reviewStatus{Reason: strings.Repeat("no ", 2_000)}})
	return &http.Response{StatusCode: http.StatusCreated, Body: io.NopCloser(strings.NewReader(string(body)))}, err
}

// A caller may have 64 groups of any length, and an authorizer a long reason: what is remembered of both is bounded in
// bytes.
func TestRememberedReviewsAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	p := &proxy{base: &url.URL{Scheme: "https", Host: "api"}, transport: wordy{}}
	for i := range maxReviews + 100 {
		spec := reviewSpec{User: fmt.Sprint("user-", i), Groups: []string{strings.Repeat("g", 10_000)}}
		if answer, err := p.review(t.Context(), spec); err != nil || answer.allowed ||
			!strings.HasPrefix(answer.reason, "no no") {
			t.Fatal(answer, err)
		}
	}
	size := 0
	for asked, answer := range p.reviews.known {
		size += len(asked) + len(answer.reason)
	}
	if size == 0 || size > 2<<20 {
		t.Errorf("%d reviews are remembered with %d bytes", len(p.reviews.known), size)
	}
}
