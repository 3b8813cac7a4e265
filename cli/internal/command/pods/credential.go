package pods

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/kubectl"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

const (
	// credentialLifetime is how long a token lives that is handed to kubectl, unless the kubeconfig says otherwise.
	// kubectl asks for another one credentialMargin before its end, or a fifth of its life.
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
func kubectlCredential(a *app.App) *cobra.Command {
	var lifetime time.Duration
	cmd := &cobra.Command{
		Use:    kubectl.CredentialVerb,
		Short:  "Give kubectl a token, as kubeconfigs of this command ask for it",
		Hidden: true,
		Args:   app.WantArgs(0, 0),
	}
	cmd.Flags().DurationVar(&lifetime, "lifetime", credentialLifetime, "how long the token is good, from 10s to 12h")
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
		token, until, err := obtainCredential(ctx, a, h, lifetime)
		if err != nil {
			return err
		}
		text, err := json.Marshal(execCredential{
			kubectl.CredentialVersion, "ExecCredential", credentialStatus{until.UTC().Format(time.RFC3339), token},
		})
		if err != nil {
			return err
		}
		return a.Printf("%s\n", text)
	})
	return cmd
}

// obtainCredential returns a token to hand on, and until when it should be used. Requests that begin with it run until
// the login ends.
func obtainCredential(
	ctx context.Context, a *app.App, h *hubclient.Hub, lifetime time.Duration,
) (string, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, hubclient.AsideTimeout)
	defer cancel()
	res, err := h.Identity.RenewToken(ctx, &consolev1.RenewTokenRequest{Lifetime: durationpb.New(lifetime), RequestsOutlive: true})
	if hubclient.IsAway(err) && a.Now().Before(h.Context.Expires) {
		// Clusters are reached without the console, too; then with the token that is there.
		return h.Context.Token, a.Now().Add(credentialMargin), nil
	}
	if err != nil {
		return "", time.Time{}, err
	}
	return res.GetToken().GetToken(), res.GetToken().GetExpireTime().AsTime().Add(-min(credentialMargin, lifetime/5)), nil
}
