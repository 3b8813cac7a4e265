package oci

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ErrNoEntry: a docker config has nothing for a repository.
var ErrNoEntry = errors.New("no entry")

// DockerLogin finds the username and the password for a repository in a docker config (config.json, the
// .dockerconfigjson of Kubernetes): the entry whose name is the longest beginning of host/path. If there is none the
// error is ErrNoEntry.
func DockerLogin(config, host, path string) (username, password string, err error) {
	var doc struct {
		Auths map[string]struct {
			Auth          string `json:"auth"`
			Username      string `json:"username"`
			Password      string `json:"password"`
			IdentityToken string `json:"identitytoken"`
		} `json:"auths"`
	}
	if err := json.Unmarshal([]byte(config), &doc); err != nil {
		return "", "", errors.New("its .dockerconfigjson is not JSON that can be read")
	}
	repository, best := host+path, ""
	for name := range doc.Auths {
		place := placeOf(name)
		if (repository == place || strings.HasPrefix(repository, place+"/")) &&
			(best == "" || len(place) > len(placeOf(best)) || len(place) == len(placeOf(best)) && name < best) {
			best = name
		}
	}
	if best == "" {
		return "", "", fmt.Errorf("its .dockerconfigjson has %w for %s. Add it, or the keys username and password", ErrNoEntry, host)
	}
	is := doc.Auths[best]
	username, password = is.Username, is.Password
	if is.Auth != "" {
		b, err := base64.StdEncoding.DecodeString(is.Auth)
		ok := false
		if username, password, ok = strings.Cut(strings.TrimRight(string(b), "\x00"), ":"); err != nil || !ok {
			return "", "", fmt.Errorf("the auth of %s in its .dockerconfigjson is not the base64 of username:password", host)
		}
	}
	if password == "" && is.IdentityToken != "" {
		return "", "", fmt.Errorf("the entry for %s in its .dockerconfigjson is an identity token, which Fairlead does not use. Log in with a username and a password or a token", host)
	}
	if username == "" || password == "" {
		return "", "", fmt.Errorf("the entry for %s in its .dockerconfigjson has no username and password: they may be in a credential helper. Put them into the entry", host)
	}
	return username, password, nil
}

// placeOf is host/path of an entry's name, which may be a URL.
func placeOf(name string) string {
	if _, rest, ok := strings.Cut(name, "://"); ok {
		name = rest
	}
	name = strings.TrimRight(name, "/")
	if name == "index.docker.io/v1" || name == "index.docker.io" || name == "docker.io" {
		return DockerHub
	}
	return name
}

const (
	// DockerHub is the host at which the registry of docker.io answers, and DockerHubTokens that of its token service.
	DockerHub       = "registry-1.docker.io"
	DockerHubTokens = "auth.docker.io" //nolint:gosec // a host
)
