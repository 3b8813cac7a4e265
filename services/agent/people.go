package agent

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/client-go/rest"

	"fairlead.dev/platform/mux/kubehttp"
	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/platform/reach"
	"fairlead.dev/platform/reach/http1"
	"fairlead.dev/services/agent/internal/access"
	"fairlead.dev/services/agent/internal/reconcile"
)

// answer is what people ask of the agent itself through the tunnel: GET /fairlead/v1/services/NAME/diff compares a service with the cluster now, and answers
// with a ServiceDetail as JSON.
func (a *Agent) answer(w http.ResponseWriter, r *http.Request, as muxhttp.Impersonated) {
	rest, isService := strings.CutPrefix(r.URL.Path, reach.OwnPrefix+"v1/services/")
	name, isDiff := strings.CutSuffix(rest, "/diff")
	switch {
	case !isService || !isDiff || strings.Contains(name, "/"):
		kubehttp.WriteError(w, &kubehttp.Error{Code: http.StatusNotFound, Message: "the agent has nothing of its own at this path"})
		return
	case r.Method != http.MethodGet:
		kubehttp.WriteError(w, &kubehttp.Error{Code: http.StatusMethodNotAllowed, Message: "the agent answers GET here"})
		return
	case a.standsBy():
		kubehttp.WriteError(w, &kubehttp.Error{Code: http.StatusServiceUnavailable, Message: "this agent stands by, and another one looks after the cluster: ask again"})
		return
	}
	detail, err := a.controller.CompareNow(r.Context(), name, access.Person{User: as.User, UID: as.UID, Groups: as.Groups, Extra: as.Extra})
	if err != nil {
		kubehttp.WriteError(w, &kubehttp.Error{Code: codeOf(err), Message: fmt.Sprintf("service %q can't be compared: %v", name, err)})
		return
	}
	detail.ObservedTime = timestamppb.Now()
	body, err := protojson.Marshal(detail)
	if err != nil {
		kubehttp.WriteError(w, &kubehttp.Error{Code: http.StatusInternalServerError, Message: "the comparison can't be written as JSON"})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // else nobody waits for it
}

func codeOf(err error) int {
	switch {
	case errors.Is(err, reconcile.ErrUnknownService):
		return http.StatusNotFound
	case errors.Is(err, reconcile.ErrMayNotRead):
		return http.StatusForbidden
	}
	return http.StatusServiceUnavailable
}

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
