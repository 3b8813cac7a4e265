package coordination_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/coordination/coordinationtest"
)

func openMemory(t *testing.T) coordination.Coordinator {
	t.Helper()
	c, err := coordination.Open("memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestMemoryConforms(t *testing.T) {
	t.Parallel()
	coordinationtest.Run(t, func(t *testing.T) (a, b coordination.Coordinator) {
		c := openMemory(t)
		return c, c
	})
}

// noDeadline hides T.Deadline, which can't be called in a synctest bubble.
type noDeadline struct{ rapid.TB }

// Any sequence of operations and waits: at most one valid lease per key, and epochs that grow.
func TestMemoryLeasesAgainstModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(noDeadline{t}, func(rt *rapid.T) {
			ctx := t.Context()
			c, err := coordination.Open("")
			if err != nil {
				rt.Fatal(err)
			}
			defer c.Close()
			all := map[string][]*coordination.Lease{}
			lastEpoch := map[string]int64{}
			keys := rapid.SampledFrom([]string{"a", "b"})
			pick := func(rt *rapid.T) *coordination.Lease {
				leases := all[keys.Draw(rt, "key")]
				if len(leases) == 0 {
					rt.Skip("no lease yet")
				}
				return rapid.SampledFrom(leases).Draw(rt, "lease")
			}
			rt.Repeat(map[string]func(*rapid.T){
				"acquire": func(rt *rapid.T) {
					key := keys.Draw(rt, "key")
					ttl := time.Duration(rapid.IntRange(100, 2000).Draw(rt, "ttl")) * time.Millisecond
					l, err := c.Acquire(ctx, key, "h", ttl)
					if errors.Is(err, coordination.ErrHeld) {
						return
					}
					if err != nil {
						rt.Fatal(err)
					}
					if l.Epoch() <= lastEpoch[key] {
						rt.Fatalf("epoch %d after %d", l.Epoch(), lastEpoch[key])
					}
					lastEpoch[key] = l.Epoch()
					all[key] = append(all[key], l)
				},
				"renew": func(rt *rapid.T) {
					l := pick(rt)
					valid := l.Valid()
					if err := l.Renew(ctx); (err == nil) != valid {
						rt.Fatalf("renew of a lease with valid = %t: %v", valid, err)
					}
				},
				"release": func(rt *rapid.T) {
					if err := pick(rt).Release(ctx); err != nil {
						rt.Fatal(err)
					}
				},
				"wait": func(rt *rapid.T) {
					<-time.After(time.Duration(rapid.IntRange(1, 1500).Draw(rt, "ms")) * time.Millisecond)
				},
				"": func(rt *rapid.T) {
					for key, leases := range all {
						valid := 0
						for _, l := range leases {
							if l.Valid() {
								valid++
							}
						}
						if valid > 1 {
							rt.Fatal(fmt.Sprintf("%d valid leases of %s", valid, key))
						}
						if h, _ := c.Holder(ctx, key); valid == 1 && h == "" {
							rt.Fatal("a valid lease of a free key")
						}
					}
				},
			})
		})
	})
}

// A holder stops a tenth of the ttl before anybody else can start, to the millisecond.
func TestLeaseEndsBeforeTheStoreForgetsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := openMemory(t)
		l, err := c.Acquire(t.Context(), "k", "one", 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		<-l.Done()
		if after := time.Since(began); after != 9*time.Second {
			t.Errorf("lease of 10 s ended after %s", after)
		}
		if l.Valid() {
			t.Error("valid after Done")
		}
		if _, err := c.Acquire(t.Context(), "k", "two", time.Second); !errors.Is(err, coordination.ErrHeld) {
			t.Errorf("key within the margin: %v", err)
		}
		<-time.After(time.Second)
		if _, err := c.Acquire(t.Context(), "k", "two", time.Second); err != nil {
			t.Errorf("key after the ttl: %v", err)
		}
	})
}
