package hub

import (
	"context"
	"errors"
	"testing"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/contexts"
)

func TestAnErrorOfAnOrderNamesTheFlag(t *testing.T) {
	t.Parallel()
	said := connect.NewWireError(connect.CodeInvalidArgument, errors.New(`order_by: there is no field "nope"`))
	err := newExplainer(contexts.Context{}).explainError(said)
	if err.Error() != `--sort: there is no field "nope"` || connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("got %v", err)
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
