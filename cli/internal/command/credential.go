package command

import (
	"context"
	"encoding/json"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairlead.dev/cli/internal/hub"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

const (
	credentialVerb    = "kubectl-credential" //nolint:gosec // an API, no secret
	credentialVersion = "client.authentication.k8s.io/v1"
	// credentialLifetime is how long a token lives that is handed to kubectl; credentialMargin before its end
	// kubectl asks for another.
	credentialLifetime, credentialMargin = 10 * time.Minute, time.Minute
)

// execCredential is what a credential plugin answers.
type execCredential struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Status     credentialStatus `json:"status"`
}

type credentialStatus struct {
	ExpirationTimestamp string `json:"expirationTimestamp"`
	Token               string `json:"token"`
}

// kubectlCredential is run by clients of kubeconfigs, not by people.
func (a *app) kubectlCredential() *cobra.Command {
	return &cobra.Command{
		Use:    credentialVerb,
		Short:  "Give kubectl a token, as kubeconfigs of this command ask for it",
		Hidden: true,
		Args:   wants(0, 0),
		RunE: a.hubCommand(func(ctx context.Context, h *hub.Hub, _ []string) error {
			token, until, err := a.credential(ctx, h)
			if err != nil {
				return err
			}
			text, err := json.Marshal(execCredential{credentialVersion, "ExecCredential", credentialStatus{until.UTC().Format(time.RFC3339), token}})
			if err != nil {
				return err
			}
			return a.printf("%s\n", text)
		}),
	}
}

// credential is a token to hand on, and until when it should be used.
func (a *app) credential(ctx context.Context, h *hub.Hub) (string, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	res, err := h.Identity.RenewToken(ctx, &consolev1.RenewTokenRequest{Lifetime: durationpb.New(credentialLifetime)})
	if connect.CodeOf(err) == connect.CodeUnavailable && a.Now().Before(h.Context.Expires) {
		// Clusters are reached with the console down, too; then with the token that is there.
		return h.Context.Token, a.Now().Add(credentialMargin), nil
	}
	if err != nil {
		return "", time.Time{}, err
	}
	return res.GetToken().GetToken(), res.GetToken().GetExpireTime().AsTime().Add(-credentialMargin), nil
}
