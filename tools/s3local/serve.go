package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
	"github.com/versity/versitygw/s3api"
)

const (
	accessKey, secretKey = "deployer", "hush-hush-hush"
	region               = "eu-test-1"
	// certLife of the certificate that each start makes.
	certLife = 24 * time.Hour
	atOnce   = 256 // connections and requests
)

// ready is the line on stdout once it serves, and FOLDER/ready.json for the client.
type ready struct {
	Host      string `json:"host"` // host:port
	Plain     bool   `json:"plain"`
	CA        string `json:"ca"`
	AccessKey string `json:"accessKey"`
	SecretKey string `json:"secretKey"`
	Region    string `json:"region"`
	Control   string `json:"control"`
}

// journal is what was asked, one request a line.
type journal struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) serve(w http.ResponseWriter, _ *http.Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, _ = io.WriteString(w, strings.Join(j.lines, "\n"))
}

func serve(ctx context.Context, folder string, args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	plain := flags.Bool("plain", false, "HTTP without TLS")
	if err := flags.Parse(args); err != nil {
		return err
	}
	out := os.Stdout
	os.Stdout = os.Stderr // whatever the server says
	socket := "@fairlead-s3local-" + rand.Text()
	failed := make(chan error, 3)
	listens := make(chan struct{})
	if err := startGateway(ctx, folder, socket, sync.OnceFunc(func() { close(listens) }), failed); err != nil {
		return err
	}
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	control, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	is := ready{Host: front.Addr().String(), Plain: *plain, AccessKey: accessKey, SecretKey: secretKey, Region: region,
		Control: "http://" + control.Addr().String()}
	if !*plain {
		config, ca, err := newAuthority()
		if err != nil {
			return err
		}
		front, is.CA = tls.NewListener(front, config), ca
	}
	log := &journal{}
	start := func(l net.Listener, h http.Handler) {
		s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
		go func() { failed <- s.Serve(l) }()
	}
	start(front, log.forward(socket))
	start(control, http.HandlerFunc(log.serve))
	select {
	case <-listens:
	case err := <-failed:
		return err
	}
	text, err := json.Marshal(is)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "ready.json"), text, 0o600); err != nil {
		return err
	}
	fmt.Fprintln(out, string(text))
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// startGateway runs versitygw over a folder, at a socket that only the front reaches.
func startGateway(ctx context.Context, folder, socket string, listens func(), failed chan<- error) error {
	places := map[string]string{}
	for _, name := range []string{"objects", "metadata", "versions"} {
		places[name] = filepath.Join(folder, name)
		if err := os.MkdirAll(places[name], 0o700); err != nil {
			return err
		}
	}
	sidecar, err := meta.NewSideCar(places["metadata"])
	if err != nil {
		return err
	}
	store, err := posix.New(places["objects"], sidecar, posix.PosixOpts{
		VersioningDir: places["versions"], SideCarDir: places["metadata"], NewDirPerm: 0o700, Concurrency: atOnce, ForceNoTmpFile: true,
	})
	if err != nil {
		return err
	}
	go func() {
		failed <- embedgw.RunVersityGW(ctx, store, &embedgw.Config{
			RootUserAccess: accessKey, RootUserSecret: secretKey, Region: region, Ports: []string{socket}, Quiet: true, KeepAlive: true,
			MaxConnections: atOnce, MaxRequests: atOnce, MultipartMaxParts: 10_000, S3Options: []s3api.Option{s3api.WithOnListen(listens)},
		})
	}()
	return nil
}

// forward gives requests to the server as they are, signatures and all, and notes each: method, path with query, status, and how it was
// authorized.
func (j *journal) forward(socket string) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", "gateway", r.In.Host
			r.Out.URL.RawQuery = r.In.URL.RawQuery
		},
		Transport: &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}},
		ModifyResponse: func(resp *http.Response) error {
			how, _, _ := strings.Cut(resp.Request.Header.Get("Authorization"), " ")
			j.add(strings.TrimSpace(fmt.Sprintf("%s %s %d %s", resp.Request.Method, resp.Request.URL.RequestURI(), resp.StatusCode, how)))
			return nil
		},
	}
}

// newAuthority makes the certificate of this run.
func newAuthority() (config *tls.Config, ca string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "s3local"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(certLife),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, "", err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), nil
}
