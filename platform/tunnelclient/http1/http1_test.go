package http1_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"fairlead.dev/platform/tunnelclient/http1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is for what happens at once, on a machine that does other things, too.
const patience = 5 * time.Minute

func clientOf(t *testing.T, addr string) *http1.Client {
	t.Helper()
	c := &http1.Client{Dial: func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func ask(ctx context.Context, t *testing.T, c *http1.Client, method, path string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, "http://server.example"+path, http.NoBody)
	require.NoError(t, err)
	return c.RoundTrip(r)
}

func get(t *testing.T, c *http1.Client, path string) (*http.Response, string) {
	t.Helper()
	resp, err := ask(t.Context(), t, c, http.MethodGet, path)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(text)
}

// serve starts a server of net/http and counts its connections.
func serve(t *testing.T, h http.HandlerFunc) (c *http1.Client, connections func() int) {
	t.Helper()
	var mu sync.Mutex
	n := 0
	s := httptest.NewUnstartedServer(h)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			mu.Lock()
			defer mu.Unlock()
			n++
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return clientOf(t, s.Listener.Addr().String()), func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// script is a server that gives each connection the answers to its requests, one after the other, and then closes it.
func script(t *testing.T, connections ...[]string) (c *http1.Client, requests func() int) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var mu sync.Mutex
	n := 0
	var serving sync.WaitGroup
	serving.Go(func() {
		for _, answers := range connections {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				reader := bufio.NewReader(conn)
				for _, answer := range answers {
					if _, err := http.ReadRequest(reader); err != nil {
						return
					}
					mu.Lock()
					n++
					mu.Unlock()
					if _, err := io.WriteString(conn, answer); err != nil {
						return
					}
				}
			})
		}
	})
	c = clientOf(t, l.Addr().String())
	t.Cleanup(func() {
		_ = l.Close()
		c.CloseIdleConnections()
		serving.Wait()
	})
	return c, func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

func TestAnswersAsTheServerGaveThem(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("0123456789abcdef", 40_000)
	c, connections := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Warning", "299 - one")
		w.Header().Add("Warning", "299 - two")
		switch r.URL.Path {
		case "/seen":
			fmt.Fprintf(w, "%s %s %s %v", r.Host, r.RequestURI, r.Header["X-Many"], r.Header["User-Agent"])
		case "/large":
			w.Header().Set("Content-Length", fmt.Sprint(len(large)))
			_, _ = io.WriteString(w, large)
		case "/chunks":
			w.Header().Set("Trailer", "X-Sum")
			for at := 0; at < len(large); at += 50_000 {
				_, _ = io.WriteString(w, large[at:min(at+50_000, len(large))])
				_ = http.NewResponseController(w).Flush()
			}
			w.Header().Set("X-Sum", "told")
			w.Header().Set(http.TrailerPrefix+"X-Unannounced", "too")
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/304":
			w.Header().Set("Etag", `"a"`)
			w.WriteHeader(http.StatusNotModified)
		}
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server.example/seen?a=%2Fb&c",
		http.NoBody)
	require.NoError(t, err)
	r.Header = http.Header{"X-Many": {"1", "2"}, "User-Agent": {""}}
	resp, err := c.RoundTrip(r)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "server.example /seen?a=%2Fb&c [1 2] []", string(text))
	require.Equal(t, []string{"299 - one", "299 - two"}, resp.Header["Warning"])

	_, got := get(t, c, "/large")
	require.Equal(t, large, got)
	resp, got = get(t, c, "/chunks")
	require.Equal(t, large, got)
	require.Equal(t, int64(-1), resp.ContentLength)
	require.Equal(t, http.Header{"X-Sum": {"told"}, "X-Unannounced": {"too"}}, resp.Trailer)

	for _, path := range []string{"/204", "/304"} {
		resp, got = get(t, c, path)
		require.Equal(t, path, fmt.Sprintf("/%d", resp.StatusCode))
		require.Empty(t, got)
	}
	resp, err = ask(t.Context(), t, c, http.MethodHead, "/large")
	require.NoError(t, err)
	require.Equal(t, int64(len(large)), resp.ContentLength)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 1, connections(), "all over one connection")
}

func TestInformationalAnswersAreTold(t *testing.T) {
	t.Parallel()
	c, _ := script(t, []string{
		"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
	})
	var told []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			told = append(told, fmt.Sprint(code, h["Link"]))
			return nil
		},
	})
	resp, err := ask(ctx, t, c, http.MethodGet, "/")
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "ok", string(text))
	require.Equal(t, []string{"103 [</a>]", "100 []"}, told)
}

