package artifact

import (
	"encoding/base64"
	"fmt"
	"net/http"

	"fairlead.dev/platform/hubsecret"
)

// ticketHeader carries the ticket of a download.
const ticketHeader = "Fairlead-Artifact-Ticket"

// Tickets are made by whoever knows which artifacts are meant for a cluster, and show that to others who know
// the hub secret. A ticket is worth nothing without the cluster's own token, and says no more than that the
// cluster was once told of this very content, so it doesn't end.
type Tickets struct {
	Secret *hubsecret.File
}

// For returns what makes tickets for a cluster.
func (t Tickets) For(cluster string) (func(Digest) string, error) {
	if _, err := t.Secret.First(); err != nil {
		return nil, fmt.Errorf("make tickets: %w", err)
	}
	return func(d Digest) string {
		mac, err := t.Secret.Sign(hubsecret.Tickets, ticketFor(cluster, d))
		if err != nil {
			return "" // no: what was read stays in force
		}
		return base64.RawURLEncoding.EncodeToString(mac)
	}, nil
}

// ticketFor is what is signed. A digest has no other form and no NUL, so no two pairs run into the same bytes.
func ticketFor(cluster string, d Digest) []byte { return []byte(string(d) + "\x00" + cluster) }

// Valid says whether a request has a ticket for an artifact and the cluster of its caller.
func (t Tickets) Valid(r *http.Request, cluster string, d Digest) bool {
	mac, err := base64.RawURLEncoding.DecodeString(r.Header.Get(ticketHeader))
	if err != nil || len(mac) == 0 || cluster == "" {
		return false
	}
	ok, err := t.Secret.Verify(hubsecret.Tickets, ticketFor(cluster, d), mac)
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
