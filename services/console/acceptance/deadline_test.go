package acceptance

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"fairlead.dev/services/console/internal/store"
)

// A caller that waits for less long than the database takes is not told that the database is away.
func TestDeadlineOfTheCallerIsNoFailureOfTheDatabase(t *testing.T) {
	t.Parallel()
	r := newHub(t, postgres.Database(t)).start(t)
	token := r.adminToken(t)
	other, err := store.New(r.db, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	// Another store writes for as long as this takes.
	busy, release, written := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		written <- other.Write(context.Background(), "test", func(context.Context, *store.Tx) error {
			close(busy)
			<-release
			return nil
		})
	}()
	select {
	case <-busy:
	case err := <-written:
		t.Fatal(err)
	}
	defer func() {
		close(release)
		if err := <-written; err != nil {
			t.Log("it took longer than it may:", err)
		}
	}()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		r.url+"/fairlead.console.v1.ClusterService/UpdateCluster",
		strings.NewReader(`{"allowMissing": true, "cluster": {"metadata": {"name": "edge-1"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Connect-Timeout-Ms", "300") // only the console knows of it
	resp, err := newHTTPClient(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusGatewayTimeout ||
		!strings.Contains(string(body), "deadline_exceeded") {
		t.Errorf("got %s %s, %v", resp.Status, body, err)
	}
	if strings.Contains(r.logs.String(), "database does not answer") {
		t.Error("the log blames the database")
	}
}
