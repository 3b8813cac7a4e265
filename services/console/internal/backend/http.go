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
	"net/http"
	"net/url"
	"time"
)

const (
	// requestTimeout bounds one request.
	requestTimeout = 10 * time.Second
	// maxAnswer bounds what is read of an answer: base64 and envelopes around MaxBytes.
	maxAnswer = 2*MaxBytes + 64<<10
)

// api is an HTTP API that speaks JSON.
type api struct {
	base   *url.URL
	client *http.Client
}

// newAPI checks an address. ca is PEM; empty: the authorities of the system. certs identify the client, if there are some.
func newAPI(address, ca string, certs ...tls.Certificate) (*api, error) {
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
	return &api{base: base, client: &http.Client{
		Timeout: requestTimeout,
		// A redirect would carry the token elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: requestTimeout, ResponseHeaderTimeout: requestTimeout,
		},
	}}, nil
}

// call sends in (nil: nothing) as JSON, decodes an answer of success into out, and returns the status.
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
	defer func() { _ = resp.Body.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return 0, transport(ctx, a.base, err)
	case len(data) > maxAnswer:
		return 0, ErrTooLarge
	case resp.StatusCode >= http.StatusMultipleChoices || out == nil:
		return resp.StatusCode, nil
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(out); err != nil {
		return 0, fmt.Errorf("%s answers with something else than JSON", a.base.Host) // the decoder may quote it
	}
	return resp.StatusCode, nil
}

// transport says why there is no answer, without the URL, which has the path in it already told.
func transport(ctx context.Context, to *url.URL, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
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
	case http.StatusTooManyRequests:
		return fmt.Errorf("%s has too much to do (%d): it is asked again later", a.base.Host, status)
	}
	return fmt.Errorf("%s answers %d %s when asked to %s", a.base.Host, status, http.StatusText(status), what)
}
