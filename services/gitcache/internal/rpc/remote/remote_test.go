package remote_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"

	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/gitcache/internal/browse"
	"fairlead.dev/services/gitcache/internal/rpc/remote"
)

// refuser is a replica that refuses with a code.
type refuser struct {
	gitcachev1connect.UnimplementedSourceServiceHandler

	code connect.Code
}

func (r refuser) ReadFile(context.Context, *gitcachev1.ReadFileRequest) (*gitcachev1.ReadFileResponse, error) {
	return nil, connect.NewError(r.code, errors.New("their words"))
}

// one is a group of one replica.
type one struct{ url string }

func (o one) OwnerMember(context.Context, string) (coordination.Member, bool) {
	return coordination.Member{ID: "two", URL: o.url}, true
}
func (one) Others() []coordination.Member         { return nil }
func (one) HTTP(coordination.Member) *http.Client { return http.DefaultClient }

// What another replica says about the content is an answer, in its words. Any other refusal is about that replica, and
// the next one is asked.
func TestRefusalsOfAnotherReplicaAreAboutTheContentOrAboutIt(t *testing.T) {
	t.Parallel()
	answers := map[connect.Code]refusal.Reason{
		connect.CodeNotFound: refusal.NotFound, connect.CodeInvalidArgument: refusal.Invalid, connect.CodeResourceExhausted: refusal.Exhausted,
	}
	for code := connect.CodeCanceled; code <= connect.CodeUnauthenticated; code++ {
		path, handler := gitcachev1connect.NewSourceServiceHandler(refuser{code: code})
		mux := http.NewServeMux()
		mux.Handle(path, handler)
		server := httptest.NewServer(mux)
		peer, _ := remote.Peers{Members: one{server.URL}}.Owner(t.Context(), "uid")
		_, err := peer.File(t.Context(), browse.Place{Source: "shop"})
		server.Close()
		said, isAnswer := errors.AsType[*refusal.Error](err)
		reason, wanted := answers[code]
		switch {
		case isAnswer != wanted:
			t.Errorf("%s: %v", code, err)
		case isAnswer && (said.Reason != reason || err.Error() != "their words"):
			t.Errorf("%s: %#v", code, said)
		case !isAnswer && !strings.HasPrefix(err.Error(), "ask another replica: "):
			t.Errorf("%s: %v", code, err)
		}
	}
}
