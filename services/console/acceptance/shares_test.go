package acceptance

import (
	"context"
	"testing"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
)

func TestOnePersonHasNoMoreThanAShareOfTheStreams(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	r.admin(t).let(t, "lookers", "viewer", &consolev1.GrantClusters{All: true})
	hc := newHTTPClient(t)
	as := func(name string) consolev1connect.LiveServiceClient {
		token := r.sign(t, identity.Identity{Kind: identity.KindUser, Name: name, Groups: []string{"lookers"}})
		return consolev1connect.NewLiveServiceClient(hc, r.url,
			append(client.Options(), client.WithToken(r.sending(token)))...)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begin := func(c consolev1connect.LiveServiceClient) error {
		stream, err := c.WatchResources(ctx, &consolev1.WatchResourcesRequest{})
		if err != nil {
			return err
		}
		if !stream.Receive() { // and no more
			return stream.Err()
		}
		return nil
	}
	bob, refused := as("bob"), 0
	for range 110 {
		if err := begin(bob); connect.CodeOf(err) == connect.CodeResourceExhausted {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if refused != 10 {
		t.Errorf("%d of 110 streams of a person were refused", refused)
	}
	if err := begin(as("eve")); err != nil {
		t.Errorf("another person: %v", err)
	}
}
