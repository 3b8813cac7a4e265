package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"fairlead.dev/e2e/fleet"
	"fairlead.dev/e2e/process"
	"fairlead.dev/platform/localca"
)

// fileServer is net/http's server of files, over those of a distributor, in a process of its own.
type fileServer struct {
	url     string
	process *process.Process
}

func startFileServer(ctx context.Context, e *fleet.Edge, dir string, plaintext bool) (*fileServer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addrs, err := process.FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	args := []string{"fileserver", filepath.Join(e.Dir("distributor"), "artifacts"), addrs[0]}
	url := "http://" + addrs[0]
	if !plaintext {
		url = "https://" + addrs[0]
		files, err := localca.Ensure(filepath.Dir(e.CAFile), "127.0.0.1", "localhost")
		if err != nil {
			return nil, err
		}
		args = append(args, files.CertFile, files.KeyFile)
	}
	f := &fileServer{url: url, process: process.New(dir, "fileserver", self, args...)}
	if err := f.process.Start(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return f, process.Await(ctx, "the server of files listens", func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addrs[0])
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

func (f *fileServer) pid() int { return f.process.Pid() }

func (f *fileServer) stop() error { return f.process.Kill() }

// serveFiles is the other process: the folder, the address, and for TLS certificate and key.
func serveFiles(ctx context.Context, args []string) error {
	if len(args) != 2 && len(args) != 4 {
		return errors.New("fileserver: a folder and an address are needed, and both files for TLS")
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Addr: args[1], Handler: http.FileServer(http.Dir(args[0])), Protocols: protocols, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if len(args) == 2 {
		return server.ListenAndServe()
	}
	return server.ListenAndServeTLS(args[2], args[3])
}

// trusted is the TLS configuration of who trusts the hub's authority; nil without one.
func trusted(caFile string) (*tls.Config, error) {
	if caFile == "" {
		return nil, nil //nolint:nilnil // net/http's own default
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", caFile)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}
