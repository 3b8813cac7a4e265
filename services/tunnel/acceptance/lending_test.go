package acceptance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/mux/muxhttp"
)

// lentTo is a grant for bob alone that ends.
func lentTo(role string, until time.Time) *consolev1.Grant {
	g := grantTo("unused", role)
	g.Metadata.Name, g.Metadata.Uid = "access-1", "uid-access-1"
	g.Spec.Subjects = []*consolev1.GrantSubject{{Subject: &consolev1.GrantSubject_User{User: "bob"}}}
	g.Spec.UntilTime = timestamppb.New(until)
	return g
}

// lasts answers a watch with one event, and everything else with the groups of its caller; upgrades are echoed.
func lasts(t *testing.T) http.HandlerFunc {
	shell := echoServer(t)
	return func(w http.ResponseWriter, r *http.Request) {
		caller, _ := muxhttp.CallerFrom(r.Context())
		switch {
		case muxhttp.IsUpgrade(r.Header):
			resp := &http.Response{StatusCode: 101, Header: http.Header{"Upgrade": r.Header["Upgrade"]}, Body: shell()}
			if _, _, err := muxhttp.Splice(r.Context(), w, resp); err != nil {
				panic(http.ErrAbortHandler)
			}
		case r.URL.Query().Get("watch") != "" || r.URL.Query().Get("follow") != "":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "{\"type\":\"ADDED\"}\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			_ = json.NewEncoder(w).Encode(caller.Groups)
		}
	}
}

// running are bob's streams at a hub: a watch, a log that is followed, a shell. Each returns how it ended.
func (h *hub) running() (ends map[string]func() error) {
	h.t.Helper()
	const pods = "/clusters/edge-1/api/v1/namespaces/x/pods"
	ends = map[string]func() error{}
	for name, target := range map[string]string{"watch": pods + "?watch=true", "log": pods + "/web/log?follow=true"} {
		resp, err := h.client().Do(h.requestAs(bob(), "GET", target))
		if err != nil {
			h.t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK {
			h.t.Fatalf("%s: %s", name, resp.Status)
		}
		ends[name] = func() error {
			defer resp.Body.Close()
			_, err := io.Copy(io.Discard, resp.Body)
			return err
		}
	}
	conn := h.dialTLS()
	fmt.Fprintf(conn, "POST %s/web/exec HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n", pods, h.sign(h.t, bob()))
	buf := make([]byte, 4096)
	n, err := conn.Read(buf)
	if err != nil || !bytes.HasPrefix(buf[:n], []byte("HTTP/1.1 101")) {
		h.t.Fatalf("exec: %q, %v", buf[:n], err)
	}
	ends["exec"] = func() error {
		defer conn.Close()
		_, err := io.Copy(io.Discard, conn)
		return err
	}
	return ends
}

// A request that runs by lent access ends with it: by its own time, or because somebody takes it back. Requests of
// others go on.
func TestStreamsEndWithTheAccessThatWasLent(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		grants func(soon time.Time) []*consolev1.Grant
		timed  bool
		reason string
	}{
		"by its time":       {func(soon time.Time) []*consolev1.Grant { return []*consolev1.Grant{lentTo("operator", soon)} }, true, "needs a grant with role"},
		"by its revocation": {func(time.Time) []*consolev1.Grant { return nil }, false, "needs a grant with role"},
		"by a smaller grant": {func(soon time.Time) []*consolev1.Grant {
			return []*consolev1.Grant{lentTo("viewer", soon.Add(time.Hour))}
		}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			here := newHub(t, "edge-1")
			other := here.another()
			here.connect("edge-1", lasts(t))
			here.SetGrants(grantTo("dev", "viewer"), lentTo("operator", time.Now().Add(time.Hour)))
			for _, h := range []*hub{here, other} {
				h.await("the grant holds", func() bool {
					resp, _ := h.do(h.requestAs(bob(), "GET", "/clusters/edge-1/api/v1/pods"))
					return resp.StatusCode == http.StatusOK
				})
			}
			alice, err := here.client().Do(here.request("GET", "/clusters/edge-1/api/v1/pods?watch=true", nil))
			if err != nil {
				t.Fatal(err)
			}
			defer alice.Body.Close()
			streams := map[string]func() error{}
			for at, h := range map[string]*hub{"here": here, "relayed": other} {
				for what, stream := range h.running() {
					streams[what+" "+at] = stream
				}
			}
			soon := time.Now().Add(time.Second)
			here.SetGrants(append(end.grants(soon), grantTo("dev", "viewer"))...)
			for what, ended := range streams {
				err := ended()
				if began := strings.HasPrefix(what, "watch"); began && err != nil {
					t.Errorf("%s ended with %v", what, err)
				}
			}
			if end.timed && time.Now().Before(soon) {
				t.Error("they ended before their time")
			}
			here.await("the end of each in the trail",
				func() bool { return len(here.audited("tunnel.request.end")) == len(streams) })
			for _, e := range here.audited("tunnel.request.end") {
				if e.GetReason() == "" || !strings.Contains(e.GetReason(), end.reason) {
					t.Errorf("%s ended because %q", e.GetVerb(), e.GetReason())
				}
			}
			resp, body := here.do(here.requestAs(bob(), "POST", "/clusters/edge-1/api/v1/namespaces/x/pods/web/exec"))
			if resp.StatusCode != http.StatusForbidden {
				t.Errorf("anew: %s %s", resp.Status, body)
			}
			read := make(chan error, 1)
			go func() { _, err := io.Copy(io.Discard, alice.Body); read <- err }()
			select {
			case err := <-read:
				t.Errorf("the watch of an administrator ended, too: %v", err)
			default:
			}
			_ = alice.Body.Close()
			if err := <-read; err != nil && !errors.Is(err, http.ErrBodyReadAfterClose) &&
				!strings.Contains(err.Error(), "closed") {
				t.Log(err)
			}
		})
	}
}

// The cluster's RBAC tells people with lent access from others by a group, over any replica.
func TestLentAccessIsAGroupAtTheCluster(t *testing.T) {
	t.Parallel()
	here := newHub(t, "edge-1")
	other := here.another()
	here.connect("edge-1", lasts(t))
	here.SetGrants(grantTo("dev", "viewer"), lentTo("operator", time.Now().Add(time.Hour)))
	groups := func(h *hub, groups ...string) string {
		_, body := h.do(h.requestAs(bob(groups...), "GET", "/clusters/edge-1/api/v1/pods"))
		return strings.TrimSpace(body)
	}
	for _, h := range []*hub{here, other} {
		h.await("the groups", func() bool { return groups(h, "dev") == `["dev","fairlead:lent:operator"]` })
	}
	here.await("an event with the group", func() bool {
		for _, e := range here.audited("tunnel.request") {
			if strings.Contains(fmt.Sprint(e.GetActor().GetGroups()), "fairlead:lent:operator") {
				return true
			}
		}
		return false
	})
	here.SetGrants(grantTo("dev", "viewer"))
	here.await("no group", func() bool { return groups(here, "dev") == `["dev"]` })
}
