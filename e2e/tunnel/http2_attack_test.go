package tunnel

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// ask2 sends one HTTP/2 request with the fields exactly as given, a body if it is not empty, and returns the
// status: "" if the stream or the connection was ended instead.
func (h *hub) ask2(t testing.TB, part string, fields []hpack.HeaderField, body string,
	trailers ...hpack.HeaderField,
) string {
	t.Helper()
	conn := h.dial(t, part, "h2")
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	headers := func(fields []hpack.HeaderField, end bool) {
		block.Reset()
		for _, f := range fields {
			_ = encoder.WriteField(f) // never fails into memory
		}
		_ = framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true,
			EndStream: end,
		})
	}
	_ = framer.WriteSettings() // a write that fails is seen when reading
	headers(fields, body == "" && len(trailers) == 0)
	if body != "" {
		_ = framer.WriteData(1, len(trailers) == 0, []byte(body))
	}
	if len(trailers) > 0 {
		headers(trailers, true)
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return ""
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = framer.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			if f.StreamID == 1 {
				return f.PseudoValue("status")
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return ""
		}
	}
}

// TestAttacksWithHTTP2Fields sends what no HTTP/2 client would, to the tunnels themselves.
func TestAttacksWithHTTP2Fields(t *testing.T) {
	t.Parallel()
	h := shared(t)
	who, err := impersonation()
	if err != nil {
		t.Fatal(err)
	}
	field := func(name, value string) hpack.HeaderField { return hpack.HeaderField{Name: name, Value: value} }
	const secrets = "/clusters/edge/api/v1/secrets?MARK"
	get, path := field(":method", "GET"), field(":path", secrets)
	scheme, authority := field(":scheme", "https"), field(":authority", "hub")
	token := field("authorization", "Bearer TOKEN")
	good := []hpack.HeaderField{get, scheme, authority, path, token}
	with := func(more ...hpack.HeaderField) []hpack.HeaderField { return slices.Concat(good, more) }
	attacks := []struct {
		name     string
		fields   []hpack.HeaderField
		body     string
		trailers []hpack.HeaderField
		// allowed: it may come through once, as the person. A length that lies is found when the body ends, and that
		// may be after the request has begun; it ends nothing but its own stream.
		allowed bool
	}{
		{name: "nothing wrong", fields: good, allowed: true},
		{name: "two paths", fields: []hpack.HeaderField{get, scheme, authority, path, path, token}},
		{name: "two methods", fields: []hpack.HeaderField{get, field(":method", "DELETE"), scheme, authority, path, token}},
		{name: "a pseudo field behind others", fields: []hpack.HeaderField{get, scheme, authority, token, path}},
		{name: "an unknown pseudo field", fields: []hpack.HeaderField{get, scheme, authority, path, field(":user", "evil"), token}},
		{name: "a response's pseudo field", fields: []hpack.HeaderField{get, scheme, authority, path, field(":status", "200"), token}},
		{name: "no path", fields: []hpack.HeaderField{get, scheme, authority, token}},
		{name: "an empty path", fields: []hpack.HeaderField{get, scheme, authority, field(":path", ""), token}},
		{name: "a path that is a URL", fields: []hpack.HeaderField{get, scheme, authority, field(":path", "https://127.0.0.1"+secrets), token}, allowed: true},
		{name: "a path with a request in it", fields: []hpack.HeaderField{get, scheme, authority, field(":path", "/clusters/edge/version HTTP/1.1\r\nX: y\r\n\r\nGET "+secrets), token}},
		{name: "a method with a request in it", fields: []hpack.HeaderField{field(":method", "GET "+secrets+" HTTP/1.1\r\nX: "), scheme, authority, path, token}},
		{name: "an authority with a path", fields: []hpack.HeaderField{get, scheme, field(":authority", "hub/clusters/other"), path, token}, allowed: true},
		{name: "CONNECT", fields: []hpack.HeaderField{field(":method", "CONNECT"), field(":authority", "127.0.0.1:6443"), token}},
		{name: "extended CONNECT", fields: []hpack.HeaderField{field(":method", "CONNECT"), field(":protocol", "websocket"), scheme, authority, path, token}},
		{name: "a name in upper case", fields: with(field("Impersonate-User", "evil"))},
		{name: "a name with a colon", fields: with(field("x: y\r\nimpersonate-user", "evil"))},
		{name: "a name with a blank", fields: with(field("impersonate-user ", "evil"))},
		{name: "a value with a line feed", fields: with(field("x", "y\r\nImpersonate-User: evil"))},
		{name: "a value with a zero", fields: with(field("x", "y\x00z"))},
		{name: "connection", fields: with(field("connection", "impersonate-user"))},
		{name: "chunks", fields: with(field("transfer-encoding", "chunked")), body: "0\r\n\r\nGET " + secrets + " HTTP/1.1\r\n\r\n"},
		{name: "an upgrade", fields: with(field("upgrade", "websocket"))},
		{name: "a length that is too long", fields: with(field("content-length", "1000")), body: "short", allowed: true},
		{name: "a length that is too short", fields: with(field("content-length", "1")), body: "much longer", allowed: true},
		{name: "two lengths", fields: with(field("content-length", "1"), field("content-length", "2")), body: "12", allowed: true},
		{name: "another's identity", fields: with(field("impersonate-user", "system:admin"), field("impersonate-group", "system:masters")), allowed: true},
		{name: "another's identity in a trailer", fields: with(field("trailer", "impersonate-user")), body: "x", trailers: []hpack.HeaderField{field("impersonate-user", "evil")}, allowed: true},
		{name: "a pseudo field in a trailer", fields: good, body: "x", trailers: []hpack.HeaderField{field(":path", "/clusters/edge/api")}, allowed: true},
		{name: "dot segments", fields: []hpack.HeaderField{get, scheme, authority, field(":path", "/clusters/other/../edge/api/v1/secrets?MARK"), token}},
		{name: "too many fields", fields: with(slices.Repeat([]hpack.HeaderField{field("x", strings.Repeat("y", 1000))}, 3000)...)},
	}
	for _, part := range []string{"x1", "x2"} {
		for i, a := range attacks {
			t.Run(part+"/"+a.name, func(t *testing.T) {
				t.Parallel()
				mark := fmt.Sprintf("mark=h2-%s-%d.", part, i)
				filled := func(fields []hpack.HeaderField) []hpack.HeaderField {
					fields = slices.Clone(fields)
					for i := range fields {
						fields[i].Value = strings.NewReplacer("TOKEN", h.token, "MARK", mark).Replace(fields[i].Value)
						fields[i].Name = strings.ReplaceAll(fields[i].Name, "MARK", mark)
					}
					return fields
				}
				status := h.ask2(t, part, filled(a.fields), a.body, filled(a.trailers)...)
				seen := audit(t, mark)
				if !a.allowed && (len(seen) > 0 || status == "200") || len(seen) > 1 {
					t.Errorf("answered with %q, and the API server got %+v", status, seen)
				}
				if a.name == "nothing wrong" && (status != "200" || len(seen) != 1) {
					t.Errorf("a good request is answered with %q, and the API server got %+v", status, seen)
				}
				for _, e := range seen {
					if e.ImpersonatedUser == nil || e.ImpersonatedUser.Username != who[1] ||
						slices.Contains(e.ImpersonatedUser.Groups, "system:masters") {
						t.Errorf("the API server takes it for one of %+v", e.ImpersonatedUser)
					}
				}
			})
		}
	}
}
