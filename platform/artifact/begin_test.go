package artifact

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestAnAnswerInTheLastMomentIsBytesOrAnError: never neither.
func TestAnAnswerInTheLastMomentIsBytesOrAnError(t *testing.T) {
	t.Parallel()
	slow := &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		<-time.After(answerTime)
		return &http.Response{
			StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("")), Header: http.Header{},
		}, nil
	})}
	for range 500 {
		synctest.Test(t, func(t *testing.T) {
			content, err := Begin(t.Context(), slow, "http://hub", Digest("sha256:"+strings.Repeat("0", 64)))
			if (content == nil) == (err == nil) {
				t.Fatalf("content %v, error %v", content, err)
			}
			if content != nil {
				_ = content.Close() // the test is over
			}
		})
	}
}
