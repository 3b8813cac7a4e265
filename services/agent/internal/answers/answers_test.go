package answers

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

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

// oneSecret is a cluster that has the Secret of one service, or none yet.
type oneSecret struct {
	dynamic.ResourceInterface
	is *unstructured.Unstructured
}

func (c *oneSecret) Get(_ context.Context, name string, _ metav1.GetOptions,
	_ ...string,
) (*unstructured.Unstructured, error) {
	if c.is == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return c.is, nil
}

func (c *oneSecret) Create(_ context.Context, s *unstructured.Unstructured, _ metav1.CreateOptions,
	_ ...string,
) (*unstructured.Unstructured, error) {
	c.is = s.DeepCopy()
	c.is.SetResourceVersion("1")
	return c.is, nil
}

func (c *oneSecret) Update(_ context.Context, s *unstructured.Unstructured, _ metav1.UpdateOptions,
	_ ...string,
) (*unstructured.Unstructured, error) {
	c.is = s.DeepCopy()
	return c.is, nil
}

// The last three contents can be returned to with their values. One that is rendered and never applied takes no place
// of the one that is.
func TestTheLastThreeContentsAreKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(&oneSecret{}, nil)
		save := func(id, applied string) {
			t.Helper()
			time.Sleep(time.Minute) //nolint:forbidigo // of the bubble's clock
			memo := s.Memo("web", id, applied)
			if _, err := memo.Recall(t.Context()); err != nil {
				t.Fatal(err)
			}
			memo.Note([]render.Answer{answer(id, 0, time.Time{})})
			if err := memo.Save(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		want := func(ids string) {
			t.Helper()
			got := ""
			for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
				of, err := s.Memo("web", id, "").Recall(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if len(of) == 1 && of[0].Template == id {
					got += id
				}
			}
			if got != ids {
				t.Errorf("%q are kept, want %q", got, ids)
			}
		}
		save("a", "")
		save("b", "a")
		save("c", "b")
		want("abc")
		save("d", "c")
		want("bcd")
		save("e", "c")
		want("cde")
		save("f", "c")
		want("cef")
	})
}
