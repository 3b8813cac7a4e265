package edge

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	"fairlead.dev/gen/fairlead/artifact/v1/artifactv1connect"
	"fairlead.dev/services/distributor/internal/plan"
)

// gitcache answers with a failure; without a reason it does not answer.
type gitcache struct {
	artifactv1connect.UnimplementedArtifactServiceHandler
	reason artifactv1.ResolveError_Reason
	epoch  int64
}

const hangsUp = artifactv1.ResolveError_REASON_UNSPECIFIED

func (g gitcache) Resolve(context.Context, *artifactv1.ResolveRequest) (*artifactv1.ResolveResponse, error) {
	if g.reason == hangsUp {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("starts"))
	}
	return &artifactv1.ResolveResponse{Results: []*artifactv1.Result{{
		SourceUid: "uid-shop", Epoch: g.epoch,
		Result: &artifactv1.Result_Error{Error: &artifactv1.ResolveError{Reason: g.reason, Message: g.reason.String()}},
	}}}, nil
}

// The last gitcache that is asked is a standby, whose reason is most often that it does not own the source.
func TestOfSeveralFailuresTheOneThatHelpsMostIsTold(t *testing.T) {
	t.Parallel()
	const (
		internal = artifactv1.ResolveError_REASON_INTERNAL
		missing  = artifactv1.ResolveError_REASON_NOT_FETCHED
		unknown  = artifactv1.ResolveError_REASON_UNKNOWN_SOURCE
	)
	for _, c := range []struct {
		asked []gitcache // the owner is the first
		want  string
	}{
		{[]gitcache{{reason: internal, epoch: 5}, {reason: missing, epoch: 5}}, "REASON_INTERNAL"},
		{[]gitcache{{reason: missing, epoch: 5}, {reason: internal, epoch: 5}}, "REASON_INTERNAL"},
		{[]gitcache{{reason: internal, epoch: 5}, {reason: hangsUp}}, "REASON_INTERNAL"},
		{[]gitcache{{reason: hangsUp}, {reason: missing, epoch: 5}}, "starts"},
		{[]gitcache{{reason: hangsUp}, {reason: internal, epoch: 4}}, "starts"}, // an answer about an older publication
		{[]gitcache{{reason: missing, epoch: 5}, {reason: unknown}}, "REASON_NOT_FETCHED"},
	} {
		cfg := Config{
			Published: func(string) (string, int64) { return "", 5 }, Coordination: alone{},
			RPC: http.DefaultClient, Log: slog.New(slog.DiscardHandler),
		}
		for _, g := range c.asked {
			_, h := artifactv1connect.NewArtifactServiceHandler(g)
			srv := httptest.NewServer(h)
			t.Cleanup(srv.Close)
			cfg.Static = append(cfg.Static, srv.URL)
		}
		got := New(cfg).Resolve(t.Context(), []plan.Want{{Source: "shop", SourceUID: "uid-shop", Commit: "1111111"}})
		if len(got) != 1 || got[0].Failure == nil || !strings.Contains(got[0].Failure.Text, c.want) {
			t.Errorf("%+v: got %+v, want %q", c.asked, got[0].Failure, c.want)
		}
	}
}
