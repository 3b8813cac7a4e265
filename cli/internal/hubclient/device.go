package hubclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"golang.org/x/oauth2"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// maxDiscovery bounds what a provider says of itself.
const maxDiscovery = 1 << 20

// deviceFlow logs a person in at the identity provider (RFC 8628) and returns the ID token.
func deviceFlow(ctx context.Context, at *consolev1.OIDCOptions, tell func(url, code string)) (string, error) {
	endpoint, err := discoverEndpoint(ctx, at.GetIssuer())
	if err != nil {
		return "", err
	}
	o := oauth2.Config{ClientID: at.GetClientId(), Endpoint: endpoint, Scopes: at.GetScopes()}
	beginning, cancel := context.WithTimeout(ctx, CallTimeout) // the rest waits for a person
	defer cancel()
	begun, err := o.DeviceAuth(beginning)
	if err != nil {
		return "", fmt.Errorf("begin the login at %s: %w. Does the provider allow the device flow to client %q?", at.GetIssuer(), err, at.GetClientId())
	}
	to := begun.VerificationURIComplete
	if to == "" {
		to = begun.VerificationURI
	}
	tell(to, begun.UserCode)
	tokens, err := o.DeviceAccessToken(ctx, begun)
	if err != nil {
		return "", fmt.Errorf("log in at %s: %w", at.GetIssuer(), err)
	}
	id, _ := tokens.Extra("id_token").(string)
	if id == "" {
		return "", fmt.Errorf("%s gave no ID token: does client %q have the scope openid?", at.GetIssuer(), at.GetClientId())
	}
	return id, nil
}

func discoverEndpoint(ctx context.Context, issuer string) (oauth2.Endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration", nil)
	if err != nil {
		return oauth2.Endpoint{}, fmt.Errorf("identity provider: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return oauth2.Endpoint{}, fmt.Errorf("identity provider: %w", err)
	}
	defer resp.Body.Close()
	var found struct {
		Issuer string `json:"issuer"`
		Device string `json:"device_authorization_endpoint"`
		Token  string `json:"token_endpoint"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxDiscovery)).Decode(&found); err != nil ||
		resp.StatusCode != http.StatusOK {
		return oauth2.Endpoint{}, fmt.Errorf("identity provider %s does not say where its endpoints are: %s", issuer, resp.Status)
	}
	if found.Issuer != issuer {
		return oauth2.Endpoint{}, fmt.Errorf("identity provider %s says that it is %s", issuer, found.Issuer)
	}
	if found.Device == "" {
		return oauth2.Endpoint{}, errors.New("the identity provider has no device flow: log in with a link (`fairlead admin login-link`)")
	}
	return oauth2.Endpoint{DeviceAuthURL: found.Device, TokenURL: found.Token}, nil
}
