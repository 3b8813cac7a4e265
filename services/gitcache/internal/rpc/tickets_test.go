package rpc_test

import (
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"testing"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/artifact/ticket"
	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/gitcache/internal/rpc"
)

// A cluster that is deleted and made again by its name has nothing of the tickets of before.
func TestTicketOfAClusterOpensNothingToTheNextOneOfItsName(t *testing.T) {
	t.Parallel()
	tickets := ticket.Signer{Secret: hubsecret.Text("the hub secret of this test")}
	make1, err := tickets.For("first")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("an artifact"))
	digest := artifact.SumDigest(sum[:])
	refusals := 0
	authorize := rpc.Tickets(tickets, func(*http.Request, string, string) { refusals++ })
	asks := func(uid string) error {
		r := httptest.NewRequestWithContext(identity.NewContext(t.Context(),
			identity.Identity{Kind: identity.KindAgent, Name: "edge-1", ClusterUID: uid}), http.MethodGet, "/", nil)
		r.Header.Set("Fairlead-Artifact-Ticket", make1(digest))
		return authorize(r, digest)
	}
	if err := asks("first"); err != nil {
		t.Errorf("the cluster itself: %v", err)
	}
	for _, uid := range []string{"second", ""} {
		if err := asks(uid); err == nil {
			t.Errorf("cluster %q of the same name", uid)
		}
	}
	if refusals != 2 {
		t.Errorf("%d refusals are told", refusals)
	}
}
