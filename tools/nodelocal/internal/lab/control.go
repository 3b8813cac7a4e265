package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"fairlead.dev/tools/nodelocal/internal/layout"
)

// A lab is asked on a Unix socket in its folder, in HTTP: CONNECT HOST:PORT dials in the lab's network, with the cluster's names;
// CONNECT apiserver:443 dials the API server; POST /cut?node=NAME and /boot?node=NAME switch a node.

// apiServer is how CONNECT names the API server.
const apiServer = "apiserver:443"

// dialSocket connects to a lab. The path goes through an open folder, because that of a socket may have 107 bytes at most.
func dialSocket(ctx context.Context, dir string) (net.Conn, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("find the lab: %w", err)
	}
	defer folder.Close()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), layout.Socket))
	if err != nil {
		return nil, fmt.Errorf("no lab is running in %s: %w", dir, err)
	}
	return conn, nil
}

// Power switches a node of a running lab.
func Power(ctx context.Context, dir, command, node string) error {
	client := http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dialSocket(ctx, dir) },
		DisableKeepAlives: true,
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://lab/"+command+"?node="+node, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", command, node, said)
	}
	return err
}

// forward hands connections of a loopback port to the API server until the listener is closed. Each connection has a
// goroutine in group.
func forward(listener net.Listener, dir string, group *sync.WaitGroup) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		group.Go(func() {
			defer client.Close()
			server, err := dial(dir, apiServer)
			if err != nil {
				return // the client sees a closed connection, as it does of an API server that is down
			}
			splice(client, client, server)
		})
	}
}

// dial connects to an address in a lab's network.
func dial(dir, address string) (net.Conn, error) {
	conn, err := dialSocket(context.Background(), dir)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", address); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	// The lab sends nothing behind its answer before the client has spoken: nothing is lost in the buffer.
	response, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), &http.Request{Method: http.MethodConnect})
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("dial %s in the lab: %s", address, response.Status)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// splice copies both ways until the server has ended, and closes both. A client that ends its half may still be answered.
func splice(client net.Conn, fromClient io.Reader, server net.Conn) {
	var requests sync.WaitGroup
	requests.Go(func() {
		_, _ = io.Copy(server, fromClient) // an end is an end, however it came
		if half, ok := server.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	})
	_, _ = io.Copy(client, server)
	_ = errors.Join(client.Close(), server.Close())
	requests.Wait()
}

// serve answers on the lab's socket until ctx ends.
func (l *lab) serve(ctx context.Context) error {
	path := filepath.Join(layout.Socket) // relative to the lab's folder, the working directory
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(l.answer)} //nolint:gosec // its clients are root
	l.running.Go(func() {
		<-ctx.Done()
		_ = server.Close() // connections that were handed over end with the process
	})
	l.running.Go(func() { _ = server.Serve(listener) }) // returns when it is closed
	return nil
}

func (l *lab) answer(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		l.connect(w, r)
		return
	}
	node := l.node(r.URL.Query().Get("node"))
	if node == nil {
		http.Error(w, fmt.Sprintf("no such node: they are %s to %s", layout.NodeName(1), layout.NodeName(len(l.nodes))), http.StatusNotFound)
		return
	}
	var err error
	switch r.Method + r.URL.Path {
	case "POST/cut":
		err = node.cut()
	case "POST/boot":
		err = node.boot()
	default:
		http.NotFound(w, r)
		return
	}
	if err == nil {
		err = l.routeServices()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (l *lab) connect(w http.ResponseWriter, r *http.Request) {
	address := r.Host
	if address == apiServer {
		address = l.server
	}
	var dialer net.Dialer
	server, err := dialer.DialContext(r.Context(), "tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer server.Close()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	if _, err := io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	splice(client, buffered, server)
}
