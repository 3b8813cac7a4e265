package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

const (
	// maxErrorText is what is read of an answer that is not an artifact, in bytes.
	maxErrorText = 1024
	// answerTime is how long one part of the hub may take to begin its answer while another could be asked: an artifact
	// that has to be made first takes some seconds.
	answerTime = 30 * time.Second
)

var errLate = fmt.Errorf("no answer within %s", answerTime)

// StatusError is an HTTP answer that is not the artifact.
type StatusError struct {
	Code       int
	Text       string
	RetryAfter time.Duration // 0: the server did not say
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.Code, http.StatusText(e.Code), e.Text)
}

// Fetch downloads an artifact from the service at baseURL and gives its uncompressed tar. The reader
// verifies: it gives io.EOF only if the bytes hash to d, and ErrRefused as soon as they are more than
// maxBytes (0: DefaultBytes) or unpack suspiciously far. hc carries the credentials; redirects are not
// followed. Errors: ErrNotFound, *StatusError, those of the transport.
func Fetch(ctx context.Context, hc *http.Client, baseURL string, d Digest, maxBytes int64) (io.ReadCloser, error) {
	resp, err := getArtifact(ctx, hc, baseURL, d)
	if err != nil {
		return nil, fmt.Errorf("fetch artifact: %w", err)
	}
	body, err := decodeBody(resp.Body, encoding(resp.Header.Get("Content-Encoding")), d, Limits{Bytes: maxBytes})
	if err != nil {
		return nil, fmt.Errorf("fetch artifact: %w", errors.Join(err, resp.Body.Close()))
	}
	return body, nil
}

// Begin is Fetch from one part of the hub where another one could be asked: the answer has to begin in time.
func Begin(ctx context.Context, hc *http.Client, url string, d Digest) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(answerTime, func() { cancel(errLate) })
	body, err := Fetch(ctx, hc, url, d, 0)
	inTime := late.Stop()
	if inTime && err == nil {
		return &ending{body, cancel}, nil
	}
	if err == nil { // the content came in the very moment in which it was given up
		err = errors.Join(errLate, body.Close())
	} else if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel(nil)
	return nil, err
}

// ending ends a download's context with its reader.
type ending struct {
	io.ReadCloser

	cancel context.CancelCauseFunc
}

func (e *ending) Close() error {
	defer e.cancel(nil)
	return e.ReadCloser.Close()
}

func getArtifact(ctx context.Context, hc *http.Client, baseURL string, d Digest) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(baseURL, "/")+Path+string(d), nil)
	if err != nil {
		return nil, errors.New("the service's URL is not valid")
	}
	// Set by hand: the transport then leaves the body alone, and limits apply to what it really sent.
	req.Header.Set("Accept-Encoding", "zstd, gzip;q=0.5")
	direct := *hc
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := direct.Do(req)
	if err != nil {
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err // without the URL, which may hold more than the host
		}
		return nil, fmt.Errorf("GET from %s: %w", req.URL.Host, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	return nil, errors.Join(statusError(resp), resp.Body.Close())
}

func statusError(resp *http.Response) error {
	if resp.StatusCode == http.StatusNotFound {
		return ErrNotFound
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorText)) // best effort: the code says it all
	e := &StatusError{Code: resp.StatusCode, Text: strings.TrimSpace(string(text))}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		e.RetryAfter = time.Duration(min(s, maxRetryAfter)) * time.Second
	}
	return e
}

// maxRetryAfter bounds what a server can make us wait, in seconds.
const maxRetryAfter = 3600

// decodeBody gives the verified uncompressed bytes of a body. The reader that it gives closes body with itself.
func decodeBody(body io.ReadCloser, enc encoding, d Digest, l Limits) (io.ReadCloser, error) {
	l = l.withDefaults()
	raw := &counter{r: body}
	f := &fetched{body: body}
	switch enc {
	case encodingZstd:
		r, err := newPlainReader(raw, d, l)
		if err != nil {
			return nil, err
		}
		f.verifier, f.closeDecoder = r.verifier, r.close
	case encodingGzip:
		r, err := gzip.NewReader(raw)
		if err != nil {
			return nil, fmt.Errorf("read gzip: %w", err)
		}
		f.verifier = newVerifier(r, d, l)
	case "", encodingIdentity:
		f.verifier = newVerifier(raw, d, l)
	default:
		return nil, fmt.Errorf("unknown Content-Encoding %.40q", enc)
	}
	f.r = &ratioReader{r: f.r, raw: raw, limit: l.Ratio}
	return f, nil
}

type fetched struct {
	*verifier
	body         io.Closer
	closeDecoder func()
}

func (f *fetched) Close() error {
	if f.closeDecoder != nil {
		f.closeDecoder()
	}
	return f.body.Close()
}

type counter struct {
	r io.Reader
	n int64
}

// errCut is not io.ErrUnexpectedEOF, which zstd takes for the end of its input if nothing came before.
var errCut = errors.New("the connection was cut")

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errCut
	}
	return n, err
}

// ratioReader stops a stream that unpacks too far.
type ratioReader struct {
	r     io.Reader
	raw   *counter
	n     int64
	limit int64
}

func (r *ratioReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if r.n += int64(n); r.n > ratioSlack && r.n/r.limit > r.raw.n {
		return 0, refusalError("%d bytes unpack to more than %d times that", r.raw.n, r.limit)
	}
	return n, err
}
