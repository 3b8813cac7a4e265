package lead

import (
	"context"
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// slow is an API server that takes its time for each answer.
type slow struct {
	dynamic.ResourceInterface

	takes time.Duration
	lease *unstructured.Unstructured
}

func (s *slow) Get(
	ctx context.Context, _ string, _ metav1.GetOptions, _ ...string,
) (*unstructured.Unstructured, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	if s.lease == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, Name)
	}
	return s.lease.DeepCopy(), nil
}

func (s *slow) Create(
	ctx context.Context, lease *unstructured.Unstructured, _ metav1.CreateOptions, _ ...string,
) (*unstructured.Unstructured, error) {
	return s.write(ctx, lease, 0)
}

func (s *slow) Update(
	ctx context.Context, lease *unstructured.Unstructured, _ metav1.UpdateOptions, _ ...string,
) (*unstructured.Unstructured, error) {
	version, err := strconv.Atoi(lease.GetResourceVersion())
	if err != nil {
		return nil, err
	}
	return s.write(ctx, lease, version)
}

func (s *slow) write(
	ctx context.Context, lease *unstructured.Unstructured, version int,
) (*unstructured.Unstructured, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	s.lease = lease.DeepCopy()
	s.lease.SetResourceVersion(strconv.Itoa(version + 1))
	return s.lease, nil
}

func (s *slow) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(s.takes):
		return nil
	}
}

// The API server of a busy cluster takes seconds for an answer. The leader may write all the while: nobody else can
// have taken the Lease.
func TestALeaderOfASlowClusterMayWriteAllTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		elector := New(&slow{takes: 2 * time.Second}, "one", slog.New(slog.DiscardHandler))
		if _, err := elector.Win(ctx); err != nil {
			t.Fatal(err)
		}
		held := make(chan error, 1)
		go func() { held <- elector.Hold(ctx) }()
		for at := range 1200 {
			if !elector.Leads() {
				t.Errorf("it does not lead after %s", time.Duration(at)*100*time.Millisecond)
				break
			}
			<-time.After(100 * time.Millisecond)
		}
		stop()
		if err := <-held; err != nil {
			t.Error(err)
		}
	})
}

// What a leader has heard of the hub's catalog is known to the next one, from each renewal on.
func TestTheNextLeaderKnowsWhatTheLastOneHadHeardOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		leases := &slow{}
		of := func(id string, revision int64) *Elector {
			elector := New(leases, id, slog.New(slog.DiscardHandler))
			elector.Revision = func() int64 { return revision }
			return elector
		}
		wins := func(elector *Elector, heard int64) {
			t.Helper()
			if _, err := elector.Win(t.Context()); err != nil || elector.Heard() != heard {
				t.Errorf("the leader before has heard of %d, want %d: %v", elector.Heard(), heard, err)
			}
		}
		first := of("first", 7)
		wins(first, 0)
		if err := first.Know(t.Context()); err != nil {
			t.Error(err)
		}
		first.Release(t.Context())
		wins(of("second", 3), 7) // and ends before it knows anything
		<-time.After(2 * term)
		third := of("third", 0)
		wins(third, 7)
		if err := third.Know(t.Context()); err != nil {
			t.Error(err)
		}
		third.Release(t.Context())
		wins(of("fourth", 0), 0)
	})
}
