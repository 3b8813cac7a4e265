package artifact

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/platform/hubsecret"
)

// ticketHeader carries the ticket of a download.
const ticketHeader = "Fairlead-Artifact-Ticket"

const (
	// ticketLifetime is how long a ticket counts at least: as long as the token of the agent that gets it.
	ticketLifetime = 7 * 24 * time.Hour
	// ticketStep rounds ends up, so that what is delivered again on the same day has the same ticket.
	ticketStep = 24 * time.Hour
)

// Tickets are made by whoever knows which artifacts are meant for a cluster, and show that to others who know
// the hub secret. A ticket is worth nothing without the cluster's own token, and says no more than that the
// cluster was told of this very content within the week before.
type Tickets struct {
	Secret *hubsecret.File
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

func (t Tickets) currentTime() time.Time {
	if t.Now == nil {
		return time.Now()
	}
	return t.Now()
}

// For returns what makes tickets for a cluster, by its uid: not for another one that gets its name later. Without a uid, which tokens of before
// there was one lack, tickets are empty.
func (t Tickets) For(uid string) (func(Digest) string, error) {
	if _, err := t.Secret.First(); err != nil {
		return nil, fmt.Errorf("make tickets: %w", err)
	}
	until := strconv.FormatInt(t.currentTime().Add(ticketLifetime+ticketStep).Truncate(ticketStep).Unix(), 10)
	return func(d Digest) string {
		mac, err := t.Secret.Sign(hubsecret.Tickets, ticketFor(uid, d, until))
		if err != nil || uid == "" {
			return "" // a secret that was read stays in force: the uid is missing
		}
		return until + "." + base64.RawURLEncoding.EncodeToString(mac)
	}, nil
}

// ticketFor is what is signed. No part has a NUL, so no two triples run into the same bytes.
func ticketFor(uid string, d Digest, until string) []byte {
	return []byte(string(d) + "\x00" + uid + "\x00" + until)
}

// Valid says whether a request has a ticket for an artifact and the cluster of its caller, by its uid.
func (t Tickets) Valid(r *http.Request, uid string, d Digest) bool {
	until, text, ok := strings.Cut(r.Header.Get(ticketHeader), ".")
	mac, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || !ok || uid == "" {
		return false
	}
	end, err := strconv.ParseInt(until, 10, 64)
	if err != nil || t.currentTime().Unix() >= end {
		return false
	}
	ok, err = t.Secret.Verify(hubsecret.Tickets, ticketFor(uid, d, until), mac)
	return err == nil && ok
}

// WithTicket returns a client that shows a ticket; an empty one changes nothing.
func WithTicket(hc *http.Client, ticket string) *http.Client {
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
	r.Header.Set(ticketHeader, s.ticket)
	next := s.RoundTripper
	if next == nil {
		next = http.DefaultTransport
	}
	return next.RoundTrip(r)
}
