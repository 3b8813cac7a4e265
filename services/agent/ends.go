package agent

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"strings"
	"time"

	"fairlead.dev/platform/identity"
	"fairlead.dev/services/agent/internal/views"
)

// ends are the credentials and certificates that the agent works with: its token at the hub, the authority that it
// trusts for the hub, and what its kubeconfig or service account has for the API server. A file that can't be read is
// left out: the call that needs it says why.
func (a *Agent) ends() []views.End {
	var out []views.End
	if token, err := a.joiner.Tokens().Token(context.Background()); err == nil {
		if issued, life, err := identity.Lifetime(token); err == nil {
			out = append(out, views.End{Kind: "Token", Name: "of the agent at the hub", Begin: issued, Ends: issued.Add(life)})
		}
	}
	out = append(out, certificates("authority of the hub", nil, a.cfg.HubCAFile)...)
	tls := a.kube.TLSClientConfig
	out = append(out, certificates("authority of the API server", tls.CAData, tls.CAFile)...)
	out = append(out, certificates("of the agent at the API server", tls.CertData, tls.CertFile)...)
	if begin, end, ok := accountToken([]byte(a.kube.BearerToken), a.kube.BearerTokenFile); ok {
		out = append(out, views.End{Kind: "Token", Name: "of the agent at the API server", Begin: begin, Ends: end})
	}
	return out
}

// maxEndFile bounds a file of certificates, in bytes.
const maxEndFile = 1 << 20

// content is data, or else what is in a file.
func content(data []byte, file string) []byte {
	if len(data) > 0 || file == "" {
		return data
	}
	if info, err := os.Stat(file); err != nil || info.Size() > maxEndFile {
		return nil
	}
	data, _ = os.ReadFile(file) // see ends
	return data
}

// certificates are those of a PEM text.
func certificates(of string, data []byte, file string) (out []views.End) {
	data = content(data, file)
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		out = append(out, views.End{Kind: "Certificate", Name: of + ": " + c.Subject.String(), Begin: c.NotBefore, Ends: c.NotAfter})
	}
	return out
}

// accountToken reads when a service account's token was issued and when it ends. The API server judges the token; this
// only says when it stops to. The file counts before the token, as in client-go: rest.InClusterConfig reads the token
// once, and the kubelet renews the file.
func accountToken(token []byte, file string) (begin, end time.Time, ok bool) {
	if renewed := content(nil, file); len(renewed) > 0 {
		token = renewed
	}
	parts := strings.Split(strings.TrimSpace(string(token)), ".")
	if len(parts) != 3 {
		return begin, end, false
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return begin, end, false
	}
	var claims struct {
		Iat, Exp int64
	}
	if json.Unmarshal(text, &claims) != nil || claims.Exp == 0 { // a token of a Secret has no end
		return begin, end, false
	}
	return time.Unix(claims.Iat, 0), time.Unix(claims.Exp, 0), true
}
