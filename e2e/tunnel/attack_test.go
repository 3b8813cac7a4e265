package tunnel

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// attack is bytes that a person with a good token sends. TOKEN stands for it, MARK for what makes the
// attack's requests known again, in the API server's audit log.
type attack struct {
	name string
	raw  string
	// refused: no request of it may reach the API server. Otherwise those that do must come as the person, and
	// as often as the attack has whole requests.
	refused bool
	most    int
	as      string // whom the API server is to take them for; empty: the person
}

const head = "Host: hub\r\nAuthorization: Bearer TOKEN\r\n"

// framing are attempts to have two servers disagree where a request ends.
func framing() []attack {
	smuggled := "GET /clusters/edge/api/v1/secrets?MARK HTTP/1.1\r\n" + head + "Connection: close\r\n\r\n"
	post := "POST /clusters/edge/api/v1/namespaces/way-x1/configmaps?dryRun=All HTTP/1.1\r\n" + head +
		"Content-Type: application/json\r\n"
	inBody := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(smuggled), smuggled)
	last := "GET /clusters/edge/version HTTP/1.1\r\n" + head + "Connection: close\r\n\r\n"
	return []attack{
		{name: "length and chunks, the body is a request", raw: post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + inBody + last, refused: true},
		{name: "chunks and length, the body is a request", raw: post + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + inBody + last, refused: true},
		{name: "chunked in disguise", raw: post + "Transfer-Encoding: \x0bchunked\r\nContent-Length: " + fmt.Sprint(len(inBody)) + "\r\n\r\n" + inBody + last, refused: true},
		{name: "chunked twice", raw: post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\nContent-Length: " + fmt.Sprint(len(inBody)) + "\r\n\r\n" + inBody + last, refused: true},
		{name: "an unknown transfer coding", raw: post + "Transfer-Encoding: xchunked\r\nContent-Length: " + fmt.Sprint(len(inBody)) + "\r\n\r\n" + inBody + last, refused: true},
		{name: "blank before the colon", raw: post + "Transfer-Encoding : chunked\r\nContent-Length: " + fmt.Sprint(len(inBody)) + "\r\n\r\n" + inBody + last, refused: true},
		{name: "two lengths", raw: post + fmt.Sprintf("Content-Length: 0\r\nContent-Length: %d\r\n\r\n", len(smuggled)) + smuggled, refused: true},
		{name: "a list of lengths", raw: post + fmt.Sprintf("Content-Length: 0, %d\r\n\r\n", len(smuggled)) + smuggled, refused: true},
		{name: "a length with a sign", raw: post + fmt.Sprintf("Content-Length: +%d\r\n\r\n", len(smuggled)) + smuggled, refused: true},
		{name: "a negative length", raw: post + "Content-Length: -1\r\n\r\n" + smuggled, refused: true},
		{name: "a folded length", raw: post + fmt.Sprintf("Content-Length:\r\n %d\r\n\r\n", len(smuggled)) + smuggled + last, refused: true},
		{name: "a GET with a body that is a request", raw: "GET /clusters/edge/version HTTP/1.1\r\n" + head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(smuggled)) + smuggled + last, refused: true},
		{name: "a bad chunk size", raw: post + "Transfer-Encoding: chunked\r\n\r\n0x10\r\n" + smuggled, refused: true},
		{name: "a chunk without end", raw: post + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n" + smuggled, refused: true},
		{name: "a trailer that is a header", raw: post + "Transfer-Encoding: chunked\r\nTrailer: Impersonate-User\r\n\r\n2\r\n{}\r\n0\r\nImpersonate-User: evil\r\nContent-Length: 0\r\n\r\n" + last, refused: true},
		{name: "a bare line feed", raw: "GET /clusters/edge/version HTTP/1.1\nHost: hub\nAuthorization: Bearer TOKEN\nX: y\rGET /clusters/edge/api/v1/secrets?MARK HTTP/1.1\n\n" + last, refused: true},
		{name: "an upgrade that nobody answers, and a request behind it", raw: "GET /clusters/edge/version HTTP/1.1\r\n" + head + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n" +
			"GET /api/v1/secrets?MARK HTTP/1.1\r\nHost: kubernetes\r\nConnection: close\r\n\r\n", refused: true},
		{name: "an upgrade that fails, and a request behind it", raw: "POST /clusters/edge/api/v1/namespaces/way-x1/pods/none/exec?command=sh&stdin=true HTTP/1.1\r\n" + head +
			"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n" +
			"GET /api/v1/secrets?MARK HTTP/1.1\r\nHost: kubernetes\r\nConnection: close\r\n\r\n", refused: true},
		{name: "an upgrade of a list, and a request behind it", raw: "GET /clusters/edge/api/v1/namespaces HTTP/1.1\r\n" + head +
			"Connection: keep-alive, Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" +
			"GET /api/v1/secrets?MARK HTTP/1.1\r\nHost: kubernetes\r\nImpersonate-User: evil\r\nConnection: close\r\n\r\n", refused: true},
	}
}