func TestAskedAgainWhereAKeptConnectionHadEnded(t *testing.T) {
	t.Parallel()
	const fine = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	// The first connection takes a second request and hangs up.
	c, requests := script(t, []string{fine, ""}, []string{fine})
	for range 2 {
		_, text := get(t, c, "/")
		require.Equal(t, "ok", text)
	}
	require.Equal(t, 3, requests())
}

func TestNotAskedAgainOnANewConnection(t *testing.T) {
	t.Parallel()
	c, requests := script(t, []string{""}, []string{""})
	_, err := ask(t.Context(), t, c, http.MethodGet, "/")
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, 1, requests())
}

// An answer that nobody asked for must not become the next request's.
func TestUnaskedBytesEndTheConnection(t *testing.T) {
	t.Parallel()
	const fine = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	const poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
	for name, first := range map[string]string{
		"behind a body":          fine + poison,
		"behind a last chunk":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + poison,
		"behind no content":      "HTTP/1.1 204 No Content\r\nContent-Length: 6\r\n\r\n" + poison,
		"behind a HEAD's":        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n" + poison,
		"as asked for":           "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive, Close\r\n\r\nok",
		"of an older version":    "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"with the end as length": "HTTP/1.1 200 OK\r\n\r\nok",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := script(t, []string{first}, []string{fine})
			method := http.MethodGet
			if strings.Contains(name, "HEAD") {
				method = http.MethodHead
			}
			resp, err := ask(t.Context(), t, c, method, "/")
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			_, text := get(t, c, "/")
			require.Equal(t, "ok", text)
		})
	}
}

func TestRefusesWhatCouldBeReadInTwoWays(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("A: b\r\n", 1001)
	for name, answer := range map[string]string{
		"two lengths":                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
		"the same length twice":      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab",
		"a list of lengths":          "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nab",
		"a length with a sign":       "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nab",
		"a negative length":          "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nab",
		"an empty length":            "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nab",
		"a length beyond all":        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nab",
		"length and chunks":          "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"two codings":                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"chunked twice":              "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"an unknown coding":          "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nab",
		"chunks of an older version": "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"a blank before the colon":   "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nab",
		"a folded line":              "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 2\r\n\r\nab",
		"lines without CR":           "HTTP/1.1 200 OK\nContent-Length: 2\n\nab",
		"a CR in a value":            "HTTP/1.1 200 OK\r\nA: b\rc\r\nContent-Length: 2\r\n\r\nab",
		"a NUL in a value":           "HTTP/1.1 200 OK\r\nA: b\x00c\r\nContent-Length: 2\r\n\r\nab",
		"a line without colon":       "HTTP/1.1 200 OK\r\nAb\r\nContent-Length: 2\r\n\r\nab",
		"no name":                    "HTTP/1.1 200 OK\r\n: b\r\nContent-Length: 2\r\n\r\nab",
		"another version":            "HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nab",
		"a short status":             "HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nab",
		"a status of letters":        "HTTP/1.1 2O0 OK\r\nContent-Length: 2\r\n\r\nab",
		"a status with a sign":       "HTTP/1.1 +20 OK\r\nContent-Length: 2\r\n\r\nab",
		"an empty line first":        "\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab",
		"another protocol":           "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
		"informational with a body":  "HTTP/1.1 103 Early Hints\r\nContent-Length: 2\r\n\r\nabHTTP/1.1 204 No Content\r\n\r\n",
		"informational for ever":     strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 20),
		"too many fields":            "HTTP/1.1 200 OK\r\n" + many + "\r\n",
		"too long a head":            "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("b", 200<<10) + "\r\n\r\n",
		"an end within the head":     "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, requests := script(t, []string{answer})
			_, err := ask(t.Context(), t, c, http.MethodGet, "/")
			require.Error(t, err)
			require.Equal(t, 1, requests())
		})
	}
}

func TestBodiesThatBreakOffAreErrors(t *testing.T) {
	t.Parallel()
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, answer := range map[string]string{
		"counted":                   "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
		"within a chunk":            chunked + "3\r\nab",
		"before the last chunk":     chunked + "2\r\nab\r\n",
		"before the trailers' end":  chunked + "2\r\nab\r\n0\r\n",
		"a chunk too long":          chunked + "2\r\nabc\r\n0\r\n\r\n",
		"a chunk's end without CR":  chunked + "2\r\nab\n0\r\n\r\n",
		"a size without CR":         chunked + "2\nab\r\n0\r\n\r\n",
		"a size with a sign":        chunked + "+2\r\nab\r\n0\r\n\r\n",
		"a size as in programs":     chunked + "0x2\r\nab\r\n0\r\n\r\n",
		"a size with an underscore": chunked + "0_2\r\nab\r\n0\r\n\r\n",
		"a size with a blank first": chunked + " 2\r\nab\r\n0\r\n\r\n",
		"no size":                   chunked + "\r\nab\r\n0\r\n\r\n",
		"a size beyond all":         chunked + "ffffffffffffffff2\r\nab\r\n0\r\n\r\n",
		"a CR in an extension":      chunked + "2;a\rb\r\nab\r\n0\r\n\r\n",
		"an endless extension":      chunked + "2;" + strings.Repeat("a", 9000) + "\r\nab\r\n0\r\n\r\n",
		"a malformed trailer":       chunked + "2\r\nab\r\n0\r\nA b: c\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := script(t, []string{answer})
			resp, err := ask(t.Context(), t, c, http.MethodGet, "/")
			require.NoError(t, err)
			defer resp.Body.Close()
			_, err = io.ReadAll(resp.Body)
			require.Error(t, err)
			_, again := resp.Body.Read(make([]byte, 1))
			require.Equal(t, err, again)
		})
	}
}

