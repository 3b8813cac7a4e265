package observe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"fairlead.dev/e2e/stack"
)

// live has happen what the dashboards tell of. A series that begins when Prometheus first sees it shows a rate only of
// what happens later: all is done twice, and in between Prometheus has seen it.
func (w *world) live(t *testing.T, ship *stack.Ship) {
	t.Helper()
	for _, round := range []string{"lived-once", "lived-twice"} {
		w.commit(t, ship, round)
		w.repair(t, ship)
		w.look(t)
		w.awaitSeen(t)
	}
}

// commit delivers a commit with one object more, and one that removes it.
func (w *world) commit(t *testing.T, ship *stack.Ship, marker string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	extra := map[string]string{"extra.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n"}
	if _, err := ship.PushFiles(ctx, "extra", extra); err != nil {
		t.Fatal(err)
	}
	if _, err := ship.Deliver(ctx, marker); err != nil {
		t.Fatal(err)
	}
	extra["extra.yaml"] = ""
	if _, err := ship.PushFiles(ctx, "no extra", extra); err != nil {
		t.Fatal(err)
	}
	if err := ship.WaitGone(ctx, "configmap", "extra"); err != nil {
		t.Fatal(err)
	}
}

// repair deletes an object, which the agent brings back.
func (w *world) repair(t *testing.T, ship *stack.Ship) {
	t.Helper()
	kubectl := func(ctx context.Context, args ...string) error {
		_, err := w.Kubectl(ctx, w.Clusters[0].Kubeconfig, append([]string{"-n", ship.Namespace}, args...)...)
		return err
	}
	if err := kubectl(t.Context(), "delete", "configmap", "marker"); err != nil {
		t.Fatal(err)
	}
	await(t.Context(), t, "what was deleted is back",
		func(ctx context.Context) error { return kubectl(ctx, "get", "configmap", "marker") })
}

// look has a person ask tunnels: the one with the session, the one without, for a cluster that is not there, and
// without a token.
func (w *world) look(t *testing.T) {
	t.Helper()
	token, err := w.Token()
	if err != nil {
		t.Fatal(err)
	}
	client := w.client(t)
	if _, err := w.FairleadStdin(t.Context(), "apiVersion: fairlead.dev/v1\nkind: Cluster\nmetadata: {name: away}\n",
		"apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	for _, ask := range []struct {
		tunnel, cluster, token string
		want                   int
	}{
		{"tunnel", "a", token, http.StatusOK},
		{"tunnel-2", "a", token, http.StatusOK},
		{"tunnel", "away", token, http.StatusServiceUnavailable}, // no agent ever joined it
		{"tunnel", "a", "", http.StatusUnauthorized},
	} {
		await(t.Context(), t, fmt.Sprintf("%s answers for %s with %d", ask.tunnel, ask.cluster, ask.want),
			func(ctx context.Context) error {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet,
					w.Hub[ask.tunnel]+"/clusters/"+ask.cluster+"/version", http.NoBody)
				if err != nil {
					return err
				}
				if ask.token != "" {
					req.Header.Set("Authorization", "Bearer "+ask.token)
				}
				resp, err := client.Do(req)
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				if resp.StatusCode != ask.want {
					return errors.New(resp.Status)
				}
				return nil
			})
	}
	// And the command asks for what is not there.
	if _, err := w.Fairlead(t.Context(), "get", "services", "nowhere"); err == nil {
		t.Fatal("a service is there that is not")
	}
}

// client trusts the stack's authority.
func (w *world) client(t *testing.T) *http.Client {
	t.Helper()
	authority, err := os.ReadFile(w.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		t.Fatal("no authority")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// awaitSeen waits until Prometheus has asked everybody since now.
func (w *world) awaitSeen(t *testing.T) {
	t.Helper()
	now := time.Now()
	await(t.Context(), t, "Prometheus has asked everybody", func(ctx context.Context) error {
		late, err := w.query(ctx, fmt.Sprintf("timestamp(up) <= %.3f", float64(now.UnixMilli())/1e3))
		if err == nil && len(late) > 0 {
			err = fmt.Errorf("not yet %v", late)
		}
		return err
	})
}
