package pressure_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/services/distributor/internal/pressure"
)

func TestPressureComesAndGoes(t *testing.T) {
	t.Parallel()
	var g pressure.Gauge
	if g.Share() != 0 {
		t.Errorf("%v from the start", g.Share())
	}
	g.Note(time.Second)
	if first := g.Share(); first <= 0 || first >= 1 {
		t.Errorf("%v after one that was late", first)
	}
	for range 100 {
		g.Note(time.Second)
	}
	if g.Share() != 1 {
		t.Errorf("%v when all are late", g.Share())
	}
	for range 100 {
		g.Note(0)
	}
	if g.Share() != 0 {
		t.Errorf("%v when none is late any more", g.Share())
	}
}

func TestProcessThatHasTimeFeelsNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g pressure.Gauge
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if err := g.Run(ctx); err != nil || g.Share() != 0 {
			t.Errorf("%v, %v", g.Share(), err)
		}
	})
}
