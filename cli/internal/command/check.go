package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/hub"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/datadir"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/version"
)

const (
	// checkTimeout bounds one look at one service: a healthy one answers at once.
	checkTimeout = 5 * time.Second
	// tokenShort is when a token's end is worth a word: commands renew it long before.
	tokenShort = time.Hour
	// certificateShort is when a certificate's end is worth a word: what renews them does so long before.
	certificateShort = 14 * 24 * time.Hour
	// maxAnswerBytes of a health endpoint that are read.
	maxAnswerBytes = 4 << 10
)

func (a *app) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Check that the hub is reachable and well, and what is wrong otherwise",
		Long: `Check that every service of the hub is reachable and ready, that your token is good, that clusters are
connected, that sources can be fetched, sinks take events and backends can be read, and that services are what Git says: those that failed, wait
for a person, or are on their way for more than 15 minutes are wrong. Administrators see besides how database and Redis answer, and which alerts fire where the
console knows a Prometheus (--prometheus-url): critical ones are wrong. Ends with exit code 1 if something is wrong.

What is no fault is a warning: pins and rollbacks, holds that are older than a day, services of the hub, agents and this command in other versions,
certificates that end within two weeks, and disks that are nearly full.`,
		Args: wantArgs(0, 0),
		RunE: a.hubCommand(func(ctx context.Context, h *hub.Hub, _ []string) error { return a.runChecks(ctx, h) }),
	}
}

// finding is one line of the answer.
type finding struct {
	about string
	text  string
	wrong bool
	// warns: it is no fault, and somebody should know of it all the same.
	warns bool
	// Of a service of the hub that answers: its version, and when its certificate ends.
	version string
	ends    time.Time
}

func ok(about, format string, args ...any) finding {
	return finding{about: about, text: fmt.Sprintf(format, args...)}
}

func wrong(about, format string, args ...any) finding {
	return finding{about: about, text: fmt.Sprintf(format, args...), wrong: true}
}

func warn(about, format string, args ...any) finding {
	return finding{about: about, text: fmt.Sprintf(format, args...), warns: true}
}

func (a *app) runChecks(ctx context.Context, h *hub.Hub) error {
	findings := []finding{ok("client", "%s", version.String()), a.checkToken(ctx, h)}
	services := checkServices(ctx, h)
	findings = append(findings, services...)
	findings = append(findings, checkVersions(services)...)
	findings = append(findings, a.checkCertificates(services)...)
	findings = append(findings, a.checkCatalog(ctx, h)...)
	findings = append(findings, checkRemovals(ctx, h)...)
	findings = append(findings, a.checkHub(ctx, h)...)
	bad := 0
	for _, f := range findings {
		mark := "ok  "
		switch {
		case f.wrong:
			mark = "FAIL"
			bad++
		case f.warns:
			mark = "warn"
		}
		if err := a.printf("%s  %s: %s\n", mark, f.about, table.CleanLine(f.text)); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d checks failed", bad, len(findings))
	}
	return nil
}

// checkToken asks the hub, which knows of a token that was revoked, and of one that is in no context.
func (a *app) checkToken(ctx context.Context, h *hub.Hub) finding {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	is, err := h.Access.GetCaller(ctx, &consolev1.GetCallerRequest{})
	if err != nil {
		return wrong("token", "%v", err)
	}
	about := "token of " + is.GetSubject()
	if !isSet(is.GetExpireTime()) {
		return ok(about, "valid without an end")
	}
	ends := is.GetExpireTime().AsTime()
	if ends.Sub(a.Now()) < tokenShort && h.Context.Name != hub.FromEnvironment {
		return ok(about, "valid for %s only, and could not be renewed", table.FormatAge(ends, a.Now()))
	}
	return ok(about, "valid until %s", ends.Local().Format(time.DateTime))
}

// checkServices looks at all of the hub's services at once.
func checkServices(ctx context.Context, h *hub.Hub) []finding {
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
	findings := make([]finding, len(services))
	var wg sync.WaitGroup
	for i, s := range services {
		wg.Go(func() { findings[i] = checkService(ctx, h, s.name, s.url) })
	}
	wg.Wait()
	return findings
}

func checkService(ctx context.Context, h *hub.Hub, name, url string) finding {
	if url == "" {
		return wrong(name, "the hub did not say where it is: set --advertise-%ss at the console, then run `fairlead login` again", name)
	}
	about := name + " " + url
	status, text, _, err := fetchURL(ctx, h.HTTP, url+"/readyz")
	switch {
	case err != nil:
		return wrong(about, "%s", strings.TrimPrefix(hub.ExplainUnreachable(url, err), url+" "))
	case status != http.StatusOK:
		return wrong(about, "%s: look at its log", strings.TrimSpace(text))
	}
	note := strings.TrimPrefix(strings.TrimSpace(text), "ok") // the reason, which only observers get, though everybody gets an answer
	status, text, ends, err := fetchURL(ctx, h.HTTP, url+"/version")
	var v server.Version
	if err != nil || status != http.StatusOK || json.Unmarshal([]byte(text), &v) != nil {
		return wrong(about, "ready, but does not accept your token. %s", hub.LogInAgain(h.Context))
	}
	if v.Service != name {
		return wrong(about, "is a %s: something is wrong with --advertise-%ss at the console", v.Service, name)
	}
	if v.UnsignedMembers {
		found := wrong(about, "ready, version %s, but it accepts unsigned members, tokens for any service and agents without a key, which is for one upgrade: remove --unsigned-members=accept "+
			"(unsignedMembers in the chart) once all services of the hub and all agents run this version", v.Version)
		found.version = v.Version
		return found
	}
	found := ok(about, "ready, version %s", v.Version)
	if note != "" {
		found = wrong(about, "ready, version %s%s", v.Version, note)
		if found.warns = onlyDisk(note); found.warns {
			found.wrong = false
		}
	}
	found.version, found.ends = v.Version, ends
	return found
}

// onlyDisk tells whether what a service says of itself is that its disk is nearly full, and nothing else.
func onlyDisk(note string) bool {
	return strings.HasPrefix(note, ", but "+datadir.NearlyFull) && !strings.Contains(note, "; ")
}

// checkVersions says which services of the hub are of another version than the first one, and whether this command is.
func checkVersions(services []finding) (out []finding) {
	first := ""
	for _, s := range services {
		switch {
		case s.version == "":
		case first == "":
			if first = s.version; first != version.String() {
				out = append(out, warn("client", "is %s, and the hub is %s: get the command of that version", version.String(), first))
			}
		case s.version != first:
			out = append(out, warn(s.about, "is version %s, and the console is %s: finish the upgrade", s.version, first))
		}
	}
	return out
}

// checkCertificates says which certificates end soon.
func (a *app) checkCertificates(services []finding) (out []finding) {
	for _, s := range services {
		if left := s.ends.Sub(a.Now()); !s.ends.IsZero() && left < certificateShort {
			out = append(out, warn(s.about, "its certificate ends in %s, at %s: renew it", table.FormatAge(s.ends, a.Now()), s.ends.Local().Format(time.DateTime)))
		}
	}
	return out
}

// fetchURL asks for a URL. ends is when the certificate ends that it answers with; zero: there is none.
func fetchURL(ctx context.Context, hc *http.Client, url string) (status int, body string, ends time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
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
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	return resp.StatusCode, string(text), ends, err
}
