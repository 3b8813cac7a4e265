package status_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/services/distributor/internal/status"
)

// nobody has a stream.
type nobody struct{}

func (nobody) Watching(string) bool { return false }
func (nobody) ReportTurn(string)    {}

// fleet is agents with streams, each of which waits for its turn once it is put off.
type fleet struct {
	mu    sync.Mutex
	turns map[string]chan struct{} // guarded by mu
}

func (f *fleet) Watching(string) bool { return true }

func (f *fleet) ReportTurn(cluster string) {
	select {
	case f.turn(cluster) <- struct{}{}:
	default:
	}
}

func (f *fleet) turn(cluster string) chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.turns == nil {
		f.turns = map[string]chan struct{}{}
	}
	if f.turns[cluster] == nil {
		f.turns[cluster] = make(chan struct{}, 1)
	}
	return f.turns[cluster]
}

// An agent that was put off does not ask again before there is room, and the line does not run empty meanwhile.
func TestReportsThatWerePutOffAreCalled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const clusters, took = 10_000, time.Second
		c, agents := &console{took: took}, &fleet{}
		r := status.NewReports(c, agents, quiet)
		stop := run(t, r.Run)
		var mu sync.Mutex
		refused, late := 0, 0
		begin := time.Now()
		var all sync.WaitGroup
		for i := range clusters {
			all.Go(func() {
				cluster := fmt.Sprint("c", i)
				for {
					_, err := r.Record(context.Background(), cluster, reports("s", 0))
					if err == nil {
						return
					}
					if !errors.Is(err, status.ErrBusy) {
						t.Error(err)
						return
					}
					pause := r.PutOff(cluster)
					mu.Lock()
					refused++
					mu.Unlock()
					select {
					case <-agents.turn(cluster):
					case <-time.After(pause):
						mu.Lock()
						late++
						mu.Unlock()
					}
				}
			})
		}
		all.Wait()
		stop()
		needed := time.Duration(len(c.reports)) * took
		if took := time.Since(begin); took > needed+needed/10 {
			t.Errorf("%d clusters took %s, of which the console worked for %s", clusters, took, needed)
		}
		if refused > clusters || late > 0 {
			t.Errorf("%d clusters were refused %d times, and %d were not called", clusters, refused, late)
		}
	})
}

func TestReportsOfAnAgentWithoutAStreamComeByThemselves(t *testing.T) {
	t.Parallel()
	r := status.NewReports(&console{}, nobody{}, quiet)
	if pause := r.PutOff("edge-1"); pause <= 0 || pause > 20*time.Second {
		t.Errorf("a pause of %s while no rate is known", pause)
	}
	watched := status.NewReports(&console{}, &fleet{}, quiet)
	if pause := watched.PutOff("edge-1"); pause > 20*time.Second {
		t.Errorf("a pause of %s without a line, where nobody is called", pause)
	}
}
