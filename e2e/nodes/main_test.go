package nodes_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"
)

// proxyVariable makes this program a proxy at an address, which a test runs beside the nodes.
const proxyVariable = "FAIRLEAD_TEST_PROXY"

func TestMain(m *testing.M) {
	if address := os.Getenv(proxyVariable); address != "" {
		fmt.Fprintln(os.Stderr, serveProxy(address))
		os.Exit(1)
	}
	if arguments := os.Getenv(loadVariable); arguments != "" {
		fmt.Fprintln(os.Stderr, dial(arguments))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serveProxy answers CONNECT, and writes a line for each to stdout.
func serveProxy(address string) error {
	server := http.Server{Addr: address, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "this proxy knows CONNECT only", http.StatusMethodNotAllowed)
			return
		}
		fmt.Fprintln(os.Stdout, "CONNECT", r.Host)
		var dialer net.Dialer
		server, err := dialer.DialContext(r.Context(), "tcp", r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = server.Close() }()
		client, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = client.Close() }()
		if _, err := io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
			return
		}
		relay(client, buffered, server)
	})}
	return server.ListenAndServe()
}

// relay copies both ways until one side has ended.
func relay(client net.Conn, fromClient io.Reader, server net.Conn) {
	ctx, ended := context.WithCancel(context.Background())
	var both sync.WaitGroup
	both.Go(func() { defer ended(); _, _ = io.Copy(server, fromClient) })
	both.Go(func() { defer ended(); _, _ = io.Copy(client, server) })
	<-ctx.Done()
	_, _ = client.Close(), server.Close()
	both.Wait()
}
