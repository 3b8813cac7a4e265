// Package kubelet is what the API server takes for the kubelet of every node: exec, attach and port-forward
// as the upstream code serves them, with half-close and exit codes. Everything else it asks of kwok.
//
// Only the API server's own certificate opens it: exec runs commands on this machine.
package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

const (
	idleLimit    = time.Hour
	createLimit  = 30 * time.Second
	headersLimit = 10 * time.Second
)

// Kubelet is one for all nodes.
type Kubelet struct {
	listen            string
	cert, key, caFile string
	clientName        string // common name of the client certificate that opens it
	kwok              string // host:port
	execDir           string // where commands run; empty: none do

	pods net.Listener // the target of port-forwards
}

// Run reads the arguments and serves until ctx ends.
func Run(ctx context.Context, args []string) error {
	var k Kubelet
	flags := flag.NewFlagSet("kubelet", flag.ContinueOnError)
	flags.StringVar(&k.listen, "listen", "", "address to serve on")
	flags.StringVar(&k.cert, "tls-cert-file", "", "certificate")
	flags.StringVar(&k.key, "tls-private-key-file", "", "its key")
	flags.StringVar(&k.caFile, "client-ca-file", "", "authority of the clients' certificates")
	flags.StringVar(&k.clientName, "client-name", "", "the client that may exec, attach and port-forward")
	flags.StringVar(&k.kwok, "kwok", "", "address of kwok's server")
	flags.StringVar(&k.execDir, "exec-dir", "", "folder in which kubectl exec runs commands of this machine; empty: it runs none")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return k.run(ctx)
}

func (k *Kubelet) run(ctx context.Context) error {
	config, err := k.tls()
	if err != nil {
		return err
	}
	if k.pods, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return fmt.Errorf("listen for port-forwards: %w", err)
	}
	servers := []*http.Server{
		{Handler: http.HandlerFunc(echo), ReadHeaderTimeout: headersLimit},
		{Handler: k.handler(), ReadHeaderTimeout: headersLimit, Addr: k.listen, TLSConfig: config},
	}
	stop := context.AfterFunc(ctx, func() {
		for _, s := range servers {
			_ = s.Close() // open streams end with the process
		}
	})
	defer stop()
	ended := make(chan error, len(servers))
	go func() { ended <- servers[0].Serve(k.pods) }()
	go func() { ended <- servers[1].ListenAndServeTLS("", "") }()
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (k *Kubelet) tls() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(k.cert, k.key)
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	pem, err := os.ReadFile(k.caFile)
	if err != nil {
		return nil, fmt.Errorf("read the clients' authority: %w", err)
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read the clients' authority: no certificate in %s", k.caFile)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
		NextProtos: []string{"http/1.1"}, // SPDY takes over the connection
	}, nil
}

func (k *Kubelet) handler() http.Handler {
	kwok := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "https", Host: k.kwok})
	// Its certificate is this one's; it is on loopback and shows nothing but logs.
	kwok.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec
	kwok.FlushInterval = -1
	mux := http.NewServeMux()
	mux.Handle("/", kwok)
	for _, uid := range []string{"", "{uid}/"} {
		mux.HandleFunc("/exec/{namespace}/{pod}/"+uid+"{container}", k.exec)
		mux.HandleFunc("/attach/{namespace}/{pod}/"+uid+"{container}", func(w http.ResponseWriter, r *http.Request) {
			if r.FormValue(remotecommand.ExecStdinParam) != "1" {
				kwok.ServeHTTP(w, r) // follows the log
				return
			}
			k.attach(w, r)
		})
		mux.HandleFunc("/portForward/{namespace}/{pod}/"+uid+"{$}", k.portForward)
	}
	mux.HandleFunc("/portForward/{namespace}/{pod}", k.portForward)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := r.TLS.PeerCertificates[0].Subject.CommonName; name != k.clientName && r.URL.Path != "/healthz" {
			http.Error(w, "only the API server may ask the kubelet, not "+name, http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (k *Kubelet) exec(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(w, r, k, r.PathValue("pod"), r.PathValue("uid"), r.PathValue("container"), r.URL.Query()["command"],
		options, idleLimit, createLimit, remotecommand.SupportedStreamingProtocols)
}

func (k *Kubelet) attach(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeAttach(w, r, k, r.PathValue("pod"), r.PathValue("uid"), r.PathValue("container"),
		options, idleLimit, createLimit, remotecommand.SupportedStreamingProtocols)
}

func (k *Kubelet) portForward(w http.ResponseWriter, r *http.Request) {
	options, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, k, r.PathValue("pod"), r.PathValue("uid"), options, idleLimit, createLimit, portforward.SupportedProtocols)
}

// echo is what listens on every port of every pod.
func echo(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		_, _ = io.WriteString(w, "a pod played by kwok; it sends back what you send\n")
		return
	}
	_ = http.NewResponseController(w).EnableFullDuplex() // never fails over HTTP/1.1
	_, _ = io.Copy(w, r.Body)                            // the reader may be gone
}

// PortForward implements portforward.PortForwarder.
func (k *Kubelet) PortForward(ctx context.Context, _, _ string, _ int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	to, err := (&net.Dialer{}).DialContext(ctx, "tcp", k.pods.Addr().String())
	if err != nil {
		return err
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(to, stream)
		_ = to.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, to)
	return err
}
