package agent

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"fairlead.dev/platform/reach"
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

// observeTunnel shows in the metrics whether the tunnels are reached, and over what.
func (a *Agent) observeTunnel() error {
	for _, carrier := range []string{reach.CarrierWebSocket, reach.CarrierConnect} {
		gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fairlead_agent_tunnels", Help: "Tunnel endpoints to which there is a session, by what carries it.",
			ConstLabels: prometheus.Labels{"carrier": carrier},
		}, func() float64 {
			n := 0.0
			for _, s := range a.reach.States() {
				if s.Connected && s.Carrier == carrier {
					n++
				}
			}
			return n
		})
		if err := a.telemetry.Registry.Register(gauge); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}
