package cloud

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// management is what a token has to be for: registries exchange it.
	management = "https://management.azure.com/"
	// refreshTokens is the name of the user whose password is a token of the registry.
	refreshTokens = "00000000-0000-0000-0000-000000000000"
	// acrLife is less than the three hours that registries give.
	acrLife = time.Hour
)

// acr changes a token of the pod (Workload Identity) or of the machine into a login of one registry.
func (l *Logins) acr(ctx context.Context, host string) (Login, error) {
	ask := l.entra
	if l.o.Getenv("AZURE_FEDERATED_TOKEN_FILE") == "" {
		ask = l.managed
	}
	token, err := ask(ctx)
	if err != nil {
		return Login{}, err
	}
	text, err := l.send(ctx, request{
		method: http.MethodPost, url: place(l.o.Places.Exchange, host),
		form: url.Values{"grant_type": {"access_token"}, "service": {host}, "access_token": {token.Token}},
	})
	if err != nil {
		return Login{}, err
	}
	return decodeExchange(text)
}

func decodeExchange(text []byte) (Login, error) {
	var is struct {
		RefreshToken string `json:"refresh_token"`
	}
	if err := decode(text, &is); err != nil {
		return Login{}, err
	}
	if is.RefreshToken == "" || strings.ContainsAny(is.RefreshToken, " \r\n") {
		return Login{}, errors.New("the answer has no token")
	}
	return Login{Username: refreshTokens, Password: is.RefreshToken, Until: time.Now().Add(acrLife)}, nil
}

// managed asks the metadata service of a machine for a token of its identity, or of the one that AZURE_CLIENT_ID names.
func (l *Logins) managed(ctx context.Context) (Login, error) {
	query := url.Values{"api-version": {"2018-02-01"}, "resource": {management}}
	if id := l.o.Getenv("AZURE_CLIENT_ID"); id != "" {
		query.Set("client_id", id)
	}
	text, err := l.send(ctx, request{
		method: http.MethodGet, url: l.o.Places.Metadata + "/metadata/identity/oauth2/token?" + query.Encode(),
		headers: map[string]string{"Metadata": "true"}, isMetadata: true,
	})
	if err != nil {
		return Login{}, err
	}
	return decodeOAuth(text)
}

// entra changes the token of the pod's service account into one of Microsoft Entra.
func (l *Logins) entra(ctx context.Context) (Login, error) {
	assertion, err := l.file("AZURE_FEDERATED_TOKEN_FILE")
	if err != nil {
		return Login{}, err
	}
	at := strings.TrimSuffix(cmp.Or(l.o.Getenv("AZURE_AUTHORITY_HOST"), l.o.Places.Entra), "/")
	text, err := l.send(ctx, request{
		method: http.MethodPost, url: at + "/" + url.PathEscape(l.o.Getenv("AZURE_TENANT_ID")) + "/oauth2/v2.0/token",
		form: url.Values{
			"grant_type": {"client_credentials"}, "client_id": {l.o.Getenv("AZURE_CLIENT_ID")}, "scope": {management + ".default"},
			"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {assertion},
		},
	})
	if err != nil {
		return Login{}, err
	}
	return decodeOAuth(text)
}
