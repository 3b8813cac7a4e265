package process

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	// checkLimit bounds a health check: a service that does not answer by then is not healthy.
	checkLimit = 4 * time.Second
	// answerBytes is what is shown of an answer.
	answerBytes = 4 << 10
)

// healthcheckHelp follows the flags of every service.
const healthcheckHelp = `
%[1]s healthcheck asks the %[1]s that runs on this machine with the same flags and environment whether it is ready;
with --live, whether it answers at all. It exits with 0 or 1 and says why. It is meant for containers.
`

// asked is what a health check asks for.
type asked struct{ live, hub bool }

// register adds flags: only what listens for its health alone, an agent, has a hub to reach.
func (a *asked) register(fs *flag.FlagSet) {
	fs.BoolVar(&a.live, "live", false, "ask only whether the service answers")
	if fs.Lookup("health-listen") != nil {
		fs.BoolVar(&a.hub, "hub", false, "ask whether the hub is reached")
	}
}

func (a *asked) path() string {
	switch {
	case a.live:
		return "/healthz"
	case a.hub:
		return "/hubz"
	}
	return "/readyz"
}

// healthcheck asks the service that listens as the flags say.
func healthcheck(ctx context.Context, fs *flag.FlagSet, what asked, stdout io.Writer) error {
	base, client, err := ownAddress(fs)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+what.path(), http.NoBody)
	if err != nil {
		return fmt.Errorf("ask for health: %w", err)
	}
	if token := metricsToken(fs); token != "" && !what.live { // which gets the reason
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask for health: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // was read
	answer, err := io.ReadAll(io.LimitReader(resp.Body, answerBytes))
	if err != nil {
		return fmt.Errorf("ask for health: %w", err)
	}
	said := strings.TrimSpace(string(answer))
	if resp.StatusCode != http.StatusOK {
		return errors.New(said)
	}
	_, err = fmt.Fprintln(stdout, said)
	return err
}

// metricsToken is that of the service, if it has one that can be read: health is told without, too.
func metricsToken(fs *flag.FlagSet) string {
	file := fs.Lookup("metrics-token-file")
	if file == nil || file.Value.String() == "" {
		return ""
	}
	text, err := os.ReadFile(file.Value.String())
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// ownAddress finds where the service listens by the flags that all listeners have, and how to talk to it there.
func ownAddress(fs *flag.FlagSet) (base string, _ *http.Client, err error) {
	name, listen := "listen", fs.Lookup("listen")
	if listen == nil {
		name, listen = "health-listen", fs.Lookup("health-listen")
	}
	if listen == nil {
		return "", nil, fmt.Errorf("%s listens nowhere: there is nothing to ask", fs.Name())
	}
	host, port, err := net.SplitHostPort(listen.Value.String())
	if err != nil || port == "" || port == "0" {
		return "", nil, fmt.Errorf("--%s %q: give the host:port at which %s listens", name, listen.Value, fs.Name())
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	transport := &http.Transport{}
	client := &http.Client{Transport: transport}
	address := net.JoinHostPort(host, port)
	cert := fs.Lookup("tls-cert")
	if cert == nil || cert.Value.String() == "" {
		return "http://" + address, client, nil
	}
	if transport.TLSClientConfig, err = trustOnly(cert.Value.String()); err != nil {
		return "", nil, err
	}
	return "https://" + address, client, nil
}

// trustOnly trusts the service's own certificate, by one of its names, and nothing else.
func trustOnly(file string) (*tls.Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read TLS certificate: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("TLS certificate %s: not a PEM file", file)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("TLS certificate %s: %w", file, err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	switch {
	case len(cert.DNSNames) > 0:
		config.ServerName = strings.Replace(cert.DNSNames[0], "*", "any", 1)
	case len(cert.IPAddresses) > 0:
		config.ServerName = cert.IPAddresses[0].String()
	default:
		return nil, fmt.Errorf("TLS certificate %s is good for no host: it has no subject alternative names", file)
	}
	return config, nil
}