// targets are attempts to reach what the URL does not say, or with no right to.
func targets() []attack {
	request := func(line string, headers ...string) string {
		return line + " HTTP/1.1\r\n" + head + strings.Join(append(headers, "Connection: close\r\n\r\n"), "")
	}
	attacks := []attack{
		{name: "another server's absolute URL", raw: request("GET https://evil.example/clusters/edge/api/v1/namespaces?MARK"), most: 1},
		{name: "the API server's absolute URL", raw: request("GET https://127.0.0.1/api/v1/secrets?MARK"), refused: true},
		{name: "an absolute URL with a user", raw: request("GET https://a:b@127.0.0.1/clusters/edge/api/v1/namespaces?MARK"), most: 1},
		{name: "another scheme", raw: request("GET file:///clusters/edge/api/v1/namespaces?MARK"), most: 1},
		{name: "CONNECT to the API server", raw: request("CONNECT 127.0.0.1:6443"), refused: true},
		{name: "CONNECT to a cluster", raw: request("CONNECT /clusters/edge/api/v1/secrets?MARK"), refused: true},
		{name: "the server itself", raw: request("OPTIONS *"), refused: true},
		{name: "an empty target", raw: request("GET "), refused: true},
		{name: "two targets", raw: request("GET /clusters/edge/version /clusters/edge/api/v1/secrets?MARK"), refused: true},
		{name: "a method with a line feed", raw: request("GET\n /clusters/edge/api/v1/secrets?MARK"), refused: true},
		{name: "no host", raw: "GET /clusters/edge/api/v1/secrets?MARK HTTP/1.1\r\nAuthorization: Bearer TOKEN\r\nConnection: close\r\n\r\n", refused: true},
		{name: "two hosts", raw: request("GET /clusters/edge/api/v1/secrets?MARK", "Host: kubernetes.default\r\n"), refused: true},
		{name: "a host with a path", raw: "GET /clusters/edge/api/v1/secrets?MARK HTTP/1.1\r\nHost: hub/clusters/other\r\nAuthorization: Bearer TOKEN\r\nConnection: close\r\n\r\n", refused: true},
		{name: "the host of the API server", raw: "GET /clusters/edge/api/v1/namespaces?MARK HTTP/1.1\r\nHost: kubernetes.default.svc\r\nAuthorization: Bearer TOKEN\r\nConnection: close\r\n\r\n", most: 1},
		{name: "HTTP/0.9", raw: "GET /clusters/edge/api/v1/secrets?MARK\r\n\r\n", refused: true},
		{name: "HTTP/3.7", raw: "GET /clusters/edge/api/v1/secrets?MARK HTTP/3.7\r\n" + head + "\r\n", refused: true},
		{name: "a header of two megabytes", raw: request("GET /clusters/edge/api/v1/secrets?MARK", "X: "+strings.Repeat("x", 2<<20)+"\r\n"), refused: true},
		{name: "a hundred thousand headers", raw: request("GET /clusters/edge/api/v1/secrets?MARK", strings.Repeat("X: y\r\n", 300_000)), refused: true},
		{name: "a target of two megabytes", raw: request("GET /clusters/edge/api/v1/secrets?MARK" + strings.Repeat("x", 2<<20)), refused: true},
		{name: "a header with a zero", raw: request("GET /clusters/edge/api/v1/secrets?MARK", "X: a\x00b\r\n"), refused: true},
		{name: "a header without a name", raw: request("GET /clusters/edge/api/v1/secrets?MARK", ": evil\r\n"), refused: true},
		{name: "no token", raw: "GET /clusters/edge/api/v1/secrets?MARK HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n", refused: true},
		{name: "two tokens", raw: request("GET /clusters/edge/api/v1/secrets?MARK", "Authorization: Bearer x\r\n"), refused: true},
		{name: "the token in the query", raw: "GET /clusters/edge/api/v1/secrets?MARK&access_token=TOKEN&token=TOKEN HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n", refused: true},
		{name: "the relay's door", raw: request("GET /relay/edge/api/v1/secrets?MARK", "Fairlead-User: eyJuYW1lIjoiZXZpbCJ9\r\n"), refused: true},
	}
	for _, path := range []string{
		"/clusters/other/../edge/api", "/clusters/edge/../edge/api/v1/secrets",
		"/clusters/edge/api/%2e%2e/api/v1/secrets", "/clusters/edge/%2E%2E%2Fapi",
		"/clusters/edge/api/v1/%252e%252e/x", "/clusters/edge\\api", "/clusters/edge/..;/api",
		"/clusters/edge/api/v1/..%5csecrets", "/clusters/edge%2f..%2fother/api",
		"//clusters/edge/api/v1/secrets", "/./clusters/edge/api/v1/secrets", "/clusters/./edge/api/v1/secrets",
		"/CLUSTERS/edge/api/v1/secrets", "/clusters/edge%00/api", "/clusters/edge;x/api",
		"/healthz/../clusters/edge/api", "/clusters/edge./api", "/clusters/%65dge/api", "/clusters/edge%0d%0a/api",
		"/relay/../clusters/edge/api",
	} {
		attacks = append(attacks, attack{
			name: "path " + strings.ReplaceAll(path, "/", "|"),
			raw:  request("GET " + path + "?MARK"), refused: true,
		})
	}
	// A request for impersonation is carried, or refused. The header is never dropped.
	attacks = append(attacks, attack{
		name: "header impersonate-user: evil",
		raw:  request("GET /clusters/edge/api/v1/namespaces?MARK", "impersonate-user: evil\r\n"), most: 1, as: "evil",
	})
	for _, header := range []string{
		"Impersonate-User: system:admin\r\nImpersonate-Group: system:masters\r\n",
		"Impersonate-Group: system:masters\r\n", "Impersonate-Uid: 0\r\n",
		"Impersonate-Extra-Scopes: evil\r\n", "Impersonate-User: evil\r\nImpersonate-User: system:admin\r\n",
		"Impersonate-User: system:node:edge\r\n",
	} {
		name, _, _ := strings.Cut(header, "\r\n")
		attacks = append(attacks, attack{
			name: "refused header " + name,
			raw:  request("GET /clusters/edge/api/v1/namespaces?MARK", header), refused: true,
		})
	}
	for _, header := range []string{
		"Impersonate_User: evil\r\n", // nginx drops it, and no API server knows it
		"Connection: Impersonate-User, Impersonate-Group, Authorization\r\n",
		"Connection: keep-alive, X-Fairlead\r\nX-Fairlead: x\r\n",
		"X-Remote-User: evil\r\nX-Remote-Group: system:masters\r\n", "Fairlead-User: eyJuYW1lIjoiZXZpbCJ9\r\n",
		"Fairlead-Relay: 1\r\n",
		"X-Forwarded-Client-Cert: CN=evil\r\n", "Cookie: token=evil\r\n",
		"X-Original-URL: /api/v1/secrets\r\nX-Rewrite-URL: /api/v1/secrets\r\n",
		"X-HTTP-Method-Override: DELETE\r\n", "X: y\r\n Impersonate-User: evil\r\n", "Authorization-: evil\r\n",
	} {
		name, _, _ := strings.Cut(header, "\r\n")
		attacks = append(attacks, attack{
			name: "header " + strings.ReplaceAll(name, "/", "|"),
			raw:  request("GET /clusters/edge/api/v1/namespaces?MARK", header), most: 1,
		})
	}
	return attacks
}

