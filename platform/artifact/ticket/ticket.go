// Package ticket makes and checks tickets of downloads. A ticket shows one service of the hub what another one knows:
// that an artifact is meant for a cluster.
package ticket

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/hubsecret"
)

// header carries the ticket of a download.
const header = "Fairlead-Artifact-Ticket"

const (
	// lifetime is how long a ticket counts at least: as long as the token of the agent that gets it.
	lifetime = 7 * 24 * time.Hour
	// step rounds ends up, so that what is delivered again on the same day has the same ticket.
	step = 24 * time.Hour
)

// Signer makes tickets where it is known which artifacts are meant for a cluster, and checks them wherever the hub
// secret is known. A ticket is worth nothing without the cluster's own token, and says no more than that the
// cluster was told of this very content within the week before.
type Signer struct {
	Secret *hubsecret.File
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

func (t Signer) currentTime() time.Time {
	if t.Now == nil {
		return time.Now()
	}
	return t.Now()
}

// For returns what makes tickets for a cluster, by its uid: not for another one that gets its name later. Without a
// uid, which tokens of before there was one lack, tickets are empty.
func (t Signer) For(uid string) (func(artifact.Digest) string, error) {
	if _, err := t.Secret.First(); err != nil {
		return nil, fmt.Errorf("make tickets: %w", err)
	}
	until := strconv.FormatInt(t.currentTime().Add(lifetime+step).Truncate(step).Unix(), 10)
	return func(d artifact.Digest) string {
		mac, err := t.Secret.Sign(hubsecret.Tickets, textOf(uid, d, until))
		if err != nil || uid == "" {
			return "" // a secret that was read stays in force: the uid is missing
		}
		return until + "." + base64.RawURLEncoding.EncodeToString(mac)
	}, nil
}

// textOf is what is signed. No part has a NUL, so no two triples run into the same bytes.
func textOf(uid string, d artifact.Digest, until string) []byte {
	return []byte(string(d) + "\x00" + uid + "\x00" + until)
}

// Valid says whether a request has a ticket for an artifact and the cluster of its caller, by its uid.
func (t Signer) Valid(r *http.Request, uid string, d artifact.Digest) bool {
	until, text, ok := strings.Cut(r.Header.Get(header), ".")
	mac, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || !ok || uid == "" {
		return false
	}
	end, err := strconv.ParseInt(until, 10, 64)
	if err != nil || t.currentTime().Unix() >= end {
		return false
	}
	ok, err = t.Secret.Verify(hubsecret.Tickets, textOf(uid, d, until), mac)
	return err == nil && ok
}

// Show returns a client that shows a ticket; an empty one changes nothing.
func Show(hc *http.Client, ticket string) *http.Client {
	if ticket == "" {
		return hc
	}
	with := *hc
	with.Transport = showing{hc.Transport, ticket}
	return &with
}

type showing struct {
	http.RoundTripper

	ticket string
}

func (s showing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(header, s.ticket)
	next := s.RoundTripper
	if next == nil {
		next = http.DefaultTransport
	}
	return next.RoundTrip(r)
}
