package server

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// answersTo sends bytes on a connection of their own, and returns the statuses of what is answered until the server
// closes it.
func answersTo(t *testing.T, s *running, raw string) (codes []int) {
	t.Helper()
	conn := dial(t, s)
	if _, err := io.WriteString(conn, raw); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			return codes
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if codes = append(codes, resp.StatusCode); resp.Close && len(codes) > 1 || len(codes) > 3 {
			return codes
		}
	}
}

func TestNothingIsServedBehindARequestWhoseLengthIsAMatterOfOpinion(t *testing.T) {
	t.Parallel()
	s := start(t, Config{}, rpcMounts(fine)...)
	behind := "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	chunk := func(body string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body) }
	for name, head := range map[string]string{
		"a length and chunks":                "HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("{}"),
		"chunks and a length":                "HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + chunk("{}"),
		"chunks and a connection that stays": "HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("{}"),
		"chunks in HTTP/1.0":                 "HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
	} {
		for _, path := range []string{"/nowhere", "/healthz", openPath} {
			codes := answersTo(t, s, "POST "+path+" "+head+behind)
			if len(codes) != 1 {
				t.Errorf("%s at %s: answered with %v, the request behind it too", name, path, codes)
			}
		}
		if codes := answersTo(t, s, "OPTIONS * "+head+behind); len(codes) != 1 {
			t.Errorf("%s at the server as a whole: answered with %v, the request behind it too", name, codes)
		}
	}
	// One length is nobody's opinion.
	codes := answersTo(t, s, "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"+
		strings.Replace(behind, "Connection: close\r\n", "", 1)+behind)
	if len(codes) != 3 {
		t.Errorf("behind a request with a length: %v", codes)
	}
}
