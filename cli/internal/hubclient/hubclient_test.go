package hubclient

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/contexts"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
)

func TestAnErrorOfAFieldNamesTheFlag(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		`order_by: there is no field "nope"`:                 `--sort: there is no field "nope"`,
		"validation error: page_size: must be at most 1000":  "--limit: must be at most 1000",
		"validation error: reason: must not be empty":        "--reason: must not be empty",
		"lifetime: must be at most 12h":                      "--lifetime: must be at most 12h",
		"validation error: text: must be at most 256":        "text: must be at most 256",
		"validation errors:\n - text: must not be empty":     "these fields are wrong:\n - text: must not be empty",
		"filter: character 1: the filter breaks off: reason": "filter: character 1: the filter breaks off: reason",
	} {
		err := newExplainer(contexts.Context{}).explainError(connect.NewWireError(connect.CodeInvalidArgument,
			errors.New(said)))
		if err.Error() != want || connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("of %q: %v, want %q", said, err, want)
		}
	}
}

func TestAnErrorOfAStreamIsForPeople(t *testing.T) {
	t.Parallel()
	const said = "the folder has more than 32 MiB: leave files out"
	server := httptest.NewServer(connect.NewServerStreamHandler(gitcachev1connect.SourceServicePackServiceProcedure,
		func(context.Context, *connect.Request[gitcachev1.PackServiceRequest],
			*connect.ServerStream[gitcachev1.PackServiceResponse],
		) error {
			return connect.NewError(connect.CodeResourceExhausted, errors.New(said))
		}))
	defer server.Close()
	stream, err := (&Hub{HTTP: server.Client()}).Gitcache(server.URL).Sources.PackService(t.Context(),
		&gitcachev1.PackServiceRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if stream.Receive() || stream.Err() == nil || stream.Err().Error() != said ||
		connect.CodeOf(stream.Err()) != connect.CodeResourceExhausted {
		t.Errorf("got %v", stream.Err())
	}
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
}

// The advice of an error names a command that there is.
func TestAnErrorSaysWhereWhatThereIsIsListed(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		`source "shop" does not exist`:       "source \"shop\" does not exist: see `fairlead get sources`",
		`service "shop" does not exist`:      "service \"shop\" does not exist: see `fairlead get services`",
		`recording "12ab" does not exist`:    `recording "12ab" does not exist`,
		`source "shop" has no ref "v1"`:      `source "shop" has no ref "v1"`,
		`file "a" of "b" does not exist now`: `file "a" of "b" does not exist now`,
	} {
		err := newExplainer(contexts.Context{}).explainError(connect.NewWireError(connect.CodeNotFound, errors.New(said)))
		if err.Error() != want || connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("%s: got %v, want %s", said, err, want)
		}
	}
}

func TestASecretIsSentInClearTextToThisMachineOnly(t *testing.T) {
	t.Parallel()
	for _, at := range []string{
		"http://127.attacker.example", "http://127.0.0.1.attacker.example:7400", "http://localhost.attacker.example",
		"http://10.0.0.1", "http://[::ffff:10.0.0.1]",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := Login{URL: at, HubSecret: "secret"}.Do(ctx)
		cancel()
		if err == nil || err.Error() != "http://"+at[len("http://"):]+
			": a secret is only sent over https (or http to this machine)" {
			t.Errorf("%s: %v", at, err)
		}
	}
	for _, at := range []string{
		"http://127.0.0.1:7400", "http://127.9.9.9", "http://localhost:7400", "http://[::1]:7400",
		"https://fairlead.example.com",
	} {
		if _, err := checkURL(at); err != nil {
			t.Error(err)
		}
	}
}

// A hub that takes a call and never answers holds no command for ever: each call has a bound, its own or that of writes.
func TestEachCallIsBounded(t *testing.T) {
	t.Parallel()
	own, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for name, test := range map[string]struct {
		ctx  context.Context
		most time.Duration
	}{"no bound": {t.Context(), WriteTimeout}, "its own": {own, time.Hour}} {
		var until time.Time
		call := newExplainer(contexts.Context{}).WrapUnary(
			func(ctx context.Context, _ connect.AnyRequest) (connect.AnyResponse, error) {
				until, _ = ctx.Deadline()
				return nil, nil //nolint:nilnil // nobody looks at the answer
			})
		if _, err := call(test.ctx, nil); err != nil {
			t.Fatal(err)
		}
		if left := time.Until(until); left > test.most || left < test.most-time.Minute/2 {
			t.Errorf("%s: the call may take %s, want %s", name, left, test.most)
		}
	}
}