// TestAttacksWithRawBytes sends each attack over a socket to each way in. A request that is allowed to reach the API
// server comes as the person with the token, and nothing else comes.
func TestAttacksWithRawBytes(t *testing.T) {
	t.Parallel()
	h := shared(t)
	who, err := impersonation()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range ways() {
		for i, a := range slices.Concat(framing(), targets()) {
			t.Run(w.name+"/"+a.name, func(t *testing.T) {
				t.Parallel()
				mark := fmt.Sprintf("mark=%s-%d.", w.part, i)
				codes, bodies := h.say(t, w.part, strings.NewReplacer("TOKEN", h.token, "MARK", mark).Replace(a.raw))
				seen := audit(t, mark)
				if a.refused && len(seen) > 0 || len(seen) > max(a.most, 0) {
					t.Errorf("the API server got %d requests: %+v\nanswers: %v %.1000s", len(seen), seen, codes, bodies)
				}
				for _, e := range seen {
					if e.ImpersonatedUser == nil || e.ImpersonatedUser.Username != cmp.Or(a.as, who[1]) ||
						slices.Contains(e.ImpersonatedUser.Groups, "system:masters") {
						t.Errorf("the API server takes it for one of %+v", e.ImpersonatedUser)
					}
				}
				if !a.refused && slices.Contains(codes, http.StatusOK) && len(seen) == 0 {
					t.Errorf("answered with %v, but the API server got nothing: this test sees nothing", codes)
				}
				if strings.Contains(bodies, "SecretList") {
					t.Errorf("secrets came back: %v %.300s", codes, bodies)
				}
			})
		}
	}
}
