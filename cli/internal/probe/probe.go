// Package probe looks at the services of a hub, one by one. What it sees is a finding.
package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/platform/datadir"
	"fairlead.dev/platform/server"
)

// CheckTimeout bounds one look at one service: a healthy one answers at once.
const CheckTimeout = 5 * time.Second

// MaxAnswerBytes of a health endpoint that are read.
const MaxAnswerBytes = 4 << 10

// Finding is one line of the answer.
type Finding struct {
	About string
	Text  string
	Wrong bool
	// Warns: it is no fault, and somebody should know of it all the same.
	Warns bool
	// Of a service of the hub that answers: its version, and when its certificate ends.
	Version string
	Ends    time.Time
}

// OK is a finding of something that is well.
func OK(about, format string, args ...any) Finding {
	return Finding{About: about, Text: fmt.Sprintf(format, args...)}
}

// Wrong is a finding that fails a check.
func Wrong(about, format string, args ...any) Finding {
	return Finding{About: about, Text: fmt.Sprintf(format, args...), Wrong: true}
}

// Warn is a finding that somebody should know of, and no fault.
func Warn(about, format string, args ...any) Finding {
	return Finding{About: about, Text: fmt.Sprintf(format, args...), Warns: true}
}

// CheckServices looks at all of the hub's services at once.
func CheckServices(ctx context.Context, h *hubclient.Hub) []Finding {
	type service struct{ name, url string }
	services := []service{{"console", h.Context.URL}}
	for _, group := range []struct {
		name string
		urls []string
	}{{"gitcache", h.Context.Endpoints.Gitcaches}, {"distributor", h.Context.Endpoints.Distributors}, {"tunnel", h.Context.Endpoints.Tunnels}} {
		for _, url := range group.urls {
			services = append(services, service{group.name, url})
		}
		if len(group.urls) == 0 {
			services = append(services, service{group.name, ""})
		}
	}
	findings := make([]Finding, len(services))
	var wg sync.WaitGroup
	for i, s := range services {
		wg.Go(func() { findings[i] = CheckService(ctx, h, s.name, s.url) })
	}
	wg.Wait()
	return findings
}

// CheckService looks at one of the hub's services.
func CheckService(ctx context.Context, h *hubclient.Hub, name, url string) Finding {
	if url == "" {
		return Wrong(name, "the hub did not say where it is: set --advertise-%ss at the console, then run `fairlead login` again", name)
	}
	about := name + " " + url
	status, text, _, err := FetchURL(ctx, h.HTTP, url+"/readyz")
	switch {
	case err != nil:
		return Wrong(about, "%s", strings.TrimPrefix(hubclient.ExplainUnreachable(url, err), url+" "))
	case status != http.StatusOK:
		return Wrong(about, "%s: look at its log", strings.TrimSpace(text))
	}
	note := strings.TrimPrefix(strings.TrimSpace(text), "ok") // the reason, which only observers get, though everybody gets an answer
	status, text, ends, err := FetchURL(ctx, h.HTTP, url+"/version")
	var v server.Version
	if err != nil || status != http.StatusOK || json.Unmarshal([]byte(text), &v) != nil {
		return Wrong(about, "ready, but does not accept your token. %s", hubclient.LogInAgain(h.Context))
	}
	if v.Service != name {
		return Wrong(about, "is a %s: something is wrong with --advertise-%ss at the console", v.Service, name)
	}
	if v.UnsignedMembers {
		found := Wrong(about, "ready, version %s, but it accepts unsigned members, tokens for any service and agents without a key, which is for one upgrade: remove --unsigned-members=accept "+
			"(unsignedMembers in the chart) once all services of the hub and all agents run this version", v.Version)
		found.Version = v.Version
		return found
	}
	found := OK(about, "ready, version %s", v.Version)
	if note != "" {
		found = Wrong(about, "ready, version %s%s", v.Version, note)
		if found.Warns = onlyDisk(note); found.Warns {
			found.Wrong = false
		}
	}
	found.Version, found.Ends = v.Version, ends
	return found
}

// onlyDisk tells whether what a service says of itself is that its disk is nearly full, and nothing else.
func onlyDisk(note string) bool {
	return strings.HasPrefix(note, ", but "+datadir.NearlyFull) && !strings.Contains(note, "; ")
}

// FetchURL asks for a URL. ends is when the certificate ends that it answers with; zero: there is none.
func FetchURL(ctx context.Context, hc *http.Client, url string) (status int, body string, ends time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, CheckTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", ends, err
	}
	resp, err := hc.Do(req)
	if err != nil {
		return 0, "", ends, err
	}
	defer resp.Body.Close()
	if resp.TLS != nil && len(resp.TLS.PeerCertificates) > 0 {
		ends = resp.TLS.PeerCertificates[0].NotAfter
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswerBytes))
	return resp.StatusCode, string(text), ends, err
}
