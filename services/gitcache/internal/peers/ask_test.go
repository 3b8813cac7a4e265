package peers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/platform/coordination"
	"fairlead.dev/services/gitcache/internal/origin"
)

func TestAPeerThatHangsHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cut := false
		began := time.Now()
		err := inTurn(t.Context(), []coordination.Member{{ID: "hung"}, {ID: "quick"}}, func(ctx context.Context, m coordination.Member) error {
			if m.ID == "hung" {
				<-ctx.Done()
				cut = true
				return ctx.Err()
			}
			return nil
		})
		if err != nil || time.Since(began) != askNext || !cut {
			t.Errorf("it took %s: %v; the one that hung was cut short: %t", time.Since(began), err, cut)
		}
	})
}

func TestAPeerThatFailsIsFollowedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, asked := time.Now(), 0
		down := errors.New("down")
		err := inTurn(t.Context(), []coordination.Member{{ID: "a"}, {ID: "b"}, {ID: "c"}}, func(context.Context, coordination.Member) error {
			asked++
			return down
		})
		if !errors.Is(err, down) || asked != 3 || time.Since(began) != 0 {
			t.Errorf("%d were asked in %s: %v", asked, time.Since(began), err)
		}
		if err := inTurn(t.Context(), nil, nil); err == nil {
			t.Error("an answer from nobody")
		}
	})
}

func TestTheBestAnswerToEachQuestionIsKept(t *testing.T) {
	t.Parallel()
	lacks := origin.Answer{Err: &origin.Error{Reason: origin.NotFetched}}
	wrong := origin.Answer{Err: &origin.Error{Reason: origin.PathNotFound}}
	has := origin.Answer{SourceID: "id"}
	b := &best{}
	if b.take([]origin.Answer{lacks, lacks, has}) {
		t.Error("nobody else is asked for what is missing")
	}
	if b.take([]origin.Answer{has, lacks, lacks}) {
		t.Error("nobody else is asked for what is still missing")
	}
	if !b.take([]origin.Answer{lacks, wrong, lacks}) {
		t.Error("all is answered, and more are asked")
	}
	if got := b.all(); got[0].SourceID != "id" || got[1].Err.Reason != origin.PathNotFound || got[2].SourceID != "id" {
		t.Errorf("kept %+v", got)
	}
}
