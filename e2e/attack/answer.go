package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Answer is what a part answered to a request.
type Answer struct {
	Code   int
	Header http.Header
	Body   string
}

func (a Answer) String() string {
	var told struct{ Code, Message string }
	if json.Unmarshal([]byte(a.Body), &told) == nil && told.Message != "" {
		return fmt.Sprintf("%d %s: %s", a.Code, told.Code, told.Message)
	}
	return fmt.Sprintf("%d %s", a.Code, a.Body)
}

// want judges an answer by its status.
func (a Answer) want(codes ...int) (string, error) {
	if !slices.Contains(codes, a.Code) {
		return a.String(), fmt.Errorf("the status is %d, not %v", a.Code, codes)
	}
	return a.String(), nil
}

// silentOf fails if one of the words is in text.
func silentOf(text string, words ...string) error {
	for _, word := range words {
		if strings.Contains(text, word) {
			return fmt.Errorf("%q is in the answer", word)
		}
	}
	return nil
}

// says fails unless all words are in text.
func says(text string, words ...string) error {
	for _, word := range words {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(word)) {
			return fmt.Errorf("%q is not in it", word)
		}
	}
	return nil
}