func TestTrailersBringNoFraming(t *testing.T) {
	t.Parallel()
	c, _ := script(t, []string{
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-A, Content-Length\r\n\r\n2;ext=\"1\"\r\nab\r\n0\r\nX-A: b\r\nContent-Length: 5\r\n\r\n",
	})
	resp, text := get(t, c, "/")
	require.Equal(t, "ab", text)
	require.Equal(t, http.Header{"X-A": {"b"}}, resp.Trailer)
	require.Empty(t, resp.Header["Content-Length"])
}

func TestTheEndOfAContextEndsWaits(t *testing.T) {
	t.Parallel()
	why := errors.New("nobody waits any more")
	for _, path := range []string{"/silent", "/stalled"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			began, gone := make(chan struct{}), make(chan struct{})
			c, connections := serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/stalled":
					_, _ = io.WriteString(w, "a")
					_ = http.NewResponseController(w).Flush()
				case "/":
					return
				}
				close(began)
				<-r.Context().Done()
				close(gone)
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				<-began
				cancel(why)
			}()
			resp, err := ask(ctx, t, c, http.MethodGet, path)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
			}
			require.ErrorIs(t, err, why)
			select {
			case <-gone: // the server sees it, too
			case <-time.After(patience):
				t.Fatal("the connection is still there")
			}
			get(t, c, "/")
			require.Equal(t, 2, connections())
		})
	}
}

func TestABodyThatIsNotReadEndsItsConnection(t *testing.T) {
	t.Parallel()
	c, connections := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("a", 1<<20))
	})
	for range 2 {
		resp, err := ask(t.Context(), t, c, http.MethodGet, "/")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		_, err = resp.Body.Read(make([]byte, 1))
		require.Error(t, err)
	}
	require.Equal(t, 2, connections())
}

func TestBusyBeyondItsConnections(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	var bodies []io.Closer
	for {
		resp, err := ask(t.Context(), t, c, http.MethodGet, "/")
		if err != nil {
			require.ErrorIs(t, err, http1.ErrBusy)
			break
		}
		bodies = append(bodies, resp.Body)
	}
	require.Len(t, bodies, 32)
	require.NoError(t, bodies[0].Close())
	resp, err := ask(t.Context(), t, c, http.MethodGet, "/")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	for _, b := range bodies {
		require.NoError(t, b.Close())
	}
	close(release)
}

func TestTakesPlainReadsOnly(t *testing.T) {
	t.Parallel()
	request := func(method string, body io.Reader, header http.Header) *http.Request {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://server.example/", body)
		require.NoError(t, err)
		r.Header = header
		return r
	}
	require.True(t, http1.Takes(request(http.MethodGet, http.NoBody, http.Header{"Accept": {"*/*"}})))
	require.True(t, http1.Takes(request(http.MethodHead, nil, nil)))
	for _, r := range []*http.Request{
		request(http.MethodDelete, nil, nil), request(http.MethodPost, strings.NewReader("a"), nil),
		request(http.MethodGet, strings.NewReader("a"), nil),
		request(http.MethodGet, nil, http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}),
		request(http.MethodGet, nil, http.Header{"Expect": {"100-continue"}}),
	} {
		require.False(t, http1.Takes(r))
		_, err := (&http1.Client{}).RoundTrip(r)
		require.Error(t, err)
	}
}

func TestRefusesRequestsThatWouldBeTwo(t *testing.T) {
	t.Parallel()
	for _, header := range []http.Header{
		{"A": {"b\r\nImpersonate-User: c"}}, {"A\r\nImpersonate-User": {"c"}}, {"A b": {"c"}}, {"A": {"\x00"}},
	} {
		c, requests := script(t, []string{"HTTP/1.1 204 No Content\r\n\r\n"})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server.example/", http.NoBody)
		require.NoError(t, err)
		r.Header = header
		_, err = c.RoundTrip(r)
		require.ErrorContains(t, err, "header field")
		require.Zero(t, requests())
	}
}
