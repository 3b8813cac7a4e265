package backend

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"fairlead.dev/platform/dialpolicy"
)

const (
	// requestTimeout bounds one request.
	requestTimeout = 10 * time.Second
	// maxAnswer bounds what is read of an answer: base64 and envelopes around MaxBytes.
	maxAnswer = 2*MaxBytes + 64<<10
	// maxHead bounds the head of an answer, in bytes.
	maxHead = 64 << 10
)

// api is an HTTP API that speaks JSON.
type api struct {
	base   *url.URL
	client *http.Client
}

// newAPI checks an address; allowed judges what is dialled. ca is PEM; empty: the authorities of the system. certs
// identify the client, if there are some.
func newAPI(address, ca string, allowed *dialpolicy.Policy, certs ...tls.Certificate) (*api, error) {
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, errors.New("address: must be https://host[:port]") // the parser would quote what may be a password
	}
	if base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, errors.New("address: must have no user, query or fragment: credentials belong into a Secret")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: certs}
	if ca != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(ca)) {
			return nil, errors.New("ca.crt of its Secret: holds no certificate in PEM form")
		}
	}
	transport := &http.Transport{
		TLSClientConfig: config, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: maxHead,
		MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: requestTimeout, ResponseHeaderTimeout: requestTimeout,
	}
	if err := route(transport, base, allowed); err != nil {
		return nil, err
	}
	return &api{base: base, client: &http.Client{
		Timeout: requestTimeout,
		// A redirect would carry the token elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     transport,
	}}, nil
}

// route leads a transport through the proxy of the console's environment, which the operator chose, or to addresses
// that are allowed.
func route(transport *http.Transport, base *url.URL, allowed *dialpolicy.Policy) error {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: base})
	switch {
	case err != nil:
		return errors.New("the proxy in the console's environment can't be used: correct its HTTPS_PROXY") // the error quotes it
	case proxy != nil:
		transport.Proxy = http.ProxyURL(proxy)
		// The proxy resolves names, and may reach more than we do.
		return refusedAddress(base, allowed.CheckHost(base.Hostname()))
	}
	dialer := &net.Dialer{Timeout: requestTimeout, Control: dialpolicy.Control(allowed.Check)}
	transport.DialContext = dialer.DialContext
	return nil
}

// refusedAddress says what to do about an address that is not allowed. Other errors, and none, stay as they are.
func refusedAddress(to *url.URL, err error) error {
	if refused, ok := errors.AsType[*dialpolicy.Refused](err); ok {
		return fmt.Errorf("%s: %w, and the console must not connect there: correct the backend's address, or let the hub's operator add it to %s of the console", to.Host, refused, dialpolicy.Flag)
	}
	return err
}

// call sends in (nil: nothing) as JSON, decodes an answer of success into out, and returns the status. Of an answer of
// status 404 out has what of it is JSON: a proxy gives such answers, too, while the server behind it is away.
func (a *api) call(ctx context.Context, method string, path []string, header http.Header, in, out any) (int, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return 0, fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(text)
	}
	to := a.base.JoinPath(path...)
	req, err := http.NewRequestWithContext(ctx, method, to.String(), body)
	if err != nil {
		return 0, fmt.Errorf("make request: %w", err)
	}
	req.Header = header.Clone()
	req.Header.Set("Accept", "application/json")
	resp, err := a.client.Do(req)
	if err != nil {
		return 0, transport(ctx, a.base, err)
	}
	defer func() { _ = resp.Body.Close() }() // the body was only read
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return 0, transport(ctx, a.base, err)
	case len(data) > maxAnswer:
		return 0, ErrTooLarge
	case resp.StatusCode >= http.StatusMultipleChoices && resp.StatusCode != http.StatusNotFound || out == nil:
		return resp.StatusCode, nil
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(out); err != nil && resp.StatusCode != http.StatusNotFound {
		return 0, fmt.Errorf("%s answers with something else than JSON", a.base.Host) // the decoder may quote it
	}
	return resp.StatusCode, nil
}

// transport says why there is no answer, without the URL, which has the path in it already told.
func transport(ctx context.Context, to *url.URL, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, ok := errors.AsType[*dialpolicy.Refused](err); ok {
		return refusedAddress(to, err)
	}
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	return fmt.Errorf("ask %s: %w", to.Host, err)
}

// refused is about an answer that is no success.
func (a *api) refused(status int, what string) error {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%s does not let us %s (%d): look at its Secret and at what that may do there", a.base.Host, what, status)
	case http.StatusNotFound:
		return fmt.Errorf("%s answers 404 when asked to %s: look at the backend's spec, and whether a proxy answers "+
			"in place of its server", a.base.Host, what)
	case http.StatusTooManyRequests:
		return fmt.Errorf("%s has too much to do (%d): it is asked again later", a.base.Host, status)
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return fmt.Errorf("%s leads elsewhere (%d), and redirects are not followed: write the address that it leads to", a.base.Host, status)
	}
	return fmt.Errorf("%s answers %d %s when asked to %s", a.base.Host, status, http.StatusText(status), what)
}
