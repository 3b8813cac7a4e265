package confirm

import (
	"path/filepath"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/seal"
)

// desks are those of two consoles over the same keys, and one over others. Their clock is the caller's.
func desks(t *testing.T, now *time.Time) (one, two, foreign *Desk) {
	t.Helper()
	clock := func() time.Time { return *now }
	path := filepath.Join(t.TempDir(), "master.key")
	var boxes []*seal.Box
	for _, p := range []string{path, path, path + "-other"} {
		box, err := seal.Ensure(p)
		if err != nil {
			t.Fatal(err)
		}
		boxes = append(boxes, box)
	}
	return New(boxes[0], clock), New(boxes[1], clock), New(boxes[2], clock)
}

func TestAConfirmationEndsAfterTenMinutes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 20, 0, 0, 0, time.UTC)
	one, two, _ := desks(t, &now)
	stake := []string{"service/a", "etag-1"}
	token, begun := one.Token("user:ann", stake), now
	for age, want := range map[time.Duration]bool{
		0: true, 9 * time.Minute: true, 10*time.Minute - time.Second: true, 10 * time.Minute: false,
		11 * time.Minute: false, 24 * time.Hour: false,
	} {
		now = begun.Add(age)
		for name, desk := range map[string]*Desk{"the console that gave it": one, "another console": two} {
			if got := desk.Holds(token, "user:ann", stake); got != want {
				t.Errorf("after %v at %s it holds: %v", age, name, got)
			}
		}
	}
}

func TestAConfirmationIsForItsCallerAndWhatTheySaw(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 20, 0, 0, 0, time.UTC)
	one, _, foreign := desks(t, &now)
	stake := []string{"service/a", "etag-1"}
	token := one.Token("user:ann", stake)
	if !one.Holds(token, "user:ann", stake) {
		t.Fatal("it holds for nobody")
	}
	if foreign.Holds(token, "user:ann", stake) {
		t.Error("it holds under other keys")
	}
	for name, c := range map[string]struct {
		token, subject string
		stake          []string
	}{
		"another caller":         {token, "user:bob", stake},
		"nobody":                 {token, "", stake},
		"a resource has changed": {token, "user:ann", []string{"service/a", "etag-2"}},
		"one more resource":      {token, "user:ann", []string{"service/a", "etag-1", "service/b"}},
		"one resource less":      {token, "user:ann", stake[:1]},
		"in another order":       {token, "user:ann", []string{"etag-1", "service/a"}},
		"parts put together":     {token, "user:ann", []string{"service/aetag-1"}},
		"caller and part moved":  {token, "user:annservice/a", []string{"etag-1"}},
		"cut":                    {token[:len(token)-4], "user:ann", stake},
		"no token":               {"", "user:ann", stake},
		"no base64":              {"?" + token, "user:ann", stake},
	} {
		if one.Holds(c.token, c.subject, c.stake) {
			t.Errorf("%s: it holds", name)
		}
	}
}
