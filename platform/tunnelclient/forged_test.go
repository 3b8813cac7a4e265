package tunnelclient_test

import (
	"encoding/binary"
	"net/http"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/platform/mux"
)

// field is a header field as its bytes are on the wire.
type field struct{ name, value string }

// rawHead is a request as a hub that lies could write it: fields in any order, spelling and number.
func rawHead(fields []field) []byte {
	text := func(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	b := binary.AppendUvarint(text(text(nil, "GET"), "/api"), 1) // no body
	b = binary.AppendUvarint(b, uint64(len(fields)))
	for _, f := range fields {
		b = text(text(b, f.name), f.value)
	}
	return binary.AppendUvarint(b, 0) // no trailers
}

// rawCaller is alice with two groups, in the OPEN frame.
func rawCaller() []byte {
	b := []byte{1}
	for _, s := range []string{"\x05alice", "\x02", "\x03dev", "\x0ffairlead:admins", "\x00", "\x00"} {
		b = append(b, s...)
	}
	return b
}

// The API server gets one identity, whatever fields arrive, and it is that of the OPEN frame.
func TestRawFieldsForgeNoIdentity(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 1)
	s := reachable(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Clone() })
	attacks := map[string][]field{
		"nothing wrong":                 {{"Accept", "x"}},
		"connection names the identity": {{"Connection", "Impersonate-User, Impersonate-Group, Authorization"}},
		"connection in two lines": {
			{"Connection", "close"}, {"Connection", "Impersonate-User"}, {"Impersonate-User", "evil"},
		},
		"connection in small letters": {
			{"connection", "authorization,impersonate-user"}, {"impersonate-user", "evil"},
		},
		"connection with tabs and commas": {{"Connection", ",,\tImpersonate-Group\t,, Authorization ,"}},
		"connection names itself": {
			{"Connection", "Connection, Impersonate-User"}, {"Impersonate-User", "evil"},
		},
		"connection names any field": {{"Connection", "X-Gone"}, {"x-gone", "evil"}, {"X-GONE", "evil"}},
		"connection of an upgrade": {
			{"Connection", "Upgrade, Impersonate-User, Authorization"},
			{"Impersonate-User", "evil"},
			{"Upgrade", "websocket"},
		},
		"user twice": {{"Impersonate-User", "evil"}, {"Impersonate-User", "evil2"}},
		"user in all spellings": {
			{"impersonate-user", "evil"}, {"IMPERSONATE-USER", "evil"}, {"iMpErSoNaTe-UsEr", "evil"},
		},
		"user with underscores": {
			{"Impersonate_User", "evil"}, {"IMPERSONATE_USER", "evil"}, {"impersonate-User_", "evil"},
		},
		"group twice": {
			{"Impersonate-Group", "system:masters"}, {"impersonate-group", "evil"}, {"Impersonate_Group", "evil"},
		},
		"uid": {
			{"Impersonate-Uid", "evil"}, {"impersonate_uid", "evil"}, {"IMPERSONATE-UID", "evil"},
		},
		"extra": {
			{"Impersonate-Extra-Scopes", "evil"},
			{"impersonate-extra-scopes", "evil"},
			{"Impersonate-Extra-A%2fb", "evil"},
			{"Impersonate_Extra_Scopes", "evil"},
			{"Impersonate-Extra-", "evil"},
		},
		"an impersonation yet to come": {{"Impersonate-Future", "evil"}},
		"front proxy": {
			{"X-Remote-User", "evil"},
			{"X-Remote-Group", "system:masters"},
			{"X-Remote-Extra-Scopes", "evil"},
			{"X-Remote-Uid", "evil"},
		},
		"front proxy in other spellings": {
			{"x-remote-user", "evil"},
			{"X_Remote_User", "evil"},
			{"X-REMOTE_GROUP", "evil"},
			{"x_remote-extra_a", "evil"},
		},
		"authorization twice": {
			{"Authorization", "Bearer evil"}, {"authorization", "Bearer evil2"}, {"AUTHORIZATION", "Basic evil"},
		},
		"cookies": {
			{"Cookie", "__Host-fairlead=evil"}, {"cookie", "token=evil"}, {"COOKIE", "a=evil"},
		},
		"another proxy's word": {
			{"X-Forwarded-User", "evil"},
			{"x_forwarded_for", "evil"},
			{"Forwarded", "for=evil"},
			{"Proxy-Authorization", "evil"},
			{"X-Forwarded-Client-Cert", "evil"},
		},
		"the hub's own words": {
			{"Fairlead-User", "evil"}, {"fairlead_relay", "evil"}, {"Fairlead-Csrf", "evil"},
		},
		"a token as a subprotocol": {
			{"Sec-Websocket-Protocol", "base64url.bearer.authorization.k8s.io.evil"},
			{"sec-websocket-protocol", "Base64URL.Bearer.Authorization.K8s.io.evil"},
		},
		"a blank in a name":             {{"Impersonate-User ", "evil"}},
		"a colon in a name":             {{"X:Impersonate-User", "evil"}},
		"a line break in a name":        {{"X\r\nImpersonate-User", "evil"}},
		"a line break in a value":       {{"X", "y\r\nImpersonate-User: evil"}},
		"a line feed in a value":        {{"X", "y\nImpersonate-User: evil"}},
		"a zero in a value":             {{"X", "evil\x00"}},
		"a name without letters":        {{"", "evil"}},
		"letters that fold into others": {{"Imper\u017fonate-User", "evil"}, {"Coo\u212aie", "evil"}},
		"a name that is a pseudo field": {{":path", "/evil"}},
		"another framing":               {{"Content-Length", "30"}, {"Transfer-Encoding", "chunked"}},
	}
	want := []field{
		{"authorization", "Bearer kube-token"},
		{"impersonate-group", "dev"},
		{"impersonate-group", "fairlead:admins"},
		{"impersonate-user", "alice"},
	}
	for name, fields := range attacks {
		t.Run(name, func(t *testing.T) {
			st, err := s.Open(rawCaller(), mux.Part{Headers: rawHead(fields), End: true})
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			_, err = st.ReadHeaders()
			select {
			case header := <-got:
				if id := identityOf(header); !slices.Equal(id, want) {
					t.Errorf("the API server takes it for %v", id)
				}
				for k, values := range header {
					if strings.Contains(strings.Join(values, " "), "evil") {
						t.Errorf("the API server gets %s: %q", k, values)
					}
				}
			default: // the agent refused it
				if name == "nothing wrong" {
					t.Errorf("the API server gets nothing: %v", err)
				}
			}
		})
	}
}

// identityOf is what of a header could say who asks, in any spelling.
func identityOf(h http.Header) (fields []field) {
	for k, values := range h {
		plain := strings.ReplaceAll(strings.ToLower(k), "_", "-")
		for _, v := range values {
			if plain == "authorization" || plain == "cookie" || strings.HasPrefix(plain, "impersonate") ||
				strings.HasPrefix(plain, "x-remote") {
				fields = append(fields, field{plain, v})
			}
		}
	}
	slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.name+" "+a.value, b.name+" "+b.value) })
	return fields
}
