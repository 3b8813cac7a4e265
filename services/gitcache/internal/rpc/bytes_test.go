package rpc_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/gitcache/internal/rpc"
	"fairlead.dev/services/gitcache/internal/rpc/wire"
)

// patience is for a busy machine.
const patience = 5 * time.Minute

// TestReplicasThatAskEachOtherForTheSameDoNotWaitForEachOther: what nobody has is not found, at once.
func TestReplicasThatAskEachOtherForTheSameDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	nothing := func(context.Context, artifact.Digest) (io.ReadCloser, error) { return nil, artifact.ErrNotFound }
	anybody := func(*http.Request, artifact.Digest) error { return nil }
	d := artifact.SumDigest(make([]byte, 32))
	var replicas [2]*httptest.Server
	var asking sync.WaitGroup // until both ask the other one
	asking.Add(len(replicas))
	for i := range replicas {
		store, err := artifact.OpenStore(t.TempDir(), artifact.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		replicas[i] = httptest.NewServer(rpc.Bytes(store, anybody, nothing, func(ctx context.Context, d artifact.Digest) (io.ReadCloser, error) {
			asking.Done()
			asking.Wait()
			return artifact.Fetch(ctx, &http.Client{Transport: wire.Forwarding(http.DefaultTransport)},
				replicas[1-i].URL, d, 0)
		}))
		t.Cleanup(replicas[i].Close)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var asked sync.WaitGroup
	for _, r := range replicas {
		asked.Go(func() {
			if _, err := artifact.Fetch(ctx, http.DefaultClient, r.URL, d, 0); !errors.Is(err, artifact.ErrNotFound) {
				t.Errorf("got %v", err)
			}
		})
	}
	asked.Wait()
}
