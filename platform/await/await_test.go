package await_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/platform/await"
)

// failing is a test of which one sees how it fails.
type failing struct {
	testing.TB

	said string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = format
	for _, a := range args {
		if err, ok := a.(error); ok {
			f.said += " " + err.Error()
		}
	}
	runtime.Goexit()
}

func TestWhatComesIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin, looks := time.Now(), 0
		await.True(t, "ten seconds are over", func() bool { looks++; return time.Since(begin) > 10*time.Second })
		if looks < 100 || looks > 3000 {
			t.Errorf("%d looks in ten seconds", looks)
		}
	})
}

func TestWhatNeverComesEndsTheTestWithTheLastError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &failing{TB: t}
		begin := time.Now()
		go await.NoError(f, "Redis answers", func() error { return errors.New("refused at " + time.Now().String()) })
		<-time.After(time.Hour)
		synctest.Wait()
		if !strings.Contains(f.said, begin.Add(5*time.Minute).Format("15:04")) {
			t.Errorf("said %q", f.said)
		}
	})
}
