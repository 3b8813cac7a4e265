package acceptance

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/identity"
)

// A cluster's share counts from before the body: of bodies that one agent has under way at once, few are begun to be
// read, and the other calls are refused unread. Other clusters are served meanwhile, and so is the agent when its calls
// have ended.
func TestOneClusterTakesNoMoreThanItsShareOfBodies(t *testing.T) {
	t.Parallel()
	const under = 64
	for procedure, most := range map[string]int{
		deliveryv1connect.DeliveryServiceSyncProcedure:        4,
		deliveryv1connect.DeliveryServiceReportProcedure:      4,
		deliveryv1connect.DetailServiceReportDetailsProcedure: 4,
		deliveryv1connect.ViewServicePushViewProcedure:        4,
		deliveryv1connect.DeliveryServiceWatchProcedure:       32,
	} {
		t.Run(procedure, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.ship()
			e := w.start()
			hog := e.agent("edge-1")
			var held []*tls.Conn
			for range under {
				conn, answer := hog.announce(procedure)
				if answer.StatusCode == http.StatusContinue {
					held = append(held, conn)
				} else if said := answer.Header.Get("Retry-After"); !refused(procedure, answer) ||
					said == "" && !isStream(procedure) {
					t.Errorf("refused with %s, Retry-After %q", answer.Status, said)
				}
			}
			if len(held) == 0 || len(held) > most {
				t.Errorf("of %d bodies at once the distributor began to read %d, want %d", under, len(held), most)
			}
			if _, answer := e.agent("edge-2").announce(procedure); answer.StatusCode != http.StatusContinue {
				t.Errorf("another cluster: %s", answer.Status)
			}
			for _, conn := range held {
				_ = conn.Close()
			}
			await.True(w.t, "the agent is served again", func() bool {
				_, answer := hog.announce(procedure)
				return answer.StatusCode == http.StatusContinue
			})
			if procedure != deliveryv1connect.DeliveryServiceSyncProcedure {
				if _, err := hog.rpc.Sync(context.Background(), &deliveryv1.SyncRequest{}); err != nil {
					t.Errorf("a Sync beside: %v", err)
				}
			}
		})
	}
}

func isStream(procedure string) bool {
	return procedure == deliveryv1connect.DeliveryServiceWatchProcedure
}

// refused says whether a call is turned away; a stream is so in its last message.
func refused(procedure string, answer *http.Response) bool {
	if isStream(procedure) {
		return answer.StatusCode == http.StatusOK
	}
	return answer.StatusCode == http.StatusServiceUnavailable
}

// announce sends the head of a call whose body of 4 MiB waits to be asked for, on a connection of its own: "100
// Continue" is the answer if the distributor begins to read the body.
func (a *agent) announce(procedure string) (*tls.Conn, *http.Response) {
	a.t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(a.e.url, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = conn.Close() })
	kind := "application/proto"
	if isStream(procedure) {
		kind = "application/connect+proto"
	}
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
		procedure, a.token, identity.ProofHeader, a.proof(), kind, 4<<20)
	if err != nil {
		a.t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		a.t.Fatal(err)
	}
	_ = answer.Body.Close()
	return conn, answer
}
