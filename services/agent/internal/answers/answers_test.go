package answers

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"fairlead.dev/services/agent/internal/render"
)

func answer(template string, nth int, renew time.Time) render.Answer {
	return render.Answer{
		Call: render.Call{
			Function: "randAlphaNum", Arguments: "0123456789abcdef0123456789abcdef", Template: template, Nth: nth,
		},
		Value: json.RawMessage(`"a"`), Renew: renew,
	}
}

// The cluster may be as it was before again, so what a render did not use stays; but never more than fits.
func TestUnusedAnswersStayAsLongAsThereIsRoom(t *testing.T) {
	t.Parallel()
	now := time.Now()
	a, b := answer("a.yaml", 0, time.Time{}), answer("b.yaml", 0, now.Add(time.Hour))
	if after, same := merge([]render.Answer{a, b}, []render.Answer{b}, now); !same || len(after) != 2 {
		t.Errorf("after a render that used one of two: %v, %v", after, same)
	}
	if after, same := merge([]render.Answer{a, b}, []render.Answer{a}, now.Add(2*time.Hour)); same || len(after) != 1 {
		t.Errorf("after the certificate was due: %v, %v", after, same)
	}
	var kept []render.Answer
	for i := range 10 {
		var used []render.Answer
		for nth := range 500 {
			used = append(used, answer(fmt.Sprintf("%d.yaml", i), nth, time.Time{}))
		}
		kept, _ = merge(kept, used, now)
	}
	text, err := json.Marshal(content{Answers: kept})
	if err != nil || len(text) > render.MaxAnswers || len(text) < render.MaxAnswers/2 {
		t.Errorf("%d bytes are kept, of at most %d: %v", len(text), render.MaxAnswers, err)
	}
}
