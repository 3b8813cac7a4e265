package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
)

// google asks the metadata server of a machine or of GKE (Workload Identity). Its token is the password of registries,
// and what buckets want.
func (l *Logins) google(ctx context.Context) (Login, error) {
	text, err := l.send(ctx, request{
		method: http.MethodGet, url: l.o.Places.Metadata + "/computeMetadata/v1/instance/service-accounts/default/token",
		headers: map[string]string{"Metadata-Flavor": "Google"}, isMetadata: true,
	})
	if err != nil {
		return Login{}, err
	}
	login, err := decodeOAuth(text)
	login.Username, login.Password = "oauth2accesstoken", login.Token
	return login, err
}

// decodeOAuth reads a token as OAuth 2 has it.
func decodeOAuth(text []byte) (Login, error) {
	var is struct {
		AccessToken string      `json:"access_token"`
		ExpiresIn   json.Number `json:"expires_in"`
	}
	if err := decode(text, &is); err != nil {
		return Login{}, err
	}
	if is.AccessToken == "" || strings.ContainsAny(is.AccessToken, " \r\n") {
		return Login{}, errors.New("the answer has no token")
	}
	return Login{Token: is.AccessToken, Until: life(is.ExpiresIn)}, nil
}
