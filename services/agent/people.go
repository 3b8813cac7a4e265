package agent

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/client-go/rest"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/mux/kubehttp"
	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/platform/tunnelclient"
	"fairlead.dev/platform/tunnelclient/http1"
	"fairlead.dev/services/agent/internal/impersonate"
	"fairlead.dev/services/agent/internal/reconcile"
)

// answer is what people ask of the agent itself through the tunnel, below /fairlead/v1/services/NAME/diff. GET compares
// the service with the cluster now; POST compares what the service would be with the folder in the body, a tar as
// package artifact writes it. The answer is a ServiceDetail as JSON.
func (a *Agent) answer(w http.ResponseWriter, r *http.Request, as muxhttp.Impersonated) {
	rest, isService := strings.CutPrefix(r.URL.Path, tunnelclient.OwnPrefix+"v1/services/")
	name, isDiff := strings.CutSuffix(rest, "/diff")
	switch {
	case !isService || !isDiff || strings.Contains(name, "/"):
		kubehttp.WriteError(w, &kubehttp.Error{Code: http.StatusNotFound, Message: "the agent has nothing of its own at this path"})
		return
	case r.Method != http.MethodGet && r.Method != http.MethodPost:
		kubehttp.WriteError(w, &kubehttp.Error{Code: http.StatusMethodNotAllowed, Message: "the agent answers GET and POST here"})
		return
	case a.standsBy():
		kubehttp.WriteError(w, &kubehttp.Error{
			Code:    http.StatusServiceUnavailable,
			Message: "this agent stands by, and another one looks after the cluster: ask again",
		})
		return
	}
	detail, err := a.compare(w, r, name, impersonate.Person{User: as.User, UID: as.UID, Groups: as.Groups, Extra: as.Extra})
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
	_, _ = w.Write(body) //nolint:gosec // JSON, and no page; if this fails, nobody waits for it
}

func (a *Agent) compare(w http.ResponseWriter, r *http.Request, name string, person impersonate.Person) (*deliveryv1.ServiceDetail, error) {
	if r.Method == http.MethodGet {
		return a.controller.CompareNow(r.Context(), name, person)
	}
	select {
	case a.previews <- struct{}{}:
		defer func() { <-a.previews }()
	default:
		return nil, errManyPreviews
	}
	file, digest, err := a.spool(http.MaxBytesReader(w, r.Body, artifact.PreviewBytes))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return a.controller.PreviewNow(r.Context(), name, person, reconcile.Content{
		Artifact: digest,
		Open: func() (io.ReadCloser, error) {
			return io.NopCloser(io.NewSectionReader(file, 0, artifact.PreviewBytes)), nil
		},
	})
}

var (
	errManyPreviews  = errors.New("the agent is busy with folders of others: ask again")
	errPreviewSize   = fmt.Errorf("the folder has more than %d MiB as a tar", artifact.PreviewBytes>>20)
	errPreviewSlow   = fmt.Errorf("the folder did not come within %s: ask again over a faster connection, or with a smaller folder", spoolTimeout)
	errPreviewBroken = errors.New("the folder did not come whole: ask again")
)

// spoolTimeout bounds how long a folder may take to come: until it is there, it has one of the few places for folders.
const spoolTimeout = time.Minute

// spool keeps a body on the disk until its file is closed, or the agent ends.
func (a *Agent) spool(body io.Reader) (_ *os.File, _ artifact.Digest, err error) {
	file, err := os.CreateTemp(a.cfg.DataDir, ".preview.tmp-*") // a name that the next start sweeps
	if err != nil {
		return nil, "", fmt.Errorf("keep the folder: %w", err)
	}
	defer func() {
		if err != nil {
			_ = file.Close()
		}
	}()
	if err := os.Remove(file.Name()); err != nil {
		return nil, "", fmt.Errorf("keep the folder: %w", err)
	}
	sum := sha256.New()
	copied := make(chan error, 1)
	go func() { // ends with the body, at the latest when the request is answered
		_, err := io.Copy(io.MultiWriter(file, sum), body)
		copied <- err
	}()
	slow := time.NewTimer(spoolTimeout)
	defer slow.Stop()
	select {
	case err = <-copied:
	case <-slow.C:
		return nil, "", errPreviewSlow
	}
	large := (*http.MaxBytesError)(nil)
	switch {
	case errors.As(err, &large):
		return nil, "", errPreviewSize
	case err != nil:
		return nil, "", errPreviewBroken
	}
	return file, artifact.SumDigest(sum.Sum(nil)), nil
}

func codeOf(err error) int {
	switch {
	case errors.Is(err, reconcile.ErrUnknownService):
		return http.StatusNotFound
	case errors.Is(err, reconcile.ErrMayNotRead):
		return http.StatusForbidden
	case errors.Is(err, reconcile.ErrContent):
		return http.StatusUnprocessableEntity
	case errors.Is(err, errPreviewSize):
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusServiceUnavailable
}

// reads returns what asks the API server for people's short reads, with the agent's credential. Nil where there is a
// proxy before the API server, or what others have made is to be asked for a transport or a credential: what asks for
// everything else knows how.
func reads(config *rest.Config, server *url.URL) (http.RoundTripper, error) {
	proxy := config.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	if over, err := proxy(&http.Request{URL: server}); err != nil || over != nil || config.Transport != nil ||
		config.ExecProvider != nil || config.AuthProvider != nil {
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
	for _, carrier := range []string{tunnelclient.CarrierWebSocket, tunnelclient.CarrierConnect} {
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
