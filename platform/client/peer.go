package client

import (
	"errors"
	"net/url"

	"fairlead.dev/platform/loopback"
)

// CheckPeer refuses addresses of other services that a token must not go to in clear text. An address from coordination
// is a hint that others can forge: ask before each use.
func CheckPeer(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.User != nil:
		return errors.New("not a plain URL")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && loopback.Host(u.Hostname()):
		return nil
	}
	return errors.New("want https")
}
