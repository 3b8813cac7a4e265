package agent

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"

	"fairlead.dev/platform/reach/http1"
)

// reads returns what asks the API server for people's short reads, with the agent's credential. Nil where there is a proxy
// before the API server, or what others have made is to be asked for a transport or a credential: what asks for everything else
// knows how.
func reads(config *rest.Config, server *url.URL) (http.RoundTripper, error) {
	proxy := config.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	if over, err := proxy(&http.Request{URL: server}); err != nil || over != nil || config.Transport != nil || config.ExecProvider != nil || config.AuthProvider != nil {
		return nil, nil //nolint:nilerr // whoever dials over the proxy tells what is wrong with it
	}
	own := rest.CopyConfig(config)
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	own.Dial = dialer.DialContext
	client := http1.New(server, func() (*tls.Config, error) { return rest.TLSConfigFor(own) }, dialer.DialContext)
	return rest.HTTPWrappersForConfig(own, client)
}
