package artifact

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
)

// ticketHeader carries the ticket of a download.
const ticketHeader = "Fairlead-Artifact-Ticket"

// ticketFormat keeps tickets apart from all else that is made with the hub secret.
const ticketFormat = "fairlead artifact ticket 1"

// Tickets are made by whoever knows which artifacts are meant for a cluster, and show that to others who know
// the hub secret. A ticket is worth nothing without the cluster's own token, and says no more than that the
// cluster was once told of this very content, so it doesn't end.
type Tickets struct {
	// Secret is that of the hub, read each time, so that it may change.
	Secret func() (string, error)
}

// For returns what makes tickets for a cluster.
func (t Tickets) For(cluster string) (func(Digest) string, error) {
	secret, err := t.Secret()
	if err != nil {
		return nil, fmt.Errorf("make tickets: %w", err)
	}
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, ticketFormat, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("make tickets: %w", err)
	}
	return func(d Digest) string {
		mac := hmac.New(sha256.New, key)
		// A digest has no other form and no NUL, so no two pairs run into the same bytes.
		mac.Write([]byte(d))
		mac.Write([]byte{0})
		mac.Write([]byte(cluster))
		return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	}, nil
}

// Valid says whether a request has a ticket for an artifact and the cluster of its caller.
func (t Tickets) Valid(r *http.Request, cluster string, d Digest) bool {
	got := r.Header.Get(ticketHeader)
	if got == "" || cluster == "" {
		return false
	}
	ticket, err := t.For(cluster)
	return err == nil && hmac.Equal([]byte(got), []byte(ticket(d)))
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
