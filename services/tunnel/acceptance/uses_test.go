package acceptance

import (
	"testing"

	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
)

func TestTokenOfASessionIsReportedToTheConsole(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	h.setAway(true)
	token, id, err := h.Sign(identitytest.Bind(identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}))
	if err != nil {
		t.Fatal(err)
	}
	h.dial(h.url, token, nil)
	h.await("the session is there", func() bool { return len(h.sessions()) == 1 })
	if h.used("edge-1", id.TokenID) {
		t.Fatal("the console is away and has it")
	}
	h.setAway(false)
	h.await("the console knows the token", func() bool { return h.used("edge-1", id.TokenID) })
}
