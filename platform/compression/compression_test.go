package compression_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	"fairlead.dev/platform/compression"
)

// echo answers with what it was told.
type echo struct {
	deliveryv1connect.UnimplementedDeliveryServiceHandler
}

func (echo) Sync(_ context.Context, req *deliveryv1.SyncRequest) (*deliveryv1.SyncResponse, error) {
	return &deliveryv1.SyncResponse{
		Result: &deliveryv1.SyncResponse_Changes{Changes: &deliveryv1.Changes{Removed: []string{req.GetDigest()}}},
	}, nil
}

func TestOnlyLargeMessagesAreCompressed(t *testing.T) {
	t.Parallel()
	var length int64
	var encoding string
	path, handler := deliveryv1connect.NewDeliveryServiceHandler(echo{}, compression.Handler())
	mux := http.NewServeMux()
	mux.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		length, encoding = r.ContentLength, r.Header.Get("Content-Encoding")
		handler.ServeHTTP(w, r)
	}))
	s := httptest.NewServer(mux)
	defer s.Close()
	var answered string
	see := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			res, err := next(ctx, req)
			if err == nil {
				answered = res.Header().Get("Content-Encoding")
			}
			return res, err
		}
	})
	client := deliveryv1connect.NewDeliveryServiceClient(s.Client(), s.URL, compression.Client(),
		connect.WithInterceptors(see))
	for _, test := range []struct {
		digest, encoding string
	}{
		{strings.Repeat("a", compression.LeastBytes/2), ""},
		{strings.Repeat("same again ", compression.LeastBytes), "gzip"},
	} {
		for range 2 { // again, by a compressor that was used
			res, err := client.Sync(t.Context(), &deliveryv1.SyncRequest{Digest: test.digest})
			if err != nil {
				t.Fatal(err)
			}
			if back := res.GetChanges().GetRemoved()[0]; back != test.digest {
				t.Errorf("%d bytes came back as %d", len(test.digest), len(back))
			}
			if encoding != test.encoding || answered != test.encoding ||
				test.encoding != "" && length > int64(len(test.digest)/5) {
				t.Errorf("%d bytes travel there as %d with encoding %q, back with %q", len(test.digest), length,
					encoding, answered)
			}
		}
	}
}
